package hub_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/regime"
	"souk/ledger"
	"souk/market"
)

// crowded plays tasks that come at a steady rate for some time, and which agents of eight slots together
// serve in 400 ms each, a few of which end at a time: twenty a second at most. Task i is worth what worths
// says. It returns the regime and what it goes by every second.
func crowded(t *testing.T, rate float64, length time.Duration, worths func(i int) market.Credits,
	change func(*hub.Config)) (*house, []string) {
	h := newHouse(t, change)
	for _, id := range []string{"a-1", "a-2"} {
		h.join(id, "llama", 4, 0.9, card(1, 1, 4))
	}
	type running struct {
		d  bus.Dispatch
		at time.Time
	}
	var runs []running
	var read []string
	for i, end, next := 0, h.now.Add(length), h.now; h.now.Before(end); {
		for ; !next.After(h.now); i++ {
			client := fmt.Sprint("c-", i%40)
			h.prepaid[client] = 1000 * market.Credit
			h.must(h.step(h.task(client, fmt.Sprint("t-", i), inNoHurry, worth(worths(i)))))
			next = next.Add(time.Duration(float64(time.Second) / rate))
		}
		h.pass(20 * time.Millisecond)
		for _, d := range h.dispatched {
			h.accept(d)
			runs = append(runs, running{d, h.now.Add(400 * time.Millisecond)})
		}
		h.dispatched = nil
		for h.now.Sub(start)%(100*time.Millisecond) == 0 && len(runs) > 0 && !runs[0].at.After(h.now) {
			d := runs[0].d
			runs = runs[1:]
			h.must(h.n.Step(h.now, completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 20})))
		}
		h.run() // several slots may be free at once
		if h.now.Sub(start)%time.Second == 0 {
			for _, a := range []string{"a-1", "a-2"} {
				h.must(h.summary(a, nil))
			}
			read = append(read, fmt.Sprintf("%s %.6g", h.n.Regime(), h.n.Slowdown()))
		}
	}
	return h, read
}

func alike(int) market.Credits { return market.Credit }

// Twice what the agents can serve is seen within 15 s, said in the status, and half of it never.
func TestARegimeIsSeenAndSaid(t *testing.T) {
	h, _ := crowded(t, 10, 20*time.Second, alike, nil)
	if h.n.Regime() != regime.Below || h.status.Regime != "below" {
		t.Errorf("%s at half of what there is; the status says %q", h.n.Regime(), h.status.Regime)
	}
	h, read := crowded(t, 40, 16*time.Second, alike, nil)
	if h.n.Regime() == regime.Below || h.status.Regime != h.n.Regime().String() {
		t.Errorf("%s at twice of what there is; the status says %q: %s", h.n.Regime(), h.status.Regime,
			read[len(read)-1])
	}
	if s := h.n.Stats().Regime; s.State != h.n.Regime().String() || s.Rho <= 0 || s.Temperature != 0 {
		t.Errorf("stats %+v", s)
	}
}

// Whose tasks are worth how much moves no regime: terms are dealt out otherwise, and scaled. Tasks are alike
// in all else, else others would wait.
func TestNoBidMovesARegime(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	worths := make([]market.Credits, 700)
	for i := range worths {
		worths[i] = market.Credit/2 + market.Credits(rng.Int64N(int64(market.Credit)))
	}
	of := func(i int) market.Credits { return worths[i] }
	_, want := crowded(t, 24, 25*time.Second, of, nil)
	if strings.HasPrefix(want[len(want)-1], regime.Below.String()) {
		t.Fatalf("nobody waits: the test sees nothing: %s", want[len(want)-1])
	}
	_, scaled := crowded(t, 24, 25*time.Second, func(i int) market.Credits { return 7 * worths[i] }, nil)
	rng.Shuffle(len(worths), func(i, j int) { worths[i], worths[j] = worths[j], worths[i] })
	_, dealt := crowded(t, 24, 25*time.Second, of, nil)
	for i := range want {
		// who waits is another, and how many do, and for how long at most is nearly not
		state, _, _ := strings.Cut(want[i], " ")
		if !strings.HasPrefix(dealt[i], state) || !strings.HasPrefix(scaled[i], state) {
			t.Errorf("after %d s: %s; worths dealt out otherwise: %s; scaled: %s", i, want[i], dealt[i],
				scaled[i])
		}
	}
}

// Where tolls follow the load, what the regime charged is in the record of each round with the regime's name,
// and the audit finds nothing amiss; below the knee, and where its parameters leave rounds as they are, the
// records are the same byte by byte as where nothing follows.
func TestWhatARegimeChargesIsRecorded(t *testing.T) {
	play := func(rate float64, control regime.Control) (*house, []byte) {
		h, _ := crowded(t, rate, 25*time.Second, alike, func(c *hub.Config) { c.Regimes = control })
		var data []byte
		for i := range h.frames {
			data = ledger.AppendFrame(data, &h.frames[i])
		}
		return h, data
	}
	control := regime.DefaultControl()
	_, calm := play(10, control)
	_, off := play(40, control)
	control.Adapt = true
	if _, on := play(10, control); !bytes.Equal(on, calm) {
		t.Error("below the knee a regime that may charge changes records")
	}
	h, _ := play(40, control)
	h.audited()
	charged := map[string]int{}
	for _, f := range h.frames {
		for _, r := range f.Records {
			if r.Round == nil {
				continue
			}
			for _, s := range r.Round.Set {
				charged[s.Policy]++
			}
			for _, aw := range r.Round.Outcome.Awards {
				named := market.Credits(0)
				for _, s := range r.Round.Set {
					if s.Task == string(aw.Task) && s.Agent == string(aw.Agent) {
						named = s.Toll
					}
				}
				if toll := aw.Toll + r.Round.Round.Fee; named < toll {
					t.Errorf("round %d: the toll of %s is %d, and of the regime %d of it", r.Round.Round.Number,
						aw.Task, toll, named)
				}
			}
		}
	}
	if charged["regime-transition"] == 0 {
		t.Errorf("charged: %v", charged)
	}
	control.Transition, control.Saturated = regime.Default(), regime.Default()
	if _, on := play(40, control); !bytes.Equal(on, off) {
		t.Error("parameters that leave rounds as they are change records")
	}
}

// A task that waited for a slot, which others had, until its deadline or until its worth was gone, says how
// full the domain is; one that found dear what was free does not, whatever it offered.
func TestWhoGotNoSlotCounts(t *testing.T) {
	for name, c := range map[string]struct {
		code  bus.Code
		dear  bool // another agent is free, which is beyond what the task is worth
		moves bool
	}{
		"no room":                      {bus.CodeNoRoom, false, true},
		"no room, one is":              {bus.CodeNoRoom, true, false},
		"past its deadline":            {bus.CodePastDeadline, false, false},
		"its worth is gone":            {bus.CodeNotWorthIt, false, true},
		"it is not worth what is free": {bus.CodeNotWorthIt, true, false},
	} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		h.n.Observe() // begins an interval
		h.must(h.step(h.task("ann", "runs")))
		h.pass(100 * time.Millisecond)
		h.accept(h.take("ann", "runs"))
		h.must(h.step(h.task("bob", "waits", inNoHurry)))
		h.pass(4 * time.Second)
		waits := h.n.Unserved("bob", "waits")
		if waits == nil {
			t.Fatalf("%s: nobody waits", name)
		}
		if c.dear {
			h.join("a-2", "llama", 1, 0.9, card(4000, 4000, 4000))
			h.must(h.summary("a-2", func(*bus.Summary) {}))
		}
		waits.End(c.code)
		waits.Gone() // the reading is of the one that is gone alone
		h.n.Observe()
		h.now = h.now.Add(2 * time.Second)
		waits.Later(2 * time.Second)
		h.n.Observe()
		if mean := h.n.Slowdown(); (mean > 1) != c.moves {
			t.Errorf("%s: mean %.2f", name, mean)
		}
	}
}

// Who waits in a line waits, also where a reading comes with the end of a task, whose slot only the first of
// them has a moment later.
func TestAReadingThatComesWithAFreeSlot(t *testing.T) {
	const slots = 40 // of few slots it would be chance
	h := newHouse(t, nil)
	h.join("a-1", "llama", slots, 0.9, card(1, 1, 4))
	h.n.Observe() // begins an interval
	var runs []bus.Dispatch
	for i := range slots {
		id := fmt.Sprint("r-", i)
		h.must(h.step(h.task("ann", id)))
		runs = append(runs, h.take("ann", id))
		h.accept(runs[i])
	}
	for i := range 10 {
		h.must(h.step(h.task("bob", fmt.Sprint("t-", i), inNoHurry)))
	}
	h.pass(4 * time.Second)
	h.must(h.summary("a-1", func(s *bus.Summary) { s.InFlight = slots }))
	h.now = h.now.Add(2 * time.Second) // a reading is due
	h.must(h.step(completion("a-1", runs[0], market.Usage{Prompt: 100, Output: 20})))
	if got := h.running(); !strings.Contains(got, "bob/") {
		t.Fatalf("running %q", got)
	}
	if mean := h.n.Slowdown(); mean < 5 {
		t.Errorf("mean %.2f, where nine tasks wait for six seconds", mean)
	}
}

// A dispatch that its agent refuses is no load: the task came once, and had no slot until an agent took it.
func TestARefusedDispatchIsNoLoad(t *testing.T) {
	play := func(refuse bool) (s regime.Stats) {
		h := newHouse(t, nil)
		for _, id := range []string{"a-1", "a-2"} {
			h.join(id, "llama", 4, 0.9, card(1, 1, 4))
		}
		type running struct {
			d  bus.Dispatch
			at time.Time
		}
		var runs []running
		refused := map[string]bool{}
		evidence := 0.0
		for i := range 600 { // tenths of a second, of which every third has a task: 3.3 a second
			if i%3 == 0 {
				h.must(h.step(h.task("ann", fmt.Sprint("t-", i), inNoHurry)))
			}
			for len(h.dispatched) > 0 {
				d := h.dispatched[0]
				h.dispatched = h.dispatched[1:]
				if refuse && i%6 == 0 && !refused[d.Task.ID] {
					refused[d.Task.ID] = true
					h.pass(2 * time.Millisecond) // the agent is not next door
					h.refuse(d, bus.CodeNoSlot)
					continue
				}
				h.accept(d)
				runs = append(runs, running{d, h.now.Add(2 * time.Second)})
			}
			h.pass(100 * time.Millisecond)
			for len(runs) > 0 && !runs[0].at.After(h.now) {
				d := runs[0].d
				runs = runs[1:]
				h.must(h.n.Step(h.now, completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 20})))
			}
			for _, a := range []string{"a-1", "a-2"} {
				h.must(h.summary(a, nil))
			}
			s = h.n.Stats().Regime
			evidence = max(evidence, s.Evidence)
		}
		s.Evidence = evidence
		return s
	}
	calm, refused := play(false), play(true)
	if calm.Serves < 3.8 || calm.Serves > 4.2 || refused.Serves < 3.8 || refused.Serves > 4.2 {
		t.Errorf("eight slots of two seconds serve %.2f tasks a second, %.2f where agents refuse some once",
			calm.Serves, refused.Serves)
	}
	if refused.Evidence > calm.Evidence+0.2 {
		t.Errorf("evidence for more than is served comes to %.2f, to %.2f where agents refuse some once",
			calm.Evidence, refused.Evidence)
	}
}

// Tasks that end unserved at once cost little more where agents are many, also where none of these suits
// them; and they are counted as many as they are.
func TestManyThatEndAtOnceAreNotEachHeldAgainstEveryAgent(t *testing.T) {
	const tasks = 20_000
	play := func(agents int) (took time.Duration, read float64) {
		h := newHouse(t, nil)
		for i := range agents {
			h.join(fmt.Sprint("a-", i), "llama", 1, 0.9, card(1, 1, 4))
		}
		h.join("b", "qwen", 1, 0.9, card(1, 1, 4))
		h.n.Observe() // begins an interval
		qwen := func(m *bus.Task) { m.Model = "qwen" }
		h.must(h.step(h.task("ann", "runs", qwen)))
		h.accept(h.take("ann", "runs"))
		h.must(h.step(h.task("bob", "waits", inNoHurry, qwen)))
		h.pass(4 * time.Second)
		waits := h.n.Unserved("bob", "waits")
		if waits == nil {
			t.Fatal("nobody waits")
		}
		took = time.Hour
		for range 20 { // one of them while nothing else runs
			began := time.Now()
			for range tasks {
				waits.End(bus.CodeNoRoom)
			}
			took = min(took, time.Since(began))
			waits.Later(1)
		}
		for range 100 {
			waits.Served()
		}
		waits.Gone() // the reading is of those that are gone alone
		waits.Later(2 * time.Second)
		h.n.Observe()
		read = h.n.Slowdown()
		return took, read
	}
	few, one := play(1)
	many, all := play(1000)
	t.Logf("%d tasks take %v beside one agent, and %v beside a thousand", tasks, few, many)
	if many > 20*few+20*time.Millisecond {
		t.Errorf("%d tasks that end at once take %v, and %v beside a thousand agents", tasks, few, many)
	}
	if one != all || one < 5 {
		t.Errorf("they are read as %.1f beside one agent, and %.1f beside a thousand", one, all)
	}
}

// The record of a round names what was charged where it says more of a task on an agent, and not on each of
// all agents: else a round of a large domain were longer than a frame may be.
func TestChargesAreNamedWhereTheyStand(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.Regime.Temperature, c.Batch.Eager = 0.5, false })
	const agents = 40
	for i := range agents {
		h.join(fmt.Sprintf("a-%02d", i), "llama", 1, 0.9, card(1, 1, 4))
	}
	for i := range 4 {
		h.must(h.step(h.task("ann", fmt.Sprint("t", i))))
	}
	h.pass(20 * time.Millisecond)
	rounds := 0
	for _, f := range h.frames {
		for _, r := range f.Records {
			if r.Round == nil {
				continue
			}
			rounds++
			stands := len(r.Round.Round.Edges) + len(r.Round.Round.Others)
			if named := len(r.Round.Set); named == 0 || named > stands {
				t.Errorf("%d charges are named, and the record has %d tasks on agents", named, stands)
			}
		}
	}
	if rounds == 0 {
		t.Error("no round")
	}
	h.audited()
}
