package serve

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"souk/agentd"
	"souk/bus"
	"souk/bus/membus"
)

// What an engine lacks is said once, and again where it comes back lacking something else. Asked for a token
// to be trusted again, one that has no completions is asked by a chat.
func TestWhatAnEngineLacks(t *testing.T) {
	var log bytes.Buffer
	world := membus.New(1)
	b := world.Bus("agentd")
	defer b.Close()
	missing := &agentd.EngineError{Code: bus.CodeEngineRefused, Status: 404, Message: "no such path"}
	answer := func(err error) act {
		return func(context.Context, func(agentd.Chunk) error) (agentd.Answer, error) {
			return agentd.Answer{Finish: "length"}, err
		}
	}
	engine := &script{info: agentd.Info{Models: []string{"tiny"}}, acts: []act{answer(missing), answer(nil)}}
	s, err := NewServer(agentd.Config{Node: "n1", Agents: []agentd.AgentConfig{oneAgent("a1", 2)}},
		Deps{Bus: b, Registry: world.Registry(), Log: slog.New(slog.NewTextHandler(&log, nil)),
			Engine: func(agentd.EngineConfig) agentd.Engine { return engine }})
	if err != nil {
		t.Fatal(err)
	}
	a := s.agents[0]
	for i, c := range []struct {
		lacks []string
		lines int
	}{{[]string{"no salt", "no ids"}, 1}, {[]string{"no salt", "no ids"}, 1}, {nil, 1},
		{[]string{"no ids"}, 2}} {
		a.lacking(&agentd.Info{Kind: "sglang", Lacks: c.lacks})
		if n := strings.Count(log.String(), "kind=sglang"); n != c.lines {
			t.Errorf("%d: %d lines:\n%s", i, n, &log)
		}
	}
	a.core = a.newCore(engine.info)
	a.suspect = true
	if err := a.probe(t.Context()); err != nil || a.suspected() || len(engine.asked) != 2 ||
		engine.asked[1].Kind != bus.KindChat {
		t.Errorf("%v, asked %+v", err, engine.asked)
	}
	a.suspect, engine.acts = true, []act{answer(missing)}
	if err := a.probe(t.Context()); err == nil || !a.suspected() {
		t.Errorf("trusted, though it has neither: %v", err)
	}
}
