package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// load is a Node under a steady load, without wires: what a task costs the hub in memory and CPU, fsync
// aside.
type load struct {
	n    *Node
	now  time.Time
	open []*bus.Completion

	frames func([]ledger.Frame) // takes them, if anybody wants them
}

func newLoad(b *testing.B, agents, slots, closesAt int) *load {
	cfg := testConfig()
	cfg.Batch.ClosesAt, cfg.Silence = closesAt, time.Hour // no summaries here
	n, err := NewNode(cfg, [32]byte{1})
	if err != nil {
		b.Fatal(err)
	}
	l := &load{n: n, now: start}
	if err := n.Lead(l.now, 1); err != nil {
		b.Fatal(err)
	}
	for i := range agents {
		r := registration(fmt.Sprintf("a-%02d", i), "llama", slots, 0.5+float64(i)/100,
			card(1, 1, market.Credits(4+i%3)))
		if err := n.Join(l.now, r); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

// ready takes what the Node wants done, answers for the treasury and accepts for the agents.
func (l *load) ready(b *testing.B) {
	for {
		r := l.n.Ready()
		if l.frames != nil {
			l.frames(r.Frames)
		}
		for i := range r.Dispatches {
			d := &r.Dispatches[i]
			agent := r.Placed[i].Agent
			if err := l.n.Step(l.now, &bus.DispatchReply{Agent: agent, Hold: d.Hold}); err != nil {
				b.Fatal(err)
			}
			l.open = append(l.open, completion(agent, *d, market.Usage{Prompt: 100, Output: 30}))
		}
		for _, f := range r.Faults {
			b.Fatal(f)
		}
		if len(r.Funds) == 0 {
			return
		}
		for _, f := range r.Funds {
			reply := &bus.FundsReply{ID: f.Request.ID}
			if f.Op == bus.OpAllot {
				reply.Grants = []bus.Grant{{Number: l.n.book.LastGrant("hub-math") + 1,
					Client: f.Request.Client, Hub: "hub-math", Amount: f.Request.Amount}}
			}
			if err := l.n.Step(l.now, reply); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// task is the whole life of one, so long after the last.
func (l *load) task(b *testing.B, i int, after time.Duration) {
	l.now = l.now.Add(after)
	if err := l.n.Step(l.now, benchTask(i)); err != nil {
		b.Fatal(err)
	}
	l.ready(b)
	for _, c := range l.open {
		if err := l.n.Step(l.now, c); err != nil {
			b.Fatal(err)
		}
	}
	l.open = l.open[:0]
	l.n.Tick(l.now)
	l.ready(b)
}

func benchTask(i int) *bus.Task {
	return &bus.Task{Client: fmt.Sprintf("c-%d", i%16), ID: fmt.Sprintf("t-%d", i), Kind: bus.KindChat,
		Stream: true, MaxTokens: 256,
		Body: benchBody, Session: fmt.Sprintf("s-%d", i%500), Inbox: "inbox",
		Prompt: bus.Prompt{Bytes: 2000, Messages: 3, Tokens: 500, Marks: benchMarks}}
}

var (
	benchBody  = make([]byte, 2000)
	benchMarks = []bus.Mark{{Bytes: 512, Hash: 1}, {Bytes: 1024, Hash: 2}, {Bytes: 1536, Hash: 3},
		{Bytes: 2000, Hash: 4}}
)

// A task's whole life on a hub of 16 agents where slots are free: a round of one each time.
func BenchmarkTaskUncontended(b *testing.B) {
	l := newLoad(b, 16, 8, 16)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.task(b, i, 200*time.Microsecond)
	}
}

// The same with 64 tasks that come together and share 32 slots: rounds of 64 tasks on 16 agents. One op is
// one task.
func BenchmarkTaskContended(b *testing.B) {
	l := newLoad(b, 16, 2, 64)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i%64 == 0 {
			l.now = l.now.Add(20 * time.Millisecond)
			for k := range 64 {
				if err := l.n.Step(l.now, benchTask(i+k)); err != nil {
					b.Fatal(err)
				}
			}
			for l.n.open > 0 {
				l.ready(b)
				for _, c := range l.open {
					if err := l.n.Step(l.now, c); err != nil {
						b.Fatal(err)
					}
				}
				l.open = l.open[:0]
				l.now = l.now.Add(20 * time.Millisecond)
				l.n.Tick(l.now)
			}
		}
		i++
	}
	s := l.n.Stats()
	b.ReportMetric(float64(s.Awards)/float64(max(1, s.Rounds)), "awards/round")
	b.ReportMetric(float64(s.Contested)/float64(max(1, s.Rounds)), "contested")
}

// One round of 64 tasks on 16 agents with 2 slots each: quotes, clearing, check, records, book.
func BenchmarkRound64x16(b *testing.B) {
	l := newLoad(b, 16, 2, 64)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		b.StopTimer()
		l.now = l.now.Add(20 * time.Millisecond)
		for range 64 {
			if err := l.n.Step(l.now, benchTask(i)); err != nil {
				b.Fatal(err)
			}
			i++
		}
		r := l.n.out
		l.n.out = Ready{}
		for _, f := range r.Funds {
			l.n.out.Funds = append(l.n.out.Funds, f)
		}
		l.fund(b)
		if l.n.batch.Len() != 64 {
			b.Fatalf("%d tasks wait, want 64", l.n.batch.Len())
		}
		b.StartTimer()
		l.n.clear()
		b.StopTimer()
		for l.n.open > 0 {
			l.ready(b)
			for _, c := range l.open {
				if err := l.n.Step(l.now, c); err != nil {
					b.Fatal(err)
				}
			}
			l.open = l.open[:0]
			l.now = l.now.Add(20 * time.Millisecond)
			l.n.Tick(l.now)
		}
		b.StartTimer()
	}
}

// fund answers the treasury's part without clearing a round.
func (l *load) fund(b *testing.B) {
	for len(l.n.out.Funds) > 0 {
		f := l.n.out.Funds[0]
		l.n.out.Funds = l.n.out.Funds[1:]
		reply := &bus.FundsReply{ID: f.Request.ID}
		if f.Op == bus.OpAllot {
			reply.Grants = []bus.Grant{{Number: l.n.book.LastGrant("hub-math") + 1,
				Client: f.Request.Client, Hub: "hub-math", Amount: f.Request.Amount}}
		}
		if err := l.n.Step(l.now, reply); err != nil {
			b.Fatal(err)
		}
	}
}
