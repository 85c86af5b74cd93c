package meeting

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/admission"
	"souk/hub/config"
	"souk/hub/fleet"
	"souk/hub/forecast"
	"souk/hub/round"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// place is a room with agents of one slot each, at the beginning of a hub.
type place struct {
	*Room
	t    *testing.T
	turn turn.Turn
	cfg  config.Config
}

func newPlace(t *testing.T, agents ...string) *place {
	p := &place{t: t, cfg: config.Default()}
	p.cfg.Domain, p.cfg.Journal = "math", "hub-math"
	p.turn = turn.New(p.cfg.Journal, p.cfg.Domain, ledger.NewBook(), [32]byte{1})
	p.turn.Leading = true
	p.turn.Advance(time.Unix(1_800_000_000, 0))
	f := forecast.New(forecast.Params{Hold: p.cfg.Terms.Hold, Settle: p.cfg.Settle,
		Judging: p.cfg.Quality}, nil)
	all := fleet.New(&p.turn, fleet.Limits{MaxAgents: 8, Silence: time.Minute, Suspect: time.Minute},
		func(id string) *Agent { return NewAgent(f, id) }, func(*Agent) {}, func() {})
	p.Room = New(&p.cfg, &p.turn, all, f)
	for i, id := range agents {
		a := all.Enrol(id)
		all.Claim(&a.Agent)
		all.Register(&a.Agent, bus.Registration{Agent: id, Boot: 1, Model: "llama", Slots: 1,
			KVTokens: 1 << 16, BlockSize: 16, State: bus.StateReady,
			Domains: []bus.DomainScore{{Domain: "math", Score: 0.8}},
			Price: market.Price{Miss: market.Credit, Hit: market.Credit,
				Out: market.Credits(4+i) * market.Credit}})
		f.Register(&a.Forecast, &bus.Registration{}, true)
		a.Sell(0, true)
	}
	return p
}

// task returns one that a client sends, on the terms of the hub.
func (p *place) task(id string) *Task {
	m := bus.Task{Client: "ann", ID: id, Reply: bus.ReplyTo("ann", id), MaxTokens: 100,
		Prompt: bus.Prompt{Tokens: 100, Bytes: 400, Text: 400, Pieces: 1}}
	t := p.NewTask(admission.New("ann", id, [16]byte{}, 0), p.turn.Now())
	if p.Read(t, &m); p.SetTerms(t) != nil {
		p.t.Fatal("it is given no terms")
	}
	if _, no := p.Survey(t); no != nil {
		p.t.Fatal(no.Message)
	}
	return t
}

// runs has an agent be given so many tasks more.
func (p *place) runs(agent string, n int) {
	for i := range n {
		p.fleet.Find(agent).Begin("bob", fmt.Sprint(i), p.turn.Now(), time.Minute)
	}
}

// Where a task may go is no question of slots: it may go to every agent that has not failed it, and what the
// hub sends itself to one alone. Whether it is blocked is one of slots.
func TestWhereATaskMayGo(t *testing.T) {
	p := newPlace(t, "a", "b")
	x := p.task("t1")
	goes := func() (ids string) {
		for _, a := range p.fleet.All() {
			if p.forecasts.Goes(&x.Asks, &a.Forecast) {
				ids += a.ID()
			}
		}
		return ids
	}
	if got := goes(); got != "ab" || p.Free(x) != 2 {
		t.Errorf("it may go to %q, %d slots", got, p.Free(x))
	}
	x.FailedAt = []string{"a"}
	if got := goes(); got != "b" || p.Free(x) != 1 {
		t.Errorf("where one has failed it, it may go to %q", got)
	}
	x.FailedAt, x.Asks.Only = nil, &p.fleet.Find("a").Forecast
	if got := goes(); got != "a" || !x.Own() {
		t.Errorf("one of the hub's own may go to %q", got)
	}
	x.Asks.Only = nil
	p.runs("a", 1)
	if _, blocked := p.Blocked(x); blocked {
		t.Error("it is blocked beside a free slot")
	}
	p.runs("b", 1)
	if idle, blocked := p.Blocked(x); !blocked || idle <= 0 {
		t.Errorf("behind others it is not blocked, by %v", idle)
	}
}

// A round has an offer of each agent, the cheaper one's the better; who has none may gain at an agent that is
// back soon.
func TestARoundOfOffers(t *testing.T) {
	p := newPlace(t, "a", "b")
	x, y := p.task("t1"), p.task("t2")
	p.Open()
	if out := p.Take([]*Task{x, y}); len(out) > 0 {
		t.Fatalf("%d are too many", len(out))
	}
	p.Meet()
	whys := p.Build()
	if len(p.Waiters) != 2 || len(p.Waiters[0].Offers) != 2 || p.Agents[whys[0].Best.Agent].ID() != "a" {
		t.Fatalf("%d waiters, the best is %+v", len(p.Waiters), whys[0].Best)
	}
	best := p.Best(x, false)
	if gain, any := p.Gain(x, best); !any || gain != best.Bare() || gain >= 0 {
		t.Errorf("before its money is reserved it gains %v, want %v", gain, best.Bare())
	}
	p.fleet.Avoid(&p.fleet.Find("a").Agent)
	p.fleet.Avoid(&p.fleet.Find("b").Agent)
	p.Open()
	if best := p.Best(x, true); best != nil {
		t.Errorf("where no agent takes tasks the best is %+v", best)
	}
	if gain, any := p.Gain(x, nil); !any || gain <= -market.Credit {
		t.Errorf("of agents that are back soon it gains %v", gain)
	}
}

// A quote is of what the last plan left, by model, and neither moves the clock nor the round at hand.
func TestAQuoteIsAside(t *testing.T) {
	p := newPlace(t, "a", "b")
	p.Open()
	now, before := p.turn.Now(), slices.Clone(p.Agents)
	p.runs("a", 1)
	p.Aside(now.Add(time.Second), func(own *Room, at time.Time) {
		all, no := own.Quote(p.task("t1"), 0)
		if no != nil || len(all) != 1 || all[0].Model != "llama" || !all[0].WouldWin ||
			all[0].Price.Max < all[0].Price.Expected || at != now.Add(time.Second) {
			t.Errorf("it is quoted %+v, %+v", all, no)
		}
	})
	if p.turn.Now() != now || !slices.Equal(p.Agents, before) || !reflect.DeepEqual(p.Kept, round.Kept{}) {
		t.Error("a quote has moved something")
	}
}
