package bus

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
	"unicode/utf8"

	"souk/market"
)

// DecodeRequest reads what a client sends to the door: JSON, an OpenAI chat or completion body with
// one more member "souk" that holds the fields of Task, or msgpack, a Task with the OpenAI body in it.
// Which of the two it is says the header Content-Type, or else the first byte. Fields that the request
// leaves out are taken from the headers X-Souk-* or X-IEMAS-* (see [headerFields]).
//
// The Task comes back judged and complete but for what needs more than the request: ID where the client
// gave none, Domain and Reply. Client is client, whatever the request says. Body is a copy of the OpenAI
// body without the member "souk". Session and Role, where not given, are hashes keyed by key of how the
// conversation begins, so that every turn of it has the same.
func DecodeRequest(data []byte, header Header, client string, key []byte) (*Task, *Error) {
	if len(data) > MaxMessage {
		return nil, &Error{CodeTooLarge,
			fmt.Sprintf("request of %d bytes: at most %d are taken", len(data), MaxMessage)}
	}
	if err := CheckID("client", client); err != nil {
		return nil, &Error{CodeBadRequest, err.Error()}
	}
	b := bodies.Get().(*body)
	defer b.release()
	t := &Task{}
	if err := b.request(t, data, header); err != nil {
		return nil, asError(err)
	}
	t.Client = client
	if err := b.complete(t, key); err != nil {
		return nil, asError(err)
	}
	return t, nil
}

func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{CodeBadRequest, err.Error()}
}

// WantsJSON reports whether a request wants its answer as JSON: it is JSON, or nothing that is understood,
// which people write.
func WantsJSON(data []byte, header Header) bool {
	if header != nil {
		switch kind, _, _ := strings.Cut(header.Get("Content-Type"),
			";"); strings.ToLower(strings.TrimSpace(kind)) {
		case "application/json":
			return true
		case "application/msgpack", "application/x-msgpack", "application/vnd.msgpack":
			return false
		}
	}
	return len(data) == 0 || !isMap(data[0])
}

// isMap reports whether msgpack that begins with c is a map, as every message is.
func isMap(c byte) bool { return c&0xf0 == 0x80 || c == 0xde || c == 0xdf }

// request fills t with what the client said, and reads the body.
func (b *body) request(t *Task, data []byte, header Header) error {
	asJSON := WantsJSON(data, header)
	if !asJSON {
		if err := Decode(data, t); err != nil {
			return err
		}
		t.Model, t.Domain, t.Reply, t.MaxTokens, t.Prompt = "", "", "", 0, Prompt{}
		data = t.Body
	}
	if err := b.read(data); err != nil {
		return err
	}
	switch {
	case asJSON && b.souk != (span{}):
		if err := b.decodeTerms(t); err != nil {
			return err
		}
	case b.souk != (span{}):
		return bad("body: the member souk belongs in requests in JSON; in msgpack its fields are those of " +
			"the task")
	}
	if asJSON { // in msgpack the task says itself how its answer comes
		t.Stream = b.stream
		t.Body = b.withoutSouk()
		if len(t.Body) > MaxBody {
			return tooLongBody(len(t.Body))
		}
	}
	return applyHeaders(t, header)
}

func tooLongBody(n int) error {
	return &Error{CodeUnsupportedField,
		fmt.Sprintf("body of %d bytes: at most %d are taken for now; send a shorter prompt", n, MaxBody)}
}

func bad(format string, args ...any) error {
	return &Error{CodeBadRequest, fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) error {
	return &Error{CodeUnsupportedField, fmt.Sprintf(format, args...)}
}

// The members of souk and of its terms.
var (
	soukMembers = []string{"task", "kind", "terms", "deadline_ms", "session", "turn", "role", "source",
		"run", "hub", "failover"}
	termsMembers = []string{"worth", "delta", "patience_ms", "max_price"}
)

// decodeTerms reads the member souk. Unlike other parts of the market it refuses members that it does
// not know, and those that stand twice: people write them by hand, and a slip must not cost them money.
func (b *body) decodeTerms(t *Task) error {
	if err := b.onlyOnce("souk", b.souk, soukMembers); err != nil {
		return err
	}
	err := json.Unmarshal(b.text(b.souk), t)
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
func (b *body) onlyOnce(where string, object span, names []string) (err error) {
	var seen uint64
	again := scanner{data: b.data[:object.to], at: object.from}
	again.object(func(key span) bool {
		name := string(b.appendString(nil, key))
		i := slices.Index(names, name)
		again.next()
		v, _ := again.value()
		switch {
		case i < 0:
			err = bad("%s: no member %.80q; there are %s", where, name, strings.Join(names, ", "))
		case seen&(1<<i) != 0:
			err = bad("%s: member %s stands twice", where, name)
		case name == "terms" && b.data[v.from] == '{':
			err = b.onlyOnce("souk.terms", v, termsMembers)
		}
		seen |= 1 << max(i, 0)
		return err == nil
	})
	return err
}

// jsonName is what a value of a Go type is in JSON.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number like 0.5"
	case reflect.String:
		return "a string"
	}
	return "an object"
}

// headerFields are the headers, without their X-Souk- or X-IEMAS-, that fill fields which the request
// leaves out (iemas C.1 names the first four).
var headerFields = map[string]func(t *Task, v string) error{
	"run-id":      headerText(func(t *Task) *string { return &t.Run }),
	"dialogue-id": headerText(func(t *Task) *string { return &t.Session }),
	"turn-number": headerTurn(1), // the paper counts from 1
	"source":      headerText(func(t *Task) *string { return &t.Source }),
	"run":         headerText(func(t *Task) *string { return &t.Run }),
	"session":     headerText(func(t *Task) *string { return &t.Session }),
	"session-id":  headerText(func(t *Task) *string { return &t.Session }),
	"turn":        headerTurn(0),
	"role":        headerText(func(t *Task) *string { return &t.Role }),
	"task":        headerText(func(t *Task) *string { return &t.ID }),
	"hub":         headerText(func(t *Task) *string { return &t.Hub }),
	"failover":    headerText(func(t *Task) *string { return &t.Failover }),
	"deadline":    headerInt(func(t *Task) *int64 { return &t.DeadlineMS }),
	"deadline-ms": headerInt(func(t *Task) *int64 { return &t.DeadlineMS }),
	"patience-ms": headerPatience,
	"delta":       headerDelta,
	"worth":       headerCredits(func(t *Task) **market.Credits { return &t.Terms.Worth }),
	"max-price":   headerCredits(func(t *Task) **market.Credits { return &t.Terms.MaxPrice }),
	"max_price":   headerCredits(func(t *Task) **market.Credits { return &t.Terms.MaxPrice }),
}

// applyHeaders lets X-Souk-* go before X-IEMAS-*, and a longer name before its beginning.
func applyHeaders(t *Task, header Header) error {
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
			return bad("header %s: given %d times", name, len(values))
		}
		if err := headerFields[field](t, strings.TrimSpace(values[0])); err != nil {
			e := asError(err)
			return &Error{e.Code, fmt.Sprintf("header %s: %s", name, e.Message)}
		}
	}
	return nil
}

// headerField is what follows X-Souk-, which is ours, or X-IEMAS-.
func headerField(name string) (field string, ours, ok bool) {
	for i, prefix := range [...]string{"x-souk-", "x-iemas-"} {
		if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return strings.ToLower(name[len(prefix):]), i == 0, true
		}
	}
	return "", false, false
}

func headerText(field func(*Task) *string) func(*Task, string) error {
	return func(t *Task, v string) error {
		if f := field(t); *f == "" {
			*f = v
		}
		return nil
	}
}

func headerInt(field func(*Task) *int64) func(*Task, string) error {
	return func(t *Task, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return bad("%.40q is not a whole number", v)
		}
		if f := field(t); *f == 0 {
			*f = n
		}
		return nil
	}
}

func headerTurn(first int64) func(*Task, string) error {
	return func(t *Task, v string) error {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < first {
			return bad("%.40q is not a whole number from %d on", v, first)
		}
		if t.Turn == 0 {
			t.Turn = int(n - first)
		}
		return nil
	}
}

func headerPatience(t *Task, v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return badTerms("%.40q is not a whole number of milliseconds", v)
	}
	if t.Terms.PatienceMS == nil {
		t.Terms.PatienceMS = &n
	}
	return nil
}

func headerDelta(t *Task, v string) error {
	x, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return badTerms("%.40q is not a number", v)
	}
	if t.Terms.Delta == nil {
		t.Terms.Delta = &x
	}
	return nil
}

func headerCredits(field func(*Task) **market.Credits) func(*Task, string) error {
	return func(t *Task, v string) error {
		c, err := market.ParseCredits(v)
		if err != nil {
			return badTerms("%v", err)
		}
		if f := field(t); *f == nil {
			*f = &c
		}
		return nil
	}
}

// complete judges the body, says what the market needs to know of it, and judges the whole.
func (b *body) complete(t *Task, key []byte) error {
	if err := b.judge(); err != nil {
		return err
	}
	kind := KindChat
	if b.messages == (span{}) {
		kind = KindCompletion
	}
	if t.Kind != "" && t.Kind != kind {
		return bad("kind: %.40q, but the body is that of a %s", t.Kind, kind)
	}
	t.Kind, t.Model, t.MaxTokens = kind, b.model, b.maxTokens
	if t.Model == "auto" {
		t.Model = ""
	}
	if b.tokenIDs && !t.Stream {
		return unsupported("return_token_ids: a whole answer has none; ask with stream: true, whose chunks " +
			"have them")
	}
	b.canonical()
	if b.blank {
		return &Error{CodeEmptyPrompt, "the prompt is empty: give at least one message with content"}
	}
	t.Prompt = b.prompt()
	b.bound(&t.Prompt)
	t.system, t.user = string(b.system), string(b.user)
	if t.Session == "" {
		t.Session = b.session(key)
	}
	if t.Role == "" {
		t.Role = b.role(key)
	}
	if t.Resume != nil && t.Hub == "" {
		return bad("hub: who goes on with an answer names the hub that has its task")
	}
	return t.Validate()
}

// Opening returns the system prompt and the first user message, or "" and the prompt of a completion:
// what stays the same through all turns of a session. It is set by DecodeRequest and does not travel.
func (t *Task) Opening() (system, user string) { return t.system, t.user }

// bodies are used again, for the buffers in them.
var bodies = sync.Pool{New: func() any { return &body{} }}

func (b *body) release() {
	if cap(b.buf) > maxPooled || cap(b.rest)+cap(b.chat) > maxPooled/16 {
		return
	}
	*b = body{buf: b.buf[:0], chat: b.chat[:0], rest: b.rest[:0], marks: b.marks[:0], ends: b.ends[:0]}
	bodies.Put(b)
}

// validText refuses bytes that are not UTF-8: engines do, and encoding/json would change them.
func validText(data []byte) error {
	if !utf8.Valid(data) {
		return bad("the body is not UTF-8")
	}
	return nil
}
