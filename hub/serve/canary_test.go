package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"souk/hub"
)

// Questions are read as a door reads tasks, and what is wrong with a file is said with its line.
func TestReadCanaries(t *testing.T) {
	c := hub.Default()
	c.Domain = "math"
	read := func(text string) ([]hub.Canary, error) {
		path := filepath.Join(t.TempDir(), "questions.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadCanaries(c, path)
	}
	all, err := read(`{"question": "How many legs have two spiders?", "answer": "16", "system": "Be brief."}

{"domain": "law", "question": "Who wrote the Code?", "answer": "Napoleon"}
`)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d questions: %v", len(all), err)
	}
	for i, x := range all {
		m := &x.Task
		if m.Client != "probe-math" || m.Prompt.Tokens == 0 || len(m.Prompt.Marks) == 0 ||
			m.MaxTokens != 64 || m.Domain != []string{"math", "law"}[i] ||
			x.Answer != []string{"16", "Napoleon"}[i] || !strings.Contains(string(m.Body), `"content"`) {
			t.Errorf("question %d: %+v", i, x)
		}
	}
	for text, want := range map[string]string{
		"":                                   "no question is in it",
		"{}\n":                               "line 1: question: it is empty",
		"\n\n{]\n":                           "line 3: want {\"question\"",
		`{"question": "x", "answer": "..."}`: "line 1: answer: 0 words",
		`{"question": "x", "answer": "y", "more": 1}`:               `unknown field "more"`,
		`{"question": "x", "answer": "y", "domain": "a.b"}`:         "domain:",
		`{"question": "` + strings.Repeat("x", mostQuestion) + `"}`: "line 1 is longer than",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadCanaries(c, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is read")
	}
}
