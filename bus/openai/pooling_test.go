package openai

import (
	"fmt"
	"strings"
	"testing"

	"souk/bus"
)

// What the market knows of a pooling task: its texts are counted, bounded by their bytes, and not looked for
// in any cache.
func TestWhatAPoolingTaskIs(t *testing.T) {
	for _, x := range []struct {
		body                 string
		kind                 string
		text, pieces, tokens int
		answer               int
	}{
		{`{"input":"Hello"}`, bus.KindEmbedding, 5, 1, 4, 1},
		{`{"input":["Hello","World, h\u00e9"]}`, bus.KindEmbedding, 15, 2, 8, 2},
		{`{"input":[5,6,7]}`, bus.KindEmbedding, 3, 1, 3, 1},
		{`{"input":[[5,6,7],[8]],"encoding_format":"base64","dimensions":8}`, bus.KindEmbedding, 4, 2, 4, 2},
		{`{"query":"who","documents":["ann","bob, and more"]}`, bus.KindRerank, 22, 8, 15, 2},
		{`{"query":"who","documents":["ann","bob"],"top_n":1,"model":"m"}`, bus.KindRerank, 12, 8, 12, 1},
	} {
		task, opening, no := DecodeRequest([]byte(x.body), nil, "ann", testKey)
		if no != nil {
			t.Errorf("%s: %v", x.body, no)
			continue
		}
		p := &task.Prompt
		if task.Kind != x.kind || p.Text != x.text || p.Pieces != x.pieces || p.Tokens != x.tokens ||
			len(p.Prefixes) > 0 || task.Session != "" || task.MaxTokens != 1 || p.Loose != bus.LooseNone {
			t.Errorf("%s: %+v", x.body, task)
		}
		if ids := strings.Contains(x.body, "[5"); (opening.User == "") != ids {
			t.Errorf("%s: its domain is told by %q", x.body, opening.User)
		}
		if n, _, err := PoolingAnswer([]byte(x.body)); n != x.answer || err != nil {
			t.Errorf("%s: an answer of %d, %v", x.body, n, err)
		}
	}
}

// One text of many ids is no list of many texts.
func TestManyIDsAreOneText(t *testing.T) {
	ids := strings.TrimSuffix(strings.Repeat("7,", 5000), ",")
	if n, _, err := PoolingAnswer([]byte(`{"input":[` + ids + `]}`)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	// with so many documents a query of so many bytes is more than any prompt
	body := fmt.Sprintf(`{"query":"%s","documents":[%s"d"]}`, strings.Repeat("q", 1<<15), strings.Repeat(`"d",`, 1000))
	_, _, no := DecodeRequest([]byte(body), nil, "ann", testKey)
	if no == nil || no.Code != bus.CodePromptTooLong {
		t.Errorf("%v", no)
	}
}

// What has too much text is named as its client named it.
func TestPoolingTasksOfTooMuchText(t *testing.T) {
	long := strings.Repeat("x", bus.MaxTokens)
	for body, want := range map[string]string{`{"input":"x` + long + `"}`: "input: 16777217 bytes of text",
		`{"query":"` + long[:1<<20] + `","documents":["` + strings.Repeat(`a","`, 20) + `a"]}`: "query: read",
	} {
		if _, _, err := PoolingAnswer([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: %v, want %s", body, err, want)
		}
	}
}

// Answers to pooling tasks are read before anybody pays for them.
func TestPooledAnswers(t *testing.T) {
	const good = `{"data":[{"index":0,"embedding":[0.5,1e-3]},{"embedding":"AAAA","index":1}],` +
		`"usage":{"total_tokens":9,"prompt_tokens":7}}`
	for _, x := range []struct {
		kind, answer string
		entries      int // of two texts
		tokens       int
		want         string // of the error; "": there is none
	}{
		{bus.KindEmbedding, good, 2, 7, ""},
		{bus.KindEmbedding, good, 3, 0, "2 entries of data, where 3"},
		{bus.KindEmbedding, good + "x", 2, 0, "more follows"},
		{bus.KindEmbedding, strings.Replace(good, "0.5", "NaN", 1), 2, 0, "value"},
		{bus.KindEmbedding, strings.Replace(good, `"AAAA"`, "null", 1), 2, 0, "without embedding"},
		{bus.KindEmbedding, `{"data":[{"embedding":[1]}]}`, 1, 0, ""},
		{bus.KindEmbedding, `{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":-4}}`, 1, 0, ""},
		{bus.KindEmbedding, `[]`, 0, 0, "object"},
		{bus.KindRerank, `{"results":[{"index":1,"relevance_score":-0.5}],"usage":{"prompt_tokens":3}}`, 1, 3, ""},
		{bus.KindRerank, `{"results":[{"index":1}]}`, 1, 0, "without relevance_score"},
		{bus.KindRerank, good, 2, 0, "0 entries of results"},
		{bus.KindEmbedding, strings.Replace(good, `"index":1`, `"index":0`, 1), 2, 0, "index 0 stands twice"},
		{bus.KindEmbedding, strings.Replace(good, `"index":1`, `"index":2`, 1), 2, 0, "of no text"},
		{bus.KindEmbedding, strings.Replace(good, `"index":1`, `"index":-1`, 1), 2, 0, "of no text"},
		{bus.KindEmbedding, strings.Replace(good, `[0.5,1e-3]`, `[]`, 1), 2, 0, "without embedding"},
		{bus.KindEmbedding, strings.Replace(good, `[0.5,1e-3]`, `[null]`, 1), 2, 0, "without embedding"},
		{bus.KindEmbedding, strings.Replace(good, `[0.5,1e-3]`, `[[1]]`, 1), 2, 0, "without embedding"},
		{bus.KindEmbedding, strings.Replace(good, `[0.5,1e-3]`, `[ -1, 2 ]`, 1), 2, 7, ""},
		{bus.KindEmbedding, strings.Replace(good, `[0.5,1e-3]`, `1`, 1), 2, 0, "without embedding"},
		{bus.KindEmbedding, strings.Replace(good, `AAAA`, `AA!A`, 1), 2, 0, "without embedding"},
		{bus.KindEmbedding, strings.Replace(good, `AAAA`, `AAA`, 1), 2, 0, "without embedding"},
		{bus.KindEmbedding, strings.Replace(good, `AAAA`, `A===`, 1), 2, 0, "without embedding"},
		{bus.KindEmbedding, strings.Replace(good, `AAAA`, `A+\/zAA==`, 1), 2, 7, ""},
		{bus.KindRerank, `{"results":[{"index":1,"relevance_score":[1]}]}`, 1, 0, "without relevance_score"},
		{bus.KindEmbedding, `{"data":[{"embedding":[1]}],"data":[{"embedding":[1]}]}`, 2, 0, "data stands twice"},
		{bus.KindRerank, `{"results":[{"index":2,"relevance_score":1}]}`, 1, 0, "of no text"},
		{bus.KindRerank, `{"results":[{"index":1,"relevance_score":1},{"index":1,"relevance_score":1}]}`, 2, 0, "twice"},
		{bus.KindRerank, `{"results":[{"relevance_score":1}]}`, 1, 0, "without index"},
	} {
		tokens, err := ReadPooled(x.kind, []byte(x.answer), x.entries, 2)
		if tokens != x.tokens || (err == nil) != (x.want == "") ||
			err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %d, %v, want %d, %q", x.answer, tokens, err, x.tokens, x.want)
		}
	}
}

// Another agent that takes over begins a pooling task anew, and what the first said is forgotten.
func TestAPooledAnswerBegunAnew(t *testing.T) {
	body := []byte(`{"input":"x"}`)
	w := NewWhole(bus.KindEmbedding)
	for _, c := range []bus.Chunk{{Text: `{"data":[{"embed`}, {Attempt: 1, Text: `{"data":[{"embedding"`},
		{Attempt: 1, Text: `:[1]}]}`}} {
		if err := w.Chunk(&c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sound(body); err != nil {
		t.Error(err)
	}
	r := &bus.Result{Task: "t", Hub: "h", Agent: "a"}
	got := string(Object(Shape{Kind: bus.KindEmbedding}, []*Whole{w}, []*bus.Result{r}))
	if !strings.HasPrefix(got, `{"data":[{"embedding":[1]}],"souk":{"task":"t"`) {
		t.Errorf("%s", got)
	}
	w.Chunk(&bus.Chunk{Attempt: 2, Text: `{"data":[`})
	if err := w.Sound(body); bus.CodeOf(err) != bus.CodeAgentFailed {
		t.Errorf("half of an answer: %v", err)
	}
}

func FuzzReadPooled(f *testing.F) {
	f.Add(`{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":4}}`, false)
	f.Add(`{"results":[{"relevance_score":1}]}`, true)
	f.Fuzz(func(t *testing.T, answer string, rerank bool) {
		kind := bus.KindEmbedding
		if rerank {
			kind = bus.KindRerank
		}
		tokens, err := ReadPooled(kind, []byte(answer), 1, 1)
		if err == nil && (tokens < 0 || !strings.Contains(answer, "}")) {
			t.Errorf("%q: %d", answer, tokens)
		}
	})
}
