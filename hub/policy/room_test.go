package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus/policy"
	"souk/hub/estimate"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// acting is a listener that wants what a test says done, once.
type acting struct {
	listener
	wants []policy.Effect
}

func (a *acting) Act(_ time.Time, _ policy.Room, to []policy.Effect) []policy.Effect {
	to, a.wants = append(to, a.wants...), nil
	return to
}

// newRoom returns the room of a hub that leads, with a policy at each hook; busy says whether tasks wait.
func newRoom(p policy.Policy) (r *Room, x *turn.Turn, busy *bool) {
	t := turn.New("hub-math", "math", ledger.NewBook(), [32]byte{1})
	t.Leading = true
	t.Advance(start)
	busy = new(bool)
	made := func() policy.Policy { return p }
	return NewRoom(&t, Params{"placer", "keeper"}, &Known{{"placer": made}, {"keeper": made}}, 100,
		func() bool { return !*busy }), &t, busy
}

func (l *listener) scores(by map[string]float64) {
	l.score = func(i policy.Item) float64 {
		for agent, s := range by {
			if i.Agent == policy.IDOf(agent) {
				return s
			}
		}
		return 0
	}
}

// A task is charged for what is lost by the agent that it goes to, at that agent's price of a second, and
// kept from those that are forbidden; what was set stands until the next round begins. The policy is told how
// many tasks of the client it was asked about before, in that round.
func TestARoundIsJudged(t *testing.T) {
	var l listener
	var asked []policy.Item
	l.scores(map[string]float64{"a-1": 3, "a-2": 1, "a-3": policy.Never})
	score := l.score
	l.score = func(i policy.Item) float64 { asked = append(asked, i); return score(i) }
	room, _, _ := newRoom(&l)
	r := judging{Room: room}
	want := []estimate.Offer{{Estimate: at(10), Extra: -3}, {Estimate: at(20), Agent: 1, Extra: -200}}
	if got := r.judges(2); len(got.barred) != 2 || !slices.EqualFunc(got.offers, append(want, want...),
		func(a, b estimate.Offer) bool {
			return a.Agent == b.Agent && a.Extra == b.Extra && *a.Estimate == *b.Estimate
		}) {
		t.Errorf("%+v, want %+v each", got, want)
	}
	for before := range 2 {
		if i := asked[3*before+1]; i.Before != before || i.Free != 5 || i.Tokens != 20 || !i.Split ||
			i.Age != time.Second || i.Session != 4 || i.Role != 6 || i.Client != policy.IDOf("ann") {
			t.Errorf("it is asked about %+v", i)
		}
	}
	sets := []ledger.Set{{Policy: "placer", Task: "ann/t", Agent: "a-2", Toll: -200},
		{Policy: "placer", Task: "ann/t", Agent: "a-3"}}
	if got := r.Sets(); !slices.Equal(got, append(sets, sets...)) {
		t.Errorf("%+v", got)
	}
	if r.judges(0); len(r.Sets()) > 0 {
		t.Error("a round goes on with what the last one had")
	}
	if r.judges(1); asked[len(asked)-1].Before != 0 {
		t.Error("a round goes on counting where the last one ended")
	}
	r.own = true
	if r.judges(1); len(r.Sets()) > 0 {
		t.Error("the policy is asked about what is none of its business")
	}
	r = judging{Room: r.Room}
	r.Hosted = policy.Hosted[Hook]{}
	if got := r.judges(2); got.barred != nil || len(r.Sets()) > 0 || got.offers[1].Extra != 0 {
		t.Error("nobody is asked, and has a say")
	}
}

// judging is a room with rounds of three agents, of which five slots are free.
type judging struct {
	*Room
	own bool // nobody is asked about their tasks
}

type judged struct {
	barred []int
	offers []estimate.Offer // of all of them
}

func at(cached int) *estimate.Estimate { return &estimate.Estimate{Cached: cached} }

// judges holds a round of so many tasks, each of which is offered every agent.
func (j judging) judges(tasks int) (all judged) {
	agents := []estimate.Agent{{ID: "a-1", Free: 2}, {ID: "a-2"}, {ID: "a-3", Free: 3}}
	waiters := make([]estimate.Waiter, tasks)
	for i := range waiters {
		waiters[i] = estimate.Waiter{ID: "ann/t", Client: "ann", Offers: []estimate.Offer{
			{Estimate: at(10), Extra: -3}, {Estimate: at(20), Agent: 1}, {Estimate: at(0), Agent: 2}}}
	}
	all.barred = j.Judge(&estimate.Snapshot{Agents: agents}, waiters, func(int) (Asker, bool) {
		return Asker{Session: 4, Role: 6, Since: j.turn.Now().Add(-time.Second)}, !j.own
	}, func(k int) Agent { return Agent{Split: k == 1, Second: 100} })
	for _, w := range waiters {
		all.offers = append(all.offers, w.Offers...)
	}
	return all
}

// What policies want done is passed on once a second, where it may be of use: of a session, for an agent, not
// too late, and while nobody waits.
func TestWishes(t *testing.T) {
	e := policy.Effect{Kind: policy.KeepAlive, Agent: 2, Session: 3, Tokens: 64}
	late, nobody, none, empty := e, e, e, e
	late.Until, nobody.Agent, none.Session, empty.Tokens = start, 0, 0, 0
	a := &acting{wants: []policy.Effect{late, nobody, none, empty, e}}
	r, x, busy := newRoom(a)
	second := func() []policy.Effect {
		x.Advance(x.Now().Add(actEvery))
		x.Ring()
		return x.Take().Wishes
	}
	if got := second(); got != nil {
		t.Errorf("no task has come, and %+v is wanted", got)
	}
	r.Arrived(x.Now(), turnOf("ann", "s", 0))
	if got := second(); !slices.Equal(got, []policy.Effect{e}) {
		t.Errorf("wanted is %+v", got)
	}
	a.wants, *busy = []policy.Effect{e}, true
	if got := second(); got != nil {
		t.Errorf("tasks wait, and %+v is wanted", got)
	}
	a.wants, *busy, x.Draining = []policy.Effect{e}, false, true
	if got := second(); got != nil || !x.Next().IsZero() {
		t.Errorf("the hub is stopping, and %+v is wanted", got)
	}
}

// Tolls are the loss beyond the best agent, and never above zero; a bit never leaves a task nothing, but
// where it is held.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		said []float64
		want string
	}{
		{[]float64{0, 0, 0, 0}, "0 1 2 3"},
		{[]float64{2, 0.5, policy.Never, 0}, "0 1:-150 3:-200"},
		{[]float64{policy.Never, policy.Never, policy.Never, policy.Never}, "0 1 2 3"},
		{[]float64{math.NaN(), 1, math.Inf(1), policy.Never}, "0:-100 1 2:-100"},
		{[]float64{2, policy.Never, 0, policy.Hold}, ""},
	} {
		r, _, _ := newRoom(&listener{score: func(i policy.Item) float64 { return c.said[i.Tokens] }})
		agents := make([]estimate.Agent, len(c.said))
		w := estimate.Waiter{ID: "ann/t", Client: "ann"}
		for i := range agents {
			w.Offers = append(w.Offers, estimate.Offer{Estimate: at(i), Agent: int32(i)})
		}
		all := []estimate.Waiter{w}
		r.Judge(&estimate.Snapshot{Agents: agents}, all,
			func(int) (Asker, bool) { return Asker{Since: start}, true },
			func(int) Agent { return Agent{Second: 100} })
		var words []string
		for _, o := range all[0].Offers {
			words = append(words, strings.TrimSuffix(fmt.Sprintf("%d:%d", o.Agent, o.Extra), ":0"))
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("said %v: %s, want %s", c.said, got, c.want)
		}
	}
	for lost, want := range map[float64]market.Credits{0: 0, 2: -14, -3: 0, math.NaN(): 0,
		math.Inf(1): -420} {
		if got := Toll(lost, 7); got != want {
			t.Errorf("%v seconds lost: %d, want %d", lost, got, want)
		}
	}
	if Toll(1, -5) != 0 || Toll(60, math.MaxInt64) < -market.MaxWorth {
		t.Error("a price of a second makes a toll that is none")
	}
}

// A policy that is turned off is reported once, and the hub says so.
func TestAFaultIsReported(t *testing.T) {
	var l listener
	l.score = func(policy.Item) float64 { panic("no") }
	r, x, _ := newRoom(&l)
	judging{Room: r}.judges(1)
	for range 2 {
		r.Report()
	}
	if got := x.Take().Faults; len(got) != 1 || !x.Changed || r.Of(Place).On(x.Now()) {
		t.Errorf("%v, changed %v", got, x.Changed)
	}
}
