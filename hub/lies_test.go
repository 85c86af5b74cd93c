package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// owned are the tasks that wait of a client that has several; none where none has.
func (h *house) owned() (client string, own []*task) {
	by := map[string][]*task{}
	for _, x := range h.waiting() {
		if by[x.key.client] = append(by[x.key.client], x); len(by[x.key.client]) > 1 {
			client = x.key.client
		}
	}
	return client, by[client]
}

// renamed gives tasks names of clients, each its own, until restore is called.
func (h *house) renamed(own []*task) (restore func()) {
	was := make([]string, len(own))
	for i, x := range own {
		was[i], x.key.client = x.key.client, fmt.Sprint(x.key.client, "-as-", i)
		h.n.openAccount(x.key.client)
	}
	return func() {
		for i, x := range own {
			h.n.closeAccount(x.key.client)
			x.key.client = was[i]
		}
	}
}

// lied is the best of so many lies about the terms of tasks, where the truth is worth best, and how many of
// them are better.
func (h *house) lied(rng *rand.Rand, client string, own []*task, lies int, worth map[string]market.Credits,
	best market.Credits) (better market.Credits, paid int) {
	better = best
	for range lies {
		terms := make([]market.Terms, len(own))
		for i, x := range own {
			terms[i] = x.terms
			x.terms = lie(rng, x.terms)
		}
		_, o := h.weigh(everybody)
		for i, x := range own {
			x.terms = terms[i]
		}
		if got := gain(&o, client, worth); got > best {
			paid++
			better = max(better, got)
		}
	}
	return better, paid
}

// What a client with several tasks has by giving each of them another name, with true terms and with others,
// and what it has by lying where each task is priced by itself: how much, of what it has by the truth under
// one name. The bounds are those of market/doc.go.
func TestWhatOtherNamesAreWorth(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const houses, lies = 150, 30
	for _, c := range []struct {
		name           string
		clarke         string
		split, lie     bool
		least, atMost  float64 // of the truth, to all
		someoneGainsBy float64 // at least, so that the test sees what it is for
	}{
		{"names, and true terms", market.ClarkeClient, true, false, -0.01, 0, 0},
		{"names, and lies", market.ClarkeClient, true, true, 0, 0.001, 0},
		{"lies, where each task is priced by itself", market.ClarkeTask, false, true, 0, 0.005, 1e-9},
		{"lies under one name", market.ClarkeClient, false, true, 0, 0, 0},
	} {
		var truthful, sum, most float64
		tried, paid, seen := 0, 0, 0
		for n := range uint64(houses) {
			h := crowdedHouse(t, 1+n)
			h.n.cfg.Clarke = c.clarke
			client, own := h.owned()
			if len(own) < 2 {
				continue
			}
			seen++
			_, honest := h.weigh(everybody)
			worth := h.truth(client)
			best := gain(&honest, client, worth)
			restore := func() {}
			if c.split {
				restore = h.renamed(own)
			}
			better := best
			if c.lie {
				k := 0
				better, k = h.lied(rand.New(rand.NewPCG(1, n)), client, own, lies, worth, best)
				tried, paid = tried+lies, paid+k
			} else {
				_, o := h.weigh(everybody)
				better = gain(&o, client, worth)
				if tried++; better > best {
					paid++
				}
			}
			restore()
			truthful += float64(best)
			sum += float64(better - best)
			if best > 0 {
				most = max(most, float64(better-best)/float64(best))
			}
		}
		share := sum / truthful
		t.Logf("%s: %d clients, %d of %d gain; %+.2f %% of the truth, to one client %.1f %%", c.name, seen, paid,
			tried, 100*share, 100*most)
		if seen < 20 || share < c.least || share > c.atMost || most < c.someoneGainsBy {
			t.Errorf("%s: worth %+.4f of the truth, want %v to %v; to one client %.4f, want at least %v; %d "+
				"clients", c.name, share, c.least, c.atMost, most, c.someoneGainsBy, seen)
		}
	}
}

// Tasks that cannot win lengthen lines by their client's share of the slots. So under one name they cost
// others hardly anything; each of many names counts as a client. Whoever sends them has nothing of it.
// market/doc.go gives the bounds.
func TestWhatAFloodOfNamesIsWorth(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for names, least := range map[int]float64{0: 0.99, 20: 0.93, 300: 0.88} { // 0: its own
		var own, others, ownWith, with float64
		for n := range uint64(60) {
			h := crowdedHouse(t, 1+2*n+1)
			h.n.cfg.Clarke = market.ClarkeClient
			low, patience := market.Credits(1_000_000), int64(60_000)
			for i := range 300 {
				client := "c0"
				if names > 0 {
					client = fmt.Sprint("flood-", i%names)
					h.prepaid[client] = 1000 * market.Credit
				}
				h.must(h.n.Step(h.now, h.task(client, fmt.Sprint("f-", i), func(m *bus.Task) {
					m.Terms = bus.Terms{Worth: &low, PatienceMS: &patience}
				})))
			}
			for _, f := range slices.Clone(h.n.out.Funds) {
				h.must(h.n.Step(h.now, h.treasury(f)))
			}
			h.n.out.Funds = nil
			flood := func(x *task) bool { return x.key.id[:2] == "f-" }
			clients := h.n.crowd.clients
			h.n.crowd.clients -= names
			_, before := h.weigh(func(x *task) bool { return !flood(x) })
			worth := map[string]map[string]market.Credits{}
			for _, c := range []string{"c0", "c1", "c2", "c3"} {
				worth[c] = h.truth(c)
			}
			h.n.crowd.clients = clients
			_, after := h.weigh(everybody)
			for c, m := range worth {
				was, is := float64(gain(&before, c, m)), float64(gain(&after, c, m))
				if c == "c0" {
					own, ownWith = own+was, ownWith+is
				} else {
					others, with = others+was, with+is
				}
			}
		}
		t.Logf("300 tasks that cannot win, under %d names: whoever sent them has %+.2f %%, the others %+.2f %%",
			names, 100*(ownWith/own-1), 100*(with/others-1))
		if with < least*others || ownWith > own {
			t.Errorf("under %d names a flood is worth %v to its client and %v to the others, of %v and %v",
				names, ownWith, with, own, others)
		}
	}
}

// Who cancels a task and asks again comes last: it stands behind others, and reckons with slot prices of now.
// That is no bid, so nothing says that it cannot pay: where others then stand further ahead in their lines
// they rather wait, and leave it a slot. On the whole it loses. The bounds are those of market/doc.go.
func TestWhatAskingAgainIsWorth(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, lies := range []int{0, 20} {
		var sum, truthful float64
		paid, tried := 0, 0
		for n := range uint64(400) {
			h := crowdedHouse(t, 1+n)
			h.n.cfg.Clarke = market.ClarkeClient
			rng := rand.New(rand.NewPCG(9, n))
			x := h.waiting()[0]
			client := x.key.client
			own := slices.DeleteFunc(h.waiting(), func(y *task) bool { return y.key.client != client })
			_, honest := h.weigh(everybody)
			worth := h.truth(client)
			best := gain(&honest, client, worth)
			h.n.batch.Remove(x)
			last, _ := h.n.book.LastRound()
			x.arrived, x.since, x.expects, x.expected = h.n.now, last, nil, 0
			h.n.batch.Add(x, x.arrived)
			_, o := h.weigh(everybody)
			got, _ := h.lied(rng, client, own, lies, worth, gain(&o, client, worth))
			if tried++; got > best {
				paid++
			}
			sum, truthful = sum+float64(got-best), truthful+float64(best)
		}
		t.Logf("asking again, and the best of %d lies: %d of %d gain; %+.2f %% of the truth", lies, paid, tried,
			100*sum/truthful)
		if sum > 0 || paid == 0 || paid > tried*15/100 {
			t.Errorf("%d of %d gain, %v of the truth, want a few, and a loss on the whole", paid, tried,
				sum/truthful)
		}
	}
}

// A false deadline is a false word on what waiting is worth, and of no use either: under clarke "client"
// nobody gains by it.
func TestNoLieAboutADeadlinePays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	tried, moved := 0, 0
	for n := range uint64(100) {
		h := crowdedHouse(t, seed+n)
		h.n.cfg.Clarke = market.ClarkeClient
		rng := rand.New(rand.NewPCG(seed, n))
		client := h.waiting()[0].key.client
		own := slices.DeleteFunc(h.waiting(), func(y *task) bool { return y.key.client != client })
		_, honest := h.weigh(everybody)
		worth := h.truth(client)
		best := gain(&honest, client, worth)
		for range 12 {
			was := make([]time.Time, len(own))
			for i, x := range own {
				was[i] = x.deadline
				x.deadline = h.n.now.Add(time.Duration(rng.IntN(4000)) * time.Millisecond)
			}
			_, o := h.weigh(everybody)
			for i, x := range own {
				x.deadline = was[i]
			}
			if tried++; !slices.Equal(o.Awards, honest.Awards) {
				moved++
			}
			if got := gain(&o, client, worth); got > best {
				t.Fatalf("house %d: %s has %s by a false deadline, and %s by the truth", n, client, got, best)
			}
		}
	}
	if t.Logf("%d lies, %d of them moved awards", tried, moved); moved < tried/20 {
		t.Error("the test sees little")
	}
}
