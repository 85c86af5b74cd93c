package flow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// family makes problems of one kind. The first two are the study's; the rest try to be nasty to the simplex.
type family struct {
	name string
	make func(rng *rand.Rand, n, m, candidates, slots int) Problem
}

func fill(rng *rand.Rand, n, m, candidates, slots int, weight func(t, a int) int64) Problem {
	p := Problem{Off: []int32{0}}
	for range m {
		p.Slots = append(p.Slots, int32(max(1, slots/m)))
	}
	for t := range n {
		var row []int
		if candidates == 0 || candidates >= m {
			for a := range m {
				row = append(row, a)
			}
		} else {
			seen := map[int]bool{}
			for len(row) < candidates {
				if a := rng.IntN(m); !seen[a] {
					seen[a] = true
					row = append(row, a)
				}
			}
			slices.Sort(row)
		}
		for _, a := range row {
			if w := weight(t, a); w >= 0 {
				p.Seat = append(p.Seat, int32(a))
				p.Weight = append(p.Weight, w)
			}
		}
		p.Off = append(p.Off, int32(len(p.Seat)))
	}
	return p
}

var families = []family{
	{"iid", func(rng *rand.Rand, n, m, c, s int) Problem {
		return fill(rng, n, m, c, s, func(int, int) int64 { return rng.Int64N(1_000_000) })
	}},
	{"struct", func(rng *rand.Rand, n, m, c, s int) Problem {
		value, length, home := make([]int64, n), make([]int64, n), make([]int, n)
		for t := range n {
			value[t], length[t], home[t] = 200+rng.Int64N(800), 1+rng.Int64N(20), rng.IntN(m)
		}
		cost, popular := make([]int64, m), make([]int64, m)
		for a := range m {
			cost[a], popular[a] = 1+rng.Int64N(5), rng.Int64N(4)
		}
		return fill(rng, n, m, c, s, func(t, a int) int64 {
			w := value[t] - cost[a]*length[t]
			if home[t]%max(1, m/(1+int(popular[a]))) != a%max(1, m/(1+int(popular[a]))) {
				w -= 10 * length[t]
			}
			return w
		})
	}},
	{"equal", func(rng *rand.Rand, n, m, c, s int) Problem {
		return fill(rng, n, m, c, s, func(int, int) int64 { return 7 })
	}},
	{"binary", func(rng *rand.Rand, n, m, c, s int) Problem {
		return fill(rng, n, m, c, s, func(int, int) int64 { return rng.Int64N(2) })
	}},
	{"product", func(rng *rand.Rand, n, m, c, s int) Problem {
		return fill(rng, n, m, c, s, func(t, a int) int64 { return int64(t+1) * int64(a+1) })
	}},
	{"monge", func(rng *rand.Rand, n, m, c, s int) Problem {
		return fill(rng, n, m, c, s, func(t, a int) int64 { d := int64(t*m/n - a); return int64(m*m) - d*d })
	}},
	{"powers", func(rng *rand.Rand, n, m, c, s int) Problem {
		return fill(rng, n, m, c, s, func(int, int) int64 { return 1 << rng.IntN(40) })
	}},
	{"hot", func(rng *rand.Rand, n, m, c, s int) Problem {
		return fill(rng, n, m, c, s, func(t, a int) int64 {
			if a < 1+m/20 {
				return 1_000_000 + rng.Int64N(1000)
			}
			return rng.Int64N(1000)
		})
	}},
	{"bound", func(rng *rand.Rand, n, m, c, s int) Problem {
		top := int64((weightSum - 1) / (m + 1))
		return fill(rng, n, m, c, s, func(int, int) int64 { return top - rng.Int64N(2)*rng.Int64N(top) })
	}},
	{"column", func(rng *rand.Rand, n, m, c, s int) Problem {
		return fill(rng, n, m, c, s, func(t, a int) int64 { return int64(1000 * (t + 1)) })
	}},
}

// The two methods share the Problem and nothing else that decides: same welfare, same least prices, and after
// the tie-break the same matching and second prices.
func TestSimplexAgainstInsertion(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	var a, b Solver
	for n := range 1500 {
		f := families[n%len(families)]
		tasks, seats := 1+rng.IntN(40), 1+rng.IntN(12)
		p := f.make(rng, tasks, seats, rng.IntN(seats+1), 1+rng.IntN(2*tasks))
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		where := fmt.Sprintf("seed %d, round %d, %s, %d x %d", seed, n, f.name, tasks, seats)
		done, err := a.Simplex(&p, 64*tasks+10_000, nil)
		if !done || err != nil {
			t.Fatalf("%s: simplex: %v, %v", where, done, err)
		}
		if _, err := b.Insert(&p, -1, nil); err != nil {
			t.Fatal(err)
		}
		if a.Welfare() != b.Welfare() {
			t.Fatalf("%s: simplex finds %d, insertion %d", where, a.Welfare(), b.Welfare())
		}
		if !slices.Equal(a.Price, b.Price) {
			t.Fatalf("%s: least prices\n%v by simplex\n%v by insertion", where, a.Price, b.Price)
		}
		salt := rng.Uint64()
		hash := func(k, s int32) uint64 { return mix(salt ^ uint64(k)<<32 ^ uint64(s)) }
		second := slices.Clone(a.Settle(&p, hash))
		if !slices.Equal(second, b.Settle(&p, hash)) || !slices.Equal(a.Match, b.Match) {
			t.Fatalf("%s: tie-break\n%v by simplex\n%v by insertion", where, a.Match, b.Match)
		}
		if !slices.Equal(a.Witnesses(nil), b.Witnesses(nil)) {
			t.Fatalf("%s: witnesses differ", where)
		}
	}
}

func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// No family may need more than 64 pivots a task; the worst should be printed with -v.
func TestPivots(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s Solver
	for _, f := range families {
		for _, c := range []float64{0.5, 1, 2} {
			for _, size := range [][3]int{{64, 16, 0}, {200, 100, 0}, {1000, 200, 16}} {
				n := size[0]
				p := f.make(rng, n, size[1], size[2], int(c*float64(n)))
				done, err := s.Simplex(&p, 64*n, nil)
				if !done || err != nil {
					t.Errorf("%s %v, slots/tasks %v: gave up after %d pivots", f.name, size, c, s.Pivots)
				}
				t.Logf("%s %v, slots/tasks %v: %.1f pivots a task", f.name, size, c,
					float64(s.Pivots)/float64(n))
			}
		}
	}
}

func TestProblemOutsideTheLimits(t *testing.T) {
	good := func() Problem {
		return Problem{Off: []int32{0, 2, 3}, Seat: []int32{0, 1, 1}, Weight: []int64{5, 0, 9},
			Slots: []int32{1, 2}}
	}
	p := good()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(p *Problem){
		"negative weight":    func(p *Problem) { p.Weight[0] = -1 },
		"weight too large":   func(p *Problem) { p.Weight[0] = 1 << 61 },
		"no slot":            func(p *Problem) { p.Slots[1] = 0 },
		"seat out of range":  func(p *Problem) { p.Seat[2] = 2 },
		"negative seat":      func(p *Problem) { p.Seat[0] = -1 },
		"seat twice":         func(p *Problem) { p.Seat[1] = 0 },
		"row ends early":     func(p *Problem) { p.Off[1] = 4 },
		"weights missing":    func(p *Problem) { p.Weight = p.Weight[:2] },
		"rows end too early": func(p *Problem) { p.Off = p.Off[:2] },
		"no rows":            func(p *Problem) { p.Off = nil },
	} {
		p := good()
		spoil(&p)
		if err := new(Solver).Solve(&p, nil); !errors.Is(err, ErrProblem) {
			t.Errorf("%s: %v, want ErrProblem", name, err)
		}
	}
}

// A stopped solve says so, whichever method was at work.
func TestStop(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, slots := range []int{300, 3000} {
		p := families[0].make(rng, 1500, 100, 0, slots)
		asked := 0
		err := new(Solver).Solve(&p, func() bool { asked++; return asked == 2 })
		if !errors.Is(err, ErrStopped) || asked != 2 {
			t.Errorf("%d slots: %v after asking %d times, want ErrStopped after 2", slots, err, asked)
		}
	}
}

// Beyond its pivots the simplex hands over to insertion, which gives the same answer.
func TestFewPivots(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	p := families[0].make(rng, 100, 20, 0, 50)
	var s Solver
	if done, err := s.Simplex(&p, 10, nil); done || err != nil {
		t.Errorf("simplex with 10 pivots: %v, %v", done, err)
	}
	if done, err := s.Insert(&p, 10, nil); done || err != nil {
		t.Errorf("insertion with 10 edges: %v, %v", done, err)
	}
}

func TestNoAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var s Solver
	var proof []Witness
	hash := func(k, a int32) uint64 { return mix(uint64(k)<<32 ^ uint64(a)) }
	for _, f := range families {
		p := f.make(rng, 200, 40, 0, 150)
		round := func() {
			if err := s.Solve(&p, nil); err != nil {
				t.Fatal(err)
			}
			s.Settle(&p, hash)
			proof = s.Witnesses(proof)
		}
		round()
		if n := testing.AllocsPerRun(5, round); n > 0 {
			t.Errorf("%s: %v allocations a round, want 0", f.name, n)
		}
	}
}

// Welfare is the weight of the matching.
func (s *Solver) Welfare() (sum int64) {
	for _, w := range s.weight {
		sum += w
	}
	return sum
}
