package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"souk/bus"
)

// deepest bounds the nesting of a body: JSON schemas of tools nest a dozen deep.
const deepest = 128

// body is an OpenAI chat or completion body: where its members stand, read in one pass, and then the
// canonical text of its prompt.
type body struct {
	Scanner
	of map[string]Span // what stands there, by member; none where it is null

	model     string
	stream    bool
	tokenIDs  bool // return_token_ids
	maxTokens int
	loose     int    // LooseNone, LooseCounted, LooseMedia
	salt      string // of cache_salt, hashed

	cut     Span // the member souk with the comma that goes with it
	chat    []turn
	rest    []Span // members of messages beside role and content, by turn
	refused error  // well-formed, but not for us: told once the whole body is known to be well-formed

	pooled pooled // of a pooling task

	// Of a request for several answers, which only [Ask] takes.
	several   bool
	usage     bool // stream_options.include_usage
	n         int
	prompts   []Span // where they are an array
	promptAll Span   // that array

	buf          []byte // canonical text
	head         []byte // scratch
	prefixes     []bus.PrefixHash
	digests      []byte // bus.DigestBytes of each prefix's text
	system, user []byte // parts of buf
	blank        bool
	ends         []int // where the messages end in buf
	media        int   // parts that are no text
	boundary     int   // where the tools and the system messages before all else end
}

// refused are members that are taken at no value but one, and why.
var refused = map[string]struct{ but, why string }{
	// engines give them with whole answers alone, and are always asked for streams
	"prompt_logprobs":    {"", "not served here; leave it out"},
	"prompt_embeds":      {"", "not taken; send text"},
	"priority":           {"0", "who goes first is settled by souk.terms; leave it out"},
	"kv_transfer_params": {"", "engines say this to one another, clients may not; leave it out"},
	"ec_transfer_params": {"", "engines say this to one another, clients may not; leave it out"},
	// transfers between engines again, and hits that are published as if they were stored once more
	"vllm_xargs": {"", "switches inside the engine, which its owner sets; leave it out"},
	// engines that know them no more ignore them, and answer as if there were none
	"functions":     {"[]", "send tools"},
	"function_call": {"", "send tool_choice"},
	// OpenAI's own: engines do not know them, and would answer as if there were none
	"audio":              {"", "answers are text; leave it out"},
	"web_search_options": {"", "nobody searches for a model here; send tools, and run them"},
	"moderation":         {"", "nobody judges here what is said; leave it out"},
	"chat_template":      {"", "the model's own is used, as it was measured; leave it out"},
	// Anthropic's, which engines do not know either
	"system":         {"", "not taken here, but by /v1/messages; send a message of role system"},
	"stop_sequences": {"[]", "not taken here, but by /v1/messages; send stop"},
}

// members lists what is read of a body; each may stand only once, since engines take the last of two.
var members = func() map[string]string {
	all := map[string]string{}
	for _, name := range slices.AppendSeq([]string{"model", "messages", "prompt", "stream", "max_tokens",
		"max_completion_tokens", "n", "best_of", "use_beam_search", "tools", "souk", "stream_options",
		"return_token_ids", "echo", "chat_template_kwargs", "tool_choice", "response_format",
		"reasoning_effort",
		"cache_salt", "truncate_prompt_tokens", "add_special_tokens", "seed", "prompt_cache_key",
		"modalities", "user", "metadata", "input", "query", "documents", "top_n",
		"encoding_format", "dimensions",
	}, maps.Keys(refused)) {
		all[name] = name
	}
	return all
}()

// has reports whether a member stands in the body and is not null.
func (b *body) has(which string) bool { return b.of[which] != (Span{}) }

// read scans the whole body once.
func (b *body) read(data []byte) error {
	if err := isText(data); err != nil {
		return err
	}
	b.Scanner = Scanner{Deepest: deepest, Paired: true, data: data}
	if b.of == nil {
		b.of = map[string]Span{}
	}
	if b.Next() != '{' {
		return bad("the body is not a JSON object: send one like " +
			`{"messages": [{"role": "user", "content": "Hello"}]}`)
	}
	if !b.Object(b.member) || !b.End() {
		return asError(b.Err())
	}
	return b.refused
}

// isText judges the bytes of a body.
func isText(data []byte) error {
	if !utf8.Valid(data) { // engines refuse it, and encoding/json would change it
		return bad("the body is not UTF-8")
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return bad("the body begins with a byte order mark: leave it out")
	}
	return nil
}

// member reads one member of the body; the scanner stands on its value.
func (b *body) member(key Span) bool {
	which, known := members[string(b.Name(key))]
	if !known {
		if name := b.Text(key); bytes.EqualFold(name, []byte(`"souk"`)) {
			b.refuse(bad("%s: the member is written souk", name))
		}
		_, ok := b.Value()
		return ok
	}
	if _, twice := b.of[which]; twice {
		return b.fail("member " + which + " stands twice")
	}
	b.of[which] = Span{}
	first := b.Next() // 0 where the body ends too soon
	from := b.at
	if which == "messages" && first == '[' {
		if !b.Array(b.message) {
			return false
		}
		b.of[which] = Span{from, b.at}
		return true
	}
	v, ok := b.Value()
	if !ok {
		return false
	}
	if string(b.Text(v)) == "null" { // as if it were not there
		if which == "souk" {
			b.cut = Span{key.From, v.To}
		}
		return true
	}
	b.of[which] = v
	switch which {
	case "model":
		b.model = b.stringOf(which, v)
	case "messages":
		b.refuse(bad(`messages: an array is expected, as [{"role": "user", "content": "Hello"}]`))
	case "prompt":
		b.of[which] = b.onePrompt(v)
	case "stream":
		b.stream = b.boolOf(which, v)
	case "max_tokens":
		if n := b.intOf(which, v, 1, bus.MaxTokens); b.maxTokens == 0 { // the other goes before it
			b.maxTokens = n
		}
	case "max_completion_tokens":
		b.maxTokens = b.intOf(which, v, 1, bus.MaxTokens)
	case "n", "best_of":
		if which == "n" && b.several {
			b.n = b.intOf(which, v, 1, MaxAnswers)
		} else if n := b.intOf(which, v, 1, 1<<20); n > 1 {
			b.refuse(unsupported("%s: %d answers to one task; send as many tasks", which, n))
		}
	case "use_beam_search":
		if b.boolOf(which, v) {
			b.refuse(unsupported("use_beam_search: not served here; leave it out"))
		}
	case "tools":
		if b.data[v.From] != '[' {
			b.refuse(bad("tools: an array is expected"))
		} else if bytes.Contains(b.Text(v), []byte(`"input_schema"`)) {
			b.judgeTools(v)
		}
	case "souk":
		if b.data[v.From] != '{' {
			b.refuse(bad("souk: an object is expected"))
		}
		b.cut = Span{key.From, v.To}
	case "stream_options":
		b.streamOptions(v)
	case "return_token_ids":
		b.tokenIDs = b.boolOf(which, v)
	// vLLM gives a completion either its echo or token ids, which are always asked for; a chat's would be
	// taken for an answer
	case "echo":
		if b.boolOf(which, v) {
			b.refuse(unsupported("echo: an answer comes without its prompt; leave it out"))
		}
	case "chat_template_kwargs":
		b.judgeKwargs(v)
	case "cache_salt":
		b.salt = b.saltOf(v)
	case "modalities":
		if !b.textAlone(v) {
			b.refuse(unsupported(`modalities: answers are text; leave it out, or send ["text"]`))
		}
	default:
		if no, ok := refused[which]; ok && string(b.Text(v)) != no.but {
			b.refuse(unsupported("%s: %s", which, no.why))
		}
	}
	return true
}

// judgeTools refuses tools of Anthropic's form.
func (b *body) judgeTools(v Span) {
	again, i := b.within(v), 0
	again.Array(func() bool {
		tool, ok := again.Value()
		if of := b.within(tool); ok && b.data[tool.From] == '{' {
			of.Object(func(key Span) bool {
				if string(of.Name(key)) == "input_schema" {
					b.refuse(bad("tools[%d].input_schema: not taken here, but by /v1/messages; send "+
						`{"type": "function", "function": {"name", "description", "parameters"}}`, i))
				}
				_, ok := of.Value()
				return ok
			})
		}
		i++
		return ok
	})
}

// mostSalt bounds the characters of a cache_salt that engines take.
const mostSalt = 128

// saltOf judges a cache_salt as engines do, of whom none will see it, and returns its hash.
func (b *body) saltOf(v Span) string {
	if b.data[v.From] != '"' {
		b.refuse(bad("cache_salt: a string is expected"))
		return ""
	}
	salt := b.AppendString(nil, v)
	switch n := utf8.RuneCount(salt); {
	case n == 0:
		b.refuse(bad("cache_salt: it is empty: give it some text, or leave it out"))
	case n > mostSalt:
		b.refuse(bad("cache_salt: %d characters, at most %d are taken", n, mostSalt))
	case bytes.ContainsAny(salt, "@/\\\x00"):
		b.refuse(bad(`cache_salt: %.80q has an '@', '/', '\' or NUL in it, which engines do not take: choose one `+
			`without`, salt))
	}
	sum := sha256.Sum256(salt)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// errObfuscation: OpenAI pads the events of a stream, so that their sizes tell less of what is said.
var errObfuscation = unsupported("stream_options.include_obfuscation: events are not padded here: leave it out, " +
	"and trust the way to the reader, or ask without stream")

// streamOptions looks for what cannot be had. Usage comes with the last chunk, whether it is asked for or
// not.
func (b *body) streamOptions(v Span) {
	if b.data[v.From] != '{' {
		b.refuse(bad("stream_options: an object is expected"))
		return
	}
	again := b.within(v)
	var seen [3]bool
	again.Object(func(key Span) bool {
		value, _ := again.Value()
		name := string(again.Name(key))
		i := slices.Index([]string{"include_usage", "continuous_usage_stats", "include_obfuscation"}, name)
		if i < 0 {
			return true
		}
		var on bool
		switch said := string(b.Text(value)); {
		case seen[i]:
			b.refuse(bad("stream_options.%s: the member stands twice", name))
		case said == "true":
			on = true
		case said != "false" && said != "null":
			b.refuse(bad("stream_options.%s: true or false is expected", name))
		}
		seen[i] = true
		switch {
		case !on:
		case i == 0:
			b.usage = true
		case i == 1:
			b.refuse(unsupported("stream_options.continuous_usage_stats: usage comes with the last chunk " +
				"alone; every chunk counts its own tokens"))
		default:
			b.refuse(errObfuscation)
		}
		return b.refused == nil
	})
}

// textAlone reports whether v is an array in which nothing but "text" stands.
func (b *body) textAlone(v Span) bool {
	again, only := b.within(v), b.data[v.From] == '['
	return only && again.Array(func() bool {
		item, ok := again.Value()
		only = ok && string(b.Text(item)) == `"text"`
		return only
	})
}

// refuse keeps the first reason.
func (b *body) refuse(err error) {
	if b.refused == nil {
		b.refused = err
	}
}

func (b *body) stringOf(which string, v Span) string {
	if b.data[v.From] != '"' {
		b.refuse(bad("%s: a string is expected", which))
		return ""
	}
	if v.To-v.From > 6*bus.MaxName {
		b.refuse(bad("%s: longer than %d bytes", which, bus.MaxName))
		return ""
	}
	return string(b.AppendString(nil, v))
}

func (b *body) boolOf(which string, v Span) bool {
	switch string(b.Text(v)) {
	case "true":
		return true
	case "false":
	default:
		b.refuse(bad("%s: true or false is expected", which))
	}
	return false
}

func (b *body) intOf(which string, v Span, least, most int) int {
	n, err := strconv.Atoi(string(b.Text(v)))
	if f, e := strconv.ParseFloat(string(b.Text(v)), 64); err != nil && e == nil && f == math.Trunc(f) &&
		math.Abs(f) <= 1<<53 {
		n, err = int(f), nil // 64.0, as engines take it
	}
	if err != nil || n < least || n > most {
		b.refuse(bad("%s: %.40s is not a whole number from %d to %d", which, b.Text(v), least, most))
		return 0
	}
	return n
}

// onePrompt returns the string that a completion's prompt is, alone or as the only item of an array.
func (b *body) onePrompt(v Span) Span {
	switch b.data[v.From] {
	case '"':
		return v
	case '[':
		var items []Span
		again := b.within(v)
		again.Array(func() bool {
			item, _ := again.Value()
			if len(items) <= MaxAnswers {
				items = append(items, item)
			}
			return true
		})
		text := func(v Span) bool { return b.data[v.From] == '"' }
		switch {
		case b.several && 0 < len(items) && len(items) <= MaxAnswers && allOf(items, text):
			b.prompts, b.promptAll, v = items, v, items[0]
		case len(items) == 1 && b.data[items[0].From] == '"':
			return items[0]
		case len(items) > 0 && (b.data[items[0].From] != '"' || b.several && !allOf(items, text)):
			b.refuse(unsupported("prompt: token ids are not taken; send text"))
		case b.several && len(items) > MaxAnswers:
			b.refuse(unsupported("prompt: more than %d prompts; send the others in another request",
				MaxAnswers))
		case len(items) > 1:
			b.refuse(unsupported("prompt: several prompts in one task; send as many tasks"))
		default:
			b.refuse(refusal(bus.CodeEmptyPrompt, "prompt: the array is empty: give it some text"))
		}
		return v
	}
	if b.several {
		b.refuse(bad("prompt: a string or an array of strings is expected"))
	}
	b.refuse(bad("prompt: a string is expected"))
	return v
}

// judge says whether the members go together.
func (b *body) judge() error {
	chat, completion := b.has("messages"), b.has("prompt")
	switch {
	case chat && completion:
		return bad("the body has both messages and prompt: send one")
	case bus.Pooling(b.kind()):
		return b.judgePooling()
	case !chat && !completion:
		return bad("the body has neither messages (a chat), prompt (a completion), input (embeddings) nor query and " +
			"documents (to be reranked)")
	case b.has("input"):
		return unsupported("input: it goes to /v1/responses, or to /v1/embeddings, without messages or prompt")
	case b.has("documents") && string(b.Text(b.of["documents"])) != "[]":
		return unsupported("documents: a template may make anything of them; put their text into a message")
	}
	return nil
}

// kind returns the kind of task that the body's members make it.
func (b *body) kind() string {
	switch {
	case b.has("messages"):
		return bus.KindChat
	case b.has("prompt"):
		return bus.KindCompletion
	case b.has("input"):
		return bus.KindEmbedding
	case b.has("query"):
		return bus.KindRerank
	}
	return bus.KindCompletion
}
