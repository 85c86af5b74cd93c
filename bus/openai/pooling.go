package openai

import (
	"bytes"
	"fmt"

	"souk/bus"
)

// pooled counts the texts of a pooling task's body.
type pooled struct {
	texts  int  // to be embedded, or scored
	bytes  int  // of all text that an engine reads; of token ids as many as there are
	wide   int  // of these, beyond ASCII
	tokens int  // as estimated
	least  int  // that one of the texts has for sure
	answer int  // entries of the answer
	first  Span // the first text, where it is one
}

// poolingBodies are the bodies of pooling tasks, in words.
var poolingBodies = map[string]string{
	bus.KindEmbedding: `input, a text or a list of texts, as {"input": ["Hello"]}`,
	bus.KindRerank:    `query and documents, as {"query": "What?", "documents": ["This.", "That."]}`,
}

// pairPieces is the number of pieces that a pair of query and document counts as: what a model writes around
// it may be long.
const pairPieces = 4

// judgePooling reads the texts of a pooling task.
func (b *body) judgePooling() error {
	p := &b.pooled
	*p = pooled{}
	switch {
	case b.stream:
		return unsupported("stream: embeddings and scores come whole; leave it out")
	case b.n > 1:
		return unsupported("n: every text has one vector; leave it out")
	}
	var err error
	if b.kind() == bus.KindEmbedding {
		err = b.embeds(b.of["input"])
	} else {
		err = b.scores()
	}
	switch {
	case err != nil:
		return err
	case b.refused != nil: // since the body was read
		return b.refused
	case p.bytes > bus.MaxTokens && b.kind() == bus.KindEmbedding:
		return refusal(bus.CodePromptTooLong, "input: %d bytes of text, at most %d are taken: send fewer texts at once",
			p.bytes, bus.MaxTokens)
	case p.bytes > bus.MaxTokens:
		return refusal(bus.CodePromptTooLong, "query: read with each of %d documents it has %d bytes, at most %d are "+
			"taken: send fewer documents at once", p.texts, p.bytes, bus.MaxTokens)
	}
	return nil
}

// embeds reads the input of an embedding: a text, token ids, or a list of either.
func (b *body) embeds(v Span) error {
	format, p := b.of["encoding_format"], &b.pooled
	switch string(b.Text(format)) {
	case "", `"float"`, `"base64"`:
	default:
		return unsupported("encoding_format: %.40s: float or base64 is taken", b.Text(format))
	}
	if b.has("dimensions") {
		b.intOf("dimensions", b.of["dimensions"], 1, bus.MaxTokens)
	}
	if b.data[v.From] == '"' {
		p.texts, p.answer = 1, 1
		return b.text("input", 0, v, 1)
	}
	if b.data[v.From] != '[' {
		return bad("input: a text or a list of texts is expected")
	}
	err := b.list("input", v, func(item Span) error {
		switch i := p.texts - 1; b.data[item.From] {
		case '"':
			return b.text("input", i, item, 1)
		case '[':
			return b.ids(i, item)
		default: // a list of ids is one text
			p.texts = 0
			return b.ids(-1, v)
		}
	})
	if err == errWhole {
		p.texts, err = 1, nil
	}
	p.answer = p.texts
	return err
}

// errWhole ends the walk over a list that is one text.
var errWhole = bad("a list of token ids")

// ids reads the token ids of a text; i is its number in a list, -1 where it stands alone.
func (b *body) ids(i int, v Span) error {
	again, n := b.within(v), 0
	sound := again.Array(func() bool {
		_, ok := again.Count()
		n++
		return ok
	})
	switch {
	case !sound:
		return bad("input: token ids are whole numbers from 0 on, in a list of nothing else")
	case n == 0:
		return b.empty("input", i)
	}
	b.pooled.bytes += n
	b.pooled.tokens += n
	b.pooled.least = max(b.pooled.least, n)
	if i < 0 {
		return errWhole
	}
	return nil
}

// scores reads query and documents.
func (b *body) scores() error {
	p, query, documents := &b.pooled, b.of["query"], b.of["documents"]
	switch {
	case b.data[query.From] != '"':
		return unsupported("query: a text is expected")
	case documents == Span{} || b.data[documents.From] != '[':
		return bad("documents: a list of texts is expected, as %s", poolingBodies[bus.KindRerank])
	}
	err := b.list("documents", documents, func(item Span) error {
		if b.data[item.From] != '"' {
			return unsupported("documents[%d]: a text is expected", p.texts-1)
		}
		return b.text("documents", p.texts-1, item, 1)
	})
	if err != nil {
		return err
	}
	p.answer, p.first = p.texts, query
	if b.has("top_n") {
		if n := b.intOf("top_n", b.of["top_n"], 0, bus.MaxTokens); n > 0 {
			p.answer = min(n, p.texts)
		}
	}
	return b.text("query", 0, query, p.texts)
}

// list walks over a list of texts, which it counts.
func (b *body) list(which string, v Span, each func(item Span) error) (err error) {
	again := b.within(v)
	again.Array(func() bool {
		item, ok := again.Value()
		if b.pooled.texts++; b.pooled.texts == 1 && b.data[item.From] == '"' {
			b.pooled.first = item
		}
		if b.pooled.texts <= bus.MaxInputs {
			err = each(item)
		}
		return ok && err == nil
	})
	switch n := b.pooled.texts; {
	case err != nil:
		return err
	case n == 0:
		return b.empty(which, -1)
	case n > bus.MaxInputs:
		return bad("%s: %d texts, at most %d are taken in one request (max_inputs): send the others in another",
			which, n, bus.MaxInputs)
	}
	return nil
}

// text counts a text that an engine reads so many times.
func (b *body) text(which string, i int, v Span, times int) error {
	b.head = b.AppendString(b.head[:0], v)
	n, other := len(b.head), wide(b.head)
	if n == 0 {
		if v == b.of[which] {
			i = -1
		}
		return b.empty(which, i)
	}
	if b.pooled.first == (Span{}) {
		b.pooled.first = v
	}
	b.pooled.bytes += times * n
	b.pooled.wide += times * other
	tokens := (n-other+3)/4 + other*2/5 + 2
	b.pooled.tokens += times * tokens
	b.pooled.least = max(b.pooled.least, tokens/sureOf)
	return nil
}

func (b *body) empty(which string, i int) error {
	if i < 0 {
		return refusal(bus.CodeEmptyPrompt, "%s: it is empty: give it some text", which)
	}
	return refusal(bus.CodeEmptyPrompt, "%s[%d]: it is empty: give it some text, or leave it out", which, i)
}

// completePooling says what the market needs to know of a pooling task. Nothing of it is looked for in a
// cache, and it is no turn of a session. The answer counts as one token, which costs nothing.
func (b *body) completePooling(t *bus.Task) error {
	p := &b.pooled
	pieces := p.texts
	if t.Kind == bus.KindRerank {
		pieces *= pairPieces
	}
	t.MaxTokens, t.Salt, t.Declared = 1, b.salt, t.Role != ""
	t.Prompt = bus.Prompt{Bytes: min(p.bytes, bus.MaxCanonical), Messages: 1,
		Tokens: min(p.tokens, bus.MaxTokens), AtLeast: min(p.least, bus.MaxTokens), Text: p.bytes,
		Wide: p.wide, Pieces: pieces}
	if p.first != (Span{}) {
		b.buf = b.AppendString(b.buf[:0], p.first)
		b.user = b.buf
	}
	return t.Validate()
}

// PoolingAnswer returns the number of entries that the answer to a pooling task has, and of its texts.
func PoolingAnswer(data []byte) (entries, texts int, err error) {
	b := bodies.Get().(*body)
	defer b.release()
	if err := b.read(data); err != nil {
		return 0, 0, err
	}
	if err := b.judge(); err != nil {
		return 0, 0, err
	}
	return b.pooled.answer, b.pooled.texts, nil
}

// ReadPooled reads an engine's answer to a pooling task, and returns the prompt tokens that it counts; 0: it
// counts none. The error says why the answer is of no use to whoever asked for so many entries of so many
// texts: clients find a text by its entry's index, or take entries in order.
func ReadPooled(kind string, answer []byte, entries, texts int) (tokens int, err error) {
	list, entry := "data", "embedding"
	if kind == bus.KindRerank {
		list, entry = "results", "relevance_score"
	}
	s, n, told := Scan(answer), 0, make([]bool, texts)
	item := func() (sound bool) {
		n++
		numbered := kind == bus.KindEmbedding // some do not
		ok := s.Object(func(key Span) bool {
			v, ok := s.Value()
			switch string(s.Name(key)) {
			case entry:
				sound = ok && isPooled(kind, s.Text(v))
			case "index":
				again := s.within(v)
				switch i, whole := again.Count(); {
				case !whole || i >= texts:
					return s.fail("an entry of no text that was sent")
				case told[i]:
					return s.fail(fmt.Sprintf("index %d stands twice", i))
				default:
					told[i], numbered = true, true
				}
			}
			return ok
		})
		return ok && (sound || s.fail("an entry without "+entry)) &&
			(numbered || s.fail("an entry without index"))
	}
	ok := s.Object(func(key Span) bool {
		switch name := string(s.Name(key)); {
		case name == list && n > 0:
			return s.fail(list + " stands twice")
		case name == list:
			return s.Array(item)
		case name == "usage" && s.Next() == '{':
			return s.Object(func(key Span) bool {
				v, ok := s.Value()
				if string(s.Name(key)) == "prompt_tokens" {
					again := s.within(v)
					tokens, _ = again.Count()
				}
				return ok
			})
		}
		_, ok := s.Value()
		return ok
	})
	switch {
	case !ok || !s.End():
		return 0, s.Err()
	case n != entries:
		return 0, fmt.Errorf("%d entries of %s, where %d were asked for", n, list, entries)
	}
	return tokens, nil
}

// isPooled reports whether a value, which is JSON, is a vector of numbers, or of base64, or a score.
func isPooled(kind string, v []byte) bool {
	const number = "0123456789+-.eE"
	only := func(v []byte, of string) bool { return len(v) > 0 && len(bytes.TrimLeft(v, of)) == 0 }
	switch {
	case kind == bus.KindRerank:
		return only(v, number)
	case v[0] == '[':
		return only(bytes.TrimSpace(v[1:len(v)-1]), number+", \t\r\n")
	case v[0] != '"':
		return false
	}
	text := bytes.ReplaceAll(v[1:len(v)-1], []byte(`\/`), []byte("/"))
	bare := bytes.TrimRight(text, "=")
	return len(text)%4 == 0 && len(text)-len(bare) <= 2 && only(bare, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"+
		"abcdefghijklmnopqrstuvwxyz0123456789+/")
}

// pool takes in a piece of a pooling task's answer. Another agent that takes over begins anew.
func (w *Whole) pool(c *bus.Chunk) error {
	if c.Attempt != w.attempt {
		w.attempt, w.text = c.Attempt, w.text[:0]
	}
	if w.text = append(w.text, c.Text...); len(w.text) > bus.MaxPooled {
		return refusal(bus.CodeTooLarge, "the answer has more than %d bytes: send fewer texts at once", bus.MaxPooled)
	}
	return nil
}

// Sound judges an answer that has come whole, by the number of entries that were asked for. Of answers that
// are generated each event was judged.
func (w *Whole) Sound(body []byte) error {
	if !bus.Pooling(w.kind) {
		return nil
	}
	entries, texts, err := PoolingAnswer(body)
	if err == nil {
		_, err = ReadPooled(w.kind, w.text, entries, texts)
	}
	if err != nil {
		return forged("%v", err)
	}
	return nil
}

// pooledObject is a pooling task's answer, byte for byte, and behind it what was paid.
func pooledObject(answer []byte, r *bus.Result) []byte {
	end := bytes.LastIndexByte(answer, '}')
	return Out(answer[:end]).Raw(`,"souk":`).deal(r).Raw("}")
}
