package agentd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/agentd/kvevent"
	"souk/bus"
	"souk/bus/bustest"
	"souk/market"
)

// What a hub sends is the same for the agent and for its shell.
var dispatch, claim, card = bustest.Dispatch, bustest.Claim, bustest.Card

var begun = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func oneAgent(id string, slots int) AgentConfig {
	return AgentConfig{ID: id, Engine: EngineConfig{URL: "http://127.0.0.1:1"}, Model: "tiny", Slots: slots,
		Price:   card,
		Domains: []bus.DomainScore{{Domain: "math", Score: 0.8}, {Domain: "code", Score: 0.5}}}
}

func newTestAgent(slots int, limits Config) *Agent {
	return NewAgent(oneAgent("a1", slots), limits,
		Info{Models: []string{"tiny"}, BlockSize: 16, KVTokens: 1000}, 7, [32]byte{1})
}

func TestAcceptOrRefuse(t *testing.T) {
	change := func(f func(*bus.Dispatch)) *bus.Dispatch {
		d := dispatch("h")
		f(d)
		return d
	}
	for _, c := range []struct {
		name  string
		state func(*Agent)
		d     *bus.Dispatch
		from  string
		want  bus.Code
		why   string
	}{
		{"taken", nil, dispatch("h"), "math", "", ""},
		{"from a hub that names another domain", nil, dispatch("h"), "code", bus.CodeBadRequest,
			"code says that it is math"},
		{"of an epoch that is over", nil, change(func(d *bus.Dispatch) { d.Epoch = 4 }), "math",
			bus.CodeNotClaimed, "epoch 5"},
		{"for an earlier life of the agent", nil, change(func(d *bus.Dispatch) { d.Boot = 6 }), "math",
			bus.CodeStaleEpoch, "another start"},
		{"for this life of the agent", nil, change(func(d *bus.Dispatch) { d.Boot = 7 }), "math", "", ""},
		{"of an epoch whose claim is not known yet", nil, change(func(d *bus.Dispatch) { d.Epoch = 6 }),
			"math", bus.CodeNotClaimed, "epoch 5"},
		{"of a claim that is over", nil, change(func(d *bus.Dispatch) { d.Fence = 104 }), "math",
			bus.CodeStaleEpoch, "104 has been followed by claim 105"},
		{"of a claim that is not known yet", nil, change(func(d *bus.Dispatch) { d.Fence = 106 }), "math",
			bus.CodeNotClaimed, "claim 105"},
		{"of the claim in force", nil, change(func(d *bus.Dispatch) { d.Fence = 105 }), "math", "", ""},
		{"from a hub without a claim", nil, change(func(d *bus.Dispatch) { d.Domain = "code" }), "code",
			bus.CodeNotClaimed, "sold by math"},
		{"when no hub has a claim", func(a *Agent) { a.Claimed(nil) }, dispatch("h"), "math",
			bus.CodeNotClaimed, "no hub"},
		{"when all slots are taken",
			func(a *Agent) { a.Dispatch("math", dispatch("x")); a.Dispatch("math", dispatch("y")) },
			dispatch("h"), "math", "", ""},
		{"when one more is in its engine's queue", func(a *Agent) {
			for _, hold := range []string{"x", "y", "z"} {
				a.Dispatch("math", dispatch(hold))
			}
		}, dispatch("h"), "math", bus.CodeNoSlot, "all 2 slots"},
		{"when its engine has refused one more", func(a *Agent) {
			a.Dispatch("math", dispatch("x"))
			a.Dispatch("math", dispatch("y"))
			a.full.refuses(a.now, "c", a.running, 0)
		}, dispatch("h"), "math", bus.CodeNoSlot, "all 2 slots"},
		{"when draining", (*Agent).Drain, dispatch("h"), "math", bus.CodeDraining, "shutting down"},
		{"when the engine is gone", (*Agent).Unhealthy, dispatch("h"), "math", bus.CodeNoSlot, "unhealthy"},
		{"for another model", nil, change(func(d *bus.Dispatch) { d.Model = "huge" }), "math",
			bus.CodeUnknownModel, `"tiny" is`},
		{"without max_tokens", nil, change(func(d *bus.Dispatch) { d.MaxTokens = 0 }), "math",
			bus.CodeBadRequest, "max_tokens"},
		{"with an answer to anywhere", nil,
			change(func(d *bus.Dispatch) { d.Task.Reply = "souk.v1.hub.math.task" }), "math",
			bus.CodeBadRequest, "not a subject for answers"},
		{"priced by a card that is not ours", nil, change(func(d *bus.Dispatch) { d.Price.Hit = 0 }), "math",
			bus.CodeBadTerms, "this agent's card"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newTestAgent(2, Config{})
			a.Claimed(claim(5))
			if c.state != nil {
				c.state(a)
			}
			before := a.running
			got, start := a.Dispatch(c.from, c.d)
			if got.Code != c.want || !strings.Contains(got.Message, c.why) || start != (c.want == "") ||
				got.Hold != "h" || got.Agent != "a1" {
				t.Errorf("%+v, start %v", got, start)
			}
			if a.running-before != map[bool]int{true: 1}[start] {
				t.Errorf("%d slots taken", a.running-before)
			}
			if n := a.Stats().Refused[c.want]; c.want != "" && n != 1 {
				t.Errorf("refusal counted %d times", n)
			}
		})
	}
}

// A hub that comes back after the agent has missed its first word, and hears another soon; not for ever,
// since there may be a thousand agents.
func TestSummariesAfterAnOutage(t *testing.T) {
	a := newTestAgent(1, Config{})
	now := begun
	count := func(d time.Duration) (n int) {
		for end := now.Add(d); now.Before(end); {
			r := a.Ready(now)
			if r.Summary != nil {
				n++
			}
			if !r.Wake.After(now) {
				t.Fatal("wakes in the past")
			}
			now = r.Wake
		}
		return n
	}
	count(3 * time.Second)
	if n := count(10 * time.Second); n != 10 {
		t.Errorf("%d summaries in ten seconds", n)
	}
	a.Reconnected()
	if n := count(time.Second); n < 6 || n > 10 {
		t.Errorf("%d summaries in the second after it came back", n)
	}
	if n := count(10 * time.Second); n > 11 {
		t.Errorf("%d summaries in the ten seconds after that", n)
	}
}

// A dispatch may come twice, since its answer may be lost. It is served once and answered alike.
func TestSameHoldAgain(t *testing.T) {
	a := newTestAgent(1, Config{})
	a.Claimed(claim(5))
	if r, start := a.Dispatch("math", dispatch("h")); r.Code != "" || !start {
		t.Fatalf("%+v", r)
	}
	if r, start := a.Dispatch("math", dispatch("h")); r.Code != "" || start {
		t.Errorf("again: %+v, start %v", r, start)
	}
	if r, start := a.Dispatch("math", dispatch("queued")); r.Code != "" || !start {
		t.Fatalf("%+v", r)
	}
	if r, _ := a.Dispatch("math", dispatch("late")); r.Code != bus.CodeNoSlot {
		t.Errorf("second: %+v", r)
	}
	other := dispatch("h")
	other.Task.ID = "another"
	if r, start := a.Dispatch("math", other); r.Code != bus.CodeIDConflict || start {
		t.Errorf("other content: %+v", r)
	}
	end(a, "h")
	a.Acked("h", "")
	if r, start := a.Dispatch("math", dispatch("h")); r.Code != "" || start {
		t.Errorf("after it ended: %+v, start %v", r, start)
	}
	if r, _ := a.Dispatch("math", dispatch("late")); r.Code != bus.CodeNoSlot {
		t.Errorf("refused once, refused again: %+v", r)
	}
	// A claim that was not known is no final answer.
	next := dispatch("next")
	next.Epoch, next.Fence = 6, 106
	if r, _ := a.Dispatch("math", next); r.Code != bus.CodeNotClaimed {
		t.Errorf("%+v", r)
	}
	a.Claimed(claim(6))
	if r, start := a.Dispatch("math", next); r.Code != "" || !start {
		t.Errorf("claimed meanwhile: %+v", r)
	}
}

func end(a *Agent, hold string) bus.Completion {
	d := dispatch(hold)
	e := a.Begin(d).End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 10},
		TTFT: time.Millisecond}, nil)
	return a.Ended(d, &e)
}

// A summary says how many tasks wait for their first token: each is counted until the engine has said
// something, or has failed to.
func TestSummariesSayHowManyWait(t *testing.T) {
	a := newTestAgent(4, Config{})
	a.Claimed(claim(5))
	d := dispatch("x")
	a.Dispatch("math", d)
	for _, h := range []string{"y", "z"} {
		a.Dispatch("math", dispatch(h))
	}
	now := begun
	for _, c := range []struct {
		what     string
		do       func()
		prefills int
	}{
		{"three were taken", func() {}, 3},
		{"the first token of one has come", func() { a.Began(d, nil) }, 2},
		{"that counts once", func() { a.Began(d, nil) }, 2},
		{"it has ended", func() { end(a, "x") }, 2},
		{"one ended before it began", func() { end(a, "y") }, 1},
		{"all have", func() { end(a, "z") }, 0},
	} {
		c.do()
		now = now.Add(time.Second)
		if s := a.Ready(now).Summary; s == nil || s.Prefills != c.prefills {
			t.Errorf("%s: %+v, want %d", c.what, s, c.prefills)
		}
	}
}

// A completion is repeated, each time later, until its hub has it.
func TestCompletionsAreRepeated(t *testing.T) {
	a := newTestAgent(4, Config{})
	a.Claimed(claim(5))
	a.Dispatch("math", dispatch("h"))
	c := end(a, "h")
	if c.Hold != "h" || c.Boot != 7 || c.Outcome != bus.OutcomeDone {
		t.Errorf("%+v", c)
	}
	if r := a.Ready(begun); len(r.Completions) != 0 {
		t.Error("sent twice at once") // the caller of Ended sends it first
	}
	var pauses []time.Duration
	now := begun
	for range 8 {
		a.Unsent(now, "h", 1)
		for r := a.Ready(now); ; r = a.Ready(now) {
			if len(r.Completions) == 1 {
				break
			}
			if !r.Wake.After(now) {
				t.Fatal("wakes in the past")
			}
			pauses = append(pauses, r.Wake.Sub(now))
			now = r.Wake
		}
	}
	if got, want := total(pauses), 200*time.Millisecond+400*time.Millisecond+800*time.Millisecond+
		1600*time.Millisecond+3200*time.Millisecond+3*5*time.Second; got != want {
		t.Errorf("waited %v, want %v", got, want)
	}
	a.Unsent(now, "h", 0)
	a.Reconnected()
	if r := a.Ready(now); len(r.Completions) != 1 || r.Completions[0].Domain != "math" || r.Summary == nil {
		t.Errorf("after the bus came back not all was sent at once: %+v", r)
	}
	for range 5 {
		a.Unsent(now, "h", 1)
		a.Ready(now.Add(time.Minute))
	}
	a.Unsent(now, "h", 1)
	a.Claimed(claim(5)) // nothing new
	if r := a.Ready(now); len(r.Completions) != 0 {
		t.Error("sent again to a hub that has just been asked")
	}
	a.Claimed(claim(6))
	if r := a.Ready(now); len(r.Completions) != 1 {
		t.Errorf("after the hub was started again not all was sent at once: %+v", r)
	}
	a.Acked("h", bus.CodeLate)
	a.Acked("h", bus.CodeLate)
	if r := a.Ready(now.Add(time.Minute)); len(r.Completions) != 0 || !a.Settled() || a.Stats().Late != 1 {
		t.Error("repeated after its acknowledgement")
	}
}

func total(ds []time.Duration) (sum time.Duration) {
	for _, d := range ds {
		sum += d
	}
	return sum
}

// A hub that is gone for good does not hold up memory for ever.
func TestCompletionsAreGivenUp(t *testing.T) {
	a := newTestAgent(1, Config{})
	a.Claimed(claim(5))
	a.Dispatch("math", dispatch("h"))
	end(a, "h")
	for _, c := range []struct {
		after time.Duration
		gone  bool
	}{{0, false}, {keepCompletions, false}, {keepCompletions + 1, true}} {
		if got := a.Unsent(begun.Add(c.after), "h", 1); got != c.gone || a.Settled() != c.gone {
			t.Errorf("after %v: given up %v, settled %v", c.after, got, a.Settled())
		}
		a.Ready(begun.Add(c.after + 10*time.Second))
	}
	if n := a.Stats().Abandoned; n != 1 {
		t.Errorf("%d given up", n)
	}
}

// Work that nobody settles is unpaid, so its number is bounded.
func TestUnsettledWorkIsBounded(t *testing.T) {
	a := newTestAgent(9, Config{MaxCompletions: 3})
	a.Claimed(claim(5))
	for i := range 3 {
		h := fmt.Sprint(i)
		if r, _ := a.Dispatch("math", dispatch(h)); r.Code != "" {
			t.Fatalf("%+v", r)
		}
		end(a, h)
	}
	if r, _ := a.Dispatch("math", dispatch("x")); r.Code != bus.CodeNoSlot ||
		!strings.Contains(r.Message, "3 completions") {
		t.Errorf("%+v", r)
	}
	a.Acked("1", "")
	if r, _ := a.Dispatch("math", dispatch("y")); r.Code != "" {
		t.Errorf("%+v", r)
	}
}

// Summaries come at a change, never closer than the gap, and every second anyway.
func TestSummaries(t *testing.T) {
	a := newTestAgent(2, Config{})
	a.Claimed(claim(5))
	now := begun
	first := a.Ready(now)
	if first.Summary == nil || first.Domain != "math" || first.Summary.Seq != 1 {
		t.Fatalf("%+v", first.Summary)
	}
	if err := first.Summary.Validate(); err != nil {
		t.Error(err)
	}
	a.Dispatch("math", dispatch("h"))
	r := a.Ready(now.Add(30 * time.Millisecond))
	if r.Summary != nil || !r.Wake.Equal(now.Add(100*time.Millisecond)) {
		t.Errorf("too soon: %+v", r)
	}
	now = r.Wake
	if r = a.Ready(now); r.Summary == nil || r.Summary.InFlight != 1 {
		t.Errorf("%+v", r.Summary)
	}
	if r = a.Ready(now.Add(time.Millisecond)); r.Summary != nil || !r.Wake.Equal(now.Add(time.Second)) {
		t.Errorf("without news: %+v", r)
	}
	end(a, "h")
	a.Healthy(new(int64(500)))
	now = now.Add(time.Second)
	a.Ready(now)
	a.Drain()
	s := a.Ready(now.Add(time.Second)).Summary
	if s.State != bus.StateDraining {
		t.Errorf("%+v", s)
	}
}

// What the engine holds is said to the hub that claims the agent, once it is known: by its events, or, where
// it has none, as much as that it began anew.
func TestHoldings(t *testing.T) {
	a := newTestAgent(2, Config{})
	now := begun
	heard := func(what string, want int) (last bus.Holdings) {
		t.Helper()
		r := a.Ready(now)
		if len(r.Holdings) != want || r.Domain != "math" || !r.Wake.After(now) {
			t.Fatalf("%s: %+v", what, r)
		}
		for _, last = range r.Holdings {
			if err := last.Validate(); err != nil || last.Agent != "a1" || last.Boot != 7 {
				t.Errorf("%s: %v: %+v", what, err, last)
			}
		}
		return last
	}
	heard("nobody sells it", 0)
	a.Claimed(claim(5))
	if h := heard("claimed", 1); h.Evidence != bus.EvidenceInferred || h.Coverage != 0 || h.Parts != 1 {
		t.Errorf("%+v", h)
	}
	d := dispatch("h")
	d.Task.Prompt = bus.Prompt{Bytes: 400, Messages: 1, Tokens: 100,
		Prefixes: []bus.PrefixHash{{Bytes: 200, Hash: 7 << 32}, {Bytes: 400, Hash: 8 << 32}}}
	ids := make([]uint32, 100)
	serve := func(hold string) {
		d.Hold = hold
		a.Dispatch("math", d)
		a.Began(d, ids)
		end(a, hold)
	}
	serve("h")
	if s := a.Stats().Cache; s.Prefixes != 0 || s.Blocks != 0 {
		t.Errorf("without events: %+v", s)
	}
	a.Healthy(new(int64(500)))
	a.Healthy(new(int64(3))) // fewer than before
	now = now.Add(time.Second)
	if h := heard("its engine began anew", 1); h.Life != 1 || len(h.Add) > 0 {
		t.Errorf("%+v", h)
	}
	now = now.Add(time.Second)
	a.Events(kvevent.Update{Blind: true, Why: "nobody publishes"})
	heard("without events there is nothing to be blind of", 0)
	a.Events(kvevent.Update{Restarted: true})
	a.Events(kvevent.Update{Batch: kvevent.Batch{Events: []kvevent.Event{{Kind: kvevent.Stored,
		Blocks: []kvevent.Key{1, 2, 3, 4, 5, 6}, Tokens: ids[:96], BlockSize: 16}}}})
	serve("i")
	said := heard("it says what it stores", 1)
	if said.Life != 2 || said.Evidence != bus.EvidenceEvents || said.Coverage != 1 || said.Blocks != 6 ||
		len(said.Add) != 2*bus.ShortHashBytes {
		t.Errorf("%+v", said)
	}
	a.Healthy(new(int64(1))) // which its events have said before
	now = now.Add(2 * time.Second)
	heard("nothing is new", 0)
	a.Asked("code")
	if now = now.Add(20 * time.Second); len(a.Ready(now).Holdings) > 0 {
		t.Error("said to a hub that has not claimed it")
	}
	a.Asked("math")
	if h := heard("its hub missed something", 1); h.Parts != 1 || len(h.Add) != 2*bus.ShortHashBytes {
		t.Errorf("%+v", h)
	}
	a.Events(kvevent.Update{Blind: true})
	now = now.Add(time.Second)
	if h := heard("it is blind", 1); h.Life != 2 || h.Coverage != 0 || len(h.Add) > 0 {
		t.Errorf("%+v", h)
	}
}

// An engine that comes back with another model is registered with that where the configuration left it to the
// engine; a model that the configuration names is waited for.
func TestEnginesAreUpgraded(t *testing.T) {
	cfg := oneAgent("a1", 2)
	cfg.Model = ""
	a := NewAgent(cfg, Config{}, Info{Models: []string{"tiny"}, BlockSize: 16, KVTokens: 1000}, 7,
		[32]byte{1})
	a.Claimed(claim(5))
	a.Unhealthy()
	if err := a.Returned(Info{}); err == nil {
		t.Error("an engine that serves nothing is sold")
	}
	if err := a.Returned(Info{Models: []string{"large", "alias"}, BlockSize: 32,
		KVTokens: 5000}); err != nil {
		t.Fatal(err)
	}
	a.Healthy(nil)
	if r := a.Registration("n"); r.Model != "large" || r.BlockSize != 32 || r.KVTokens != 5000 ||
		r.State != bus.StateReady {
		t.Errorf("registered %+v", r)
	}
	if reply, _ := a.Dispatch("math", dispatch("h")); reply.Code != bus.CodeUnknownModel {
		t.Errorf("a dispatch for the old model is answered with %+v", reply)
	}

	named := newTestAgent(2, Config{})
	named.Unhealthy()
	if err := named.Returned(Info{Models: []string{"large"}}); err == nil ||
		!strings.Contains(err.Error(), "leave it out") {
		t.Errorf("an engine with another model than the one named: %v", err)
	}
	if err := named.Returned(Info{Models: []string{"large", "tiny"}}); err != nil {
		t.Errorf("an engine that serves the model beside another: %v", err)
	}
}

func TestClaims(t *testing.T) {
	a := newTestAgent(2, Config{})
	if a.Domain() != "math" {
		t.Errorf("unclaimed, it reports to %s", a.Domain())
	}
	a.Claimed(&bus.Claim{Agent: "a1", Domain: "code", Epoch: 9, Fence: 10})
	if a.Domain() != "code" {
		t.Errorf("claimed, it reports to %s", a.Domain())
	}
	a.Claimed(&bus.Claim{Agent: "a10", Domain: "law", Epoch: 10})
	if a.Domain() != "code" {
		t.Error("took another agent's claim")
	}
	a.Claimed(nil)
	a.Claimed(claim(5)) // its hub was elected long before, in another domain: that says nothing here
	if r, _ := a.Dispatch("math", dispatch("h")); r.Code != "" {
		t.Errorf("%+v", r)
	}
}

// A dispatch that comes before its claim is served once that is known; but not after the hub was told that it
// is not, though the hub may have sent it again by then.
func TestADispatchBeforeItsClaim(t *testing.T) {
	a := newTestAgent(2, Config{})
	if r, start := a.Dispatch("math", dispatch("h1")); r.Code != bus.CodeNotClaimed || start {
		t.Errorf("before the claim: %+v", r)
	}
	if r, start := a.Decide("math", dispatch("h2")); r.Code != bus.CodeNotClaimed || start {
		t.Errorf("before the claim, decided: %+v", r)
	}
	a.Claimed(claim(5))
	if r, start := a.Dispatch("math", dispatch("h1")); r.Code != "" || !start {
		t.Errorf("once it is claimed: %+v, started %v", r, start)
	}
	if r, start := a.Dispatch("math", dispatch("h2")); r.Code != bus.CodeNotClaimed || start {
		t.Errorf("once it is claimed, after the hub was refused: %+v, started %v", r, start)
	}
	if r, start := a.Decide("math", dispatch("h3")); r.Code != "" || !start {
		t.Errorf("decided once it is claimed: %+v, started %v", r, start)
	}
}

// sells is a hub's claim, and a dispatch under it.
type sells struct {
	domain       string
	epoch, fence int64
}

func (s sells) claim() *bus.Claim {
	return &bus.Claim{Agent: "a1", Domain: s.domain, Epoch: s.epoch, Fence: s.fence}
}

func (s sells) dispatch(hold string) *bus.Dispatch {
	d := dispatch(hold)
	d.Domain, d.Epoch, d.Fence = s.domain, s.epoch, s.fence
	return d
}

// An agent moves from hub to hub, whichever was elected first, and serves the one that has claimed it; one
// that had it before is refused, whatever its epoch.
func TestAnAgentMovesBetweenHubs(t *testing.T) {
	for _, epochs := range [][2]int64{{5, 90}, {90, 5}} {
		t.Run(fmt.Sprintf("epochs %v", epochs), func(t *testing.T) {
			a := newTestAgent(100, Config{})
			fence, before := int64(1000), sells{}
			for i := range 6 {
				fence += 7
				now := sells{[]string{"math", "code"}[i%2], epochs[i%2], fence}
				a.Claimed(nil)
				a.Claimed(now.claim())
				if r, _ := a.Dispatch(now.domain, now.dispatch(fmt.Sprint("h", i))); r.Code != "" {
					t.Fatalf("move %d, to %s: %+v", i, now.domain, r)
				}
				late := before.dispatch(fmt.Sprint("late", i))
				if r, _ := a.Dispatch(before.domain, late); i > 0 && r.Code != bus.CodeStaleEpoch {
					t.Errorf("move %d: the hub before gets %+v", i, r)
				}
				before = now
			}
		})
	}
}

// A hub that was deposed within its domain is refused by its fence. A number that nobody has claimed under is
// not believed, however high it is; nor is none.
func TestDeposedHubs(t *testing.T) {
	a := newTestAgent(2, Config{})
	first, next := sells{"math", 5, 100}, sells{"math", 90, 101}
	a.Claimed(first.claim())
	a.Claimed(next.claim())
	a.Claimed(first.claim()) // news that were overtaken
	a.Unclaimed(100)
	for _, high := range []sells{{"math", 1 << 50, 101}, {"math", 90, 1 << 50}, {"code", 1 << 50, 1 << 50}} {
		if r, _ := a.Dispatch(high.domain, high.dispatch("high")); r.Code != bus.CodeNotClaimed {
			t.Errorf("%+v: %+v", high, r)
		}
	}
	for _, late := range []sells{first, {"math", 90, 0}} {
		if r, _ := a.Dispatch("math", late.dispatch("late")); r.Code != bus.CodeStaleEpoch {
			t.Errorf("the deposed hub gets %+v", r)
		}
	}
	if r, _ := a.Dispatch("math", next.dispatch("h")); r.Code != "" {
		t.Errorf("the hub that leads gets %+v", r)
	}
	a.Unclaimed(102)
	if r, _ := a.Dispatch("math", next.dispatch("h2")); r.Code != bus.CodeNotClaimed {
		t.Errorf("with the claim gone: %+v", r)
	}
}

// Several hubs of two domains, some of them without fences, are elected, deposed, claim and release; news of
// claims and dispatches come late, twice and out of order. The agent serves at most its slots and one
// in its engine's queue, and only for whom the registry named last of what it has heard; fences never fall.
func TestAgentUnderRandomClaims(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	a := newTestAgent(3, Config{})
	var rev, fence, accepted, moves int64 = 10, 0, 0, 0
	var claims []sells // every one there ever was, oldest first
	epochs := map[string]int64{"math": 1, "code": 2}
	held := false // the last of claims is in force
	running := map[string]bool{}
	now := begun
	for i := range 40000 {
		now = now.Add(time.Millisecond)
		rev++
		switch rng.IntN(10) {
		case 0: // an election, or only another claim
			domain := []string{"math", "code"}[rng.IntN(2)]
			if rng.IntN(2) == 0 {
				epochs[domain] = rev
				rev++
			}
			claims, held = append(claims, sells{domain, epochs[domain], rev}), true
			moves++
		case 1:
			held = false
			if len(claims) > 0 && rng.IntN(2) == 0 {
				a.Unclaimed(rev)
			}
		case 2, 3: // news, perhaps old
			if n := len(claims); n > 0 && (held || rng.IntN(2) == 0) {
				a.Claimed(claims[n-1-rng.IntN(min(n, 3))].claim())
			}
		case 4, 5, 6, 7:
			if len(claims) == 0 {
				continue
			}
			from := claims[max(0, len(claims)-1-rng.IntN(4))]
			hold := fmt.Sprint(i - rng.IntN(2))
			before := a.claim
			r, start := a.Dispatch(from.domain, from.dispatch(hold))
			if !start {
				continue
			}
			if r.Code != "" || running[hold] || before == nil || before.Domain != from.domain ||
				before.Epoch != from.epoch || before.Fence != from.fence {
				t.Fatalf("step %d: %+v served under %+v", i, from, before)
			}
			running[hold] = true
			accepted++
		default:
			if len(running) > 0 {
				hold := slices.Min(slices.Collect(maps.Keys(running)))
				end(a, hold)
				a.Acked(hold, "")
				delete(running, hold)
			}
		}
		if a.Fence < fence || a.claim != nil && a.claim.Fence != a.Fence {
			t.Fatalf("step %d: fence %d after %d, under claim %+v", i, a.Fence, fence, a.claim)
		}
		fence = a.Fence
		if len(running) > 3+1 || a.running != len(running) {
			t.Fatalf("step %d: runs %d of 3 and one, agent says %d", i, len(running), a.running)
		}
	}
	if accepted < 1000 || moves < 1000 {
		t.Errorf("%d accepted in %d moves", accepted, moves)
	}
	last := claims[len(claims)-1]
	a.Claimed(last.claim())
	for hold := range running {
		end(a, hold)
	}
	if r, _ := a.Dispatch(last.domain, last.dispatch("last")); r.Code != "" {
		t.Errorf("in the end the hub that has it gets %+v", r)
	}
}

// Whatever hubs do, no slot is used twice, every accepted dispatch has one completion, and memory is bounded.
func TestAgentUnderRandomHubs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	a := newTestAgent(3, Config{MaxCompletions: 8})
	running, pending := map[string]bool{}, map[string]bool{}
	accepted, acked := 0, 0
	pick := func(m map[string]bool) string {
		best := ""
		for h := range m {
			if best == "" || h < best {
				best = h
			}
		}
		return best
	}
	now := begun
	for i := range 30000 {
		now = now.Add(time.Duration(rng.IntN(50)) * time.Millisecond)
		switch rng.IntN(8) {
		case 0:
			a.Claimed(claim(5))
		case 1, 2, 3:
			h := fmt.Sprint(i - rng.IntN(3))
			r, start := a.Dispatch("math", dispatch(h))
			if start {
				if running[h] || pending[h] || r.Code != "" {
					t.Fatalf("hold %s served twice", h)
				}
				running[h] = true
				accepted++
			}
		case 4, 5:
			if h := pick(running); h != "" {
				end(a, h)
				delete(running, h)
				pending[h] = true
				if rng.IntN(2) == 0 {
					a.Unsent(now, h, rng.Float64())
				}
			}
		case 6:
			if h := pick(pending); h != "" {
				a.Acked(h, "")
				delete(pending, h)
				acked++
			}
		case 7:
			for _, r := range a.Ready(now).Completions {
				if !pending[r.Completion.Hold] {
					t.Fatalf("completion of %s, which is not pending", r.Completion.Hold)
				}
				a.Unsent(now, r.Completion.Hold, rng.Float64())
			}
		}
		if len(running) > 3+1 || a.running != len(running) || len(a.pending) != len(pending) ||
			len(pending)+len(running) > 8 {
			t.Fatalf("step %d: runs %d of 3 and one, agent says %d; pending %d, agent says %d", i, len(running),
				a.running, len(pending), len(a.pending))
		}
		if len(a.holds) != len(a.order) || len(a.holds) > maxHolds+len(running)+len(pending) {
			t.Fatalf("step %d: %d holds, %d in order", i, len(a.holds), len(a.order))
		}
	}
	if accepted < 1000 || accepted != acked+len(pending)+len(running) {
		t.Errorf("%d accepted, %d acknowledged, %d pending, %d running", accepted, acked, len(pending),
			len(running))
	}
}
