package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"souk/bus"
	"souk/market"
)

var testKey = []byte("a key of the market")

func decode(t testing.TB, body string, header bus.Header) (*bus.Task, *bus.Error) {
	t.Helper()
	task, _, no := DecodeRequest([]byte(body), header, "ada", testKey)
	return task, no
}

func mustDecode(t testing.TB, body string, header bus.Header) *bus.Task {
	t.Helper()
	task, err := decode(t, body, header)
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return task
}

func TestRequestInJSON(t *testing.T) {
	task, opening, bad := DecodeRequest([]byte(`{
		"model": "llama-3", "stream": true, "max_tokens": 5, "max_completion_tokens": 64, "temperature": 0.5,
		"messages": [{"role": "system", "content": "You are terse."}, {"role": "user",
			"content": "Hi \u00e9\n"}],
		"souk": {"task": "t-1", "terms": {"worth": 0.0025, "delta": 0.5, "patience_ms": 900,
			"max_price": "0.01"}, "session": "s-9", "turn": 2,
			"role": "critic", "source": "web", "run": "r 7", "hub": "math", "failover": "off",
				"deadline_ms": 1800000000000}
	}`), nil, "ada", testKey)
	if bad != nil {
		t.Fatal(bad)
	}
	if task.Client != "ada" || task.ID != "t-1" || task.Kind != bus.KindChat || !task.Stream ||
		task.Model != "llama-3" || task.MaxTokens != 64 {
		t.Errorf("got %+v", task)
	}
	if *task.Terms.Worth != 2_500_000 || *task.Terms.Delta != 0.5 || *task.Terms.PatienceMS != 900 ||
		*task.Terms.MaxPrice != 10_000_000 {
		t.Errorf("terms: %+v", task.Terms)
	}
	if task.Session != "s-9" || task.Turn != 2 || task.Role != "critic" || task.Source != "web" ||
		task.Run != "r 7" || task.Hub != "math" ||
		task.Failover != "off" || task.DeadlineMS != 1_800_000_000_000 {
		t.Errorf("got %+v", task)
	}
	if opening != (Opening{"You are terse.", "Hi é\n"}) {
		t.Errorf("opening: %+v", opening)
	}
	if strings.Contains(string(task.Body), "souk") || !json.Valid(task.Body) {
		t.Errorf("the engine would get %s", task.Body)
	}
}

func TestRequestInMsgpack(t *testing.T) {
	worth := market.Credits(5)
	data, err := bus.Encode(&bus.Task{Client: "mallory", ID: "t-1", Session: "s",
		Terms: bus.Terms{Worth: &worth}, Domain: "mine", Reply: "souk.v1.reply.bob.x",
		Model: "theirs", Stream: true, MaxTokens: 9, Prompt: bus.Prompt{Tokens: 1},
		Body: []byte(`{"model":"auto","prompt":"Once upon a time"}`)})
	if err != nil {
		t.Fatal(err)
	}
	task, opening, bad := DecodeRequest(data, nil, "ada", testKey)
	if bad != nil {
		t.Fatal(bad)
	}
	if task.Client != "ada" || task.Domain != "" || task.Reply != "" || task.Model != "" ||
		task.MaxTokens != 0 || task.Prompt.Tokens == 1 {
		t.Errorf("what the door fills in was taken from the client: %+v", task)
	}
	if task.Kind != bus.KindCompletion || !task.Stream || task.Session != "s" || *task.Terms.Worth != 5 ||
		task.Prompt.Messages != 1 {
		t.Errorf("got %+v", task)
	}
	if opening != (Opening{"", "Once upon a time"}) {
		t.Errorf("opening: %+v", opening)
	}
	long, err := bus.Encode(&bus.Task{Body: bytes.Repeat([]byte("x"), bus.MaxBody+1)})
	if err != nil {
		t.Fatal(err)
	}
	// as in JSON
	_, _, bad = DecodeRequest(long, nil, "ada", testKey)
	if bad == nil || bad.Code != bus.CodeTooLarge {
		t.Errorf("a body too long: %v", bad)
	}
}

func TestHeadersFillWhatTheBodyLeavesOut(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"hi"}]}`
	paper := bus.Header{"X-IEMAS-RUN-ID": {"run-3"}, "X-IEMAS-DIALOGUE-ID": {"d-1"},
		"X-IEMAS-TURN-NUMBER": {"1"}, "X-IEMAS-SOURCE": {"coqa"}, "X-IEMAS-Later": {"?"}}
	task := mustDecode(t, body, paper)
	if task.Run != "run-3" || task.Session != "d-1" || task.Turn != 0 || task.Source != "coqa" {
		t.Errorf("the paper's headers: %+v", task)
	}
	own := bus.Header{"x-souk-session": {"s"}, "X-Souk-Turn": {"4"}, "x-souk-role": {"critic"},
		"x-souk-deadline":  {"1800000000000"},
		"x-souk-max-price": {"0.02"}, "x-souk-worth": {"0.01"}, "x-souk-delta": {"0.25"},
		"x-souk-patience-ms": {"700"}, "X-Souk-Failover": {"off"}, "X-Souk-Session-End": {"True"}}
	task = mustDecode(t, body, own)
	if task.Session != "s" || !task.SessionEnd || task.Turn != 4 || task.Failover != "off" ||
		task.Role != "critic" || task.DeadlineMS != 1_800_000_000_000 ||
		*task.Terms.MaxPrice != 20_000_000 || *task.Terms.Worth != 10_000_000 || *task.Terms.Delta != 0.25 ||
		*task.Terms.PatienceMS != 700 {
		t.Errorf("our headers: %+v", task)
	}
	task = mustDecode(t, `{"messages":[{"role":"user","content":"hi"}],"souk":{"session":"mine","terms":{"max_price":0.5}}}`, own)
	if task.Session != "mine" || *task.Terms.MaxPrice != market.Credit/2 {
		t.Errorf("the body says otherwise, and it counts: %+v", task)
	}
	for range 20 { // a map has no order, but this has
		both := bus.Header{"X-IEMAS-SESSION": {"paper"}, "X-Souk-Session": {"ours"},
			"X-IEMAS-DIALOGUE-ID": {"paper-too"}}
		if task = mustDecode(t, body, both); task.Session != "ours" {
			t.Fatalf("of two headers %s counts", task.Session)
		}
	}
	for _, bad := range []bus.Header{
		{"X-Souk-Turn": {"x"}}, {"X-IEMAS-Turn-Number": {"0"}}, {"X-Souk-Turn": {"-1"}},
		{"X-Souk-Session": {"a", "b"}},
		{"X-Souk-Session-End": {"1"}}, {"X-Souk-Session-End": {""}},
		{"X-Souk-Back-Ms": {"soon"}}, {"X-Souk-Back-Ms": {"-1"}}, {"X-Souk-Back-Ms": {"86400001"}},
		{"X-Souk-Parent": {"no dots."}}, {"X-Souk-Next": {"a", "b"}},
		{"X-Souk-Session": {"no dots."}}, {"X-Souk-Worht": {"1"}}, {"X-Souk-Failover": {"on"}},
		{"X-Souk-Deadline": {"tomorrow"}}, {"Content-Type": {"application/msgpack"}},
	} {
		if _, err := decode(t, body, bad); err == nil || err.Code != bus.CodeBadRequest {
			t.Errorf("%v: got %v", bad, err)
		}
	}
	if _, err := decode(t, body, bus.Header{"X-Souk-Worth": {"lots"}}); err == nil ||
		!strings.HasPrefix(err.Message, "header X-Souk-Worth: ") {
		t.Errorf("a refused header is not named: %v", err)
	}
	for _, bad := range []bus.Header{{"X-Souk-Worth": {"-1"}}, {"X-Souk-Worth": {"lots"}},
		{"X-Souk-Delta": {"NaN"}}, {"X-Souk-Delta": {"x"}}, {"X-Souk-Patience-Ms": {"1.5"}}} {
		if _, err := decode(t, body, bad); err == nil || err.Code != bus.CodeBadTerms {
			t.Errorf("%v: got %v", bad, err)
		}
	}
}

// Each refusal says what is wrong, under a code that programs decide by.
func TestRefusals(t *testing.T) {
	chat := func(members string) string {
		return `{"messages":[{"role":"user","content":"hi"}]` + members +
			`}`
	}
	for _, test := range []struct {
		name, body string
		code       bus.Code
		says       string
	}{
		{"nothing", ``, bus.CodeBadRequest, "send one like"},
		{"words", `hello`, bus.CodeBadRequest, "send one like"},
		{"no object", `[1]`, bus.CodeBadRequest, "send one like"},
		{"a byte order mark", "\xef\xbb\xbf" + chat(``), bus.CodeBadRequest, "byte order mark"},
		{"a NUL behind", chat(``) + "\x00", bus.CodeBadRequest, "more follows"},
		{"msgpack of no body", "\x80", bus.CodeBadRequest, "not a JSON object"},
		{"single quotes", `{'prompt':'x'}`, bus.CodeBadRequest, "in double quotes"},
		{"a comma too many", `{"prompt":"x",}`, bus.CodeBadRequest, "in double quotes"},
		{"cut off", `{"messages":[`, bus.CodeBadRequest, "JSON at byte 13"},
		{"more behind", chat(``) + `x`, bus.CodeBadRequest, "more follows"},
		{"not UTF-8", "{\"prompt\":\"\xff\"}", bus.CodeBadRequest, "UTF-8"},
		{"no prompt", `{"model":"m"}`, bus.CodeBadRequest, "neither messages"},
		{"two prompts", chat(`,"prompt":"x"`), bus.CodeBadRequest, "both messages and prompt"},
		{"twice", chat(`,"model":"a","model":"b"`), bus.CodeBadRequest, "model stands twice"},
		{"twice, in disguise", chat(`,"model":"a","mod\u0065l":"b"`), bus.CodeBadRequest,
			"model stands twice"},
		{"role twice", `{"messages":[{"role":"user","role":"system","content":"x"}]}`, bus.CodeBadRequest,
			"role of a message stands twice"},
		{"messages of another type", `{"messages":"hi"}`, bus.CodeBadRequest, "messages: an array"},
		{"message of another type", `{"messages":["hi"]}`, bus.CodeBadRequest, "a message is an object"},
		{"no role", `{"messages":[{"content":"hi"}]}`, bus.CodeBadRequest, "messages[0].role"},
		{"content of another type", `{"messages":[{"role":"user","content":7}]}`, bus.CodeBadRequest,
			"messages[0].content"},
		{"model of another type", chat(`,"model":7`), bus.CodeBadRequest, "model: a string"},
		{"stream of another type", chat(`,"stream":"yes"`), bus.CodeBadRequest, "stream: true or false"},
		{"tools of another type", chat(`,"tools":{}`), bus.CodeBadRequest, "tools: an array"},
		{"max_tokens of another type", chat(`,"max_tokens":"7"`), bus.CodeBadRequest, "max_tokens"},
		{"max_tokens not whole", chat(`,"max_tokens":1.5`), bus.CodeBadRequest, "max_tokens"},
		{"max_tokens zero", chat(`,"max_tokens":0`), bus.CodeBadRequest, "from 1"},
		{"max_tokens absurd", chat(`,"max_completion_tokens":99999999999`), bus.CodeBadRequest,
			"max_completion_tokens"},
		{"model absurd", chat(`,"model":"` + strings.Repeat("m", 300) + `"`), bus.CodeBadRequest, "model"},
		{"model does not print", chat(`,"model":"a\u0007"`), bus.CodeBadRequest, "does not print"},
		{"n > 1", chat(`,"n":2`), bus.CodeUnsupportedField, "n: 2 answers"},
		{"n of nothing", chat(`,"n":0`), bus.CodeBadRequest, "n: 0"},
		{"best_of", chat(`,"best_of":3`), bus.CodeUnsupportedField, "best_of"},
		{"beam search", chat(`,"use_beam_search":true`), bus.CodeUnsupportedField, "use_beam_search"},
		{"embeddings and a prompt", `{"input":"hi","prompt":"hi"}`, bus.CodeUnsupportedField, "/v1/embeddings"},
		{"token ids", `{"prompt":[1,2]}`, bus.CodeUnsupportedField, "token ids"},
		{"several prompts", `{"prompt":["a","b"]}`, bus.CodeUnsupportedField, "several prompts"},
		{"too long", `{"prompt":"` + strings.Repeat("x", bus.MaxBody) + `"}`, bus.CodeTooLarge,
			"at most 524288"},
		{"far too long", `{"prompt":"` + strings.Repeat("x", bus.MaxMessage) + `"}`, bus.CodeTooLarge,
			"at most 1048576"},
		{"no messages", `{"messages":[]}`, bus.CodeEmptyPrompt, "empty"},
		{"empty messages", `{"messages":[{"role":"user","content":" \n"},{"role":"user"}]}`,
			bus.CodeEmptyPrompt,
			"empty"},
		{"empty parts", `{"messages":[{"role":"user","content":[]}]}`, bus.CodeEmptyPrompt, "empty"},
		{"empty prompt", `{"prompt":""}`, bus.CodeEmptyPrompt, "empty"},
		{"no prompts", `{"prompt":[]}`, bus.CodeEmptyPrompt, "empty"},
		{"too many messages", `{"messages":[` + strings.Repeat(`{"role":"user","content":"x"},`,
			bus.MaxMessages) + `{"role":"user","content":"x"}]}`, bus.CodeUnsupportedField, "more than 4096"},
		{"nested too deep", chat(`,"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000)),
			bus.CodeBadRequest, "more than 128 deep"},
		{"functions", chat(`,"functions":[{"name":"f"}]`), bus.CodeUnsupportedField, "functions: send tools"},
		{"function_call", chat(`,"function_call":"auto"`), bus.CodeUnsupportedField, "send tool_choice"},
		{"prompt_logprobs", chat(`,"prompt_logprobs":0`), bus.CodeUnsupportedField, "prompt_logprobs"},
		{"prompt_embeds", `{"prompt_embeds":"AAAA"}`, bus.CodeUnsupportedField, "prompt_embeds"},
		{"echo of a completion", `{"prompt":"x","echo":true}`, bus.CodeUnsupportedField, "echo"},
		{"echo of a chat", chat(`,"echo":true`), bus.CodeUnsupportedField, "echo"},
		{"echo of another type", `{"prompt":"x","echo":"yes"}`, bus.CodeBadRequest, "echo: true or false"},
		{"token ids of a whole answer", chat(`,"return_token_ids":true`), bus.CodeUnsupportedField,
			"stream: true"},
		{"usage in every chunk", chat(`,"stream":true,"stream_options":{"continuous_usage_stats":true}`),
			bus.CodeUnsupportedField, "continuous_usage_stats"},
		{"stream_options of another type", chat(`,"stream_options":true`), bus.CodeBadRequest,
			"stream_options: an object"},
		{"an answer that is heard", chat(`,"modalities":["text", "audio"]`), bus.CodeUnsupportedField,
			"modalities: "},
		{"modalities of another type", chat(`,"modalities":"text"`), bus.CodeUnsupportedField,
			"modalities: "},
		{"a voice", chat(`,"audio":{"voice":"alloy","format":"mp3"}`), bus.CodeUnsupportedField, "audio: "},
		{"a search of the web", chat(`,"web_search_options":{}`), bus.CodeUnsupportedField,
			"web_search_options: "},
		{"a member of Anthropic's", chat(`,"system":"Be short"`), bus.CodeUnsupportedField,
			"system: not taken here, but by /v1/messages"},
		{"stops of Anthropic's", chat(`,"stop_sequences":["END"]`), bus.CodeUnsupportedField,
			"stop_sequences: "},
		{"a tool of Anthropic's", chat(`,"tools":[{"type":"function","function":{"name":"f"}},` +
			`{"name":"g","input_schema":{}}]`),
			bus.CodeBadRequest, "tools[1].input_schema: not taken here, but by /v1/messages"},
		{"a judge of what is said", chat(`,"moderation":{"model":"x","policy":{"input":{"mode":"block"}}}`),
			bus.CodeUnsupportedField, "moderation: "},
		{"priority", chat(`,"priority":-1`), bus.CodeUnsupportedField, "souk.terms"},
		{"the engine's own switches", chat(`,"vllm_xargs":{"kv_cache_report_mode":"full"}`),
			bus.CodeUnsupportedField, "vllm_xargs"},
		{"what engines say to one another", chat(`,"kv_transfer_params":{"remote_host":"10.0.0.1"}`),
			bus.CodeUnsupportedField, "kv_transfer_params"},
		{"souk in capitals", chat(`,"Souk":{"terms":{"max_price":0.01}}`), bus.CodeBadRequest,
			"written souk"},
		{"souk of another type", chat(`,"souk":"x"`), bus.CodeBadRequest, "souk: an object"},
		{"unknown member", chat(`,"souk":{"price":1}`), bus.CodeBadRequest, `no member "price"`},
		{"unknown term", chat(`,"souk":{"terms":{"patience":1}}`), bus.CodeBadRequest,
			`no member "patience"`},
		{"a member in capitals", chat(`,"souk":{"Terms":{}}`), bus.CodeBadRequest, `no member "Terms"`},
		{"a member twice", chat(`,"souk":{"terms":{"worth":1},"terms":{"worth":9}}`), bus.CodeBadRequest,
			"terms stands twice"},
		{"a term twice", chat(`,"souk":{"terms":{"max_price":0.01,"max_p\u0072ice":9}}`), bus.CodeBadRequest,
			"max_price stands twice"},
		{"attempt, which the hub counts", chat(`,"souk":{"attempt":3}`), bus.CodeBadRequest,
			`no member "attempt"`},
		{"turn of another type", chat(`,"souk":{"turn":"1"}`), bus.CodeBadRequest,
			"souk.turn: a whole number is expected, not a JSON string"},
		{"session_end of another type", chat(`,"souk":{"session_end":1}`), bus.CodeBadRequest,
			"souk.session_end: true or false is expected, not a JSON number"},
		{"back_ms of another type", chat(`,"souk":{"back_ms":"soon"}`), bus.CodeBadRequest,
			"souk.back_ms: a whole number is expected, not a JSON string"},
		{"back before it left", chat(`,"souk":{"back_ms":-1}`), bus.CodeBadRequest,
			"back_ms: -1 is not within"},
		{"back in ten years", chat(`,"souk":{"back_ms":315360000000}`), bus.CodeBadRequest, "back_ms"},
		{"a parent that is no id", chat(`,"souk":{"parent":"a b"}`), bus.CodeBadRequest, "parent"},
		{"several next", chat(`,"souk":{"next":["a","b"]}`), bus.CodeBadRequest,
			"souk.next: a string is expected, not a JSON array"},
		{"next without end", chat(`,"souk":{"next":"` + strings.Repeat("r", 300) + `"}`), bus.CodeBadRequest,
			"next"},
		{"session of another type", chat(`,"souk":{"session":1}`), bus.CodeBadRequest,
			"souk.session: a string is expected, not a JSON number"},
		{"negative turn", chat(`,"souk":{"turn":-1}`), bus.CodeBadRequest, "turn"},
		{"bad id", chat(`,"souk":{"task":"a.b"}`), bus.CodeBadRequest, "task"},
		{"bad session", chat(`,"souk":{"session":"a b"}`), bus.CodeBadRequest, "session"},
		{"bad role", chat(`,"souk":{"role":"` + strings.Repeat("r", 300) + `"}`), bus.CodeBadRequest, "role"},
		{"other kind", chat(`,"souk":{"kind":"completion"}`), bus.CodeBadRequest, "that of a chat"},
		{"unknown kind", chat(`,"souk":{"kind":"poem"}`), bus.CodeBadRequest, "that of a chat"},
		{"negative worth", chat(`,"souk":{"terms":{"worth":-1}}`), bus.CodeBadTerms, "terms.worth: -1"},
		{"worth nothing", chat(`,"souk":{"terms":{"worth":0}}`), bus.CodeBadTerms, "terms.worth: 0"},
		{"pays nothing", chat(`,"souk":{"terms":{"max_price":0}}`), bus.CodeBadTerms, "terms.max_price: 0"},
		{"delta zero", chat(`,"souk":{"terms":{"delta":0}}`), bus.CodeBadTerms, "terms.delta: 0"},
		{"no patience", chat(`,"souk":{"terms":{"patience_ms":0}}`), bus.CodeBadTerms, "within 1 and"},
		{"patience not whole", chat(`,"souk":{"terms":{"patience_ms":1.5}}`), bus.CodeBadTerms,
			"a whole number is expected"},
		{"worth of true", chat(`,"souk":{"terms":{"worth":true}}`), bus.CodeBadTerms, "want a decimal"},
		{"absurd worth", chat(`,"souk":{"terms":{"worth":1e8}}`), bus.CodeBadTerms, "terms.worth"},
		{"worth finer than money", chat(`,"souk":{"terms":{"worth":1e-10}}`), bus.CodeBadTerms,
			"nano-credit"},
		{"worth of another type", chat(`,"souk":{"terms":{"worth":"lots"}}`), bus.CodeBadTerms, "lots"},
		{"negative max_price", chat(`,"souk":{"terms":{"max_price":-0.1}}`), bus.CodeBadTerms, "max_price"},
		{"delta above 1", chat(`,"souk":{"terms":{"delta":1.5}}`), bus.CodeBadTerms, "delta"},
		{"delta of another type", chat(`,"souk":{"terms":{"delta":"x"}}`), bus.CodeBadTerms, "delta"},
		{"negative patience", chat(`,"souk":{"terms":{"patience_ms":-1}}`), bus.CodeBadTerms, "patience_ms"},
		{"patience of a week", chat(`,"souk":{"terms":{"patience_ms":604800000}}`), bus.CodeBadTerms,
			"patience_ms"},
		{"terms of another type", chat(`,"souk":{"terms":[]}`), bus.CodeBadTerms, "terms"},
	} {
		task, err := decode(t, test.body, nil)
		switch {
		case err == nil:
			t.Errorf("%s: taken as %+v", test.name, task)
		case err.Code != test.code || !strings.Contains(err.Message, test.says):
			t.Errorf("%s: got %v, want %s and %q", test.name, err, test.code, test.says)
		case len(err.Message) > bus.MaxText:
			t.Errorf("%s: a message of %d bytes", test.name, len(err.Message))
		}
	}
	if _, _, err := DecodeRequest([]byte(chat(``)), nil, "a.b", testKey); err == nil ||
		err.Code != bus.CodeBadRequest {
		t.Errorf("a client that is no id: %v", err)
	}
	if _, _, err := DecodeRequest([]byte(chat(``)),
		bus.Header{"Content-Type": {"application/json; charset=utf-8"}},
		"ada", testKey); err != nil {
		t.Error(err)
	}
}

// What an engine takes, in another spelling or with nothing to say, is taken.
func TestTaken(t *testing.T) {
	for _, body := range []string{
		`{"prompt":"x","max_tokens":64.0,"n":1.0}`,
		`{"prompt":"x","echo":false,"prompt_logprobs":null,"priority":0,"kv_transfer_params":null,"return_token_ids":false}`,
		`{"prompt":"x","stream":true,"return_token_ids":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":"x","stream_options":{"include_usage":true,"continuous_usage_stats":false}}`,
		`{"prompt":"x","souk":{"terms":null,"session":null}}`,
		`{"messages":[{"role":"user","content":"x"}],"stop_sequences":[],"tools":[{"type":"function","function":` +
			`{"name":"f","parameters":{"properties":{"input_schema":{"type":"object"}}}}}]}`,
		`{"prompt":"x","modalities":[ "text" ],"audio":null,"web_search_options":null,"moderation":null}`,
	} {
		mustDecode(t, body, nil)
	}
	if task := mustDecode(t, `{"prompt":"x","max_tokens":64.0}`, nil); task.MaxTokens != 64 {
		t.Errorf("max_tokens 64.0 was read as %d", task.MaxTokens)
	}
}

// The names by which souk is judged are those by which it is read.
func TestMembersOfSouk(t *testing.T) {
	for _, c := range []struct {
		of    reflect.Type
		names []string
	}{{reflect.TypeFor[bus.Task](), soukMembers}, {reflect.TypeFor[bus.Terms](), termsMembers}} {
		var names []string
		for f := range c.of.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if want := slices.Sorted(slices.Values(c.names)); !slices.Equal(names, want) {
			t.Errorf("%s is read from %q, judged by %q", c.of, names, want)
		}
	}
}

// What a client says that it does next is taken in JSON, in headers and in msgpack, and a role is told from
// one that the door derives.
func TestHints(t *testing.T) {
	task := mustDecode(t, `{"messages":[{"role":"user","content":"hi"}],
		"souk":{"session":"s","back_ms":86400000,"parent":"p","next":"critic of style","role":"writer"}}`,
		bus.Header{"X-Souk-Back-Ms": {"7"}, "X-Souk-Next": {"nobody"}})
	if task.BackMS != 86_400_000 || task.Parent != "p" || task.Next != "critic of style" || !task.Declared {
		t.Errorf("in JSON: %+v", task)
	}
	task = mustDecode(t, `{"messages":[{"role":"user","content":"hi"}]}`, bus.Header{
		"x-souk-back-ms": {"1500"}, "x-souk-parent": {"p"}, "X-Souk-Next": {"critic"}})
	if task.BackMS != 1500 || task.Parent != "p" || task.Next != "critic" || task.Declared {
		t.Errorf("in headers: %+v", task)
	}
	data, err := bus.Encode(&bus.Task{Body: []byte(`{"messages":[{"role":"user","content":"` +
		strings.Repeat("hi ", 300) + `"}]}`), BackMS: 3, Parent: "p", Next: "n", Declared: true,
		Prompt: bus.Prompt{Bytes: 9, SystemBoundary: 5}})
	if err != nil {
		t.Fatal(err)
	}
	m, _, no := DecodeRequest(data, nil, "me", []byte("key"))
	if no != nil || m.BackMS != 3 || m.Parent != "p" || m.Next != "n" || m.Declared || m.Role == "" ||
		m.Prompt.SystemBoundary != 0 {
		t.Errorf("in msgpack: %+v, %v: what the door says nobody else does", m, no)
	}
}

// The tools and the system messages that a prompt begins with end where one of its prefixes does, the same in
// every session.
func TestSystemBoundary(t *testing.T) {
	const tools = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	at := func(body string) (bytes int, hash uint64) {
		p := mustDecode(t, body, nil).Prompt
		for _, m := range p.Prefixes {
			if m.Bytes == p.SystemBoundary {
				hash = m.Hash
			}
		}
		if p.SystemBoundary > 0 && hash == 0 {
			t.Fatalf("no prefix ends at byte %d of %s", p.SystemBoundary, body)
		}
		return p.SystemBoundary, hash
	}
	system, user := `{"role":"system","content":"`+strings.Repeat("be kind ", 100)+`"}`,
		func(s string) string { return `,{"role":"user","content":"` + s + `"}` }
	one, hash := at(`{"messages":[` + system + user("a") + `]` + tools + `}`)
	for _, body := range []string{
		`{"messages":[` + system + user("b") + `,{"role":"system","content":"later"}]` + tools + `}`,
		`{"messages":[` + system + user("b") + `,{"role":"assistant","content":"c"}` + user("d") + `]` +
			tools + `}`,
	} {
		if bytes, h := at(body); bytes != one || h != hash {
			t.Errorf("the system prompt of %s ends at %d (%x), want %d (%x)", body, bytes, h, one, hash)
		}
	}
	if bytes, h := at(`{"messages":[` + system + user("a") + `]}`); bytes >= one || h == hash {
		t.Errorf("without tools it ends at %d", bytes)
	}
	if bytes, _ := at(`{"messages":[` + user("a")[1:] + `]}`); bytes != 0 {
		t.Errorf("with no system prompt it ends at %d", bytes)
	}
	if bytes, _ := at(`{"prompt":"once"}`); bytes != 0 {
		t.Errorf("a completion has a system boundary at %d", bytes)
	}
}

// Who sends what nobody can read is most likely a person.
func TestAutoMeansAnyModel(t *testing.T) {
	for _, model := range []string{``, `,"model":""`, `,"model":"auto"`, `,"model":null`} {
		if task := mustDecode(t, `{"prompt":"x"`+model+`}`, nil); task.Model != "" {
			t.Errorf("%s: model %q", model, task.Model)
		}
	}
}

func TestSoukIsCutFromTheBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"souk":{},"prompt":"x"}`:               `{"prompt":"x"}`,
		`{"prompt":"x","souk":{}}`:               `{"prompt":"x"}`,
		`{"prompt":"x","souk":null}`:             `{"prompt":"x"}`,
		`{ "prompt":"x" , "souk" : {} }`:         `{ "prompt":"x"  }`,
		`{"a":1,"souk":{"turn":1},"prompt":"x"}`: `{"a":1,"prompt":"x"}`,
	} {
		if got := string(mustDecode(t, body, nil).Body); got != want {
			t.Errorf("%s becomes %s, want %s", body, got, want)
		}
	}
}

// turns builds the chat of a session up to a turn.
func turns(system string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"messages":[{"role":"system","content":%q}`, system)
	for i := range n {
		fmt.Fprintf(&b, `,{"role":"user","content":"question %d %s"}`, i, strings.Repeat("q", 100))
		if i < n-1 {
			fmt.Fprintf(&b, `,{"content":"answer %d", "role":"assistant"}`, i)
		}
	}
	return b.String() + `]}`
}

func TestEveryTurnHasTheSameSessionAndRole(t *testing.T) {
	system := strings.Repeat("You are a careful tutor of mathematics. ", 30)
	first, third := mustDecode(t, turns(system, 1), nil), mustDecode(t, turns(system, 3), nil)
	if first.Session != third.Session || first.Role != third.Role || !bus.ValidID(first.Session) ||
		!bus.ValidID(first.Role) {
		t.Errorf("session %s and %s, role %s and %s", first.Session, third.Session, first.Role, third.Role)
	}
	other := mustDecode(t, turns("Be brief. "+system, 1), nil)
	if other.Session == first.Session || other.Role == first.Role {
		t.Error("another system prompt gives the same session or role")
	}
	keyed, _, err := DecodeRequest([]byte(turns(system, 1)), nil, "ada", []byte("another key"))
	if err != nil {
		t.Fatal(err)
	}
	if keyed.Session == first.Session || keyed.Role == first.Role {
		t.Error("another key gives the same session or role")
	}
	if short := mustDecode(t, turns("Hi.", 1), nil); short.Role != "" {
		t.Errorf("a prompt of %d bytes has the role %s", short.Prompt.Bytes, short.Role)
	}
	// The same role, whatever the user says: it lies in the system prompt.
	if changed := mustDecode(t, strings.Replace(turns(system, 1), "question 0", "something else", 1),
		nil); changed.Role != first.Role || changed.Session == first.Session {
		t.Errorf("another question: role %s and %s, session %s and %s", changed.Role, first.Role,
			changed.Session, first.Session)
	}
}

// Two prompts share their prefixes up to where they part.
func TestPrefixesTellHowFarPromptsAgree(t *testing.T) {
	system := strings.Repeat("All of these words are the same in both. ", 100)
	a, b := mustDecode(t, turns(system, 3), nil),
		mustDecode(t, strings.Replace(turns(system, 3), "question 2", "Question 2", 1), nil)
	common := 0
	for common < min(len(a.Prompt.Prefixes), len(b.Prompt.Prefixes)) &&
		a.Prompt.Prefixes[common] == b.Prompt.Prefixes[common] {
		common++
	}
	if want := len(a.Prompt.Prefixes) - 1; common != want {
		t.Errorf("%d prefixes agree, want all but the last, %d", common, want)
	}
	last := 0
	for _, m := range a.Prompt.Prefixes {
		if m.Bytes <= last || m.Bytes-last > bus.PrefixEvery {
			t.Errorf("a prefix ends at byte %d after one at %d", m.Bytes, last)
		}
		last = m.Bytes
	}
	if last != a.Prompt.Bytes || a.Prompt.Messages != 6 {
		t.Errorf("the last prefix ends at byte %d of %+v", last, a.Prompt)
	}
	longer := mustDecode(t, turns(system, 4), nil)
	for i, m := range a.Prompt.Prefixes[:len(a.Prompt.Prefixes)-1] {
		if longer.Prompt.Prefixes[i] != m {
			t.Fatalf("the next turn has another prefix %d", i)
		}
	}
}

// What an engine cannot tell apart has the same canonical text.
func TestCanonicalTextIgnoresSpelling(t *testing.T) {
	a := mustDecode(t, `{"messages":[{"role":"user","content":"aé/"}],"tools":[{"type":"function"}]}`, nil)
	b := mustDecode(t, `{ "tools" : [ {"type" : "function"} ], "messages" : [ { "content" : "\u0061\u00e9\/", "role" : "user", "name": null } ] }`, nil)
	c := mustDecode(t, `{"messages":[{"role":"user","content":[{"type":"text","text":"aé/"}]}],"tools":[{"type":"function"}]}`, nil)
	if !reflect.DeepEqual(a.Prompt, b.Prompt) || !reflect.DeepEqual(a.Prompt, c.Prompt) {
		t.Errorf("%+v\n%+v\n%+v", a.Prompt, b.Prompt, c.Prompt)
	}
	for _, other := range []string{
		`{"messages":[{"role":"system","content":"aé/"}],"tools":[{"type":"function"}]}`,
		`{"messages":[{"role":"user","content":"aé/"}],"tools":[{"type":"functions"}]}`,
		`{"messages":[{"role":"user","content":"aé/"}]}`,
		`{"messages":[{"role":"user","content":"aé/","name":"x"}],"tools":[{"type":"function"}]}`,
		`{"messages":[{"role":"user","content":"aé"},{"role":"user","content":"/"}],"tools":[{"type":"function"}]}`,
	} {
		if d := mustDecode(t, other,
			nil); d.Prompt.Prefixes[len(d.Prompt.Prefixes)-1].Hash ==
			a.Prompt.Prefixes[len(a.Prompt.Prefixes)-1].Hash {
			t.Errorf("%s has the same hash", other)
		}
	}
	if image := mustDecode(t, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`, nil); image.Prompt.Bytes < 20 {
		t.Errorf("an image counts nothing: %+v", image.Prompt)
	}
}

func TestTokensAreEstimatedWithinReason(t *testing.T) {
	english := mustDecode(t, `{"prompt":"`+strings.Repeat("The quick brown fox jumps over the lazy dog. ",
		100)+`"}`, nil)
	if n := english.Prompt.Tokens; n < 900 || n > 1300 { // Llama's tokenizer says 1001
		t.Errorf("English: %d tokens", n)
	}
	chinese := mustDecode(t, `{"prompt":"`+strings.Repeat("敏捷的棕色狐狸跳过了懒狗。", 100)+`"}`, nil)
	if n := chinese.Prompt.Tokens; n < 900 || n > 2000 {
		t.Errorf("Chinese: %d tokens", n)
	}
}

func TestAnswersForCallersInJSON(t *testing.T) {
	data, err := EncodeAnswer(&bus.Answer{Result: &bus.Result{Client: "ada", Task: "t", Text: "<hi>",
		Cost: 1_500_000, Premium: 500_000,
		Extra: []bus.Extra{{Choice: []byte(`{"x":1}`)}, {Choice: []byte("{broken")}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"task":"t"`, `"text":"<hi>"`, `"paid":0.002`, `"cost":0.0015`, `{"x":1}`,
		`"choice":null`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("%s lacks %s", data, want)
		}
	}
	data, err = EncodeAnswer(&bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: "t", Hub: "math",
		Agent: "a", Reply: "souk.v1.reply.ada.t"}})
	if err != nil || !bytes.HasPrefix(data, []byte(`{"client":"ada"`)) {
		t.Errorf("%s, %v", data, err)
	}
	if _, err := EncodeAnswer(&bus.Answer{}); err == nil {
		t.Error("an answer that says nothing was encoded")
	}
}

// FuzzDecodeRequest checks that whatever is taken is in order, and reads as encoding/json reads it.
func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(turns("You are terse.", 3)))
	f.Add([]byte(`{"prompt":["x"],"souk":{"turn":3,"terms":{"worth":0.1}},"n":1,"stream":false,"max_tokens":9,"model":"m"}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"x"}],"tool_calls":[1]}],"tools":[{}],"\u006e":1}`))
	f.Add([]byte(`{"prompt":"x","souk":null,"echo":false,"stream_options":{"include_usage":true}}` + "\x00"))
	f.Add([]byte(`{"messages":[{"role":"system","content":"x"},{"role":"user","content":"y"}],` +
		`"souk":{"back_ms":900,"parent":"s-0","next":"critic","role":"a","session_end":true}}`))
	share, worth := 0.5, market.Credits(7)
	data, err := bus.Encode(&bus.Task{
		BackMS: 1 << 40, Parent: "p", Next: "n", Declared: true, Prompt: bus.Prompt{Bytes: 3,
			SystemBoundary: 2},
		Client: "ada", ID: "t-1", Kind: bus.KindChat, Body: []byte(turns("You are terse.", 2)), Stream: true,
		Terms: bus.Terms{Worth: &worth, Delta: &share}, Session: "s", Turn: 3, Role: "critic", Source: "web",
		Hub: "math", Failover: "off",
		Resume: &bus.Resume{Agent: "a0", Seq: 4, Tokens: []uint32{5}, Text: "hi"},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		task, _, bad := DecodeRequest(data, nil, "ada", testKey)
		if bad != nil {
			if bad.Code == "" || bad.Message == "" || len(bad.Message) > bus.MaxText {
				t.Fatalf("%q: refused with %+v", data, bad)
			}
			return
		}
		if err := task.Validate(); err != nil {
			t.Fatal(err)
		}
		if at := task.Prompt.SystemBoundary; at > 0 && !slices.ContainsFunc(task.Prompt.Prefixes,
			func(m bus.PrefixHash) bool { return m.Bytes == at }) {
			t.Fatalf("%q: no prefix ends at the system boundary, byte %d", data, at)
		}
		var body struct {
			Model               *string
			Stream              *bool
			MaxTokens           *int              `json:"max_tokens"`
			MaxCompletionTokens *int              `json:"max_completion_tokens"`
			Messages            []json.RawMessage `json:"messages"`
		}
		var names map[string]json.RawMessage
		if err := json.Unmarshal(task.Body, &names); err != nil {
			t.Fatalf("%q: the engine would get what is no JSON: %v", task.Body, err)
		}
		if names["souk"] != nil {
			t.Fatalf("%q: the engine would get the terms", task.Body)
		}
		for name := range names { // encoding/json takes Model for model; engines do not
			if lower := strings.ToLower(name); lower != name {
				return
			}
		}
		if err := json.Unmarshal(task.Body, &body); err != nil {
			return // a name that only encoding/json takes for one of ours, as the long s in "ſtream"
		}
		model := ""
		if body.Model != nil && *body.Model != "auto" {
			model = *body.Model
		}
		limit := 0
		if body.MaxTokens != nil {
			limit = *body.MaxTokens
		}
		if body.MaxCompletionTokens != nil {
			limit = *body.MaxCompletionTokens
		}
		stream := body.Stream != nil && *body.Stream
		if task.Model != model || bus.WantsJSON(data, nil) && task.Stream != stream ||
			task.MaxTokens != limit ||
			task.Kind == bus.KindChat && task.Prompt.Messages != len(body.Messages) {
			t.Fatalf("%q: read as %+v, by encoding/json as %+v", data, task, body)
		}
	})
}

func benchmarkBody() []byte {
	return []byte(turns(strings.Repeat("You are a careful tutor of mathematics who explains. ", 20), 20))
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := benchmarkBody()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := DecodeRequest(body, nil, "ada", testKey); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeRequestByTheBook reads the same by encoding/json, without the hashes.
func BenchmarkDecodeRequestByTheBook(b *testing.B) {
	body := benchmarkBody()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var v struct {
			Model    string `json:"model"`
			Messages []struct{ Role, Content string }
			Souk     bus.Task `json:"souk"`
		}
		if err := json.Unmarshal(body, &v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScan is the reading alone, without text, hashes and copies.
func BenchmarkScan(b *testing.B) {
	data := benchmarkBody()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		r := bodies.Get().(*body)
		if err := r.read(data); err != nil {
			b.Fatal(err)
		}
		r.release()
	}
}
