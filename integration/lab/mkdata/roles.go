package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"souk/cmd/replay"
	"souk/integration/lab/traces"
)

// rows reads the lines of a set.
func rows(file string, each func(line []byte) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, err := replay.NewLines(f)
	for err == nil {
		var line []byte
		if line, err = lines.Next(); err == nil {
			err = each(line)
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// tokensOf estimates the tokens of a text.
func tokensOf(s string) int { return (len(s) + 3) / 4 }

// workflows reads logs of agents that work together: who said something, and how long it was.
func workflows(file, format string) (all []traces.Workflow, err error) {
	err = rows(file, func(line []byte) error {
		var w traces.Workflow
		if format == "taubench-calls" {
			w, err = tauCalls(line)
		} else {
			w, err = whoAndWhen(line)
		}
		all = append(all, w)
		return err
	})
	return all, err
}

// whoAndWhen reads a log of Who&When. What a person, a terminal or a program says is no answer of a model.
func whoAndWhen(line []byte) (w traces.Workflow, err error) {
	var in struct {
		File    string
		History []struct{ Content, Name, Role string }
		System  map[string]string `json:"system_prompt"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return w, err
	}
	w.ID = strings.TrimSuffix(in.File, ".json")
	for name, text := range in.System {
		if w.Anchors == nil {
			w.Anchors = map[string]int{}
		}
		w.Anchors[name] = tokensOf(text)
	}
	for _, h := range in.History {
		name, part, _ := strings.Cut(cmp.Or(h.Name, h.Role), " (")
		if strings.HasPrefix(part, "->") { // what it had thought of before, handed on
			name = ""
		}
		switch strings.ToLower(strings.ReplaceAll(name, "_", "")) {
		case "human", "user", "computerterminal":
			name = ""
		}
		w.Steps = append(w.Steps, traces.Step{Role: name, Tokens: tokensOf(h.Content)})
	}
	return w, nil
}

// tauCalls reads a conversation of tau-bench with the tools that were called.
func tauCalls(line []byte) (w traces.Workflow, err error) {
	var in struct {
		Task  int `json:"task_id"`
		Trial int
		Traj  []struct {
			Role    string
			Content string
			Calls   []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return w, err
	}
	w.ID = fmt.Sprintf("tau-%d-%d", in.Task, in.Trial)
	for _, m := range in.Traj {
		s := traces.Step{Tokens: tokensOf(m.Content)}
		if m.Role == "system" {
			w.Anchors = map[string]int{"assistant": s.Tokens}
			continue
		}
		if m.Role == "assistant" {
			s.Role = m.Role
		}
		for _, c := range m.Calls {
			s.Tool = c.Function.Name
			s.Tokens += tokensOf(c.Function.Arguments)
		}
		w.Steps = append(w.Steps, s)
	}
	return w, nil
}

// calls reads a trace that has the text of each prompt, and numbers its blocks.
func calls(file string) ([]traces.Chain, error) {
	const block, text = 16, 64 // tokens and bytes
	type call struct {
		Timestamp     int64
		Input, Output string
		Session       string `json:"session_id"`
	}
	var all []call
	if err := rows(file, func(line []byte) error {
		var c call
		all = append(all, c)
		return json.Unmarshal(line, &all[len(all)-1])
	}); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b call) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	numbers := map[string]int{}
	of := map[string]int{}
	var out []traces.Chain
	for _, c := range all {
		i, ok := of[c.Session]
		if !ok {
			i = len(out)
			of[c.Session] = i
			out = append(out, traces.Chain{ID: c.Session, Block: block, Timed: true})
		}
		turn := []int{int((c.Timestamp - all[0].Timestamp) / 1000), tokensOf(c.Input), tokensOf(c.Output)}
		for at := text; at <= len(c.Input); at += text {
			n, ok := numbers[c.Input[:at]]
			if !ok {
				n = len(numbers)
				numbers[c.Input[:at]] = n
			}
			if last := len(turn) - 2; last > 2 && turn[last]+turn[last+1] == n {
				turn[last+1]++
			} else {
				turn = append(turn, n, 1)
			}
		}
		if len(turn) > 3 {
			out[i].Turns = append(out[i].Turns, turn)
		}
	}
	return slices.DeleteFunc(out, func(c traces.Chain) bool { return len(c.Turns) == 0 }), nil
}
