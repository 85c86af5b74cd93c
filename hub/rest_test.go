package hub

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// besideTheDear is a house where so many tasks wait for the slots of one agent, beside many that they cannot
// pay, each at a price of its own.
func besideTheDear(t *testing.T, tasks, agents int, terms ...func(*bus.Task)) (*house, []bus.Dispatch) {
	h := crowdHouse(t, 2048, func(cfg *Config) {
		cfg.Silence, cfg.Seed.Every, cfg.Crowd.Waiting = time.Hour, 0, false
	})
	running := h.busy("cheap", "llama", 8)
	h.queue(tasks, append([]func(*bus.Task){of("llama"), worth(market.Credit / 1000)}, terms...)...)
	h.pass(time.Second)
	for i := range agents {
		k := market.Credits(i)
		h.must(h.n.Join(h.now, registration(fmt.Sprint("dear-", i), "llama", 4, 0.9,
			card(20+k, 20, 80+k))))
	}
	h.soon()
	h.pass(time.Second)
	return h, running
}

// However often there are news, and however many wait beside slots that they cannot pay, looking at these
// leaves the hub half of its time.
func TestLooksLeaveTime(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, c := range []struct{ tasks, agents int }{{300, 20}, {1000, 60}, {2000, 100}} {
		h, _ := besideTheDear(t, c.tasks, c.agents)
		spent, longest, turns := time.Duration(0), time.Duration(0), 0
		const whole = 2 * time.Second
		for range int(whole / time.Millisecond) {
			h.now = h.now.Add(time.Millisecond)
			h.n.news()
			h.n.Tick(h.now)
			before := h.n.round.made
			h.run()
			turns += int(h.n.round.made - before)
			spent, longest = spent+h.n.rests.now, max(longest, h.n.rests.now)
			h.n.rests.now = 0
		}
		if spent > whole/2+longest || longest < 2*time.Millisecond || turns < 2 {
			t.Errorf("%+v: %d looks of up to %v take %v of %v", c, turns, longest, spent, whole)
		}
		h.audited()
	}
}

// Who comes while those who wait rest has a slot at once: one that these had declined. A slot that came free
// since is for all of them once the rest is over; one of a model that none of them named is anybody's.
func TestWhoComesWhileOthersRest(t *testing.T) {
	h, running := besideTheDear(t, 1000, 60)
	h.prepaid["bob"] = 1000 * market.Credit
	h.must(h.step(h.task("bob", "dear", of("llama"), worth(market.Credit/20))))
	h.take("bob", "dear")
	h.join("glm", "glm", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "glm-1", of("glm"))))
	glm := h.take("ann", "glm-1")
	h.accept(glm)
	h.pass(time.Second)
	h.n.news()
	h.run() // all look
	h.dispatched = nil
	h.ends(running[0])
	h.ends(glm)
	if !h.n.batch.Held() || len(h.dispatched) > 0 {
		t.Fatalf("nobody rests, or %d slots are sold: the test sees nothing", len(h.dispatched))
	}
	h.must(h.step(h.task("bob", "rich", of("llama"), worth(market.Credit/20))))
	if d := h.take("bob", "rich"); h.agentOf(d) == "cheap" {
		t.Error("who came had the slot that others wait for")
	}
	h.must(h.step(h.task("ann", "glm-2", of("glm"))))
	h.take("ann", "glm-2")
	if h.wake.IsZero() || !h.wake.After(h.now) || h.wake.After(h.n.batch.Rested()) {
		t.Errorf("the hub wants to be woken at %v, and those who wait rest until %v", h.wake,
			h.n.batch.Rested())
	}
	h.dispatched = nil
	h.now = h.n.batch.Rested().Add(h.n.cfg.Batch.MaxWait) // they compete
	h.n.Tick(h.now)
	h.run()
	if len(h.dispatched) != 1 || h.agentOf(h.dispatched[0]) != "cheap" || h.n.batch.Held() {
		t.Errorf("after the rest %d slots are sold: %s", len(h.dispatched), h.running())
	}
	h.audited()
}

// Who comes while others rest, can pay the slot alone that came free, and has no time, is not told that none
// was free, or that it offered too little. Who has the time is told what became of it after the rest.
func TestWhatIsToldOfARest(t *testing.T) {
	h, running := besideTheDear(t, 2000, 100)
	h.n.news()
	h.run()
	h.ends(running[0])
	rested := h.n.batch.Rested()
	if !h.n.batch.Held() || rested.Sub(h.now) < 10*time.Millisecond {
		t.Fatalf("they rest for %v: the test sees nothing", rested.Sub(h.now))
	}
	for id, deadline := range map[string]time.Time{"short": rested.Add(-time.Millisecond),
		"long": rested.Add(time.Second)} {
		h.must(h.step(h.task("ann", id, of("llama"), worth(market.Credit/1000),
			func(m *bus.Task) { m.DeadlineMS = deadline.UnixMilli() })))
	}
	h.now = rested.Add(-time.Microsecond)
	h.n.Tick(h.now)
	h.run()
	if r := h.said("ann.short"); r == nil || r.Code != bus.CodeNoRoom ||
		!strings.Contains(r.Message, "kept for a moment") {
		t.Errorf("it is told %+v", r)
	}
	for range 3 { // they compete, and then it is over
		h.now = h.now.Add(600 * time.Millisecond)
		h.n.Tick(h.now)
		h.run()
	}
	if r := h.said("ann.long"); r == nil || strings.Contains(r.Message, "kept for a moment") {
		t.Errorf("after the rest it is told %+v", r)
	}
}

// It is said to nobody whose own model has no slot that is kept, and to whoever came into a rest in which no
// round was held at all.
func TestOnlyWhoIsKeptFromASlotHearsOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		dear  int    // agents beside, which all have declined
		model string // of who comes
		kept  bool
	}{"its model has no free slot": {100, "glm", false}, "no round is held": {0, "llama", true},
		"its model's slots are kept": {100, "llama", true}} {
		h, running := besideTheDear(t, 2000, c.dear)
		h.busy("glm", "glm", 1)
		for range 20 { // a slow machine
			h.n.rests.now = time.Second
			h.n.Took(time.Hour)
		}
		for _, d := range running[:3] { // nobody was looked at before the first
			h.ends(d)
			h.pass(20 * time.Millisecond)
		}
		rested := h.n.batch.Rested()
		if !h.n.batch.Held() || rested.Sub(h.now) < 30*time.Millisecond {
			t.Fatalf("%s: they rest for %v: the test sees nothing", name, rested.Sub(h.now))
		}
		h.must(h.step(h.task("ann", "short", of(c.model), worth(market.Credit/1000),
			func(m *bus.Task) { m.DeadlineMS = rested.Add(-time.Millisecond).UnixMilli() })))
		h.pass(20 * time.Millisecond)
		h.pass(rested.Sub(h.now) - time.Microsecond)
		r := h.said("ann.short")
		if r == nil || r.Code != bus.CodeNoRoom ||
			strings.Contains(r.Message, "kept for a moment") != c.kept {
			t.Errorf("%s: it is told %+v", name, r)
		}
	}
}

// Where an agent is given fewer tasks at once than it has slots for, those who rest are looked at when their
// rest is over, however many come meanwhile and are served.
func TestThereIsRestBesideAgentsThatAreGivenFew(t *testing.T) {
	h, _ := besideTheDear(t, 2000, 100)
	h.n.cfg.Seats.Depth = 300 * time.Millisecond
	h.prepaid["bob"] = 1000 * market.Credit
	long := func(m *bus.Task) {
		m.Prompt.Bytes, m.Prompt.Tokens, m.Prompt.Prefixes = 8000, 2000, []bus.PrefixHash{{Bytes: 8000}}
	}
	h.n.news()
	h.run()
	rest := h.n.batch.Rested().Sub(h.now)
	h.n.news()
	capped := 0
	for i := range 20 {
		h.n.rests.now = 0
		h.must(h.step(h.task("bob", fmt.Sprint("rich-", i), of("llama"), worth(market.Credit), long)))
		h.take("bob", fmt.Sprint("rich-", i))
		if h.n.seats.capped {
			capped++
		}
		if h.pass(2 * time.Millisecond); h.n.rests.now > 0 {
			t.Fatalf("they are looked at for %v after %d of 20 that came: they were to rest", h.n.rests.now, i)
		}
	}
	if rest = h.n.batch.Rested().Sub(h.now); capped < 10 || rest < 50*time.Millisecond {
		t.Errorf("%d of 20 are given agents that are given few, and there is rest for %v more: the test sees "+
			"nothing", capped, rest)
	}
	h.audited()
}

// Nor are they looked at because somebody waits for a seat: that one alone is.
func TestWhoWaitsForASeatLeavesOthersToRest(t *testing.T) {
	h, _ := besideTheDear(t, 2000, 100)
	h.prepaid["bob"] = 1000 * market.Credit
	h.n.news()
	h.run()
	h.n.news()
	waits := h.n.known[taskKey{"c3", "t-99"}]
	for i := range 10 {
		waits.unseated, waits.met, h.n.rests.now = h.now, false, 0
		h.n.seats.waiting, h.n.seats.least = 1, 1
		h.must(h.step(h.task("bob", fmt.Sprint("rich-", i), of("llama"), worth(market.Credit))))
		h.take("bob", fmt.Sprint("rich-", i))
		if h.pass(2 * time.Millisecond); h.n.rests.now > 0 || !h.n.batch.Held() || !waits.met {
			t.Fatalf("they are looked at for %v after %d that came, and who waits for a seat is: %v",
				h.n.rests.now, i, waits.met)
		}
	}
}

// Those who rest keep no others from slots that they themselves cannot have: few who wait for another model
// compete for its slot at once. Many rest, too, and so do all where some name no model.
func TestManyOfOneModelKeepNobodyFromAnothers(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for _, c := range []struct {
		waiting int
		rest    bool
		change  func(*bus.Task)
	}{{5, false, nil}, {200, true, nil}, {5, true, func(m *bus.Task) { m.Model = "" }}} {
		h, _ := besideTheDear(t, 1500, 100)
		runs := h.busy("glm", "glm", 2)
		for i := range c.waiting {
			client, id := fmt.Sprint("c", i%8), fmt.Sprint("g-", i)
			h.must(h.step(h.task(client, id, of("glm"), worth(market.Credit/1000))))
		}
		h.prepaid["bob"] = 1000 * market.Credit
		h.must(h.step(h.task("bob", "dear", of("glm"), worth(market.Credit/20))))
		if c.change != nil {
			h.must(h.step(h.task("c1", "any", worth(market.Credit/1000), c.change)))
		}
		h.pass(time.Second)
		h.n.news()
		h.run() // all look
		h.n.rests.now = 0
		h.must(h.n.Step(h.now, completion("glm", runs[0], market.Usage{Prompt: 100, Output: 10})))
		if !h.n.Holding() {
			t.Errorf("%d: the journal is not asked for room", c.waiting)
		}
		h.run()
		h.pass(10 * time.Millisecond)
		if rest := h.n.batch.Rested().Sub(h.now); rest < 10*time.Millisecond || h.n.rests.now > 0 {
			t.Fatalf("%d: they rest for %v and are looked at for %v: the test sees nothing", c.waiting, rest,
				h.n.rests.now)
		}
		if c.rest {
			if len(h.dispatched) > 0 {
				t.Errorf("%d: in their rest is sold: %s", c.waiting, h.running())
			}
			continue
		}
		h.take("bob", "dear") // of all who wait for that slot
		h.ends(runs[1])
		h.pass(10 * time.Millisecond)
		if len(h.dispatched) != 1 || h.agentOf(h.dispatched[0]) != "glm" || !h.n.batch.Held() {
			t.Errorf("%d: of the second slot is sold: %s", c.waiting, h.running())
		}
		h.audited()
	}
}

// Where each of many models has few who wait for it, they are not all looked at at once: together they would
// keep the hub as the many do.
func TestFewOfManyModelsAreNotLookedAtAtOnce(t *testing.T) {
	const models, each = 8, 25
	h, _ := besideTheDear(t, 1500, 100)
	var runs [models]bus.Dispatch
	for i := range models {
		model := fmt.Sprint("m-", i)
		runs[i] = h.busy(fmt.Sprint("of-", i), model, 2)[0]
		for k := range each {
			client, id := fmt.Sprint("c", k%8), fmt.Sprint(model, "-", k)
			h.must(h.step(h.task(client, id, of(model), worth(market.Credit/1000))))
		}
	}
	h.pass(time.Second)
	h.n.news()
	h.run() // all look
	for _, d := range runs {
		h.must(h.n.Step(h.now, completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 10})))
		h.run()
	}
	apart := len(h.dispatched)
	if apart == 0 || apart > 2 {
		t.Errorf("of %d models %d were looked at: %s", models, apart, h.running())
	}
	h.pass(time.Second)
	h.n.news()
	h.run()
	if len(h.dispatched) != models {
		t.Errorf("of %d slots %d are sold in the end", models, len(h.dispatched))
	}
	h.audited()
}

// A slot of an agent that had enough to compute when all were asked was declined by nobody: who comes before
// they are asked again does not have it.
func TestNobodyHasDeclinedWhatWasNotOffered(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	h, running := besideTheDear(t, 2000, 100)
	h.prepaid["bob"] = 1000 * market.Credit
	for _, d := range running[1:5] { // so that what is charged for going before others is by what these offer
		for h.ends(d); len(h.dispatched) == 0; {
			h.soon()
		}
		h.accept(h.dispatched[0])
		h.dispatched = nil
		h.pass(time.Second)
	}
	h.n.cfg.Seats.Depth = 300 * time.Millisecond
	cheap := h.n.lookup("cheap")
	h.now = h.now.Add(300 * time.Millisecond)
	h.must(h.n.Step(h.now, completion("cheap", running[0], market.Usage{Prompt: 100, Output: 10})))
	cheap.saturatedUntil = h.n.at(50 * time.Millisecond)
	h.run() // all look
	h.n.news()
	if !h.n.batch.Held() || cheap.free(h.n) > 0 || cheap.idle() != 1 || len(h.dispatched) > 0 {
		t.Fatalf("of %d slots %d are free: the test sees nothing", cheap.idle(), cheap.free(h.n))
	}
	h.now = h.now.Add(60 * time.Millisecond)
	h.must(h.step(h.task("bob", "rich", of("llama"), worth(market.Credit/200))))
	if !h.n.batch.Held() || cheap.free(h.n) != 1 || len(h.dispatched) > 0 {
		t.Errorf("of %d slots %d are free, and who came has one: %s", cheap.idle(), cheap.free(h.n), h.running())
	}
	h.pass(h.n.batch.Rested().Sub(h.now) + 10*time.Millisecond)
	h.take("bob", "rich")
	h.audited()
}

// The journal is asked for room before those are looked at whose rest is over.
func TestTheJournalIsAskedForRoomAfterARest(t *testing.T) {
	h, running := besideTheDear(t, 2000, 100)
	h.n.news()
	h.run()
	h.ends(running[0])
	if !h.n.batch.Held() || h.n.Holding() {
		t.Fatal("nobody rests: the test sees nothing")
	}
	h.now = h.n.batch.Rested()
	h.n.Tick(h.now)
	asked := h.n.Holding()
	h.run()
	if len(h.dispatched) == 0 || !asked {
		t.Errorf("%d tasks are given money, and the journal is asked: %v", len(h.dispatched), asked)
	}
}

// A quote for a slot that is kept for those who rest says that it comes after that, at what such slots go
// for, and so it is.
func TestAQuoteSaysHowLongOthersRest(t *testing.T) {
	h, running := besideTheDear(t, 2000, 100)
	h.prepaid["bob"] = 1000 * market.Credit
	for i, a := range h.n.roster { // so that the cheap agent is best on the usual terms
		if k := market.Credits(200 + i); a.id != "cheap" {
			h.must(h.n.Join(h.now, registration(a.id, "llama", 4, 0.9, card(k, 200, 4*k))))
		}
	}
	for _, d := range running[:3] {
		h.pass(time.Second)
		for h.ends(d); len(h.dispatched) == 0; {
			h.soon()
		}
		h.accept(h.dispatched[0])
		h.dispatched = nil
	}
	h.pass(time.Second)
	h.n.news()
	h.run()
	h.ends(running[3])
	rest := h.n.batch.Rested().Sub(h.now)
	rich := h.task("bob", "rich", of("llama"), worth(market.Credit/100))
	q := h.quote(rich).Models[0]
	if !h.n.batch.Held() || q.WaitMS != millis(rest) || q.SlotPrice == 0 || !q.WouldWin {
		t.Errorf("they rest for %v, and the quote says %+v", rest, q)
	}
	h.must(h.step(rich))
	h.pass(time.Millisecond)
	if len(h.dispatched) > 0 {
		t.Fatalf("there is no rest: the test sees nothing: %s", h.running())
	}
	h.now = h.n.batch.Rested()
	h.n.Tick(h.now)
	h.run()
	d := h.take("bob", "rich")
	rec, _ := h.n.book.Hold(d.Hold)
	if off := float64(rec.Premium)/float64(q.Premium) - 1; h.agentOf(d) != "cheap" || max(off, -off) > 0.2 {
		t.Errorf("%s has it for %v, and the quote was %v", h.agentOf(d), rec.Premium, q.Premium)
	}
}

// How long those who wait rest follows from no bid: neither scaled nor permuted, and whoever pays.
func TestRestsReadNoBid(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	var bids []market.Credits
	for range 900 {
		bids = append(bids, 1e6+market.Credits(rng.Int64N(1e9)))
	}
	rested := func(bid func(i int) market.Credits) (time.Duration, time.Duration) {
		i := 0
		h, _ := besideTheDear(t, 0, 0)
		h.queue(900, of("llama"), func(m *bus.Task) {
			w := bid(i)
			m.Terms.Worth = &w
			i++
		})
		h.pass(time.Second)
		for i := range 70 {
			k := market.Credits(i)
			h.must(h.n.Join(h.now, registration(fmt.Sprint("n-", i), "llama", 1+i%9, 0.9, card(1+k, 1, 4+k))))
		}
		h.now = h.now.Add(20 * time.Millisecond)
		h.n.Tick(h.now)
		h.n.rests.now = 0
		h.n.collect()
		h.n.round.anew = true // as if all had been in an earlier round
		h.n.meetAll()
		h.n.restAfter(len(h.n.round.agents), 0)
		h.n.batch.Leave(&task{}, h.now)
		h.n.batch.News(h.now)
		return h.n.rests.now, h.n.batch.Rested().Sub(h.now)
	}
	takes, rest := rested(func(i int) market.Credits { return bids[i] })
	if takes == 0 || rest <= 0 {
		t.Fatalf("a look takes %v, and they rest for %v: the test sees nothing", takes, rest)
	}
	order := rng.Perm(len(bids))
	for name, bid := range map[string]func(i int) market.Credits{
		"scaled":   func(i int) market.Credits { return bids[i] * 1000 },
		"permuted": func(i int) market.Credits { return bids[order[i]] },
		"all low":  func(int) market.Credits { return 1e6 },
		"all high": func(int) market.Credits { return 1e3 * market.Credit },
	} {
		if t1, r1 := rested(bid); t1 != takes || r1 != rest {
			t.Errorf("%s: a look takes %v and they rest for %v, else %v and %v", name, t1, r1, takes, rest)
		}
	}
}

// A hub on a slow machine has those who wait rest longer, by what it took, and less again where it is fast.
func TestASlowHubRestsLonger(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	h, _ := besideTheDear(t, 1000, 60, func(m *bus.Task) {
		m.DeadlineMS = start.Add(50 * time.Minute).UnixMilli()
	})
	look := func(slow float64) time.Duration {
		h.n.rests.now = 0
		h.n.news()
		h.pass(2 * time.Second)
		h.n.news() // they rest
		rest := h.n.batch.Rested().Sub(h.now)
		h.n.Took(time.Duration(slow * float64(h.n.rests.now)))
		return rest
	}
	first := look(1)
	for range 20 {
		look(4)
	}
	if slow := look(1000); slow < first*3 || slow > first*5 {
		t.Errorf("they rest for %v, and where all takes four times as long for %v", first, slow)
	}
	for range 20 {
		look(1000)
	}
	if most := look(0.01); most > first*lookScale {
		t.Errorf("they rest for %v, and where all takes for ever for %v", first, most)
	}
	for range 40 {
		look(0.01)
	}
	if fast := look(1); fast < first*9/10 || fast > first*5/4 {
		t.Errorf("they rest for %v, and where all is fast again for %v", first, fast)
	}
	h.n.Took(time.Hour) // without a look
	if h.n.rests.now = 0; h.n.rests.scale > 1.25 {
		t.Errorf("a turn without a look makes looks %v times as long", h.n.rests.scale)
	}
}
