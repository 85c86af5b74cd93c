package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Format names how the rows of a file are written.
type Format string

const (
	// {"id","domain","system","turns":[...]}, only "turns" required; a turn is a string or {"user","answer"}
	Souk Format = "souk"
	CoQA Format = "coqa" // stanfordnlp CoQA, one story a line: story, turns[question, answer]
	QuAC Format = "quac" // allenai QuAC, one section a line: context, turns[question, answer]
	// HotpotQA distractor setting: question, answer, context[[title, [sentence...]]...]
	HotpotQA Format = "hotpotqa"
	// IBM mt-rag-benchmark generation tasks: input[speaker, text], contexts[text], target
	MTRAG Format = "mtrag"
	// sierra-research/tau-bench trajectories: task_id, trial, traj[role, content, tool_calls]
	TauBench Format = "taubench"
	Prompts  Format = "prompts" // one question a line: id, domain, prompt, answer
)

var decoders = []struct {
	format Format
	decode func([]byte) (Dialogue, error)
}{
	{Souk, decodeSouk}, {CoQA, as[coqaRow]}, {QuAC, as[quacRow]}, {HotpotQA, as[hotpotQARow]},
	{MTRAG, as[mtRAGRow]}, {TauBench, as[tauBenchRow]}, {Prompts, as[promptRow]},
}

// as decodes a row of a type.
func as[T interface{ dialogue() (Dialogue, error) }](row []byte) (Dialogue, error) {
	var in T
	if err := parse(row, &in, false); err != nil {
		return Dialogue{}, err
	}
	return in.dialogue()
}

// FormatNames lists every format that can be read.
func FormatNames() []string {
	var names []string
	for _, d := range decoders {
		names = append(names, string(d.format))
	}
	return names
}

// decoder reads a row of the format; nil: nobody knows it.
func (f Format) decoder() func([]byte) (Dialogue, error) {
	for _, d := range decoders {
		if d.format == f {
			return d.decode
		}
	}
	return nil
}

// parse decodes one row; strict refuses fields that v does not know. Errors name the field at fault.
func parse(row []byte, v any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(row))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &kind) && kind.Field != "":
			return fmt.Errorf("%s: a JSON %s where %s is expected", kind.Field, kind.Value,
				jsonName(kind.Type))
		case errors.As(err, &kind):
			return fmt.Errorf("a JSON %s where an object is expected", kind.Value)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("JSON ends too early: one dialogue stands on one line")
		}
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value on the line")
	}
	return nil
}

// jsonName names the JSON type of a Go type.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "an object"
	case reflect.String:
		return "a string"
	}
	return "a " + t.Kind().String()
}

func decodeSouk(row []byte) (Dialogue, error) {
	var d Dialogue
	err := parse(row, &d, true)
	if err != nil && strings.HasPrefix(err.Error(), "unknown field") {
		err = fmt.Errorf("%w: a dialogue has id, domain, system and turns, a turn user and answer; is this "+
			"another --format?", err)
	}
	return d, err
}

const readingTask = "Answer the questions about the following passage briefly and from the passage alone.\n\n"

type askedTurn struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

func readingTurns(in []askedTurn) []Turn {
	var out []Turn
	for _, t := range in {
		answer := t.Answer
		if answer == "CANNOTANSWER" { // QuAC's mark; a model says it in words
			answer = "I cannot answer that from the passage."
		}
		out = append(out, Turn{User: t.Question, Answer: answer})
	}
	return out
}

type coqaRow struct {
	ID    string      `json:"id"`
	Story string      `json:"story"`
	Turns []askedTurn `json:"turns"`
}

func (in coqaRow) dialogue() (Dialogue, error) {
	if in.Story == "" {
		return Dialogue{}, errors.New("story: missing or empty; is this CoQA?")
	}
	return Dialogue{ID: in.ID, Domain: "reading", System: readingTask + in.Story,
		Turns: readingTurns(in.Turns)}, nil
}

type quacRow struct {
	ID      string      `json:"id"`
	Title   string      `json:"title"`
	Section string      `json:"section_title"`
	Context string      `json:"context"`
	Turns   []askedTurn `json:"turns"`
}

func (in quacRow) dialogue() (Dialogue, error) {
	if in.Context == "" {
		return Dialogue{}, errors.New("context: missing or empty; is this QuAC?")
	}
	system := readingTask + in.Title + ": " + in.Section + "\n\n" + in.Context
	return Dialogue{ID: in.ID, Domain: "reading", System: system, Turns: readingTurns(in.Turns)}, nil
}

// paragraph is HotpotQA's [title, [sentence, ...]].
type paragraph struct {
	title     string
	sentences []string
}

func (p *paragraph) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return errors.New("context: a paragraph is [title, [sentence, ...]]")
	}
	if json.Unmarshal(pair[0], &p.title) != nil || json.Unmarshal(pair[1], &p.sentences) != nil {
		return errors.New("context: a paragraph is [title, [sentence, ...]]")
	}
	return nil
}

type hotpotQARow struct {
	ID       string      `json:"id"`
	OldID    string      `json:"_id"` // the set's own files write it so
	Question string      `json:"question"`
	Answer   string      `json:"answer"`
	Context  []paragraph `json:"context"`
}

func (in hotpotQARow) dialogue() (Dialogue, error) {
	if in.Question == "" {
		return Dialogue{}, errors.New("question: missing or empty; is this HotpotQA?")
	}
	var s strings.Builder
	s.WriteString("Answer the question from the following paragraphs. Name the facts you use.\n")
	for _, p := range in.Context {
		s.WriteString("\n" + p.title + "\n" + strings.Join(p.sentences, "") + "\n")
	}
	return Dialogue{ID: cmp.Or(in.ID, in.OldID), Domain: "multi-hop", System: s.String(),
		Turns: []Turn{{in.Question, in.Answer}}}, nil
}

type mtRAGRow struct {
	ID         string `json:"conversation_id"`
	Collection any    `json:"collection"`
	Input      []struct {
		Speaker string `json:"speaker"`
		Text    string `json:"text"`
	} `json:"input"`
	Contexts []struct {
		Text string `json:"text"`
	} `json:"contexts"`
	Target json.RawMessage `json:"target"`
}

func (in mtRAGRow) dialogue() (Dialogue, error) {
	if len(in.Input) == 0 {
		return Dialogue{}, errors.New("input: missing or empty; is this mtRAG?")
	}
	d := Dialogue{ID: in.ID, Domain: "retrieval"}
	if name, ok := in.Collection.(string); ok && name != "" {
		d.Domain = name
	}
	if len(in.Contexts) > 0 {
		d.System = "Answer from the following passages. Say so where they do not hold the answer.\n"
		for _, c := range in.Contexts {
			d.System += "\n" + c.Text + "\n"
		}
	}
	for i, m := range in.Input {
		switch {
		case m.Speaker == "user":
			d.Turns = append(d.Turns, Turn{User: m.Text})
		case m.Speaker == "agent" && len(d.Turns) > 0 && d.Turns[len(d.Turns)-1].Answer == "":
			d.Turns[len(d.Turns)-1].Answer = m.Text
		case m.Speaker == "agent":
			return Dialogue{}, fmt.Errorf("input[%d].speaker: an agent speaks before the user does", i)
		default:
			return Dialogue{}, fmt.Errorf("input[%d].speaker: %.40q, want user or agent", i, m.Speaker)
		}
	}
	if last := &d.Turns[len(d.Turns)-1]; last.Answer == "" {
		answers, err := oneOrMany(in.Target)
		if err != nil {
			return Dialogue{}, fmt.Errorf("target: %w", err)
		}
		if len(answers) > 0 {
			last.Answer = answers[0]
		}
	}
	return d, nil
}

// oneOrMany reads a string, a list of strings, or nothing.
func oneOrMany(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var many []string
	if json.Unmarshal(raw, &many) != nil {
		return nil, errors.New("want a string or a list of strings")
	}
	return many, nil
}

type tauBenchRow struct {
	Task  *int `json:"task_id"`
	Trial int  `json:"trial"`
	Traj  []struct {
		Role    string          `json:"role"`
		Content string          `json:"content"`
		Calls   json.RawMessage `json:"tool_calls"`
	} `json:"traj"`
}

// dialogue takes what a tool says as the next question, and a call of one as an answer.
func (in tauBenchRow) dialogue() (Dialogue, error) {
	if in.Task == nil || len(in.Traj) == 0 {
		return Dialogue{}, errors.New("traj: missing or empty; is this tau-bench?")
	}
	d := Dialogue{ID: fmt.Sprintf("tau-%d-%d", *in.Task, in.Trial), Domain: "tools"}
	asked := ""
	for _, m := range in.Traj {
		switch m.Role {
		case "system":
			d.System += m.Content
		case "assistant":
			if asked != "" {
				d.Turns = append(d.Turns, Turn{asked, m.Content + string(m.Calls)})
			}
			asked = ""
		default:
			asked += m.Content
		}
	}
	return d, nil
}

type promptRow struct {
	ID     string `json:"id"`
	Domain string `json:"domain"`
	Prompt string `json:"prompt"`
	Answer string `json:"answer"`
}

func (in promptRow) dialogue() (Dialogue, error) {
	if in.Prompt == "" {
		return Dialogue{}, errors.New("prompt: missing or empty")
	}
	return Dialogue{ID: in.ID, Domain: in.Domain, Turns: []Turn{{in.Prompt, in.Answer}}}, nil
}
