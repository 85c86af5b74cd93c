package certify

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// rows is a tiny instance: weight by task and seat, negative for no edge.
type rows struct {
	weight [][]int64
	slots  []int32
}

func (x rows) instance() Instance {
	in := Instance{Off: []int32{0}, Slots: x.slots,
		Hash: func(t, a int32) uint64 { return uint64(t*7+a*3+1) << 50 }}
	for _, row := range x.weight {
		for a, w := range row {
			if w >= 0 {
				in.Seat = append(in.Seat, int32(a))
				in.Weight = append(in.Weight, w)
			}
		}
		in.Off = append(in.Off, int32(len(in.Seat)))
	}
	return in
}

// matchings calls f with every feasible matching, and its welfare, of all tasks but skip.
func (x rows) matchings(skip int, f func(match []int32, welfare int64)) {
	match := make([]int32, len(x.weight))
	free := append([]int32(nil), x.slots...)
	var place func(t int, w int64)
	place = func(t int, w int64) {
		if t == len(match) {
			f(match, w)
			return
		}
		match[t] = -1
		place(t+1, w)
		if t == skip {
			return
		}
		for a := range x.slots {
			if x.weight[t][a] >= 0 && free[a] > 0 {
				free[a]--
				match[t] = int32(a)
				place(t+1, w+x.weight[t][a])
				free[a]++
				match[t] = -1
			}
		}
	}
	place(0, 0)
}

func (x rows) best(skip int) (most int64) {
	x.matchings(skip, func(_ []int32, w int64) { most = max(most, w) })
	return most
}

// least finds how much one more slot of every seat adds: the least prices (Leonard 1983), by trying
// everything.
func (x rows) least() (price []int64) {
	for a := range x.slots {
		more := rows{x.weight, append([]int32(nil), x.slots...)}
		more.slots[a]++
		price = append(price, more.best(-1)-x.best(-1))
	}
	return price
}

// witnesses finds a witness for each positive price by trying every task again and again, or gives up.
func (x rows) witnesses(match []int32, price []int64) (ws []Witness) {
	rank := make([]int32, len(price))
	proof := make([]Witness, len(price))
	gain := func(t int, a int32) int64 {
		if a < 0 {
			return 0
		}
		return x.weight[t][a] - price[a]
	}
	for level := int32(1); int(level) <= len(price); level++ {
		for a, p := range price {
			if p == 0 || rank[a] != 0 {
				continue
			}
			for t, at := range match {
				if at == int32(a) || x.weight[t][a] < 0 || gain(t, int32(a)) != gain(t, at) {
					continue
				}
				if at < 0 || price[at] == 0 || rank[at] > 0 && rank[at] < level {
					rank[a], proof[a] = level, Witness{int32(a), int32(t), at, level}
				}
			}
		}
	}
	for a, p := range price {
		if p > 0 {
			ws = append(ws, proof[a])
		}
	}
	return ws
}

// Over every matching and every price vector of tiny instances: exactly the best matchings at exactly the
// least prices pass, and they pass without second prices exactly where there is one best matching.
func TestExactlyTheTruthPasses(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	passed, ties := 0, 0
	var c Checker
	for range 150 {
		x := rows{weight: make([][]int64, 1+rng.IntN(4)), slots: make([]int32, 1+rng.IntN(3))}
		for t := range x.weight {
			for range x.slots {
				x.weight[t] = append(x.weight[t], rng.Int64N(6)-1)
			}
		}
		for a := range x.slots {
			x.slots[a] = 1 + int32(rng.IntN(2))
		}
		in, most, least := x.instance(), x.best(-1), x.least()
		best := 0
		x.matchings(-1, func(_ []int32, w int64) {
			if w == most {
				best++
			}
		})
		price := make([]int64, len(x.slots))
		x.matchings(-1, func(match []int32, w int64) {
			for code := range pow(6, len(price)) {
				right := w == most
				for a := range price {
					price[a] = int64(code % 6)
					code /= 6
					right = right && price[a] == least[a]
				}
				err := c.Check(in, Answer{Match: match, Price: price, Witnesses: x.witnesses(match, price)})
				want := error(nil)
				switch {
				case !right:
					want = ErrAnswer
				case best > 1:
					want = ErrTie
					ties++
				default:
					passed++
				}
				if !errors.Is(err, want) || want == ErrAnswer && errors.Is(err, ErrTie) || want == nil &&
					err != nil {
					t.Fatalf("seed %d: %+v\nmatching %v of %d (best %d, %d of them), prices %v (least %v): "+
						"%v, want %v",
						seed, x, match, w, most, best, price, least, err, want)
				}
			}
		})
	}
	if passed == 0 || ties == 0 {
		t.Errorf("%d passed, %d ties: the test sees nothing", passed, ties)
	}
}

func pow(b, n int) int {
	p := 1
	for range n {
		p *= b
	}
	return p
}

// Each fault is told by its own words.
func TestFaults(t *testing.T) {
	// Tasks 0 and 1 want seat 0; 1 is left out. Seat 1 is free.
	x := rows{weight: [][]int64{{9, 1}, {7, -1}}, slots: []int32{1, 1}}
	true0 := func() Answer {
		return Answer{Match: []int32{0, -1}, Price: []int64{7, 0}, Witnesses: []Witness{{0, 1, -1, 1}}}
	}
	var c Checker
	if err := c.Check(x.instance(), true0()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		want  string
		spoil func(a *Answer)
	}{
		{"1 tasks and 2 seats, want 2 and 2", func(a *Answer) { a.Match = a.Match[:1] }},
		{"task 1 sits at 1, where it has no edge", func(a *Answer) { a.Match[1] = 1 }},
		{"task 1 sits at -7, where it has no edge", func(a *Answer) { a.Match[1] = -7 }},
		{"seat 0 holds more than its 1 slots", func(a *Answer) { a.Match[1] = 0 }},
		{"seat 1 has the price -1, want 0 to", func(a *Answer) { a.Price[1] = -1 }},
		{"seat 0 has the price 9223372036854775807, want 0 to", func(a *Answer) { a.Price[0] = 1<<63 - 1 }},
		{"seat 1 has the price 1 and a free slot", func(a *Answer) { a.Price[1] = 1 }},
		{"task 0 pays 10 for a weight of 9", func(a *Answer) { a.Price[0] = 10 }},
		{"task 1 would gain 1 at seat 0 and gains 0", func(a *Answer) { a.Price[0] = 6 }},
		{"task 0 would gain 1 at seat 1 and gains 0", func(a *Answer) { a.Price[0] = 9 }},
		{"witness of seat 0, task 1, is not indifferent", func(a *Answer) { a.Price[0] = 8 }},
		{"seat 0 has the price 7 and no witness", func(a *Answer) { a.Witnesses = nil }},
		{"2 witnesses for 1 positive prices",
			func(a *Answer) { a.Witnesses = append(a.Witnesses, Witness{Seat: 1}) }},
		{"rank 0, want at least 1", func(a *Answer) { a.Witnesses[0].Rank = 0 }},
		{"which does not sit there", func(a *Answer) { a.Witnesses[0].From = 1 }},
		{"which does not sit there", func(a *Answer) { a.Witnesses[0].Task = 9 }},
		{"which does not sit there", func(a *Answer) { a.Witnesses[0] = Witness{0, 0, 0, 1} }},
		{"a proof of the choice where there was none", func(a *Answer) { a.Second = []int64{0, 0} }},
	} {
		a := true0()
		f.spoil(&a)
		if err := c.Check(x.instance(), a); err == nil || !errors.Is(err, ErrAnswer) ||
			!strings.Contains(err.Error(), f.want) {
			t.Errorf("%v, want %q", err, f.want)
		}
	}
}

// Of two equal tasks the one with the greater hash has the slot, and the second price shows it.
func TestSecondPrices(t *testing.T) {
	x := rows{weight: [][]int64{{7}, {7}}, slots: []int32{1}}
	in := x.instance() // hash: 1 << 50 for task 0, 8 << 50 for task 1
	h := 40
	serve := int64(3) << h
	bits := func(hash uint64) int64 { return int64(hash >> (64 - h)) }
	first, second := serve+bits(1<<50), serve+bits(8<<50)
	answer := func(match []int32, loser int32, price int64) Answer {
		return Answer{Match: match, Price: []int64{7}, Witnesses: []Witness{{0, loser, -1, 1}},
			Second: []int64{price}}
	}
	var c Checker
	for _, good := range []int64{first, second} {
		if err := c.Check(in, answer([]int32{-1, 0}, 0, good)); err != nil {
			t.Errorf("second price %d: %v", good, err)
		}
	}
	for _, bad := range []Answer{
		answer([]int32{-1, 0}, 0, first-1),
		answer([]int32{-1, 0}, 0, second+1),
		answer([]int32{0, -1}, 1, first),
		answer([]int32{0, -1}, 1, second),
		answer([]int32{0, -1}, 1, 1<<61+1),
		answer([]int32{0, -1}, 1, -1<<61-1),
	} {
		if err := c.Check(in, bad); !errors.Is(err, ErrAnswer) {
			t.Errorf("%+v passes", bad)
		}
	}
	wrong := answer([]int32{-1, 0}, 0, first)
	wrong.Second = []int64{first, 0}
	if err := c.Check(in, wrong); !errors.Is(err, ErrAnswer) {
		t.Error("two second prices for one seat pass")
	}
}
