package agentd

import (
	"strings"
	"testing"

	"souk/bus"
	"souk/market"
)

// An agent whose engine pools sells that alone: its output costs nothing, and a hub that sends it a chat is
// told what it serves; an agent of any other engine takes no pooling task.
func TestAnAgentOfAPoolingEngine(t *testing.T) {
	card := market.Price{Miss: 1000, Hit: 100, Out: 4000}
	for _, x := range []struct{ pools, kind, refused string }{
		{"embedding", bus.KindEmbedding, ""}, {"embedding", bus.KindRerank, "/v1/embeddings"},
		{"embedding rerank", bus.KindRerank, ""}, {"embedding", bus.KindChat, "/v1/embeddings"},
		{"embedding", "", "/v1/embeddings"}, {"", bus.KindChat, ""},
		{"", bus.KindEmbedding, "/v1/chat/completions"},
	} {
		cfg := oneAgent("a1", 1)
		cfg.Price = card
		a := NewAgent(cfg, Config{}, Info{Models: []string{"tiny"}, Pools: x.pools}, 7, [32]byte{1})
		r := a.Registration("node")
		free := r.Price.Out == 0
		if free != (x.pools != "") || r.Price.Miss != card.Miss || r.Pools != x.pools {
			t.Errorf("%q: registered as %+v", x.pools, r)
		}
		a.Claimed(&bus.Claim{Agent: "a1", Domain: "math", Epoch: 5, Fence: 1})
		d := dispatch("h")
		d.Task.Kind, d.Price, d.Boot, d.Fence = x.kind, r.Price, 7, 1
		switch reply, start := a.Dispatch("math", d); {
		case x.refused == "" && !start:
			t.Errorf("%q of an agent that pools %q: %+v", x.kind, x.pools, reply)
		case x.refused != "" && (reply.Code != bus.CodeUnknownModel ||
			!strings.Contains(reply.Message, x.refused)):
			t.Errorf("%q of an agent that pools %q: %+v", x.kind, x.pools, reply)
		}
		if err := a.Returned(Info{Models: []string{"tiny"}, Pools: "rerank"}); err == nil ||
			!strings.Contains(err.Error(), "start the agent again") {
			t.Errorf("%q: another kind of engine came back: %v", x.pools, err)
		}
	}
}

// Nobody pays for more tokens of a pooling task than its texts can have, and nothing for half of an answer.
func TestWhatAPoolingTaskCosts(t *testing.T) {
	pooling := func(stream bool) *Run {
		d := dispatch("h")
		d.Task.Kind, d.Task.Stream, d.MaxTokens, d.PromptMost = bus.KindEmbedding, stream, 1, 100
		d.Price.Out = 0
		return NewRun(d, "a1", "tiny", 16)
	}
	for said, want := range map[int]int{40: 40, 100: 100, 101: 100, 1 << 20: 100} {
		r := pooling(true)
		c, err := r.Take(Chunk{Text: "{}", Prompt: said, Events: 1, Finish: true})
		e := r.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: said}}, err)
		if err != nil || c == nil || e.Completion.Outcome != bus.OutcomeDone ||
			e.Completion.Usage.Prompt != want || e.Completion.Cost != market.Credits(1000*want) ||
			e.Completion.Unmetered != (said > want) {
			t.Errorf("%d tokens: %v, %+v", said, err, e.Completion)
		}
	}
	r := pooling(false)
	var err error
	for i := 0; err == nil && i < 1<<10; i++ {
		_, err = r.Take(Chunk{Text: strings.Repeat("x", 64<<10), Events: 1})
	}
	e := r.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 40}}, err)
	if e.Completion.Code != bus.CodeTooLarge || e.Completion.Cost != 0 || e.Result.Paid() != 0 {
		t.Errorf("longer than a message: %+v", e.Completion)
	}
}
