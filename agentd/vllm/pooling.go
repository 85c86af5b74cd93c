package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"souk/agentd"
	"souk/bus"
	"souk/bus/openai"
	"souk/market"
)

// A server that runs a pooling model (--runner pooling) has /v1/embeddings or /v1/rerank, or both, and
// nothing that generates; the others have neither route, or refuse there. Nothing that a server says of
// itself tells which it is, so it is asked.

// pools returns the kinds of pooling tasks that the server serves, of a model.
func (e *Engine) pools(ctx context.Context, model string) (string, error) {
	var all []string
	for _, kind := range []string{bus.KindEmbedding, bus.KindRerank} {
		body, err := poolingBody(agentd.PoolingProbe(kind), agentd.Request{Model: model})
		if err != nil {
			return "", err
		}
		path := "/v1/" + bus.Route(kind)
		switch status, said, err := e.ask(ctx, path, body); {
		case err != nil:
			return "", fmt.Errorf("%s: %w", path, err)
		case status == http.StatusOK:
			if _, err := openai.ReadPooled(kind, said, 1, 1); err == nil {
				all = append(all, kind)
			}
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	// some embed by a model that generates: they are to generate
	for _, g := range []struct{ path, body string }{
		{"/v1/completions", `{"prompt":".","max_tokens":1}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"."}],"max_tokens":1}`},
	} {
		body, err := poolingBody([]byte(g.body), agentd.Request{Model: model})
		if err != nil {
			return "", err
		}
		if status, _, err := e.ask(ctx, g.path, body); err != nil || status == http.StatusOK {
			return "", err
		}
	}
	return strings.Join(all, " "), nil
}

// poolingBody is a pooling task's body as the engine shall get it: our model and our salt, all else as it is.
func poolingBody(body []byte, r agentd.Request) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for _, name := range []string{"stream", "stream_options", "cache_salt", "souk"} {
		delete(all, name)
	}
	set := func(name, value string) (err error) {
		all[name], err = json.Marshal(value)
		return err
	}
	err := set("model", r.Model)
	if r.Salt != "" {
		err = errors.Join(err, set("cache_salt", r.Salt))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// poolingPiece is the size of the pieces in which an answer is handed on, in bytes.
const poolingPiece = 64 << 10

// pool has a pooling task served. Its answer is checked before any of it is handed on.
func (e *Engine) pool(ctx context.Context, r agentd.Request, token func(agentd.Chunk) error) (agentd.Answer,
	error) {
	none := agentd.Answer{Unmetered: true}
	bad := func(err error) (agentd.Answer, error) {
		return none, &agentd.EngineError{Code: bus.CodeBadRequest, Message: err.Error()}
	}
	entries, texts, err := openai.PoolingAnswer(r.Body)
	if err != nil {
		return bad(err)
	}
	if !e.server.Load().salts {
		r.Salt = ""
	}
	body, err := poolingBody(r.Body, r)
	if err != nil {
		return bad(err)
	}
	begun := time.Now()
	said, err := e.whole(ctx, r, "/v1/"+bus.Route(r.Kind), body)
	if err != nil {
		return none, err
	}
	tokens, err := openai.ReadPooled(r.Kind, said, entries, texts)
	switch {
	case err != nil:
		return none, failed("the engine's answer is of no use", err)
	case !utf8.Valid(said):
		return none, failed("the engine's answer is not UTF-8", nil)
	}
	a := agentd.Answer{Finish: "stop", Usage: market.Usage{Prompt: tokens}, Unmetered: tokens == 0,
		TTFT: time.Since(begun)}
	for first := true; len(said) > 0; first = false {
		n := min(len(said), poolingPiece)
		for n < len(said) && !utf8.RuneStart(said[n]) {
			n--
		}
		c := agentd.Chunk{Text: string(said[:n]), Events: 1, Finish: n == len(said)}
		if said = said[n:]; first {
			c.Prompt = tokens
		}
		if err := token(c); err != nil {
			return a, err
		}
	}
	return a, nil
}

// whole posts a body and returns the answer, of bounded size.
func (e *Engine) whole(ctx context.Context, r agentd.Request, path string, body []byte) ([]byte, error) {
	broken := func(doing string, err error) error { return e.why(ctx, ctx, doing, err) }
	req, err := e.request(ctx, r, path, body)
	if err != nil {
		return nil, broken("asking the engine", err)
	}
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		return nil, broken("asking the engine", err)
	}
	defer resp.Body.Close()
	var said bytes.Buffer
	_, err = said.ReadFrom(io.LimitReader(resp.Body, bus.MaxPooled+1))
	switch {
	case err != nil:
		return nil, broken("reading the engine's answer", err)
	case resp.StatusCode != http.StatusOK:
		return nil, refusedBy(resp, said.Bytes()[:min(said.Len(), 64<<10)])
	case said.Len() > bus.MaxPooled:
		return nil, &agentd.EngineError{Code: bus.CodeTooLarge, Message: fmt.Sprintf("the answer has more than %d bytes: "+
			"send fewer texts at once, or take them as base64", bus.MaxPooled)}
	}
	return said.Bytes(), nil
}
