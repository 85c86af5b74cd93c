package machines

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/reader"
	"souk/market"
)

// What an engine said is what its reader has, to the byte, the token and the place of each event, however the
// agent puts it together and whatever is lost, repeated and overtaken between them; and the agent keeps
// nothing of it once all is acknowledged.
func TestWhatTheEngineSaidIsRead(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		readAnswer(t, rng)
	}
}

func readAnswer(t *testing.T, rng *rand.Rand) {
	now := time.Unix(1_000_000, 0)
	d := &bus.Dispatch{Hold: "j/1/0", Journal: "j", Round: 1, Domain: "math", MaxTokens: 1 << 20,
		CostCap: 1 << 60, Price: card, Settle: market.SettleMetered}
	d.Task = bus.Task{Client: "ann", ID: "t", Kind: bus.KindChat, Stream: true,
		Body: []byte(`{"messages":[]}`), Reply: bus.ReplyTo("ann", "t"), Prompt: bus.Prompt{Tokens: 10}}
	d.Task.Whole = rng.IntN(4) > 0
	d.Task.Tail = d.Task.Whole && rng.IntN(4) > 0
	s := agentd.NewStream(now, d, agentd.NewRun(d, "a", "llama", 16), 1<<20)
	streams := agentd.NewStreams(1 << 20)
	streams.Add(s)
	c := readerConfig
	c.AckEvery = uint64(1 + rng.IntN(5))
	m := reader.New(c, &d.Task, now)
	m.Ready()
	m.Step(now, reader.Verdict{Answer: &bus.Answer{Accepted: &bus.Accepted{Client: "ann", Task: "t", Hub: "h",
		Agent: "a"}}})

	var text strings.Builder
	var tokens []uint32
	var events []string
	var read struct {
		text   strings.Builder
		tokens []uint32
		events []string
		count  int
	}
	var wire [][]byte
	loss := rng.Float64() / 2
	var settle func()
	hear := func() {
		for len(wire) > 0 {
			i := rng.IntN(min(len(wire), 3))
			data := wire[i]
			if rng.IntN(5) > 0 {
				wire = slices.Delete(wire, i, i+1)
			}
			if rng.Float64() < loss {
				continue
			}
			x := new(bus.Chunk)
			if err := bus.Decode(data, x); err != nil {
				t.Fatal(err)
			}
			m.Hear(now, "a", x)
			settle()
		}
	}
	acked := false
	settle = func() {
		for {
			x, ok := m.Next()
			if !ok {
				break
			}
			for _, e := range x.Extra {
				read.events = append(read.events, fmt.Sprint(read.text.Len()+e.At, string(e.Choice)))
			}
			read.text.WriteString(x.Text)
			read.tokens, read.count = append(read.tokens, x.Tokens...), read.count+x.Count
		}
		for _, o := range m.Ready().Controls {
			switch {
			case rng.Float64() < loss && !m.Over():
			case o.Resume != nil:
				streams.Resend(s, *o.Resume)
			case o.Ack != nil:
				acked = streams.Acked(s, *o.Ack) || acked
			}
		}
		for {
			p, _ := streams.Next(now, "a")
			if p.Stream == nil {
				return
			}
			wire = append(wire, p.Messages...)
			if p.Notice != nil {
				data, err := bus.Encode(p.Notice)
				if err != nil {
					t.Fatal(err)
				}
				wire = append(wire, data)
			}
		}
	}

	n := rng.IntN(30)
	for i := range n {
		now = now.Add(time.Duration(rng.IntN(1 << rng.IntN(29))))
		x := agentd.Chunk{Text: strings.Repeat("é", rng.IntN(1<<rng.IntN(11))), Count: 1, Events: 1,
			Tokens: []uint32{uint32(i)}, Finish: i == n-1}
		for k := range rng.IntN(3) {
			x.Extra = append(x.Extra, bus.Extra{At: rng.IntN(len(x.Text) + 1), Choice: fmt.Appendf(nil,
				`{"n":%d}`, 10*i+k)})
		}
		slices.SortFunc(x.Extra, func(a, b bus.Extra) int { return a.At - b.At })
		for _, e := range x.Extra {
			events = append(events, fmt.Sprint(text.Len()+e.At, string(e.Choice)))
		}
		text.WriteString(x.Text)
		tokens = append(tokens, x.Tokens...)
		data, err := s.Take(now, x, bus.MaxMessage)
		if err != nil {
			t.Fatal(err)
		}
		if data != nil {
			wire = append(wire, data)
		}
		hear()
	}
	rest, err := s.Rest(now, bus.MaxMessage)
	if err != nil {
		t.Fatal(err)
	}
	_, last, err := s.End(now, agentd.Answer{Finish: "stop", Usage: market.Usage{Prompt: 10, Output: n}}, nil,
		bus.MaxMessage)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{rest, last} {
		if data != nil {
			wire = append(wire, data)
		}
	}
	streams.Ended(now, s, time.Hour)
	for range 400 {
		hear()
		if m.Over() {
			break
		}
		now = now.Add(500 * time.Millisecond)
		m.Step(now, reader.Bus{Since: time.Unix(1, 0)})
		m.Tick(now)
		settle()
		loss /= 2
	}
	what := fmt.Sprintf("whole %v, tail %v, %d chunks", d.Task.Whole, d.Task.Tail, n)
	if r := m.Result(); !m.Over() || r == nil || r.Code != "" {
		t.Fatalf("%s: over %v, %+v, %v", what, m.Over(), r, m.Err)
	}
	if read.text.String() != text.String() || !slices.Equal(read.tokens, tokens) || read.count != n {
		t.Fatalf("%s: %d bytes and %v, want %d and %v", what, read.text.Len(), read.tokens, text.Len(), tokens)
	}
	if !slices.Equal(read.events, events) {
		t.Fatalf("%s: events %v, want %v", what, read.events, events)
	}
	if streams.Sweep(now); !acked || streams.Find(s.ID) != nil {
		t.Fatalf("%s: acknowledged %v, and it is still kept", what, acked)
	}
}
