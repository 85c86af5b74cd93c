package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/bus"
)

// said is a body's meaning to an engine, as encoding/json reads it, without its spelling.
type said struct {
	Completion string
	Chat       bool
	Tools      string // in JSON, compact
	Messages   []saidMessage
}

type saidMessage struct {
	Role    string
	Content []saidPart // none: nothing to say
	Rest    []string   // names and values in turn
}

type saidPart struct{ Text, Other string } // Other in JSON, compact

// saidBy reads a body that DecodeRequest takes. It goes by tokens, since the order of members counts.
func saidBy(t testing.TB, data []byte) said {
	t.Helper()
	var s said
	for name, v := range membersOf(t, data) {
		switch {
		case name == "prompt" && v != "null":
			var texts []string
			if json.Unmarshal([]byte(v), &s.Completion) != nil {
				if err := json.Unmarshal([]byte(v), &texts); err != nil {
					t.Fatal(err)
				}
				s.Completion = texts[0]
			}
		case name == "tools" && v != "null":
			s.Tools = v
		case name == "messages" && v != "null":
			s.Chat = true
			var list []json.RawMessage
			if err := json.Unmarshal([]byte(v), &list); err != nil {
				t.Fatal(err)
			}
			for _, m := range list {
				s.Messages = append(s.Messages, saidInMessage(t, m))
			}
		}
	}
	return s
}

func saidInMessage(t testing.TB, data []byte) (m saidMessage) {
	t.Helper()
	for name, v := range membersOf(t, data) {
		switch {
		case name == "role":
			if err := json.Unmarshal([]byte(v), &m.Role); err != nil {
				t.Fatal(err)
			}
		case name == "content" && v[0] == '"':
			var text string
			if err := json.Unmarshal([]byte(v), &text); err != nil {
				t.Fatal(err)
			}
			m.Content = []saidPart{{Text: text}}
		case name == "content" && v[0] == '[':
			var parts []json.RawMessage
			if err := json.Unmarshal([]byte(v), &parts); err != nil {
				t.Fatal(err)
			}
			m.Content = nil
			for _, p := range parts {
				m.Content = append(m.Content, saidInPart(t, p))
			}
		case name == "content":
		case v != "null":
			m.Rest = append(m.Rest, name, v)
		}
	}
	if len(m.Content) == 1 && m.Content[0] == (saidPart{}) {
		m.Content = nil
	}
	return m
}

// saidInPart takes a part for a text if its type says so, in this very spelling, and its last text is one.
func saidInPart(t testing.TB, data []byte) saidPart {
	t.Helper()
	other := saidPart{Other: compact(t, data)}
	if data[0] != '{' {
		return other
	}
	kind, text := "", ""
	for name, v := range membersOf(t, data) {
		switch name {
		case "type":
			kind = v
		case "text":
			text = v
		}
	}
	if kind != `"text"` || text == "" || text[0] != '"' {
		return other
	}
	var p saidPart
	if err := json.Unmarshal([]byte(text), &p.Text); err != nil {
		t.Fatal(err)
	}
	return p
}

// membersOf are an object's members in their order, their values compact.
func membersOf(t testing.TB, data []byte) iter.Seq2[string, string] {
	t.Helper()
	return func(yield func(name, value string) bool) {
		d := json.NewDecoder(bytes.NewReader(data))
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		for d.More() {
			key, err := d.Token()
			var v json.RawMessage
			if err == nil {
				err = d.Decode(&v)
			}
			if err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			if !yield(key.(string), compact(t, v)) {
				return
			}
		}
	}
}

func compact(t testing.TB, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// canonicalOf is the canonical text of a body, or "" of one that is refused.
func canonicalOf(data []byte) string {
	if _, _, bad := DecodeRequest(data, nil, "ada", testKey); bad != nil {
		return ""
	}
	b := &body{}
	if b.read(data) != nil {
		return ""
	}
	b.canonical()
	return string(b.buf)
}

// readBack undoes canonical text: what can be read back cannot be said twice.
func readBack(t testing.TB, text string) said {
	t.Helper()
	text, ok := strings.CutSuffix(text, "\x1e")
	if !ok {
		t.Fatalf("%q does not end", text)
	}
	common := func(s string) bool { return opens([]byte(s)) != "" }
	if !strings.HasPrefix(text, "[") || !strings.Contains(text, "\x1e") { // no tools
		if after, marked := strings.CutPrefix(text, "\x1e"); marked || !common(text) &&
			!strings.HasPrefix(text, "\x1f") {
			return said{Completion: plainText(t, after)}
		}
	}
	s := said{Chat: true}
	for i, block := range strings.Split(text, "\x1e") {
		if i == 0 && block[0] == '[' {
			s.Tools = block
			continue
		}
		other := strings.HasPrefix(block, "\x1f")
		parts := strings.Split(strings.TrimPrefix(block, "\x1f"), "\x1f")
		role, content, ok := strings.Cut(parts[0], "\n")
		if !ok || other == common(parts[0]) {
			t.Fatalf("a message %q", block)
		}
		m := saidMessage{Role: plainText(t, role)}
		for _, p := range strings.Split(content, "\x1c") {
			if len(p) > 1 && p[0] == escape && !strings.ContainsRune("\\]^_", rune(p[1])) {
				m.Content = append(m.Content, saidPart{Other: p[1:]})
			} else {
				m.Content = append(m.Content, saidPart{Text: plainText(t, p)})
			}
		}
		if len(m.Content) == 1 && m.Content[0] == (saidPart{}) {
			m.Content = nil
		}
		for _, p := range parts[1:] {
			at := 0
			for at < len(p) && (isSpace(p[at]) || !json.Valid([]byte(p[at:]))) {
				at++
			}
			m.Rest = append(m.Rest, plainText(t, p[:at]), p[at:])
		}
		s.Messages = append(s.Messages, m)
	}
	return s
}

func plainText(t testing.TB, s string) string {
	t.Helper()
	var b []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == escape && i+1 < len(s):
			i++
			b = append(b, s[i]^escaped)
		case isSeparator(c):
			t.Fatalf("%q holds a separator", s)
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// awkward texts look like canonical text, in whole or in part.
var awkward = []string{"", "a", "\x1c", "\x1d", "\x1e", "\x1f", "]", "^", "_", "\\", "\n", "user", "user\n",
	"system\n", "assistant", "ab", "b", "name", "1", "-1", "true", "null", "\"",
	`"a"`, `[`, `[]`, `{"type":"text","text":"a"}`, `{"type":"x"}`, "\x1d{", "user\na", "user\na\x1e",
	"\x1euser\n", " ", "é"}

func awkwardText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(awkward[r.IntN(len(awkward))])
	}
	return b.String()
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// awkwardBody is a body made of awkward texts.
func awkwardBody(r *rand.Rand) []byte {
	values := []string{`1`, `-1`, `12`, `true`, `""`, `"a"`, `"\"a"`, `[1]`, `[]`, `{"a":1}`, `null`,
		`"\u001e"`}
	if r.IntN(4) == 0 {
		return fmt.Appendf(nil, `{"prompt":%s}`, quoted(awkwardText(r)))
	}
	var messages []string
	for range 1 + r.IntN(3) {
		role := []string{"user", "system", "tool"}[r.IntN(3)]
		if r.IntN(3) == 0 {
			role = awkwardText(r)
		}
		m := fmt.Sprintf(`{"role":%s`, quoted(role))
		switch r.IntN(4) {
		case 0:
			var parts []string
			for range r.IntN(3) {
				switch r.IntN(4) {
				case 0:
					parts = append(parts, values[r.IntN(len(values))])
				case 1:
					parts = append(parts, `{"type":"x"}`)
				case 2:
					parts = append(parts, fmt.Sprintf(`{"type":"text","text":%s,"te\u0078t":%s}`,
						quoted(awkwardText(r)), quoted(awkwardText(r))))
				default:
					parts = append(parts, fmt.Sprintf(`{"type":"text","text":%s}`, quoted(awkwardText(r))))
				}
			}
			m += `,"content":[` + strings.Join(parts, ",") + `]`
		case 1, 2:
			m += `,"content":` + quoted(awkwardText(r))
		}
		for range r.IntN(3) {
			if name := awkwardText(r); name != "role" && name != "content" {
				m += fmt.Sprintf(`,%s:%s`, quoted(name), values[r.IntN(len(values))])
			}
		}
		messages = append(messages, m+"}")
	}
	tools := ""
	if r.IntN(4) == 0 {
		tools = `,"tools":` + []string{`[]`, `[{}]`, `["user\na"]`, `null`}[r.IntN(4)]
	}
	return []byte(`{"messages":[` + strings.Join(messages, ",") + `]` + tools + `}`)
}

// Two bodies that say different things have different canonical texts, whatever bytes they hold: each text
// reads back as what was said.
func TestCanonicalTextSaysOneThing(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	seen := map[string]said{}
	taken := 0
	for range 15_000 {
		data := awkwardBody(r)
		text := canonicalOf(data)
		if text == "" {
			continue
		}
		taken++
		want := saidBy(t, data)
		if other, ok := seen[text]; ok && !reflect.DeepEqual(other, want) {
			t.Fatalf("seed %d: %s: %q is the text of %+v, too", seed, data, text, other)
		}
		seen[text] = want
		if got := readBack(t, text); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %s: %q reads back as %+v, want %+v", seed, data, text, got, want)
		}
	}
	if taken < 5_000 || len(seen) == taken {
		t.Errorf("seed %d: %d bodies taken, %d texts", seed, taken, len(seen))
	}
}

// FuzzCanonical does the same with whatever bodies it comes to.
func FuzzCanonical(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		f.Add(awkwardBody(r))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if text := canonicalOf(data); text != "" {
			if got, want := readBack(t, text), saidBy(t, data); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %q reads back as %+v, want %+v", data, text, got, want)
			}
		}
	})
}

// These pairs were equal in text, some of them with other prefixes, before separators were escaped.
func TestDifferentBodiesDiffer(t *testing.T) {
	chat := func(messages string) string { return `{"messages":[` + messages + `]}` }
	for name, pair := range map[string][2]string{
		"a message with the end of one in it": {chat(`{"role":"user","content":"a\u001euser\nb"}`),
			chat(`{"role":"user","content":"a"},{"role":"user","content":"b"}`)},
		"a content with a member in it": {chat(`{"role":"user","content":"a\u001fname\"x\""}`),
			chat(`{"role":"user","content":"a","name":"x"}`)},
		"a role of two lines": {chat(`{"role":"user\na","content":"b"}`),
			chat(`{"role":"user","content":"a\nb"}`)},
		"tools in a role": {`{"messages":[{"role":"user","content":"a"}],"tools":[]}`,
			chat(`{"role":"[]\u001euser","content":"a"}`)},
		"a chat as a completion": {chat(`{"role":"user","content":"a"}`),
			`{"prompt":"user\na"}`},
		"two chats as a completion": {chat(`{"role":"user","content":"a"},{"role":"user","content":"b"}`),
			`{"prompt":"user\na\u001euser\nb"}`},
		"two texts and one": {chat(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), chat(`{"role":"user","content":"ab"}`)},
		"a part and its text": {chat(`{"role":"user","content":[{"type":"x"}]}`),
			chat(`{"role":"user","content":"{\"type\":\"x\"}"}`)},
		"a name with a digit": {chat(`{"role":"user","content":"a","k1":2}`),
			chat(`{"role":"user","content":"a","k":12}`)},
		"a text in disguise": {chat(`{"role":"user","content":[{"type":"text","text":"a","te\u0078t":"b"}]}`),
			chat(`{"role":"user","content":"a"}`)},
		"an escape": {chat(`{"role":"user","content":"\u001e"}`),
			chat(`{"role":"user","content":"\u001d^"}`)},
	} {
		a, b := mustDecode(t, pair[0], nil), mustDecode(t, pair[1], nil)
		last := func(p bus.Prompt) bus.PrefixHash { return p.Prefixes[len(p.Prefixes)-1] }
		if last(a.Prompt).Hash == last(b.Prompt).Hash {
			t.Errorf("%s: %q is the text of both", name, canonicalOf([]byte(pair[0])))
		}
	}
}

// Two texts that were made to have one 64-bit hash, all the way to their ends and whatever follows them, have
// other prefixes, and other names of them: else an agent that has said that it holds the one would be paid
// for the other as if it had that in its cache.
func TestTextsThatCollide(t *testing.T) {
	texts := []string{"Tell me what a souk is, in as many words as it takes, and please",
		"N?62fA;rwhat a souk is, in as maJiu2_knb as it takes, and please"}
	if xxhash.Sum64String(texts[0]) != xxhash.Sum64String(texts[1]) {
		t.Fatal("these do not collide")
	}
	keys := bus.PrefixKeys{Keys: []bus.PrefixKey{{Key: make([]byte, 32)}}}
	for _, more := range []string{"", " take your time", strings.Repeat(" go on", 300)} {
		var all [2][]bus.PrefixHash
		for i := range texts {
			p := mustDecode(t, fmt.Sprintf(`{"prompt":%q}`, texts[i]+more), nil).Prompt
			all[i] = slices.Clone(p.Prefixes)
			keys.Name(&p, time.Now())
			all[i] = append(all[i], p.Prefixes...)
		}
		for i, m := range all[0] {
			if m.Hash == all[1][i].Hash {
				t.Errorf("of %d bytes more the prefix at %d is the same", len(more), m.Bytes)
			}
		}
	}
}

// Ordinary prompts keep their prefixes from one release to the next, so that what is believed of caches holds
// on.
func TestOrdinaryPrefixesStay(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[{"role":"system","content":"You are terse."},{"role":"user","content":"Hi é\n","name":"ann"},{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","content":"12"}],"tools":[{"type":"function"}]}`: "[{22 2801453305934978681} {44 10386521933254016950} {66 6855469370223975189} {100 17312694790473354867} {108 15416664410782167753}]",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"one text"}]}]}`: "[{14 15757703066812817649}]",
		`{"prompt":"Once upon a time\nthere was"}`:                                     "[{27 4181924937264979663}]",
	} {
		if got := fmt.Sprint(mustDecode(t, body, nil).Prompt.Prefixes); got != want {
			t.Errorf("%s: prefixes %s, want %s", body, got, want)
		}
	}
}

// A prompt that goes on has the prefixes of the one that it extends, whatever bytes both hold.
func TestLongerPromptsSharePrefixes(t *testing.T) {
	if err := quick.Check(func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 3))
		var messages []string
		for range 2 + r.IntN(6) {
			text := strings.Repeat(awkwardText(r)+"x", 1+r.IntN(900))
			messages = append(messages, fmt.Sprintf(`{"role":%s,"content":%s}`,
				quoted("u"+awkward[r.IntN(len(awkward))]), quoted(text)))
		}
		at := 1 + r.IntN(len(messages)-1)
		short, long := mustDecode(t, `{"messages":[`+strings.Join(messages[:at], ",")+`]}`, nil),
			mustDecode(t, `{"messages":[`+strings.Join(messages, ",")+`]}`, nil)
		n := len(short.Prompt.Prefixes)
		return slices.Equal(long.Prompt.Prefixes[:n], short.Prompt.Prefixes) && len(long.Prompt.Prefixes) > n
	}, &quick.Config{MaxCount: 200}); err != nil {
		t.Error(err) // names the seed
	}
}
