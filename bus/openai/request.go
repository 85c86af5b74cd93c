package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"souk/bus"
	"souk/market"
)

// Opening is the part of a prompt that stays the same through all turns of a session: the system prompt and
// the first user message, or of a completion all of its prompt.
type Opening struct{ System, User string }

// DecodeRequest reads what a client sends to the door: JSON, an OpenAI chat or completion body with
// one more member "souk" that holds the fields of Task, or msgpack, a Task with the OpenAI body in it.
// Which of the two it is says the header Content-Type, or else the first byte. Fields that the request
// leaves out are taken from the headers X-Souk-* or X-IEMAS-* (see [headerFields]).
//
// The Task comes back judged and complete but for what needs more than the request: ID where the client
// gave none, Domain and Reply. Client is client, whatever the request says. Body is a copy of the OpenAI
// body without the member "souk". Session and Role, where not given, are hashes keyed by key, and by the
// body's cache_salt, of how the conversation begins, so that every turn of it has the same.
func DecodeRequest(data []byte, header bus.Header, client string, key []byte) (t *bus.Task, o Opening,
	no *bus.Error) {
	return DecodeFetching(data, header, client, key, nil)
}

// DecodeFetching is DecodeRequest, and has a body that stays with its sender fetched.
func DecodeFetching(data []byte, header bus.Header, client string, key []byte,
	fetch func(*bus.Task) ([]byte, error)) (t *bus.Task, o Opening, no *bus.Error) {
	if len(data) > bus.MaxMessage {
		return nil, o, refusal(bus.CodeTooLarge, "request of %d bytes: at most %d are taken", len(data),
			bus.MaxMessage)
	}
	if err := bus.CheckID("client", client); err != nil {
		return nil, o, asError(err)
	}
	b := bodies.Get().(*body)
	defer b.release()
	t = &bus.Task{}
	if err := b.request(t, data, header, fetch); err != nil {
		return nil, o, asError(err)
	}
	t.Client = client
	if err := b.complete(t, key); err != nil {
		return nil, o, asError(err)
	}
	return t, Opening{string(b.system), string(b.user)}, nil
}

func asError(err error) *bus.Error {
	if e, ok := errors.AsType[*bus.Error](err); ok {
		return e
	}
	return refusal(bus.CodeBadRequest, "%v", err)
}

// request fills t with what the client said, and reads the body.
func (b *body) request(t *bus.Task, data []byte, header bus.Header,
	fetch func(*bus.Task) ([]byte, error)) (err error) {
	asJSON := bus.WantsJSON(data, header)
	if !asJSON {
		if err := bus.Decode(data, t); err != nil {
			return err
		}
		t.Model, t.Domain, t.Reply, t.MaxTokens, t.Prompt, t.Declared = "", "", "", 0, bus.Prompt{}, false
		t.LastStatus = nil
		data = t.Body
		switch {
		case t.Large == nil:
		case len(t.Body) > 0 || !t.Stream:
			return bad("large: a body of more than %d bytes is not sent with its task, and answered by a stream",
				bus.MaxBody)
		case fetch == nil:
			return refusal(bus.CodeTooLarge, "body of %d bytes: at most %d are taken here; send a shorter prompt",
				t.Large.Bytes, bus.MaxBody)
		default:
			if data, err = fetch(t); err != nil {
				return err
			}
		}
	}
	if err := b.read(data); err != nil {
		return err
	}
	switch {
	case asJSON && b.has("souk"):
		if err := b.decodeTerms(t); err != nil {
			return err
		}
	case b.has("souk"):
		return bad("body: the member souk belongs in requests in JSON; in msgpack its fields are those of " +
			"the task")
	}
	if asJSON { // in msgpack the task says itself how its answer comes
		t.Stream = b.stream
		t.Body = b.withoutSouk()
	}
	return applyHeaders(t, header)
}

func refusal(code bus.Code, format string, args ...any) *bus.Error {
	return &bus.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func bad(format string, args ...any) error { return refusal(bus.CodeBadRequest, format, args...) }

func unsupported(format string, args ...any) error {
	return refusal(bus.CodeUnsupportedField, format, args...)
}

func badTerms(format string, args ...any) error { return refusal(bus.CodeBadTerms, format, args...) }

// The members of souk and of its terms.
var (
	soukMembers = []string{"task", "kind", "terms", "deadline_ms", "session", "session_end", "turn", "role",
		"back_ms", "parent", "next", "source", "run", "hub", "failover", "reply_token"}
	termsMembers = []string{"worth", "delta", "patience_ms", "max_price"}
)

// decodeTerms reads the member souk. Unlike other parts of the market it refuses members that it does
// not know, and those that stand twice: people write them by hand, and a slip must not cost them money.
func (b *body) decodeTerms(t *bus.Task) error {
	if err := b.onlyOnce("souk", b.of["souk"], soukMembers); err != nil {
		return err
	}
	err := json.Unmarshal(b.Text(b.of["souk"]), t)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, market.ErrAmount):
		return badTerms("souk.terms: %v", err)
	case errors.As(err, &wrong) && strings.HasPrefix(wrong.Field, "terms"):
		return badTerms("souk.%s: %s is expected, not a JSON %s", wrong.Field, jsonName(wrong.Type),
			wrong.Value)
	case errors.As(err, &wrong):
		return bad("souk.%s: %s is expected, not a JSON %s", wrong.Field, jsonName(wrong.Type), wrong.Value)
	}
	return bad("souk: %v", err)
}

// onlyOnce wants an object to have some members at most, none of them twice.
func (b *body) onlyOnce(where string, object Span, names []string) (err error) {
	var seen uint64
	again := b.within(object)
	again.Object(func(key Span) bool {
		name := string(again.Name(key))
		i := slices.Index(names, name)
		v, _ := again.Value()
		switch {
		case i < 0:
			err = bad("%s: no member %.80q; there are %s", where, name, strings.Join(names, ", "))
		case seen&(1<<i) != 0:
			err = bad("%s: member %s stands twice", where, name)
		case name == "terms" && b.data[v.From] == '{':
			err = b.onlyOnce("souk.terms", v, termsMembers)
		}
		seen |= 1 << max(i, 0)
		return err == nil
	})
	return err
}

// jsonName names the JSON type of a Go type.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number like 0.5"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	}
	return "an object"
}

// headerFields are the headers, without their X-Souk- or X-IEMAS-, that fill fields which the request
// leaves out (iemas C.1 names the first four).
var headerFields = map[string]func(t *bus.Task, v string) error{
	"run-id":      fill(func(t *bus.Task) *string { return &t.Run }, text),
	"dialogue-id": fill(func(t *bus.Task) *string { return &t.Session }, text),
	"turn-number": fill(func(t *bus.Task) *int { return &t.Turn }, turnFrom(1)), // the paper counts from 1
	"source":      fill(func(t *bus.Task) *string { return &t.Source }, text),
	"run":         fill(func(t *bus.Task) *string { return &t.Run }, text),
	"session":     fill(func(t *bus.Task) *string { return &t.Session }, text),
	"session-id":  fill(func(t *bus.Task) *string { return &t.Session }, text),
	"session-end": fill(func(t *bus.Task) *bool { return &t.SessionEnd }, truth),
	"back-ms":     fill(func(t *bus.Task) *int64 { return &t.BackMS }, wholeNumber),
	"parent":      fill(func(t *bus.Task) *string { return &t.Parent }, text),
	"next":        fill(func(t *bus.Task) *string { return &t.Next }, text),
	"turn":        fill(func(t *bus.Task) *int { return &t.Turn }, turnFrom(0)),
	"role":        fill(func(t *bus.Task) *string { return &t.Role }, text),
	"task":        fill(func(t *bus.Task) *string { return &t.ID }, text),
	"hub":         fill(func(t *bus.Task) *string { return &t.Hub }, text),
	"failover":    fill(func(t *bus.Task) *string { return &t.Failover }, text),
	"deadline":    fill(func(t *bus.Task) *int64 { return &t.DeadlineMS }, wholeNumber),
	"deadline-ms": fill(func(t *bus.Task) *int64 { return &t.DeadlineMS }, wholeNumber),
	"patience-ms": fill(func(t *bus.Task) **int64 { return &t.Terms.PatienceMS }, milliseconds),
	"delta":       fill(func(t *bus.Task) **float64 { return &t.Terms.Delta }, fraction),
	"worth":       fill(func(t *bus.Task) **market.Credits { return &t.Terms.Worth }, credits),
	"max-price":   fill(func(t *bus.Task) **market.Credits { return &t.Terms.MaxPrice }, credits),
	"max_price":   fill(func(t *bus.Task) **market.Credits { return &t.Terms.MaxPrice }, credits),
}

// applyHeaders lets X-Souk-* go before X-IEMAS-*, and a longer name before its beginning.
func applyHeaders(t *bus.Task, header bus.Header) error {
	var names []string
	var unknown string
	for name, values := range header {
		field, ours, ok := headerField(name)
		switch {
		case !ok || len(values) == 0:
		case headerFields[field] != nil:
			names = append(names, name)
		case ours && (unknown == "" || name < unknown): // of the paper's headers there are others
			unknown = name
		}
	}
	if unknown != "" { // a slip must not cost money
		return bad("header %.80q: there is none of that name; there are X-Souk- and %s", unknown,
			strings.Join(slices.Sorted(maps.Keys(headerFields)), ", "))
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(strings.Compare(strings.ToLower(b), strings.ToLower(a)), strings.Compare(a, b))
	})
	for _, name := range names {
		field, _, _ := headerField(name)
		values := header[name]
		if len(values) > 1 {
			return bad("header %s: given %d times: send it once", name, len(values))
		}
		if err := headerFields[field](t, strings.TrimSpace(values[0])); err != nil {
			e := asError(err)
			return refusal(e.Code, "header %s: %s", name, e.Message)
		}
	}
	return nil
}

// headerField returns the part of a header's name after X-Souk-, which is ours, or X-IEMAS-.
func headerField(name string) (field string, ours, ok bool) {
	for i, prefix := range [...]string{"x-souk-", "x-iemas-"} {
		if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return strings.ToLower(name[len(prefix):]), i == 0, true
		}
	}
	return "", false, false
}

// fill reads a header into a field that the request leaves out.
func fill[T comparable](field func(*bus.Task) *T, read func(string) (T, error)) func(*bus.Task,
	string) error {
	return func(t *bus.Task, v string) error {
		x, err := read(v)
		var none T
		if f := field(t); err == nil && *f == none {
			*f = x
		}
		return err
	}
}

func text(v string) (string, error) { return v, nil }

func truth(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, bad("%.40q is neither true nor false", v)
}

func wholeNumber(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, bad("%.40q is not a whole number", v)
	}
	return n, nil
}

func turnFrom(first int64) func(string) (int, error) {
	return func(v string) (int, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < first {
			return 0, bad("%.40q is not a whole number from %d on", v, first)
		}
		return int(n - first), nil
	}
}

func milliseconds(v string) (*int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return nil, badTerms("%.40q is not a whole number of milliseconds", v)
	}
	return &n, nil
}

func fraction(v string) (*float64, error) {
	x, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return nil, badTerms("%.40q is not a number", v)
	}
	return &x, nil
}

func credits(v string) (*market.Credits, error) {
	c, err := market.ParseCredits(v)
	if err != nil {
		return nil, badTerms("%v", err)
	}
	return &c, nil
}

// named is the model that the body asks for; "" for any.
func (b *body) named() string {
	if b.model == Auto {
		return ""
	}
	return b.model
}

// complete judges the body, says what the market needs to know of it, and judges the whole.
func (b *body) complete(t *bus.Task, key []byte) error {
	if err := b.judge(); err != nil {
		return err
	}
	kind := b.kind()
	if t.Kind != "" && t.Kind != kind {
		return bad("kind: %.40q, but the body is that of a %s", t.Kind, kind)
	}
	if t.Resume != nil && t.Hub == "" {
		return bad("hub: who goes on with an answer names the hub that has its task")
	}
	if t.Resume != nil && t.Large != nil && t.Carried() > 0 {
		var err error
		if t.Resume.Parses, err = CanContinue(t.Resume, b.data); err != nil {
			return err
		}
	}
	t.Kind, t.Model, t.MaxTokens = kind, b.named(), b.maxTokens
	if bus.Pooling(kind) {
		return b.completePooling(t)
	}
	if b.tokenIDs && !t.Stream {
		return unsupported("return_token_ids: a whole answer has none; ask with stream: true, whose chunks " +
			"have them")
	}
	b.canonical()
	switch {
	case len(b.buf) > bus.MaxCanonical:
		return refusal(bus.CodePromptTooLong, "text of %d bytes, pictures aside: at most %d are taken", len(b.buf),
			bus.MaxCanonical)
	case b.blank && kind == bus.KindCompletion:
		return refusal(bus.CodeEmptyPrompt, "prompt: it is empty: give it some text")
	case b.blank:
		return refusal(bus.CodeEmptyPrompt, "messages: they are empty: give at least one message with content")
	}
	key = b.salted(key)
	t.Prompt, t.Salt = b.prompt(key), b.salt
	b.bound(&t.Prompt)
	if t.Session == "" {
		t.Session = b.session(key)
	}
	if t.Declared = t.Role != ""; !t.Declared {
		t.Role = b.role(key)
	}
	return t.Validate()
}

// maxPooled is the largest buffer kept for reuse, in bytes: more would pin the memory of one rare large body
// for ever.
const maxPooled = 64 << 10

// bodies are used again, for the buffers in them.
var bodies = sync.Pool{New: func() any { return &body{} }}

func (b *body) release() {
	if cap(b.buf) > maxPooled || cap(b.rest)+cap(b.chat) > maxPooled/16 {
		return
	}
	clear(b.of)
	*b = body{of: b.of, buf: b.buf[:0], chat: b.chat[:0], rest: b.rest[:0], prefixes: b.prefixes[:0],
		digests: b.digests[:0], ends: b.ends[:0], head: b.head[:0]}
	bodies.Put(b)
}
