package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// touching is a house whose agent a-0 uses again what it is told to, and serves the first turns of so many
// sessions of some 200 tokens, one after the other. The hub's own client has so much money. What the hub
// wants touched is listed in the second result.
func touching(t *testing.T, sessions int, money market.Credits, change func(*Config)) (*house, *[]Touch) {
	t.Helper()
	h := newHouse(t, func(c *Config) {
		c.Seats.Sessions, c.Seats.Touches, c.Seats.Spare = true, true, time.Hour
		c.Seed.Every = 0
		if change != nil {
			change(c)
		}
	})
	var all []Touch
	h.tell = func(r *Ready) { all = append(all, r.Touches...) }
	if money > 0 {
		h.prepaid["probe-math"] = money
	}
	h.joinTouching("a-0", 1)
	for i := range sessions {
		h.first(fmt.Sprint("s", i))
	}
	return h, &all
}

// joinTouching has an agent join that touches, and whose cache has room for 40 sessions of 200 tokens.
func (h *house) joinTouching(id string, boot int64) {
	h.t.Helper()
	reg := registration(id, "llama", 8, 0.9, card(10, 1, 40))
	reg.BlockSize, reg.KVTokens, reg.Boot = 10, 8000, boot
	reg.Features = []string{bus.Touches}
	h.must(h.n.Join(h.now, reg))
	h.run()
}

// first serves the first turn of a session.
func (h *house) first(session string) {
	h.t.Helper()
	h.turn("ann", session, session)
	h.serve(h.take("ann", session), market.Usage{Prompt: 100, Output: 100})
}

// touchedBy is an agent's account of a touch.
func touchedBy(x Touch, prompt, cached int) *bus.Completion {
	return &bus.Completion{Agent: x.Agent, Boot: x.Dispatch.Boot, Hold: x.Dispatch.Hold,
		Client: x.Dispatch.Task.Client, Task: x.Dispatch.Task.ID, Outcome: bus.OutcomeDone,
		Usage: market.Usage{Prompt: prompt, Cached: cached, Output: 1}, TTFTUS: 2000}
}

// paidFor is what the journal says that agents were paid for touches, and by how many captures and voids.
func (h *house) paidFor() (cost market.Credits, captures, voids int) {
	holds := map[string]bool{}
	for _, f := range h.frames {
		for _, r := range f.Records {
			switch {
			case r.Hold != nil && r.Hold.Kind == bus.DispatchPrefetch:
				holds[r.ID] = true
			case r.Capture != nil && holds[r.Capture.Hold]:
				cost, captures = cost+r.Capture.Cost, captures+1
			case r.Void != nil && holds[r.Void.Hold]:
				voids++
			}
		}
	}
	return cost, captures, voids
}

// What is about to be dropped is used again, at the hub's own expense: one hold for all touches of an agent
// within a second, paid by what the agent says that it computed, and no more than was asked of it. No client
// pays for it, no text travels, and the journal is sound.
func TestTouchesAreThePayersAlone(t *testing.T) {
	h, all := touching(t, 12, 100*market.Credit, nil)
	h.pass(1500 * time.Millisecond)
	h.first("poor") // before the hub's client has money here
	if len(*all) > 0 || h.n.stats.Touched.Unfunded == 0 {
		t.Errorf("nobody pays, and %d sessions are touched", len(*all))
	}
	ann := h.prepaid["ann"] + h.n.book.Avail("ann") + h.n.book.Held("ann")
	before, _, _ := h.paidFor()
	h.first("new") // by its end it is paid for
	touches := *all
	if len(touches) < 2 {
		t.Fatalf("%d sessions are touched: %+v", len(touches), h.n.stats)
	}
	rec, ok := h.replica.Hold(touches[0].Dispatch.Hold)
	if !ok || rec.Client != "probe-math" || rec.Agent != "a-0" || rec.Premium != 0 || rec.Fee != 0 {
		t.Fatalf("the hold: %+v, %v", rec, ok)
	}
	want := market.Credits(0)
	used := market.Usage{}
	for i, x := range touches {
		d := &x.Dispatch
		data, err := bus.Encode(d)
		if err == nil {
			err = bus.Decode(data, new(bus.Dispatch)) // a session's key has 64 bits
		}
		if err != nil {
			t.Fatal(err)
		}
		if d.Kind != bus.DispatchPrefetch || d.Hold != touches[0].Dispatch.Hold || d.Session == 0 ||
			d.Tokens < 100 || len(d.Task.Body)+len(d.Task.Prompt.Marks) > 0 {
			t.Errorf("touch %d: %+v", i, d)
		}
		c := touchedBy(x, d.Tokens+1, d.Tokens)
		if i == 0 { // a lie: it is paid for what it was asked
			c.Usage.Prompt, c.Usage.Cached, c.Usage.Output, c.Cost = 1e6, 5, 1000, market.Credit
		}
		paid := market.Usage{Prompt: d.Tokens + 1, Cached: min(c.Usage.Cached, d.Tokens), Output: 1}
		used = market.Usage{Prompt: used.Prompt + paid.Prompt, Cached: used.Cached + paid.Cached,
			Output: used.Output + 1}
		h.must(h.step(c))
		if err := h.step(c); err == nil {
			t.Error("a touch is answered twice")
		}
	}
	want = rec.Price.Cost(used)
	h.pass(1100 * time.Millisecond)
	got, _, _ := h.paidFor()
	if got-before != want || h.n.stats.Touched.Cost != got || len(h.faults) > 0 {
		t.Errorf("%s are paid, want %s; counted %s; faults %v", got-before, want, h.n.stats.Touched.Cost,
			h.faults)
	}
	after := h.prepaid["ann"] + h.n.book.Avail("ann") + h.n.book.Held("ann")
	paid := market.Credits(0)
	for _, f := range h.frames {
		for _, r := range f.Records {
			if r.Capture != nil {
				for _, l := range r.Legs {
					if l.Account == ledger.Avail("probe-math") || l.Account == ledger.Held("probe-math") {
						paid -= l.Amount
					}
				}
			}
		}
	}
	if paid != got {
		t.Errorf("the hub's client is charged %s, for touches of %s", paid, got)
	}
	newOne := rec.Price.Cost(market.Usage{Prompt: 100, Output: 100})
	if ann-after != newOne {
		t.Errorf("ann paid %s, want %s for her own task", ann-after, newOne)
	}
	if h.audited(); h.replica.OpenCount() != 0 {
		t.Errorf("%d holds are open", h.replica.OpenCount())
	}
}

// funded is touching, where the hub's client has its money here and a task that pushes others out has come.
// It returns what is touched.
func funded(t *testing.T, change func(*Config)) (*house, []Touch) {
	t.Helper()
	h, all := touching(t, 12, 100*market.Credit, change)
	h.pass(1500 * time.Millisecond)
	h.first("poor")
	h.first("new")
	if len(*all) == 0 {
		t.Fatalf("nothing is touched: %+v", h.n.stats)
	}
	return h, *all
}

// A hub that dies between a hold for touches and its end pays nothing: the next one voids it as it begins,
// and serves as ever. What an agent says of such a touch is late.
func TestAHubThatStartsAgainVoidsItsTouches(t *testing.T) {
	h, touches := funded(t, nil)
	h.must(h.step(touchedBy(touches[0], touches[0].Dispatch.Tokens+1, touches[0].Dispatch.Tokens)))
	h.restart()
	h.must(h.n.Lead(h.now, 8))
	h.run()
	h.joinTouching("a-0", 1)
	if cost, captures, voids := h.paidFor(); cost != 0 || captures != 0 || voids != 1 {
		t.Errorf("%s are paid, %d captures, %d voids", cost, captures, voids)
	}
	late := h.n.stats.Late
	for _, x := range touches {
		h.must(h.step(touchedBy(x, x.Dispatch.Tokens+1, x.Dispatch.Tokens)))
	}
	if n := h.n.stats.Late - late; n != int64(len(touches)) || h.n.heldHere() != 0 {
		t.Errorf("%d of %d are late; %d holds", n, len(touches), h.n.heldHere())
	}
	h.first("after")
	if cost, _, _ := h.paidFor(); cost != 0 || h.n.lookup("a-0").slots != 8 || len(h.faults) > 0 {
		t.Errorf("%s are paid; faults %v", cost, h.faults)
	}
	h.audited()
}

// What is not answered in time is not paid, nor what the agent refuses: it is asked again for a session that
// it has no text of once that has had another turn. A hub that stops waits for both.
func TestTouchesThatCameToNothing(t *testing.T) {
	h, touches := funded(t, nil)
	gone := touches[0]
	no := touchedBy(gone, 0, 0)
	no.Outcome, no.Code, no.Usage = bus.OutcomeFailed, bus.CodeAnswerGone, market.Usage{}
	h.must(h.step(no))
	other := touchedBy(touches[1], 10, 0)
	other.Agent = "a-1"
	if err := h.step(other); err == nil {
		t.Error("another agent's word is taken")
	}
	h.n.Drain(h.now)
	if h.n.Idle() {
		t.Error("a hub with a hold for touches is idle")
	}
	h.pass(1100 * time.Millisecond)
	h.pass(1800 * time.Millisecond)
	if a := h.n.lookup("a-0"); h.n.heldHere() != 1 || a.touching == 0 {
		t.Errorf("%d holds, %d blocks are touched", h.n.heldHere(), a.touching)
	}
	h.pass(100 * time.Millisecond)
	s := h.n.stats.Touched
	if cost, captures, voids := h.paidFor(); cost != 0 || captures != 0 || voids != 1 || s.Refused != 1 ||
		s.Unanswered != int64(len(touches)-1) || h.n.lookup("a-0").touching != 0 || h.n.heldHere() != 0 {
		t.Errorf("%s are paid, %d captures, %d voids; %+v", cost, captures, voids, s)
	}
	h.audited()

	h, touches = funded(t, nil)
	gone = touches[0]
	no.Hold, no.Task = gone.Dispatch.Hold, gone.Dispatch.Task.ID
	h.must(h.step(no))
	var again []Touch
	h.tell = func(r *Ready) { again = append(again, r.Touches...) }
	h.pass(100 * time.Millisecond)
	h.first("next")
	for _, x := range again {
		if x.Dispatch.Session == gone.Dispatch.Session {
			t.Error("a session is touched again of which the agent has no text")
		}
	}
	if len(again) == 0 {
		t.Error("nothing else is touched")
	}
}

// Nothing is touched on an agent that does not know how, while a task waits for it, or where it is switched
// off; nor without money, however often the treasury is asked, which is once in a while.
func TestNothingIsTouchedWhere(t *testing.T) {
	h, all := touching(t, 12, 0, nil)
	for i := range 30 {
		h.pass(100 * time.Millisecond)
		h.first(fmt.Sprint("new", i))
	}
	asked := 0
	for _, f := range h.asked {
		if f.Request.Client == "probe-math" {
			asked++
		}
	}
	if len(*all) > 0 || h.n.stats.Touched.Unfunded == 0 || asked == 0 || asked > 2 {
		t.Errorf("without money: %d touches; the treasury is asked %d times", len(*all), asked)
	}
	h.audited()
	if r, _ := h.n.book.LastRound(); r != uint64(h.n.stats.Rounds) {
		t.Errorf("%d rounds in the journal, %d of tasks", r, h.n.stats.Rounds)
	}

	h, all = touching(t, 12, market.Credit, func(c *Config) { c.Seats.Touches = false })
	h.pass(1500 * time.Millisecond)
	h.first("x")
	h.first("y")
	if len(*all) > 0 {
		t.Error("touched where it is switched off")
	}

	h, all = touching(t, 12, market.Credit, nil)
	reg := h.n.lookup("a-0").reg
	reg.Features = nil
	h.must(h.n.Join(h.now, reg))
	h.pass(1500 * time.Millisecond)
	h.first("x")
	h.first("y")
	if len(*all) > 0 {
		t.Error("an agent is told to touch that does not know how")
	}

	h, all = touching(t, 12, market.Credit, nil)
	h.pass(1500 * time.Millisecond)
	h.first("x") // has money here now
	*all = nil
	for i := range 9 { // eight slots
		h.turn("ann", fmt.Sprint("many", i), fmt.Sprint("many", i))
	}
	h.pass(time.Second)
	*all = nil
	d := h.take("ann", "many0")
	for i := range 3 { // and two wait when one of them gets the slot
		h.turn("bob", fmt.Sprint("wait", i), fmt.Sprint("wait", i))
	}
	h.serve(d, market.Usage{Prompt: 100, Output: 100})
	h.pass(20 * time.Millisecond)
	if len(*all) > 0 {
		t.Errorf("%d sessions are touched while a task waits for the agent", len(*all))
	}
}

// An account of a touch that is none pays nothing.
func TestAnUnfitAccountOfATouchIsNotPaid(t *testing.T) {
	h, touches := funded(t, nil)
	for _, x := range touches {
		if err := h.step(touchedBy(x, 1<<40, -7)); err == nil {
			t.Error("it is taken")
		}
	}
	h.pass(1100 * time.Millisecond)
	h.pass(2 * time.Second)
	if cost, captures, voids := h.paidFor(); cost != 0 || captures != 0 || voids != 1 || h.n.heldHere() != 0 {
		t.Errorf("%s are paid, %d captures, %d voids", cost, captures, voids)
	}
	h.audited()
}

// A session whose touch is not answered is not touched again, whatever comes: it would be paid twice.
func TestNothingIsTouchedTwiceAtOnce(t *testing.T) {
	h, _ := funded(t, nil)
	h.pass(1500 * time.Millisecond)
	var all []Touch
	h.tell = func(r *Ready) { all = append(all, r.Touches...) }
	for i := range 3 {
		h.turn("ann", fmt.Sprint("burst", i), fmt.Sprint("burst", i))
	}
	seen := map[uint64]bool{}
	for _, x := range all {
		if seen[x.Dispatch.Session] {
			t.Errorf("session %x is touched again", x.Dispatch.Session)
		}
		seen[x.Dispatch.Session] = true
	}
	if len(all) == 0 {
		t.Fatalf("nothing is touched: %+v", h.n.stats)
	}
	h.pass(1100 * time.Millisecond)
	h.pass(2 * time.Second)
	if a := h.n.lookup("a-0"); len(a.touchesNow) != 0 || a.touching != 0 {
		t.Errorf("%d sessions and %d blocks are still counted", len(a.touchesNow), a.touching)
	}
	h.audited()
}

// A hold for touches whose end cannot be recorded is ended later: what the agent has answered is paid then.
func TestTheEndOfTouchesIsTriedAgain(t *testing.T) {
	h, touches := funded(t, nil)
	for _, x := range touches {
		h.must(h.step(touchedBy(x, x.Dispatch.Tokens+1, x.Dispatch.Tokens)))
	}
	x := h.n.touched.tabs[touches[0].Dispatch.Hold]
	client := x.rec.Client
	x.rec.Client = "nobody" // who has nothing to pay it with
	h.pass(1100 * time.Millisecond)
	if cost, _, _ := h.paidFor(); cost != 0 || len(h.faults) != 1 || h.n.heldHere() != 1 {
		t.Fatalf("%s are paid; faults %v; %d holds", cost, h.faults, h.n.heldHere())
	}
	x.rec.Client, h.faults = client, nil
	h.pass(1100 * time.Millisecond)
	if cost, captures, _ := h.paidFor(); cost == 0 || captures != 1 || len(h.faults) > 0 ||
		h.n.heldHere() != 0 {
		t.Errorf("%s are paid, by %d captures; faults %v; %d holds", cost, captures, h.faults, h.n.heldHere())
	}
	h.audited()
}

// An agent whose card is far above those of the others of its model is paid for no touch: nobody bid for it.
func TestWhoAsksTooMuchIsNotTouched(t *testing.T) {
	for others, touched := range map[market.Credits]bool{card(10, 1, 40).Miss: true, 1: false} {
		h, all := touching(t, 12, 100*market.Credit, nil)
		for i := range 3 {
			reg := registration(fmt.Sprint("b-", i), "llama", 8, 0.9, card(10, 1, 40))
			reg.Price = market.Price{Miss: others, Hit: min(others, reg.Price.Hit), Out: 4 * others}
			reg.Domains[0].Score = 0.01 // to whom nobody goes
			h.must(h.n.Join(h.now, reg))
		}
		h.run()
		h.pass(1500 * time.Millisecond)
		h.first("poor")
		h.first("new")
		if (len(*all) > 0) != touched {
			t.Errorf("others ask %s: %d sessions are touched", others, len(*all))
		}
	}
}

// Nor does a hold of the life before stay open for that, and a hub that stops waits until it is void.
func TestTheVoidOfTouchesOfTheLifeBeforeIsTriedAgain(t *testing.T) {
	h, _ := funded(t, nil)
	h.restart()
	h.must(h.n.Restore())
	old := &h.n.touched.old
	if len(old.holds) != 1 {
		t.Fatalf("%d holds of the life before", len(old.holds))
	}
	client := old.holds[0].Client
	old.holds[0].Client = "nobody" // who has no such hold
	h.must(h.n.Lead(h.now, 8))
	h.run()
	if _, _, voids := h.paidFor(); voids != 0 || len(h.faults) != 1 || h.n.heldHere() != 1 || h.n.Idle() {
		t.Fatalf("%d voids; faults %v; %d holds", voids, h.faults, h.n.heldHere())
	}
	old.holds[0].Client, h.faults = client, nil
	h.pass(1100 * time.Millisecond)
	if _, _, voids := h.paidFor(); voids != 1 || len(h.faults) > 0 || h.n.heldHere() != 0 {
		t.Errorf("%d voids; faults %v; %d holds", voids, h.faults, h.n.heldHere())
	}
	h.audited()
}

// The hold of a task that cannot be ended when its time is over is ended later.
func TestTheVoidOfATaskIsTriedAgain(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-0", "llama", 1, 0.9, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t")))
	d := h.take("ann", "t")
	h.accept(d)
	x := h.n.holds[d.Hold]
	client := x.rec.Client
	x.rec.Client = "nobody"
	h.pass(x.expires.Sub(h.now) + time.Millisecond)
	if len(h.faults) == 0 || h.n.holds[d.Hold] == nil {
		t.Fatalf("the hold has ended; faults %v", h.faults)
	}
	x.rec.Client, h.faults = client, nil
	h.pass(1100 * time.Millisecond)
	if h.n.holds[d.Hold] != nil || len(h.faults) > 0 || h.n.book.OpenCount() != 0 {
		t.Errorf("the hold is open; faults %v", h.faults)
	}
	h.audited()
}

// Of an agent that asks far more than others do for a touch, nothing is used again at the hub's expense, and
// that is told from a lack of money.
func TestTouchesThatAreTooDear(t *testing.T) {
	h, all := touching(t, 12, 100*market.Credit, func(c *Config) { c.Seed.Dearest = 2 })
	cheap := registration("cheap", "llama", 8, 0.9, market.Price{Miss: 1, Out: 400 * card(1, 1, 1).Out})
	cheap.Owner = "other" // for prompts alone: no task goes there
	h.must(h.n.Join(h.now, cheap))
	h.run()
	for _, session := range []string{"one", "two", "three"} {
		h.pass(1500 * time.Millisecond)
		h.first(session)
	}
	if s := h.n.stats.Touched; len(*all) > 0 || s.TooDear == 0 || s.Unfunded > 0 {
		t.Errorf("%d touches, %d too dear, %d without money", len(*all), s.TooDear, s.Unfunded)
	}
}
