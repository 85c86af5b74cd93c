package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"souk/bus"
	"souk/market"
)

// MaxAnswers bounds the answers that one request may ask for: each is a task of its own.
const MaxAnswers = 8

// Asked is an HTTP request, read.
type Asked struct {
	Tasks  []bus.Task // in the order of their answers; all alike but for what tells them apart
	Kind   string     // of all of them
	Model  string     // as the request names it; "" for any
	Stream bool       // events, else one object
	Usage  bool       // an event with the usage at the end of the stream
	IDs    bool       // token ids in every event
	Tags   []bus.Tag  // what it says of itself: user, and then metadata
}

// Ask reads the body of a request over HTTP and its headers X-Souk-* and X-IEMAS-*, of a client that the
// caller knows. kind is that of the endpoint, "" where it takes either. What can be said of one task without
// the market the door says; here is read what several answers are made of, who asks on which terms, and how
// it wants its answer.
//
// Each answer is a task: n of them under the same prompt and seeds that count up, and each prompt of a list.
// All together they cost at most the terms' max_price. The bodies are the one that came, but for n, prompt
// and seed, and without souk: where it has none of them, data itself. Tasks whose bodies are alike share one.
// Tasks have no id where the request has none.
func Ask(data []byte, header bus.Header, client, kind string) (*Asked, *bus.Error) {
	if len(data) > bus.MaxLarge {
		return nil, refusal(bus.CodeTooLarge, "body of %d bytes: at most %d are taken", len(data),
			bus.MaxLarge)
	}
	b := bodies.Get().(*body)
	defer b.release()
	b.several = true
	a := &Asked{Tasks: []bus.Task{{Client: client, Stream: true, Kind: kind}}}
	t := &a.Tasks[0]
	if err := b.ask(t, data, header); err != nil {
		return nil, asError(err)
	}
	t.Whole = !b.stream
	a.Kind, a.Model, a.Stream, a.Usage, a.IDs = t.Kind, b.named(), b.stream, b.usage, b.tokenIDs
	a.Tags = b.tags()
	if a.IDs && !a.Stream {
		return nil, refusal(bus.CodeUnsupportedField, "return_token_ids: a whole answer has none; ask with "+
			"stream: true, whose events have them")
	}
	if err := b.fan(a); err != nil {
		return nil, asError(err)
	}
	return a, nil
}

// ask reads body, terms and headers, and judges what the endpoint wants.
func (b *body) ask(t *bus.Task, data []byte, header bus.Header) error {
	kind := t.Kind
	if err := b.read(data); err != nil {
		return err
	}
	if b.has("souk") {
		if err := b.decodeTerms(t); err != nil {
			return err
		}
	}
	if err := applyHeaders(t, header); err != nil {
		return err
	}
	if err := b.judge(); err != nil {
		return err
	}
	is := b.kind()
	if kind == "" {
		kind = is
		t.Kind = cmp.Or(t.Kind, kind)
	}
	switch {
	case kind != is && bus.Pooling(kind):
		return bad("this endpoint takes %s", poolingBodies[kind])
	case kind != is && is == bus.KindEmbedding:
		return unsupported("input: this endpoint takes none; it goes to /v1/responses or /v1/embeddings")
	case kind != is && is == bus.KindRerank:
		return bad("query: this endpoint takes none; it goes to /v1/rerank")
	case kind != is && is == bus.KindChat:
		return bad("messages: this endpoint takes a prompt; chats go to /v1/chat/completions")
	case kind != is:
		return bad("prompt: this endpoint takes messages; completions go to /v1/completions")
	case t.Kind != kind:
		return bad("souk.kind: %.40q, but the endpoint is that of a %s", t.Kind, kind)
	}
	if b.has("prompt_cache_key") && t.Session == "" {
		if b.data[b.of["prompt_cache_key"].From] != '"' {
			return bad("prompt_cache_key: a string is expected")
		}
		t.Session = SessionOf(string(b.AppendString(nil, b.of["prompt_cache_key"])))
	}
	return nil
}

// tags names a request by its user, and the first pairs of its metadata.
func (b *body) tags() (all []bus.Tag) {
	if b.has("user") {
		all = append(all, bus.Tag{Name: "user", Value: b.plainly(b.of["user"])})
	}
	return metadata(all, b.Text(b.of["metadata"]))
}

// metadata appends the first pairs of an object that has been read; of anything else, none.
func metadata(all []bus.Tag, object []byte) []bus.Tag {
	s := Scan(object)
	s.Deepest = deepest
	if len(object) > 0 && object[0] == '{' {
		s.Object(func(key Span) bool {
			v, ok := s.Value()
			if len(all) < bus.MaxTag && string(s.Text(v)) != "null" {
				all = append(all, bus.Tag{Name: string(s.Name(key)), Value: s.plainly(v)})
			}
			return ok
		})
	}
	return all
}

// plainly returns a string's text, and any other value as it is written.
func (s *Scanner) plainly(v Span) string {
	if s.data[v.From] == '"' {
		return string(s.Name(v))
	}
	return string(s.Text(v))
}

// SessionOf turns a name into a session id: the name itself where it is a valid id, else its hash.
func SessionOf(name string) string {
	if name == "" || bus.ValidID(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// fan makes the tasks of a request, all after the first, which has what they share.
func (b *body) fan(a *Asked) error {
	n, prompts := max(1, b.n), max(1, len(b.prompts))
	count := n * prompts
	if count > MaxAnswers {
		return unsupported("n: %d answers to each of %d prompts; at most %d answers are given to one request",
			n, prompts, MaxAnswers)
	}
	id, most := a.Tasks[0].ID, &a.Tasks[0].Terms.MaxPrice
	if count > 1 && *most != nil {
		each := **most / market.Credits(count)
		if each <= 0 {
			return badTerms("max_price: %v for %d answers leaves nothing for one", **most, count)
		}
		*most = &each
	}
	for i, p := range b.prompts { // or the others might be bought before the door refuses this one
		if len(b.prompts) > 1 && !saysText(json.RawMessage(b.Text(p))) {
			return refusal(bus.CodeEmptyPrompt, "prompt[%d]: it is empty: give it some text, or leave it out", i)
		}
	}
	seed, seeded := int64(0), b.has("seed") && n > 1
	if seeded {
		var err error
		if seed, err = strconv.ParseInt(string(b.Text(b.of["seed"])), 10, 64); err != nil || seed < 0 ||
			seed > 1<<62 {
			return bad("seed: %.40s is not a whole number from 0 on; n answers need seeds that count up",
				b.Text(b.of["seed"]))
		}
	}
	for i := range count {
		var edits []edit
		if b.cut != (Span{}) {
			edits = append(edits, edit{at: b.soukAndComma()})
		}
		if b.n > 1 {
			edits = append(edits, edit{b.of["n"], "1"})
		}
		if len(b.prompts) > 1 {
			edits = append(edits, edit{b.promptAll, string(b.Text(b.prompts[i/n]))})
		}
		if seeded {
			edits = append(edits, edit{b.of["seed"], strconv.FormatInt(seed+int64(i%n), 10)})
		}
		if i > 0 {
			a.Tasks = append(a.Tasks, a.Tasks[i-1])
		}
		one := &a.Tasks[i]
		if i%n == 0 || seeded { // else it is that of the one before: nobody changes it
			one.Body = b.edited(edits)
		}
		if count > 1 && id != "" {
			one.ID = fmt.Sprintf("%s-%d", id, i)
		}
		whole := one.Body
		if len(whole) > bus.MaxBody { // it travels in pieces
			one.Body = nil
		}
		if err := one.Validate(); err != nil {
			return err
		}
		one.Body = whole
	}
	return nil
}
