package market

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// hubRound is a round as a hub makes it: values and costs in nano-credits of the order of a cent. Every task
// has so many candidates, and so many clients share the tasks.
func hubRound(tasks, agents, slots, candidates, clients int) Round {
	rng := rand.New(rand.NewPCG(9, 9))
	r := Round{Domain: "math", Number: 42, Rule: DefaultRule, Fee: 1000}
	for i := range agents {
		r.Agents = append(r.Agents, Supply{Agent: AgentID(fmt.Sprintf("agent-%03d", i)),
			Seats: open(max(1, slots/agents))})
	}
	for j := range tasks {
		r.Tasks = append(r.Tasks,
			Task{ID: TaskID(fmt.Sprintf("client-%02d/task-%05d", j%clients, j)),
				Client: fmt.Sprintf("client-%02d", j%clients)})
		value := 1_000_000 + rng.Int64N(20_000_000)
		for k := range candidates {
			i := (j*7 + k*max(1, agents/candidates)) % agents
			r.Edges = append(r.Edges,
				Edge{Task: j, Agent: i, Value: Credits(value + rng.Int64N(1_000_000)),
					Cost: Credits(500_000 + rng.Int64N(1_000_000))})
		}
	}
	r.Sort()
	return r
}

// Most rounds of a market below saturation hold one task: the time a hub adds to its first token. The bar is
// 0.1 ms for 64 tasks of as many clients, all prices and the certificate included, and 100 ms for 10,000 on
// 1,000 agents. Where clients have several tasks, clarke client solves once more for each of them (shared).
func BenchmarkClear(b *testing.B) {
	for _, size := range []struct{ tasks, agents, slots, candidates, clients int }{
		{1, 1, 4, 1, 1}, {1, 16, 64, 16, 1}, {16, 8, 16, 8, 16}, {16, 8, 8, 8, 16}, {64, 16, 64, 16, 64},
		{64, 16, 32, 16, 64}, {64, 16, 32, 16, 40},
		{200, 100, 200, 100, 200}, {10_000, 1000, 10_000, 16, 10_000}, {10_000, 1000, 5000, 16, 10_000},
	} {
		r := hubRound(size.tasks, size.agents, size.slots, size.candidates, size.clients)
		name := fmt.Sprintf("%dx%d/slots=%d", size.tasks, size.agents, size.slots)
		if size.clients < size.tasks {
			name += "/shared"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			start := cpu()
			for b.Loop() {
				if _, err := Clear(r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
		})
		o, _ := Clear(r)
		b.Run(name+"/check", func(b *testing.B) {
			b.ReportAllocs()
			start := cpu()
			for b.Loop() {
				if err := Check(r, o); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpu is the processor time of this process in nanoseconds: on a shared machine the clock on the wall says
// little.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return time.Now().UnixNano()
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func BenchmarkCanonical(b *testing.B) {
	r := hubRound(16, 8, 16, 8, 16)
	data := r.AppendCanonical(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			data = r.AppendCanonical(data[:0])
		}
		b.ReportMetric(float64(len(data)), "bytes")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeRound(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hash", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Hash()
		}
	})
}

func BenchmarkMoney(b *testing.B) {
	card, usage := Price{Miss: 3 * Credit, Hit: Credit, Out: 15 * Credit},
		Usage{Prompt: 1234, Cached: 1000, Output: 321}
	terms, quote := Terms{Worth: Credit / 100, Delta: 0.7, Patience: 2 * time.Second},
		Quote{TTFT: time.Second / 3, Quality: 0.8}
	b.Run("cost", func(b *testing.B) {
		for b.Loop() {
			card.Cost(usage)
		}
	})
	b.Run("value", func(b *testing.B) {
		for b.Loop() {
			terms.Value(quote)
		}
	})
}

// BenchmarkCut solves a crowd, cuts it, and clears and checks what is left: 512 and 2,048 tasks that wait for
// 64 slots, with seats to come for all of them.
func BenchmarkCut(b *testing.B) {
	for _, size := range []struct{ tasks, agents, slots, clients int }{
		{1, 16, 64, 1}, {128, 8, 64, 16}, {512, 8, 64, 512}, {512, 8, 64, 64}, {512, 8, 64, 4},
		{512, 8, 8, 64},
		{2048, 8, 64, 2048}, {2048, 8, 64, 64}, {2048, 64, 512, 64},
	} {
		for _, worths := range []int64{20_000, 0} {
			rng := rand.New(rand.NewPCG(9, 9))
			whole := bigCrowd(rng, size.tasks, size.agents, size.slots, size.clients, worths)
			name := fmt.Sprintf("%dx%d/slots=%d/clients=%d", size.tasks, size.agents, size.slots,
				size.clients)
			if worths == 0 {
				name += "/alike"
			}
			for _, cleared := range []bool{false, true} {
				if cleared {
					name += "/cleared"
				}
				b.Run(name, func(b *testing.B) {
					var c Cutter
					r := whole
					b.ReportAllocs()
					start := cpu()
					for b.Loop() {
						r = whole
						_, err := c.Cut(&r, keepsOf(nil, &r), FullShare, nil, 3, nil)
						if err == nil && cleared {
							_, err = ClearChecked(&r, nil)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
					b.ReportMetric(float64(len(r.Tasks)), "tasks")
					b.ReportMetric(float64(len(r.Edges)), "edges")
				})
			}
		}
	}
}
