package line

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/market"
)

const second = time.Second

func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func TestLeft(t *testing.T) {
	for _, test := range []struct {
		name                  string
		service, passed, want time.Duration
	}{
		{"just sent", 8 * second, 0, 8 * second},
		{"half way", 8 * second, 4 * second, 4 * second},
		{"nearly over", 8 * second, 7 * second, 2 * second},
		{"should be over", 8 * second, 8 * second, 2 * second},
		{"long overdue", 8 * second, 40 * second, 10 * second},
		{"an agent that claims to need no time", 0, 40 * second, 10 * second},
		{"and has had none", 0, 0, 0},
		{"sent by a clock that is ahead", 8 * second, -second, 8 * second},
		{"for ever", math.MaxInt64, 0, 24 * time.Hour},
		{"since ever", second, math.MaxInt64, 6 * time.Hour},
	} {
		if got := Left(test.service, test.passed); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestEnds(t *testing.T) {
	var e Ends
	e.Done()
	if _, ok := e.Nth(1); ok {
		t.Error("where nothing runs a slot is said to come free")
	}
	e.Add(4*second, 3*second)
	e.Add(8*second, 2*second)
	e.Done()
	for n, want := range []time.Duration{1: second, 2: 6 * second, 3: 7 * second, 4: 12 * second,
		5: 13 * second, 6: 18 * second} {
		if got, ok := e.Nth(n); ok != (n > 0) || n > 0 && got != want {
			t.Errorf("slot %d comes free in %v, want %v", n, got, want)
		}
	}
	if got, _ := e.Wait(2, 3*second); got != 24*second {
		t.Errorf("after 3 s of waiting 6 s are %v, want 24 s", got)
	}
	e.Reset()
	if _, ok := e.Nth(1); ok {
		t.Error("ends are left after a reset")
	}
}

// Whatever agents claim and clocks say, a wait is from 0 to Far, and who stands further back does not wait
// less.
func TestWaitsAreFiniteAndGrow(t *testing.T) {
	rng := random(t)
	for range 2000 {
		var e Ends
		for range 1 + rng.IntN(20) {
			e.Add(time.Duration(rng.Int64()>>rng.IntN(63)), time.Duration(rng.Int64()>>rng.IntN(63)))
		}
		e.Done()
		waited := time.Duration(rng.Int64() >> rng.IntN(63))
		before := time.Duration(0)
		for n := 1; n < 5000; n += 1 + rng.IntN(1+n) {
			got, ok := e.Wait(n, waited)
			if !ok || got < before || got > Far {
				t.Fatalf("slot %d: %v after %v, ok %v", n, got, before, ok)
			}
			if more, _ := e.Wait(n, waited+second); more < got {
				t.Fatalf("a second later %v has become %v", got, more)
			}
			before = got
		}
	}
}

func TestBoard(t *testing.T) {
	var b Board
	b.Reset(2, 2)
	for i, test := range []struct {
		home, client int
		age          time.Duration
		place        int
	}{
		{0, 7, 9 * second, 0}, {0, 7, 8 * second, 1}, {0, 7, 7 * second, 2}, // one too many of client 7
		{0, 8, 6 * second, 2}, {1, 7, 5 * second, 0}, {-1, 9, 4 * second, 0}, {0, 9, 3 * second, 3},
	} {
		if place := b.Join(test.home, Claim{test.client, test.age, i}, true); place != test.place {
			t.Errorf("task %d stands at place %d, want %d", i, place, test.place)
		}
	}
	if b.Len(0) != 4 || b.Len(1) != 1 || b.Homes(0) != 5 || b.Homes(1) != 1 {
		t.Errorf("lines of %d and %d, of %d and %d: want 4 and 1, of 5 and 1", b.Len(0), b.Len(1), b.Homes(0),
			b.Homes(1))
	}
	for _, test := range []struct {
		agent, free int
		age         time.Duration
		home        bool
		want        time.Duration
	}{
		{0, 1, 9 * second, true, 0}, {0, 1, 6 * second, true, 3 * second}, {0, 3, 6 * second, true, 0},
		{0, 4, second, true, 2 * second}, {0, 5, second, true, 0}, {0, 0, second, true, 0},
		{0, 1, 20 * second, false, 9 * second}, {1, 1, second, false, 5 * second}, {1, 2, second, false, 0},
	} {
		if got := b.Ahead(test.agent, test.free, 99, test.age, test.home); got != test.want {
			t.Errorf("%+v: goes ahead by %v", test, got)
		}
	}
	b.Reset(3, 1)
	if b.Len(0) != 0 || b.Len(2) != 0 ||
		b.Homes(0) != 0 || b.Join(0, Claim{7, second, 0}, true) != 0 {
		t.Error("a board that was reset is not empty")
	}
}

// A client's tasks lengthen nobody's line by more than its share, however many they are, and all together
// count no more than there are slots, or clients if these are more.
func TestShare(t *testing.T) {
	rng := random(t)
	for range 300 {
		agents, clients, slots := 1+rng.IntN(8), 1+rng.IntN(40), 1+rng.IntN(200)
		share := Share(slots, clients)
		var b Board
		b.Reset(agents, share)
		in := make([]map[int]int, agents)
		for k := range in {
			in[k] = map[int]int{}
		}
		for range rng.IntN(2000) {
			c := rng.IntN(clients)
			if rng.IntN(2) == 0 {
				c = 0 // floods
			}
			k := rng.IntN(agents)
			before := b.Len(k)
			if place := b.Join(k, Claim{Client: c}, rng.IntN(2) == 0); place != before {
				t.Fatalf("place %d in a line of %d", place, before)
			}
			in[k][c] += b.Len(k) - before
			if in[k][c] > share {
				t.Fatalf("client %d counts %d times in line %d, want at most %d", c, in[k][c], k, share)
			}
		}
	}
	if Share(0, 0) != 1 || Share(64, 128) != 1 || Share(64, 0) != 64 || Share(64, 3) != 21 {
		t.Error("shares are not slots by clients, at least one")
	}
}

func TestHome(t *testing.T) {
	for _, test := range []struct {
		name string
		c    []Candidate
		want int
	}{
		{"nobody", nil, -1},
		{"the longest prefix, however loaded", []Candidate{{3, 32, 0}, {5, 64, 90}, {6, 0, 0}}, 5},
		{"of equal prefixes the less loaded", []Candidate{{3, 64, 4}, {5, 64, 3}, {6, 64, 3}}, 5},
		{"no prefix: the least loaded", []Candidate{{3, 0, 4}, {5, 0, 3}, {6, 0, 9}}, 5},
	} {
		if got := Home(test.c); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestTolls(t *testing.T) {
	tolls := Tolls{Params{Compute: 4, Age: 4, Beside: 1500 * time.Microsecond}, market.Credit / 1000,
		market.Credit}
	low := &Tolls{tolls.Params, market.Credit / 1000, 4 * market.Credit / 1000}
	dear := &Tolls{tolls.Params, 10 * market.MaxWorth, market.MaxWorth}
	for name, test := range map[string]struct{ got, want market.Credits }{
		"too long by a second":    {tolls.Computed(second), -4 * market.Credit / 1000},
		"none too long":           {tolls.Computed(0), 0},
		"two seconds ahead":       {tolls.Ahead(2 * second), -8 * market.Credit / 1000},
		"behind":                  {tolls.Ahead(-second), 0},
		"an hour ahead":           {tolls.Ahead(time.Hour), tolls.Ahead(10 * second)},
		"at most most of a stake": {low.Ahead(2 * second), -3 * market.Credit / 1000},
		"less than that":          {low.Ahead(second / 2), -2 * market.Credit / 1000},
		"where nothing is lost":   {(&Tolls{tolls.Params, market.Credit, 0}).Ahead(second), 0},
		"beside eight":            {tolls.Among(8), -12 * market.Credit / 1e6},
		"beside none":             {tolls.Among(0), 0},
		"a dear second of a year": {dear.Computed(1e17), -market.MaxWorth},
		"nobody was served yet":   {(&Tolls{tolls.Params, 0, 0}).Computed(second), 0},
		"switched off":            {(&Tolls{Params{}, market.Credit, market.Credit}).Computed(second), 0},
		"off, and eight running":  {(&Tolls{Params{}, market.Credit, market.Credit}).Among(8), 0},
	} {
		if test.got != test.want {
			t.Errorf("%s: toll %s, want %s", name, test.got, test.want)
		}
	}
}

func TestPerSecond(t *testing.T) {
	for _, test := range []struct {
		t    market.Terms
		want market.Credits
	}{
		{market.Terms{Worth: market.Credit, Delta: 0.5, Patience: 10 * second}, market.Credit / 20},
		{market.Terms{Worth: market.Credit, Delta: 1, Patience: second}, 0},
		{market.Terms{Worth: 0, Delta: 0, Patience: second}, 0},
		{market.Terms{Worth: market.Credit, Delta: 0, Patience: 1}, 10 * market.Credit},
		{market.Terms{Worth: market.Credit, Delta: 0}, 10 * market.Credit},
		{market.Terms{Worth: 1 << 62, Delta: 0}, 10 * market.MaxWorth},
		{market.Terms{Worth: 1 << 62, Delta: math.NaN()}, 0},
		{market.Terms{Worth: market.Credit, Delta: 0, Patience: 1000 * second}, market.Credit / 1000},
	} {
		if got := PerSecond(test.t); got != test.want {
			t.Errorf("%+v: %d a second, want %d", test.t, got, test.want)
		}
	}
}

func TestStake(t *testing.T) {
	for _, test := range []struct {
		t    market.Terms
		want market.Credits
	}{
		{market.Terms{Worth: market.Credit, Delta: 0.5, Patience: 10 * second}, market.Credit / 2},
		{market.Terms{Worth: market.Credit, Delta: 1, Patience: second}, 0},
		{market.Terms{Worth: 0, Delta: 0, Patience: second}, 0},
		{market.Terms{Worth: 1 << 62, Delta: 0}, market.MaxWorth},
		{market.Terms{Worth: 1 << 62, Delta: math.NaN()}, 0},
	} {
		if got := Stake(test.t); got != test.want {
			t.Errorf("%+v: %d, want %d", test.t, got, test.want)
		}
	}
}

func TestWorths(t *testing.T) {
	var w Worths
	now := time.Unix(0, 0)
	if w.Mean(now) != 0 {
		t.Error("a second is worth something to nobody")
	}
	for i := range 100 {
		w.Add(now, fmt.Sprintf("client-%d", i%8), 1000)
	}
	if got := w.Mean(now); got != 1000 {
		t.Errorf("all had 1000, the mean is %d", got)
	}
	for range 20 { // by one of nine
		w.Add(now, "rich", 2000)
	}
	if got := w.Mean(now); got < 1100 || got > 1115 {
		t.Errorf("one of nine clients pays double, the mean is %d", got)
	}
	w.Add(now, "mad", 10*market.MaxWorth)
	if got := w.Mean(now); got > 2500 {
		t.Errorf("one wild bid moves the mean to %d", got)
	}
	before := w.Mean(now)
	if got := w.Mean(now.Add(10*second + 1)); got != before/4 {
		t.Errorf("ten seconds without an award: %d, want a quarter of %d", got, before)
	}
	if got := w.Mean(now.Add(1e6 * time.Hour)); got != 0 {
		t.Errorf("years without an award: %d", got)
	}
	if len(w.seen) != lately || len(w.count) > lately {
		t.Errorf("%d awards and %d clients are kept, want %d", len(w.seen), len(w.count), lately)
	}
}

// However many awards a client has, it moves the worth by no more than if it had its share. The order in
// which equal awards came does not matter.
func TestWorthsAreSharedOut(t *testing.T) {
	rng := random(t)
	for range 200 {
		var w Worths
		others := 3 + rng.IntN(20)
		all := []seen{}
		for i := range others {
			all = append(all, seen{client: fmt.Sprint(i), rate: 1000})
		}
		for range lately - others {
			all = append(all, seen{client: "flood",
				rate: market.Credits(rng.Int64N(int64(10 * market.MaxWorth)))})
		}
		now := time.Unix(0, 0)
		var got market.Credits
		for again := range 2 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, s := range all {
				w.Add(now, s.client, s.rate)
			}
			if x := w.Mean(now); again > 0 && x != got {
				t.Fatalf("in another order %d is %d", got, x)
			} else {
				got = x
			}
		}
		if limit := market.Credits(1001 + 9000/float64(others+1)); got < 0 || got > limit {
			t.Fatalf("a client with %d of %d awards moves 1000 to %d, want at most %d", lately-others, lately,
				got, limit)
		}
	}
}

// What a copy is asked, as a quote asks it, changes nothing; nor does how often the mean was asked for.
func TestWorthsAreCopied(t *testing.T) {
	rng := random(t)
	var w, asked Worths
	now := time.Unix(0, 0)
	for range 3 * lately {
		client, rate := fmt.Sprint(rng.IntN(5)), market.Credits(rng.Int64N(1000))
		w.Add(now, client, rate)
		asked.Add(now, client, rate)
		for range rng.IntN(3) {
			copied := w
			if got, want := copied.Mean(now), asked.Mean(now); got != want {
				t.Fatalf("a copy says %d, want %d", got, want)
			}
		}
	}
	if got, want := w.Mean(now), asked.Mean(now); got != want {
		t.Fatalf("after copies were asked it is %d, want %d", got, want)
	}
}

func TestParams(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	err := Params{Compute: -1, Age: math.NaN(), Beside: time.Minute}.Validate()
	for _, field := range []string{"compute: -1", "age: NaN", "beside: 1m0s"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %q", err, field)
		}
	}
}

func BenchmarkBoard(b *testing.B) {
	var board Board
	homes := rand.New(rand.NewPCG(1, 1)).Perm(2048)
	for b.Loop() {
		board.Reset(1000, 1)
		for i, h := range homes {
			board.Join(h%1000, Claim{Client: i}, true)
		}
	}
	if !slices.ContainsFunc(board.claims, func(l []Claim) bool { return len(l) > 0 }) {
		b.Fatal("nobody waits")
	}
}
