package hub_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/hub"
	"souk/ledger"
	"souk/market"
)

// priced is a round of a journal that says what slots cost.
type priced struct {
	frame, record int
	round         *ledger.Round
}

func pricedRounds(frames []ledger.Frame) (all []priced) {
	for i := range frames {
		for k := range frames[i].Records {
			if r := frames[i].Records[k].Round; r != nil && len(r.Ground.Loads) > 0 {
				all = append(all, priced{i, k, r})
			}
		}
	}
	return all
}

// dearer is the journal in which a round says that a second costs more than it does, or that none costs
// anything.
func (p priced) dearer(frames []ledger.Frame, free bool) []ledger.Frame {
	frames = slices.Clone(frames)
	f := &frames[p.frame]
	f.Records = slices.Clone(f.Records)
	r := *p.round
	if r.Ground.Loads = slices.Clone(r.Ground.Loads); !free {
		r.Ground.Loads[0].Second++
	} else {
		r.Round.Edges = slices.Clone(r.Round.Edges)
		for i := range r.Ground.Loads {
			r.Ground.Loads[i].Second = 0
		}
		for i := range r.Round.Edges {
			r.Round.Edges[i].Toll, r.Round.Edges[i].Own = 0, 0
		}
	}
	f.Records[p.record].Round = &r
	return frames
}

// auctions audits frames up to level 4, of which one is missing or cannot be read. It returns where prices
// are found that do not follow from the rounds before, and the rounds that are said not to have been checked.
func auctions(t *testing.T, frames []ledger.Frame, lost uint64, missing bool) (wrong []uint64,
	unchecked [][2]uint64) {
	t.Helper()
	a := ledger.NewAudit("hub-math", ledger.LevelAuctions)
	for i := range frames {
		switch f := &frames[i]; {
		case f.Seq != lost:
			a.Frame(f.Seq, f.Epoch, ledger.AppendFrame(nil, f))
		case !missing:
			a.Frame(f.Seq, f.Epoch, []byte{9})
		}
	}
	for _, f := range a.Finish().Findings {
		if strings.Contains(f.Found, market.ErrRates.Error()) {
			wrong = append(wrong, f.Seq)
		}
		if _, said, ok := strings.Cut(f.Found, "prices a second of rounds "); ok {
			var of [2]uint64
			if _, err := fmt.Sscanf(said, "%d to %d", &of[0], &of[1]); err != nil {
				t.Fatalf("%v: %v", f, err)
			}
			unchecked = append(unchecked, of)
		}
	}
	return wrong, unchecked
}

// Where a round cannot be read, or is missing, no honest round after it is accused of a wrong price. Level 4
// says once which rounds it could not check, those of two spans of what prices remember at most, and checks
// all others: a forged price is found in each of them, and where it is not, that round is said not to have
// been checked.
func TestALostRoundAccusesNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 5))
	t.Logf("seed %d", seed)
	h := crowdedHouse(t, seed, func(c *hub.Config) { c.Silence = time.Hour })
	h.crowd(rng, "more", 1200)
	h.audited()
	rounds := pricedRounds(h.frames)
	if last := len(rounds) - 1; last < 100 ||
		rounds[last].round.Ground.At-rounds[0].round.Ground.At < 3*market.Remembered.Milliseconds() {
		t.Fatalf("%d rounds: the test sees too few", last+1)
	}
	forged, hidden := 0, 0
	for n := range 6 {
		at := rng.IntN(len(rounds) / 5)
		lost, missing := rounds[at], n%2 == 0
		seq := h.frames[lost.frame].Seq
		wrong, unchecked := auctions(t, h.frames, seq, missing)
		if len(wrong) > 0 || len(unchecked) != 1 {
			t.Fatalf("frame %d is lost (missing: %v): honest frames %v are accused, rounds %v are not checked",
				seq, missing, wrong, unchecked)
		}
		of := unchecked[0]
		first := slices.IndexFunc(rounds, func(p priced) bool { return p.round.Round.Number >= of[0] })
		last := slices.IndexFunc(rounds, func(p priced) bool { return p.round.Round.Number == of[1] })
		if first <= at || last < first || last == len(rounds)-1 ||
			rounds[last].round.Ground.At-rounds[first].round.Ground.At > 2*market.Remembered.Milliseconds() {
			t.Fatalf("round %d is lost, and %d to %d are not checked, of %d", lost.round.Round.Number, of[0],
				of[1], rounds[len(rounds)-1].round.Round.Number)
		}
		for range 8 {
			k := rng.IntN(len(rounds))
			p := rounds[k]
			if p.frame == lost.frame {
				continue
			}
			wrong, unchecked := auctions(t, p.dearer(h.frames, false), seq, missing)
			found := slices.Contains(wrong, h.frames[p.frame].Seq)
			switch in := k >= first && k <= last; {
			case in == found || len(unchecked) != 1 || in && unchecked[0] != of:
				t.Fatalf("round %d is lost: a forged price of round %d is found: %v; not checked are %v",
					lost.round.Round.Number, p.round.Round.Number, found, unchecked)
			case in:
				hidden++
			default:
				forged++
			}
		}
	}
	if forged == 0 || hidden == 0 {
		t.Errorf("%d forged prices were found, and %d stand in rounds that are not checked", forged, hidden)
	}
}

// Where a round is lost, one after it that does not say what its tolls are made of says that nothing costs
// anything there. Whether that is so nobody can tell either: it is found, or said not to have been checked.
func TestAfterALostRoundNothingIsFreeUnseen(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 7))
	t.Logf("seed %d", seed)
	h := crowdedHouse(t, seed)
	h.crowd(rng, "more", 60)
	h.audited()
	rounds := pricedRounds(h.frames)
	hidden := 0
	for at, lost := range rounds {
		for _, p := range rounds[at+1 : min(at+20, len(rounds))] {
			frames := p.dearer(h.frames, true)[:p.frame+1]
			r := frames[p.frame].Records[p.record].Round
			r.Ground = market.Ground{}
			seq, n := frames[p.frame].Seq, r.Round.Number
			if lost.frame == p.frame {
				continue
			}
			wrong, unchecked := auctions(t, frames, frames[lost.frame].Seq, at%2 == 0)
			said := slices.ContainsFunc(unchecked,
				func(of [2]uint64) bool { return of[0] <= n && n <= of[1] })
			if !slices.Contains(wrong, seq) && !said {
				t.Fatalf("round %d is lost, and of round %d it is not seen that it takes no tolls; not checked "+
					"are %v", lost.round.Round.Number, n, unchecked)
			}
			if said {
				hidden++
			}
		}
	}
	if hidden == 0 {
		t.Errorf("none of %d rounds could have hidden its tolls", len(rounds))
	}
}

// A price that is off by a nano-credit hides no greater one in the round after it.
func TestASmallForgedPriceHidesNoGreaterOne(t *testing.T) {
	h := crowdedHouse(t, 1)
	h.crowd(rand.New(rand.NewPCG(1, 8)), "more", 20)
	h.audited()
	frames, want := h.frames, []uint64(nil)
	for _, p := range pricedRounds(h.frames) {
		frames = p.dearer(frames, false)
		want = append(want, frames[p.frame].Seq)
	}
	if wrong, _ := auctions(t, frames, 0, false); len(want) < 10 || !slices.Equal(wrong, want) {
		t.Errorf("prices of frames %v were forged, and those of %v are found", want, wrong)
	}
}

// What slots cost goes on at a standby that takes over, from a snapshot and the frames after it: the journal
// of both is checked as one, and a price that the new hub forges, or forgets, is found.
func TestAForgedPriceAfterATakeoverIsFound(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 6))
	t.Logf("seed %d", seed)
	found, at := 0, 0
	for n := range uint64(12) {
		h := crowdedHouse(t, seed+n)
		h.crowd(rng, "before", 10)
		old := len(h.frames)
		h.takeover(rng.IntN(old), 8)
		for _, d := range h.dispatched {
			if _, open := h.n.Book().Hold(d.Hold); open {
				h.ends(d)
			}
		}
		h.dispatched = nil
		h.crowd(rng, "after", 15)
		h.audited()
		after := slices.DeleteFunc(pricedRounds(h.frames), func(p priced) bool { return p.frame < old })
		for k, p := range after {
			if !slices.ContainsFunc(p.round.Ground.Loads, func(l market.Load) bool { return l.Second > 0 }) {
				continue
			}
			if k == 0 {
				at++
			}
			for _, free := range []bool{false, true} {
				wrong, unchecked := auctions(t, p.dearer(h.frames, free), 0, false)
				if !slices.Contains(wrong, h.frames[p.frame].Seq) {
					t.Fatalf("round %d, after a takeover, says of slots what it likes (nothing: %v): found are "+
						"%v, not checked %v", p.round.Round.Number, free, wrong, unchecked)
				}
				found++
			}
		}
	}
	t.Logf("%d forged rounds were found; after %d of 12 takeovers slots cost something in the first round", found,
		at)
	if found == 0 || at == 0 {
		t.Error("the test sees nothing")
	}
}

// takeover has a standby lead the domain: it began from a snapshot behind so many frames, and read the rest.
func (h *house) takeover(behind int, epoch int64) {
	h.t.Helper()
	from := ledger.NewHistory(ledger.HistoryLimits{})
	apply := func(to *ledger.History, frames []ledger.Frame) {
		for i := range frames {
			f := &frames[i]
			h.must(to.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, f)))
		}
	}
	apply(from, h.frames[:behind])
	h.restartFrom(nil)
	if behind > 0 {
		data, err := from.Snapshot()
		h.must(err)
		h.must(h.n.Past.Load(data))
	}
	apply(h.n.Past, h.frames[behind:])
	h.now = h.now.Add(50 * time.Millisecond)
	h.must(h.n.Lead(h.now, epoch))
	h.run()
	for _, id := range slices.Sorted(maps.Keys(h.agents)) {
		h.must(h.register(h.agents[id].Registration))
	}
	h.run()
}
