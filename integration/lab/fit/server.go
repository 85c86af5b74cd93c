// Package fit measures running vLLM servers, fits the profile of a stand-in to each, and plays the same run
// on both.
package fit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"souk/agentd"
	"souk/agentd/vllm"
	"souk/bus"
	"souk/cmd/replay"
)

// Server is a vLLM server that runs somewhere, or a stand-in, with the sizes that it reports.
type Server struct {
	agentd.Engine
	URL, Model string
	Info       agentd.Info
	words      []uint32 // tokens of a text, by its own tokenizer
	written    float64  // bytes that each takes in JSON, on the mean
	begun      int64    // when it was found
	asked      int      // prompts of loads
}

// Find asks a server what it is. One that reports no block size has no cache that could be compared.
func Find(ctx context.Context, url string) (*Server, error) {
	s := &Server{URL: strings.TrimRight(url, "/"), begun: time.Now().UnixNano(),
		Engine: vllm.New(agentd.EngineConfig{URL: url, RelayEvery: 1})}
	var err error
	if s.Info, err = s.Engine.Info(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if s.Model = s.Info.Models[0]; s.Info.BlockSize == 0 || s.Info.KVTokens == 0 || s.Info.MaxModelLen == 0 {
		return nil, fmt.Errorf("%s: it does not report how large its cache is: %+v", url, s.Info)
	}
	s.words, err = s.Tokens(ctx, map[string]any{"prompt": text()})
	if err != nil {
		return nil, err
	}
	if len(s.words) < 1000 {
		return nil, fmt.Errorf("%s: a text of %d bytes has %d tokens", url, len(text()), len(s.words))
	}
	data, err := json.Marshal(s.words)
	s.written = float64(len(data)) / float64(len(s.words))
	return s, err
}

// text is a text of tens of thousands of bytes.
func text() string {
	ds, err := replay.BundledSet("mtrag.jsonl.gz")
	if err != nil {
		panic(fmt.Sprintf("fit: the bundled dialogues: %v", err))
	}
	var b strings.Builder
	for _, d := range ds {
		for _, t := range d.Turns {
			if b.WriteString(t.User + "\n" + t.Answer + "\n"); b.Len() > 60_000 {
				return b.String()
			}
		}
	}
	return b.String()
}

// Tokens has a server tokenize what a body holds: a prompt, or messages.
func (s *Server) Tokens(ctx context.Context, body map[string]any) ([]uint32, error) {
	body["model"] = s.Model
	status, said, err := s.post(ctx, "/tokenize", body)
	var in struct {
		Tokens []uint32 `json:"tokens"`
	}
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal(said, &in)
	}
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d: %.200s", status, said)
	}
	if err != nil {
		return nil, fmt.Errorf("%s/tokenize: %w", s.URL, err)
	}
	return in.Tokens, nil
}

// Reset empties a server's prefix cache, and reports whether the server allows it: vLLM does in development
// mode alone, and only where nothing runs.
func (s *Server) Reset(ctx context.Context) bool {
	status, said, err := s.post(ctx, "/reset_prefix_cache", map[string]any{})
	return err == nil && status == http.StatusOK && !bytes.Contains(said, []byte("false"))
}

// Healthy reports whether a server says that it is well.
func Healthy(ctx context.Context, url string) bool {
	_, err := get(ctx, url+"/health")
	return err == nil
}

// Metrics returns what a server counts, each the sum over its labels.
func Metrics(ctx context.Context, url string) (map[string]float64, error) {
	page, err := get(ctx, url+"/metrics")
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range bytes.Lines(page) {
		name, _, _ := bytes.Cut(line, []byte("{"))
		value := line[bytes.LastIndexByte(line, ' ')+1:]
		if x, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64); err == nil && line[0] != '#' {
			all[string(name)] += x
		}
	}
	return all, nil
}

func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, small)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	said, err := io.ReadAll(io.LimitReader(a.Body, 64<<20))
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d", url, a.StatusCode)
	}
	return said, err
}

// small bounds how long a small request may take.
const small = 30 * time.Second

func (s *Server) post(ctx context.Context, path string, body any) (status int, said []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, small)
	defer cancel()
	data, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	said, err = io.ReadAll(io.LimitReader(a.Body, 64<<20))
	return a.StatusCode, said, err
}

// Asked is a prompt of token ids, for an answer of exactly so many tokens. Prompts of one salt find what
// others of it left in the cache.
type Asked struct {
	IDs    []uint32
	Output int
	Salt   string
}

// Told is an answer to one.
type Told struct {
	Prompt, Cached int
	First, Between time.Duration // until the first token, and from each to the next
	IDs            []uint32      // of the answer
}

// errOther says that a server counts other tokens than it was asked for.
var errOther = errors.New("other tokens than were asked for")

// Ask asks for one answer.
func (s *Server) Ask(ctx context.Context, q Asked) (Told, error) { return s.ask(ctx, q, func() {}) }

// ask is Ask that calls each as often as something of the answer comes.
func (s *Server) ask(ctx context.Context, q Asked, each func()) (t Told, err error) {
	body, err := json.Marshal(map[string]any{"prompt": q.IDs, "ignore_eos": true, "temperature": 0})
	if err != nil {
		return t, err
	}
	a, err := s.Complete(ctx, agentd.Request{Kind: bus.KindCompletion, Body: body, Model: s.Model,
		MaxTokens: q.Output, Salt: q.Salt, Prompt: len(q.IDs)}, func(c agentd.Chunk) error {
		t.IDs = append(t.IDs, c.Tokens...)
		each()
		return nil
	})
	t.Prompt, t.Cached, t.First, t.Between = a.Usage.Prompt, a.Usage.Cached, a.TTFT, a.ITL
	switch {
	case err != nil:
	case a.NoCacheReport:
		err = errors.New("it says no cached tokens: start it with --enable-prompt-tokens-details")
	case t.Prompt != len(q.IDs) || a.Usage.Output != q.Output || len(t.IDs) != q.Output:
		err = fmt.Errorf("%w: %d and %d, with %d ids, of %d and %d", errOther, t.Prompt, a.Usage.Output,
			len(t.IDs), len(q.IDs), q.Output)
	}
	if err != nil {
		return t, fmt.Errorf("%s: %w", cmp.Or(s.URL, s.Model), err)
	}
	return t, nil
}

// salt returns another for each load, so that nothing of one is found by the next, where no cache can be
// emptied, too.
func (s *Server) salt() string { return fmt.Sprintf("fit-%x-%d", s.begun, s.asked) }

// prompt is the n-th prompt of so many tokens.
func (s *Server) prompt(n, tokens int) []uint32 {
	ids := make([]uint32, tokens)
	for i := range ids {
		ids[i] = s.words[(n*7919+i)%len(s.words)]
	}
	return ids
}
