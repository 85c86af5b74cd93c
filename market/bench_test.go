package market

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// hubRound is a round as a hub makes it: values and costs in nano-credits of the order of a cent.
func hubRound(tasks, agents, slots int) Round {
	rng := rand.New(rand.NewPCG(9, 9))
	r := Round{Domain: "math", Number: 42, Rule: DefaultRule, Fee: 1000}
	for i := range agents {
		r.Agents = append(r.Agents, Supply{Agent: AgentID(fmt.Sprintf("agent-%03d", i)),
			Tiers: []Tier{{Slots: max(1, slots/agents), Toll: -Credits(rng.Int64N(1000))}}})
	}
	for j := range tasks {
		r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("client-%02d/task-%05d", j%40, j)), Client: fmt.Sprintf("client-%02d", j%40)})
		value := 1_000_000 + rng.Int64N(20_000_000)
		for i := range agents {
			r.Edges = append(r.Edges, Edge{Task: j, Agent: i, Value: Credits(value + rng.Int64N(1_000_000)), Cost: Credits(500_000 + rng.Int64N(1_000_000))})
		}
	}
	r.Sort()
	return r
}

// Most rounds of a market below saturation hold one task: the time a hub adds to its first token.
func BenchmarkClear(b *testing.B) {
	for _, size := range [][3]int{{1, 1, 4}, {1, 16, 64}, {16, 8, 16}, {16, 8, 8}, {64, 16, 64}, {64, 16, 32}, {200, 100, 200}} {
		r := hubRound(size[0], size[1], size[2])
		name := fmt.Sprintf("%dx%d/slots=%d", size[0], size[1], size[2])
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

// cpu is the processor time of this process in nanoseconds: on a shared machine the clock on the wall says little.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return time.Now().UnixNano()
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func BenchmarkCanonical(b *testing.B) {
	r := hubRound(16, 8, 16)
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
	card, usage := Price{Miss: 3 * Credit, Hit: Credit, Out: 15 * Credit}, Usage{Prompt: 1234, Cached: 1000, Output: 321}
	terms, quote := Terms{Worth: Credit / 100, Delta: 0.7, Patience: 2 * time.Second}, Quote{TTFT: time.Second / 3, Quality: 0.8}
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
