package hub_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// load is a Node under a steady load, without wires: what a task costs the hub in memory and CPU, fsync
// aside.
type load struct {
	n    *hub.Node
	now  time.Time
	open []*bus.Completion

	frames func([]ledger.Frame) // takes them, if anybody wants them
}

func newLoad(b *testing.B, agents, slots, closesAt int) *load {
	cfg := testConfig()
	cfg.Batch.ClosesAt, cfg.Silence = closesAt, time.Hour // no summaries here
	cfg.MaxWaitingPerClient = cfg.MaxWaiting
	n, err := hub.NewNode(cfg, [32]byte{1})
	if err != nil {
		b.Fatal(err)
	}
	l := &load{n: n, now: start}
	if err := n.Lead(l.now, 1); err != nil {
		b.Fatal(err)
	}
	for i := range agents {
		r := registration(fmt.Sprintf("a-%02d", i), "llama", slots, 0.5+float64(i%4)/100,
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
			yes := &bus.DispatchReply{Agent: agent, Boot: d.Boot, Hold: d.Hold}
			if err := l.n.Step(l.now, yes); err != nil {
				b.Fatal(err)
			}
			l.open = append(l.open,
				completion(agent, *d, market.Usage{Prompt: 100, Output: min(30, d.MaxTokens)}))
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
				reply.Grants = []bus.Grant{{Number: l.n.Book().LastGrant("hub-math") + 1,
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
		Prompt: bus.Prompt{Bytes: 2000, Messages: 3, Tokens: 500, Prefixes: benchPrefixes}}
}

var (
	benchBody     = make([]byte, 2000)
	benchPrefixes = []bus.PrefixHash{{Bytes: 512, Hash: 1}, {Bytes: 1024, Hash: 2}, {Bytes: 1536, Hash: 3},
		{Bytes: 2000, Hash: 4}}
)

// A task's whole life on a hub where slots are free, a round of one each time, by the size of its fleet:
// time, processor time, and bytes of the journal.
func BenchmarkTaskUncontended(b *testing.B) {
	for _, agents := range []int{16, 20, 200, 1000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			l := newLoad(b, agents, 8, 16)
			bytes := 0
			l.frames = func(frames []ledger.Frame) {
				for i := range frames {
					bytes += len(ledger.AppendFrame(nil, &frames[i]))
				}
			}
			for i := range 500 { // which every session has come by
				l.task(b, i, time.Millisecond)
			}
			bytes = 0
			b.ReportAllocs()
			begin := cpu()
			for i := 0; b.Loop(); i++ {
				l.task(b, 500+i, 200*time.Microsecond)
			}
			b.ReportMetric(float64(cpu()-begin)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(bytes)/float64(b.N), "bytes/task")
		})
	}
}

// The round of one task on 16 agents: assembled, cleared and checked, with its award and record. A fiftieth
// of all rounds take no longer, which nothing else on the machine held up.
func BenchmarkRoundAlone(b *testing.B) {
	l := newLoad(b, 16, 8, 16)
	for i := range 500 {
		l.task(b, i, time.Millisecond)
	}
	var rounds []time.Duration
	for i := 0; b.Loop(); i++ {
		l.now = l.now.Add(200 * time.Microsecond)
		if err := l.n.Step(l.now, benchTask(500+i)); err != nil {
			b.Fatal(err)
		}
		l.fund(b)
		n, awards := l.n, l.n.Stats().Awards
		begin := time.Now()
		n.Clear()
		rounds = append(rounds, time.Since(begin))
		if got := n.Stats().Awards - awards; got != 1 {
			b.Fatalf("%d awards", got)
		}
		l.ready(b)
		for _, c := range l.open {
			if err := n.Step(l.now, c); err != nil {
				b.Fatal(err)
			}
		}
		l.open = l.open[:0]
		n.Tick(l.now)
		l.ready(b)
	}
	slices.Sort(rounds)
	b.ReportMetric(float64(rounds[len(rounds)/50]), "round-ns")
}

// cpu is the processor time that this process has used, which others on the machine do not lengthen.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
			for l.n.Stats().Open > 0 {
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
}

// One round of so many tasks that wait for all seats of a fleet: quotes, pruning, clearing, check, records
// and book. In the last one seat came free, and the quotes are kept from the round before.
func BenchmarkRound(b *testing.B) {
	for _, c := range []struct{ tasks, agents, slots, clients int }{
		{64, 16, 2, 16}, {512, 8, 8, 1000}, {512, 8, 8, 100}, {2048, 64, 8, 1000}, {2048, 1, 1, 1000},
		{500, 1000, 8, 500},
	} {
		b.Run(fmt.Sprintf("tasks=%d/seats=%dx%d/clients=%d", c.tasks, c.agents, c.slots, c.clients),
			func(b *testing.B) {
				l := newLoad(b, c.agents, c.slots, 1024)
				b.ReportAllocs()
				used, i, awards := time.Duration(0), 0, int64(0)
				for b.Loop() {
					b.StopTimer()
					l.now = l.now.Add(20 * time.Millisecond)
					for l.n.Stats().Waiting < c.tasks {
						m := benchTask(i)
						m.Client = fmt.Sprintf("c-%d", i%c.clients)
						m.Prompt.Tokens = 300 + i*7919%400
						if err := l.n.Step(l.now, m); err != nil {
							b.Fatal(err)
						}
						l.fund(b)
						i++
					}
					before := l.n.Stats().Awards
					begin := cpu()
					b.StartTimer()
					l.n.Clear()
					b.StopTimer()
					used += cpu() - begin
					awards += l.n.Stats().Awards - before
					l.ready(b)
					for _, c := range l.open {
						if err := l.n.Step(l.now, c); err != nil {
							b.Fatal(err)
						}
					}
					l.open = l.open[:0]
					b.StartTimer()
				}
				b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(awards)/float64(b.N), "awards")
			})
	}
}

// One slot of a fleet came free, and so many tasks wait for it and for the others: what is weighed of them,
// of which nearly nothing is recorded.
func BenchmarkOneSlotFree(b *testing.B) {
	for _, c := range []struct{ tasks, agents int }{{100, 16}, {2000, 200}, {2000, 1000}} {
		b.Run(fmt.Sprintf("tasks=%d/agents=%d", c.tasks, c.agents), func(b *testing.B) {
			l := newLoad(b, c.agents, 1, 1024)
			ask := func(i int) {
				m := benchTask(i)
				m.Client = fmt.Sprintf("c-%d", i%1000)
				m.Prompt.Tokens = 300 + i*7919%400
				m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 2000, Hash: uint64(i)}}
				if err := l.n.Step(l.now, m); err != nil {
					b.Fatal(err)
				}
				l.fund(b)
			}
			i := 0
			for ; i < c.agents; i++ {
				ask(i)
				l.ready(b)
				l.now = l.now.Add(time.Millisecond)
			}
			used := time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				for l.n.Stats().Waiting < c.tasks {
					ask(i)
					i++
				}
				l.now = l.now.Add(time.Millisecond)
				if err := l.n.Step(l.now, l.open[0]); err != nil {
					b.Fatal(err)
				}
				l.open = l.open[1:]
				l.n.Again()
				begin := cpu()
				b.StartTimer()
				l.n.Clear()
				b.StopTimer()
				used += cpu() - begin
				l.ready(b)
				b.StartTimer()
			}
			b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// fund answers the treasury's part without clearing a round.
func (l *load) fund(b *testing.B) {
	for f, ok := l.n.Asks(); ok; f, ok = l.n.Asks() {
		reply := &bus.FundsReply{ID: f.Request.ID}
		if f.Op == bus.OpAllot {
			reply.Grants = []bus.Grant{{Number: l.n.Book().LastGrant("hub-math") + 1,
				Client: f.Request.Client, Hub: "hub-math", Amount: f.Request.Amount}}
		}
		if err := l.n.Step(l.now, reply); err != nil {
			b.Fatal(err)
		}
	}
}
