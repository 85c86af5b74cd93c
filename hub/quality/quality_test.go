package quality

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"souk/bus/learned"
)

// Where nobody has said anything the registered score stands.
func TestTheRegisteredScoreStands(t *testing.T) {
	for _, score := range []float64{0, 0.1, 0.7, 1} {
		var s Score
		if got := s.Q(score, true, true); math.Abs(got-score) > 1e-12 {
			t.Errorf("nothing was said, and Q is %v of %v", got, score)
		}
		for i := range 500 {
			s.Paid(fmt.Sprint("c-", i%7), 1)
		}
		if got := s.Q(score, true, true); math.Abs(got-score) > 1e-12 {
			t.Errorf("nobody judged, and Q is %v of %v", got, score)
		}
	}
}

// said is one thing that happens to a score.
type said struct {
	gold   bool
	client string
	share  float64
	cost   float64
}

func (x said) to(s *Score) {
	switch {
	case x.gold:
		s.Judge(x.share)
	default:
		s.Paid(x.client, x.cost)
		if x.share >= 0 {
			s.Say(x.client, x.share)
		}
	}
}

func history(r *rand.Rand, n int) (list []said) {
	for range n {
		x := said{gold: r.IntN(2) == 0, share: r.Float64(), client: fmt.Sprint("c-", r.IntN(100)),
			cost: math.Exp(4 * r.NormFloat64())}
		if !x.gold && r.IntN(3) == 0 {
			x.share = -1 // it says nothing
		}
		list = append(list, x)
	}
	return list
}

// Q is a share, whatever is said; no better judgement lowers it; and a source that is not used moves nothing.
func TestQIsBoundedAndMonotone(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	raised := 0
	for range 2000 {
		list, score := history(r, 1+r.IntN(300)), r.Float64()
		var before, after Score
		at := r.IntN(len(list))
		better := list[at]
		if better.share >= 0 {
			better.share += r.Float64() * (1 - better.share)
		}
		for i, x := range list {
			x.to(&before)
			if i == at {
				x = better
			}
			x.to(&after)
		}
		was, is := before.Q(score, true, true), after.Q(score, true, true)
		if !(was >= 0 && was <= 1 && is >= 0 && is <= 1) {
			t.Fatalf("Q is %v, and then %v", was, is)
		}
		if is < was-1e-12 {
			t.Fatalf("a better judgement (%+v instead of %+v) lowers Q from %v to %v", better, list[at], was, is)
		}
		if is > was {
			raised++
		}
		gold, feedback := !better.gold, better.gold
		if a, b := before.Q(score, gold, feedback), after.Q(score, gold, feedback); a != b {
			t.Fatalf("gold: %v is not used, and moves Q from %v to %v", better.gold, a, b)
		}
	}
	if raised < 500 {
		t.Errorf("a better judgement raised Q %d times of 2000: the test sees little", raised)
	}
}

// Each source is shown by itself, as it was said, and moves Q towards its mean, the further the more it says.
func TestSourcesAreKeptApart(t *testing.T) {
	var s Score
	for range 10 {
		s.Judge(1)
		s.Paid("ann", 1)
		s.Say("ann", 0.25)
	}
	want := map[string]float64{"gold": 1, "feedback": 0.25}
	for _, h := range s.Heard() {
		if math.Abs(h.Mean-want[h.Source]) > 0.03 || h.Weight < 7 || h.Weight > 10 || h.Count != 10 {
			t.Errorf("%+v, want a mean of %v of 10", h, want[h.Source])
		}
		delete(want, h.Source)
	}
	if len(want) > 0 {
		t.Errorf("nothing is shown of %v", want)
	}
	g, f, none := s.Q(0.5, true, false), s.Q(0.5, false, true), s.Q(0.5, false, false)
	if g < 0.6 || f > 0.45 || none != 0.5 {
		t.Errorf("gold alone gives %v, feedback %v, none %v", g, f, none)
	}
}

// Of several clients that pay alike one moves Q by no more than its part of them, however often it judges and
// whatever the others say.
func TestAFloodOfOneClientMovesQByItsShare(t *testing.T) {
	for _, clients := range []int{1, 2, 5, 20} {
		for _, others := range []float64{-1, 0, 0.9} {
			score := func(says float64) float64 {
				var s Score
				for range 300 {
					for c := range clients {
						name := fmt.Sprint("c-", c)
						s.Paid(name, 3)
						switch {
						case c == 0:
							s.Say(name, says)
						case others >= 0:
							s.Say(name, others)
						}
					}
				}
				return s.Q(0.5, true, true)
			}
			if d := score(1) - score(0); d > 1/float64(clients) || d <= 0 {
				t.Errorf("one of %d clients, others say %v: it moves Q by %v", clients, others, d)
			}
		}
	}
}

// Many names of one account move Q by no more than one name with all its money, and leave the others theirs.
func TestManyNamesOfOneAccount(t *testing.T) {
	score := func(names int, says float64) (q, honest float64) {
		var s Score
		for i := range 3000 {
			s.Paid(fmt.Sprint("c-", i%4), 1) // four clients that say 0.5
			s.Say(fmt.Sprint("c-", i%4), 0.5)
			name := fmt.Sprint("z-", i%max(1, names))
			s.Paid(name, 0.25) // a fifth of all that is paid
			if says >= 0 {
				s.Say(name, says)
			}
		}
		for _, v := range s.Voices {
			if v.Client[0] == 'c' {
				honest += v.Paid
			}
		}
		return s.Q(0.5, true, true), honest
	}
	for _, names := range []int{1, 2, 10, 50, 200} {
		low, kept := score(names, 0)
		high, _ := score(names, 1)
		if d := high - low; d > 0.2 {
			t.Errorf("%d names with a fifth of the money move Q by %v", names, d)
		}
		if kept == 0 {
			t.Errorf("%d names leave nothing of the others", names)
		}
	}
}

// Names that pay next to nothing do not take its part from a client that pays.
func TestCheapNamesTakeNobodysPart(t *testing.T) {
	weight := func(names int) float64 {
		var s Score
		for i := range 2000 {
			s.Paid("ann", 1)
			s.Say("ann", 1)
			if names > 0 {
				s.Paid(fmt.Sprint("z-", i%names), 0.01)
			}
		}
		w, _ := s.feedback()
		return w
	}
	if alone, beside := weight(0), weight(40); beside < 0.9*alone {
		t.Errorf("alone a client counts %v, beside forty that pay next to nothing %v", alone, beside)
	}
}

// Who never paid has no say; what anybody said fades; and memory is bounded.
func TestWhoHasPaidIsHeard(t *testing.T) {
	var s Score
	if s.Say("eve", 0) {
		t.Error("who never paid is heard")
	}
	s.Paid("ann", 1)
	if !s.Say("ann", 0) || s.Q(0.8, true, true) >= 0.8 {
		t.Error("who paid is not heard")
	}
	was := s.Q(0.8, true, true)
	for i := range 20000 {
		s.Paid(fmt.Sprint("c-", i%500), 1)
		s.Judge(0.8)
	}
	if is := s.Q(0.8, true, true); is <= was || is < 0.799 {
		t.Errorf("Q is still %v, and was %v", is, was)
	}
	if len(s.Voices) > voicesKept {
		t.Errorf("%d clients are kept", len(s.Voices))
	}
	var a Agent
	for i := range 2 * domainsKept {
		if got := a.In(fmt.Sprint("d-", i)); (got != nil) != (i < domainsKept) {
			t.Fatalf("domain %d: %v", i, got)
		}
	}
}

// An agent that was written down and read again goes on as if nothing had been.
func TestWrittenDownAndReadAgain(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 50 {
		var a Agent
		for d := range r.IntN(5) {
			for _, x := range history(r, r.IntN(400)) {
				x.to(a.In(fmt.Sprint("d-", d)))
			}
		}
		data, err := learned.Append(nil, &a)
		if err == nil {
			data, err = learned.Sealed(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		var b Agent
		if err := learned.Read(data, &b); err != nil {
			t.Fatal(err)
		}
		for d := range 5 {
			for _, x := range history(r, 20) {
				name := fmt.Sprint("d-", d)
				x.to(a.In(name))
				x.to(b.In(name))
				if p, q := a.In(name).Q(0.5, true, true), b.In(name).Q(0.5, true, true); p != q {
					t.Fatalf("%s: %v, and %v after it was read", name, p, q)
				}
			}
		}
	}
}
