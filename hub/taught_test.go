package hub_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/ledger"
	"souk/market"
)

// What slots cost is of the record: a hub that starts again, a standby that read each frame, and one that
// began from a snapshot have the same, to the last nano-credit.
func TestWhatSlotsCostGoesOnAfterARestart(t *testing.T) {
	learned := 0
	for seed := range uint64(20) {
		h := crowdedHouse(t, seed)
		h.pass(20 * time.Millisecond)
		want := *h.n.Book().Rates()
		for _, r := range want.Agents {
			if r.Price > 0 {
				learned++
			}
		}
		from := ledger.NewHistory(ledger.HistoryLimits{})
		for i := range h.frames {
			f := &h.frames[i]
			h.must(from.Apply(f.Seq, f.Epoch, ledger.AppendFrame(nil, f)))
		}
		data, err := from.Snapshot()
		h.must(err)
		again := ledger.NewHistory(ledger.HistoryLimits{})
		h.must(again.Load(data))
		h.restart()
		for who, got := range map[string]market.Rates{"restart": *h.n.Book().Rates(),
			"frames": *from.Book.Rates(), "snapshot": *again.Book.Rates()} {
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: by %s slots cost %+v, want %+v", seed, who, got, want)
			}
		}
	}
	if learned == 0 {
		t.Error("no price was learned")
	}
}

// A price a second, a toll, or what of it is not charged that is another than the rounds before taught is
// found by level 4 of the audit, and so is a round that does not say what its tolls are made of.
func TestAForgedPriceIsFound(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 4))
	t.Logf("seed %d", seed)
	forge := map[string]func(r *ledger.Round) bool{
		"price": func(r *ledger.Round) bool {
			return anyOf(rng, r.Ground.Loads, func(x *market.Load) bool { x.Second++; return true })
		},
		"toll": func(r *ledger.Round) bool {
			return anyOf(rng, r.Round.Edges, func(x *market.Edge) bool { x.Toll--; return true })
		},
		"part not charged": func(r *ledger.Round) bool {
			return anyOf(rng, r.Round.Edges, func(x *market.Edge) bool { x.Own++; return x.Own <= -x.Toll })
		},
		"calm": func(r *ledger.Round) bool {
			n := len(r.Ground.Loads)
			r.Ground = market.Ground{}
			return n > 0
		},
	}
	found := map[string]int{}
	for seed := range uint64(8) {
		h := crowdedHouse(t, seed)
		h.pass(20 * time.Millisecond)
		h.audited()
		honest := h.frames
		for i, f := range honest {
			for k := range f.Records {
				for name, change := range forge {
					if f.Records[k].Round == nil {
						continue
					}
					frames := slices.Clone(honest)
					frames[i].Records = slices.Clone(f.Records)
					r := *f.Records[k].Round
					r.Round.Edges, r.Ground.Loads = slices.Clone(r.Round.Edges), slices.Clone(r.Ground.Loads)
					frames[i].Records[k].Round = &r
					if !change(&r) {
						continue
					}
					h.frames = frames
					if !slices.ContainsFunc(h.findings(ledger.LevelAuctions), func(x ledger.Finding) bool {
						return x.Level == ledger.LevelAuctions && x.Seq == f.Seq &&
							strings.Contains(x.Found, market.ErrRates.Error())
					}) {
						t.Fatalf("frame %d: a forged %s is not found", f.Seq, name)
					}
					found[name]++
				}
			}
		}
	}
	for name := range forge {
		if found[name] == 0 {
			t.Errorf("no %s was forged", name)
		}
	}
}

// What a round taught is found later where it was changed, as what later ones say does not follow from it: a
// round that is left out, or that says other stays, another loss or other bids than it had.
func TestWhatRoundsTaughtIsFoundLater(t *testing.T) {
	change := map[string]func(r *ledger.Round) bool{
		"a round left out": func(r *ledger.Round) bool { *r = ledger.Round{}; return true },
		"another stay": func(r *ledger.Round) bool {
			for i := range r.Ground.Stays {
				r.Ground.Stays[i].Service *= 2
			}
			return true
		},
		"another loss": func(r *ledger.Round) bool {
			r.Ground.Lost = market.FullShare - r.Ground.Lost
			return true
		},
		"other bids": func(r *ledger.Round) bool {
			for i := range r.Round.Edges {
				r.Round.Edges[i].Value += 1_000_000
			}
			return true
		},
		"slots that stay free": func(r *ledger.Round) bool {
			for i := range r.Ground.Loads {
				r.Ground.Loads[i].Spare = true
			}
			return true
		},
	}
	found, taught := map[string]int{}, 0
	for seed := range uint64(10) {
		var rounds []*ledger.Round
		for _, f := range longCrowd(t, seed) {
			for k := range f.Records {
				if r := f.Records[k].Round; r != nil {
					rounds = append(rounds, r)
				}
			}
		}
		check := func(skip int, change func(*ledger.Round) bool) bool {
			var rates market.Rates
			for i, r := range rounds {
				err := rates.Check(&r.Round, &r.Outcome, &r.Ground, func(int) market.Credits { return 0 })
				if err != nil {
					return false
				}
				if i == skip {
					x := *r
					x.Round.Edges, x.Ground.Loads = slices.Clone(r.Round.Edges), slices.Clone(r.Ground.Loads)
					x.Ground.Stays = slices.Clone(r.Ground.Stays)
					change(&x)
					r = &x
				}
				rates.Learn(&r.Round, &r.Outcome, &r.Ground)
			}
			return true
		}
		if !check(-1, nil) {
			t.Fatalf("seed %d: an honest journal is not", seed)
		}
		for i, r := range rounds {
			if len(r.Ground.Loads) > 0 {
				taught++
			}
			for name, change := range change {
				if !check(i, change) {
					found[name]++
				}
			}
		}
	}
	t.Logf("%d rounds teach something; of changes are found %v", taught, found)
	for name := range change {
		if found[name] < taught/20 {
			t.Errorf("%s: found %d times in %d rounds", name, found[name], taught)
		}
	}
}

// longCrowd is the journal of a house where more tasks than slots come for a while.
func longCrowd(t *testing.T, seed uint64) []ledger.Frame {
	h := crowdedHouse(t, seed)
	h.crowd(rand.New(rand.NewPCG(seed, 22)), "more", 40)
	h.audited()
	return h.frames
}

// crowd has so many tasks come, more than are served.
func (h *house) crowd(rng *rand.Rand, name string, tasks int) {
	h.t.Helper()
	for n := range tasks {
		h.must(h.step(h.task(fmt.Sprint("c", n%4), fmt.Sprint(name, "-", n), crowdTerms(rng),
			sharedSession(rng))))
		h.pass(time.Duration(rng.IntN(100)) * time.Millisecond)
		for n%4 < 3 && len(h.dispatched) > 0 {
			d := h.dispatched[0]
			h.dispatched = h.dispatched[1:]
			if _, open := h.n.Book().Hold(d.Hold); open {
				h.serve(d, market.Usage{Prompt: 100, Output: 20 + rng.IntN(60)})
				break
			}
		}
		h.pass(20 * time.Millisecond)
	}
}

// No bid of a round moves a toll, a price a second or an order in that round: whatever those who wait say,
// tolls of one and the same task on one and the same agent stay, with what of them is not charged.
func TestNoBidMovesAPriceInItsRound(t *testing.T) {
	priced, tolled := 0, 0
	for seed := range uint64(60) {
		var first ledger.Round
		for k := range 3 {
			h := crowdedHouse(t, seed)
			rng, before := rand.New(rand.NewPCG(seed, uint64(k))), len(h.frames)
			for n := range 6 { // who comes last, in the same moment, with other terms each time
				h.must(h.step(h.task(fmt.Sprint("c", n%4), fmt.Sprint("last-", n), crowdTerms(rng))))
			}
			h.pass(20 * time.Millisecond)
			r := firstRound(h.frames[before:])
			switch {
			case r == nil:
			case k == 0:
				first = *r
			case r.Ground.At == first.Ground.At: // else nobody began in one of them, and it is another round
				p, n := samePrices(t, &first, r)
				priced, tolled = priced+p, tolled+n
			}
		}
	}
	t.Logf("%d prices and %d tolls were compared", priced, tolled)
	if priced == 0 || tolled == 0 {
		t.Errorf("%d prices and %d tolls were compared: the test sees nothing", priced, tolled)
	}
}

func firstRound(frames []ledger.Frame) *ledger.Round {
	for i := range frames {
		for k := range frames[i].Records {
			if r := frames[i].Records[k].Round; r != nil {
				return r
			}
		}
	}
	return nil
}

// samePrices compares what two rounds say of the same agents and tasks, and counts what is above 0.
func samePrices(t *testing.T, a, b *ledger.Round) (priced, tolled int) {
	t.Helper()
	seconds, turns := map[market.AgentID]market.Credits{}, map[string]int{}
	tolls := map[[2]string][2]market.Credits{}
	for i, l := range a.Ground.Loads {
		seconds[a.Round.Agents[i].Agent] = l.Second
	}
	at := func(r *ledger.Round, e market.Edge) [2]string {
		return [2]string{string(r.Round.Tasks[e.Task].ID), string(r.Round.Agents[e.Agent].Agent)}
	}
	for _, e := range a.Round.Edges {
		tolls[at(a, e)] = [2]market.Credits{e.Toll, e.Own}
	}
	for _, x := range a.Round.Tasks {
		turns[string(x.ID)] = x.Turn
	}
	for i, l := range b.Ground.Loads {
		if want, ok := seconds[b.Round.Agents[i].Agent]; ok && l.Second != want {
			t.Errorf("a second at %s costs %s, and %s with other bids", b.Round.Agents[i].Agent, want,
				l.Second)
		} else if ok && want > 0 {
			priced++
		}
	}
	for _, e := range b.Round.Edges {
		got := [2]market.Credits{e.Toll, e.Own}
		if want, ok := tolls[at(b, e)]; ok && got != want {
			t.Errorf("%v: tolls %v, and %v with other bids", at(b, e), want, got)
		} else if ok && e.Toll < 0 {
			tolled++
		}
	}
	for _, x := range b.Round.Tasks {
		for _, y := range b.Round.Tasks {
			i, in := turns[string(x.ID)]
			j, both := turns[string(y.ID)]
			if in && both && x.Turn < y.Turn && i > j {
				t.Errorf("%s goes before %s, and after it with other bids", x.ID, y.ID)
			}
		}
	}
	return priced, tolled
}

// anyOf changes one of a list, if there is one and it can be changed so.
func anyOf[T any](rng *rand.Rand, list []T, change func(*T) bool) bool {
	return len(list) > 0 && change(&list[rng.IntN(len(list))])
}
