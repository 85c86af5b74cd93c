package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"souk/bus"
	"souk/bus/likeness"
	"souk/bus/openai"
	"souk/bus/regular"
	"souk/hub"
)

// Bounds of a file of questions.
const (
	mostQuestions = 10_000
	mostQuestion  = 64 << 10 // bytes of a line
	mostAnswer    = likeness.SketchWords / 2
)

// question is a line of such a file.
type question struct {
	Domain   string `json:"domain"` // the label that the classifier would give it; empty: the hub's domain
	System   string `json:"system"`
	Question string `json:"question"`
	Answer   string `json:"answer"` // of a few words, all of which any good answer has
}

// ReadCanaries reads questions that the operator knows the answers of, one a line.
func ReadCanaries(c hub.Config, path string) ([]hub.Canary, error) {
	f, err := regular.Open(path, mostQuestions*mostQuestion)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []hub.Canary
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, mostQuestion)
	n := 0
	for lines.Scan() {
		n++
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		x, err := canary(c, lines.Bytes())
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		case len(all) == mostQuestions:
			return nil, fmt.Errorf("%s: line %d: more than %d questions", path, n, mostQuestions)
		}
		all = append(all, x)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s: line %d is longer than %d bytes", path, n+1, mostQuestion)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(all) == 0:
		return nil, fmt.Errorf("%s: no question is in it", path)
	}
	return all, nil
}

func canary(c hub.Config, line []byte) (x hub.Canary, err error) {
	d := json.NewDecoder(strings.NewReader(string(line)))
	d.DisallowUnknownFields()
	var q question
	if err := d.Decode(&q); err != nil {
		return x, fmt.Errorf(`want {"question": "...", "answer": "..."}: %w`, err)
	}
	words := len(likeness.Words(q.Answer))
	switch {
	case strings.TrimSpace(q.Question) == "":
		return x, errors.New("question: it is empty")
	case words == 0 || words > mostAnswer:
		return x, fmt.Errorf("answer: %d words, want 1 to %d that any good answer has", words, mostAnswer)
	case q.Domain != "" && !bus.ValidID(q.Domain):
		return x, fmt.Errorf("domain: %.40q is no name", q.Domain)
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	if q.System != "" {
		messages = append(messages, message{"system", q.System})
	}
	body, err := json.Marshal(map[string]any{"messages": append(messages, message{"user", q.Question}),
		"max_tokens": 64, "temperature": 0, "stream": true})
	if err != nil {
		return x, err
	}
	t, _, refused := openai.DecodeRequest(body, nil, c.Prober(), []byte("canary"))
	if refused != nil {
		return x, refused
	}
	t.Domain = q.Domain
	if t.Domain == "" {
		t.Domain = c.Domain
	}
	return hub.Canary{Task: *t, Answer: q.Answer}, nil
}
