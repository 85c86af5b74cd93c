package flow

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

var sizes = []struct {
	tasks, seats, candidates int
}{{16, 8, 0}, {64, 16, 0}, {200, 100, 0}, {1000, 200, 0}, {1000, 200, 16}, {10_000, 1000, 16},
	{100_000, 2000, 16}}

var sink int64

// BenchmarkSolve reports, besides pivots, how many times longer a solve takes than reading every edge once
// (x-floor), and which part of it the pass for the least prices is (prices-%).
func BenchmarkSolve(b *testing.B) {
	for _, f := range families[:2] {
		for _, size := range sizes {
			for _, c := range []float64{0.5, 1, 2} {
				p := f.make(rand.New(rand.NewPCG(7, 7)), size.tasks, size.seats, size.candidates,
					int(c*float64(size.tasks)))
				name := fmt.Sprintf("%s/%dx%d", f.name, size.tasks, size.seats)
				if size.candidates > 0 {
					name += fmt.Sprintf("of%d", size.candidates)
				}
				b.Run(fmt.Sprintf("%s/slots=%v", name, c), func(b *testing.B) {
					var s Solver
					if err := s.Solve(&p, nil); err != nil { // grows the buffers
						b.Fatal(err)
					}
					b.ReportAllocs()
					start := cpu()
					for b.Loop() {
						if err := s.Solve(&p, nil); err != nil {
							b.Fatal(err)
						}
					}
					solve := float64(cpu()-start) / float64(b.N)
					b.ReportMetric(solve, "cpu-ns/op")
					b.ReportMetric(float64(s.Pivots)/float64(size.tasks), "pivots/task")
					b.ReportMetric(solve/timed(func() {
						for k := range p.Tasks() {
							sink += most(p.Seat[p.Off[k]:p.Off[k+1]], p.Weight[p.Off[k]:p.Off[k+1]], s.Price)
						}
					}), "x-floor")
					if s.Pivots > 0 { // solved by the simplex; insertion needs no such pass
						if done, err := s.Simplex(&p, 1<<30, nil); !done {
							b.Fatal(err)
						}
						b.ReportMetric(100*timed(func() {
							copy(s.Price, s.tree.price)
							s.lower(&p)
						})/solve, "prices-%")
					}
				})
			}
		}
	}
}

// timed is the processor time of f in nanoseconds.
func timed(f func()) float64 {
	start, n := cpu(), 0
	for n == 0 || cpu()-start < int64(20*time.Millisecond) {
		f()
		n++
	}
	return float64(cpu()-start) / float64(n)
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

// BenchmarkSettle reports what the canonical answer costs on top of the solve (of-solve-%): next to nothing
// where the best matching is the only one, a second solve of the tight edges where it is not.
func BenchmarkSettle(b *testing.B) {
	hash := func(k, a int32) uint64 { return mix(uint64(k)<<32 ^ uint64(a)) }
	for _, f := range []family{families[0], families[1], families[2], families[9]} {
		for _, size := range sizes[:5] {
			p := f.make(rand.New(rand.NewPCG(7, 7)), size.tasks, size.seats, size.candidates, size.tasks)
			b.Run(fmt.Sprintf("%s/%dx%dof%d", f.name, size.tasks, size.seats, size.candidates),
				func(b *testing.B) {
					var s Solver
					var proof []Witness
					solve := timed(func() {
						if err := s.Solve(&p, nil); err != nil {
							b.Fatal(err)
						}
					})
					start := cpu()
					for b.Loop() {
						s.Settle(&p, hash)
						proof = s.Witnesses(proof)
					}
					b.ReportMetric(100*float64(cpu()-start)/float64(b.N)/solve, "of-solve-%")
				})
		}
	}
}
