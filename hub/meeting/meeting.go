// Package meeting is where a hub's tasks meet its agents: what each would need, cost and be worth on each,
// and so what a round, a quote and a hold are made of. It reads what the rooms know, and changes none of it,
// so that a copy of a [Room] serves a quote. What is done by that, and who is told, is for the hub.
package meeting

import (
	"math"
	"time"

	"souk/bus"
	"souk/bus/openai"
	"souk/hub/admission"
	"souk/hub/config"
	"souk/hub/estimate"
	"souk/hub/fleet"
	"souk/hub/forecast"
	"souk/hub/predict"
	"souk/hub/prewarm"
	"souk/hub/queue"
	"souk/hub/report"
	"souk/hub/round"
	"souk/hub/settle"
	"souk/hub/tariff"
	"souk/hub/turn"
	"souk/ledger"
	"souk/market"
)

// Task is a request from its admission until it is forgotten. First it awaits its client's money (package
// account); then it waits for a slot ([queue.Entry.Waits]); then an agent has it, or may
// ([settle.State]), and if that hold is void it may await and wait again. It is done with its last word. One
// that ends under a hold is remembered; only then may the rest of its answer be a new task of the same id.
type Task struct {
	admission.Request // who asks for what, on which terms, and the last word
	queue.Entry       // since when it waits, until when, and what rounds found
	settle.Task       // what its client was told, and agents that had it
	Asks              forecast.Task
	Hold              *Hold
	Most              market.Credits // that is reserved for it while it waits for a slot
}

// Own reports whether the hub itself has sent it, for one agent alone.
func (t *Task) Own() bool { return t.Asks.Only != nil }

// Served describes how agents have served it so far; noEnd reports whether its reader has not had the end.
func (t *Task) Served(now time.Time, noEnd func(*settle.Hold) bool) admission.Served {
	s := admission.Served{Accepted: t.Accepted, Moved: t.Moves > 0, Unsure: t.Told && t.Moves == 0}
	if h := t.Hold; h != nil {
		s.Agent, s.Held, s.NoEnd = h.Agent.ID(), true, noEnd(&h.Hold)
		s.Replayed = h.State == settle.Replayed && now.Before(h.Expires)
	} else if r := t.Final; r != nil {
		s.Agent = r.Agent
	}
	return s
}

// Agent joins the state that rooms keep of one agent, at least as long as it is sold or holds run on it.
type Agent struct {
	Forecast forecast.Agent // first: rounds and quotes read it of every agent
	fleet.Agent
	Seats []int64 // what one of each of its seats cost by the last plan
}

// Hold is a hold of package settle, and what was expected of its task and its agent.
type Hold struct {
	settle.Hold
	Whose    *Task
	Agent    *Agent
	Expected forecast.Expected
}

// Room brings tasks and agents together.
type Room struct {
	cfg       *config.Config
	turn      *turn.Turn
	fleet     *fleet.Room[*Agent]
	forecasts *forecast.Room
	Kept      round.Kept   // of seats to come, which belong to no single agent
	Shares    round.Shares // of clients
	Spread    round.Spread // of their terms
	Round                  // the one at hand
}

// New returns the room of a hub; each is read as it is when asked.
func New(cfg *config.Config, t *turn.Turn, all *fleet.Room[*Agent], f *forecast.Room) *Room {
	return &Room{cfg: cfg, turn: t, fleet: all, forecasts: f}
}

// NewAgent is an agent of which nothing is known but its id.
func NewAgent(by *forecast.Room, id string) *Agent {
	a := new(Agent)
	by.Enrol(&a.Forecast, id, a)
	a.Keeps(&a.Forecast)
	return a
}

// Reprice gives an agent the tariff that it is paid, and says whether it sells.
func (a *Agent) Reprice(by *tariff.Room) {
	a.Sell(by.Of(a.Seller().Owner, a.Seller().Class))
	a.Forecast.Anew()
}

// NewTask is a task of which nothing is known yet but its request, and since when it may wait.
func (r *Room) NewTask(q admission.Request, arrived time.Time) *Task {
	return &Task{Request: q, Entry: queue.New(q.Client, arrived, r.turn.Now().Add(r.cfg.Deadline))}
}

// Read makes a request the task's own, and fills in what it leaves to the hub.
func (r *Room) Read(t *Task, m *bus.Task) {
	m.Token, m.LastStatus = "", nil // Reply says it; and it was judged
	r.forecasts.Prefixes.Resolve(&m.Prompt)
	t.From(m)
	if m.Model == "auto" {
		m.Model = ""
	}
	t.Asks = forecast.Task{Prompt: &m.Prompt, Carried: m.Carried(), MaxTokens: max(0, m.MaxTokens),
		Model: m.Model, Kind: m.Kind, Domain: m.Domain, Media: m.Prompt.Loose == bus.LooseMedia,
		Parses: t.Asks.Parses, Usual: t.Asks.Usual, Only: t.Asks.Only, Failed: &t.FailedAt,
		Source: predict.Source{Client: t.Client, Role: m.Role, Session: bus.SessionKey(m.Client, m.Session),
			Prompt: m.Prompt.Tokens, Turn: m.Turn, Most: m.MaxTokens}}
}

// Usual returns the usual cost of a task; before one was paid, of one as long as those of a status.
func (r *Room) Usual() market.Credits {
	if c := r.turn.Book.Usual(); c > 0 {
		return c
	}
	return r.forecasts.Typically(r.cfg.Fee)
}

// Agree gives tasks that wait the terms of those that come now: see [admission.Bid.Stale].
func (r *Room) Agree(tasks []*Task) {
	usual := r.Usual()
	for _, t := range tasks {
		if t.Stale(usual, r.fleet.Changes()) && !t.Own() {
			r.SetTerms(t) // what was said of terms is as good as before
		}
	}
}

// SetTerms gives a task its terms, by what agents have for one that comes now: see [admission.Terms].
func (r *Room) SetTerms(t *Task) *bus.Result {
	r.forecasts.Fit(&t.Asks)
	x := admission.Reference{Usual: r.Usual(), Joins: r.fleet.Changes()}
	x.Best, x.Card = r.forecasts.Card(r.turn.Nano(), &t.Asks, r.cfg.Fee)
	t.Asks.Usual = x.Usual
	if err := t.Set(&r.cfg.Terms, t.Msg, x); err != nil {
		return r.turn.Refusal(t.Msg, bus.CodeBadTerms, 0, "%v", err)
	}
	return nil
}

// backOffBound bounds the tokens that the next agent may take back of an answer, for a whole character.
const backOffBound = 3

// Rest has a task go on with an answer that was delivered in part: the same model, the rest of max_tokens.
func (r *Room) Rest(t *Task, model string) *bus.Result {
	m, k := t.Msg, t.Msg.Carried()
	if k == 0 {
		return nil
	}
	parses := m.Resume.Parses
	if m.Large == nil {
		var err error
		if parses, err = openai.CanContinue(m.Resume, m.Body); err != nil {
			return r.turn.Refusal(m, bus.CodeUnsupportedField, 0, "%s", bus.MessageOf(err))
		}
	}
	t.Broke = r.turn.Now()
	m.Model, m.MaxTokens = model, min(t.Whole, max(0, t.Whole-k)+backOffBound)
	t.Asks.Parses, t.Asks.Model, t.Asks.Source.Most = parses, m.Model, m.MaxTokens
	if !t.Asks.Open() {
		t.Asks.MaxTokens = m.MaxTokens
	}
	return nil
}

// Survey looks at every agent that could ever serve t: what the dearest outcome takes, or why there is none.
func (r *Room) Survey(t *Task) (estimate.Need, *bus.Result) {
	x := admission.NewSurvey(&t.Bid, r.cfg.Fee, len(t.FailedAt) > 0)
	if t.Own() || len(t.FailedAt) > 0 { // else its terms were set since anything changed
		r.forecasts.Fit(&t.Asks)
	}
	r.forecasts.Reach(r.turn.Nano(), &t.Asks, x.May, func(a *forecast.Agent, e *estimate.Estimate) {
		ttft := a.Line().Later(e.First, e.Work, estimate.Delay{})
		if !r.turn.Now().Add(a.Half(ttft)).After(t.Deadline) {
			x.Offers(e, ttft)
		}
	})
	need, no := x.Verdict(r.turn, t.Msg)
	need.Fixed, need.Until = t.Own(), t.Deadline
	return need, no
}

// Free counts the slots that are free for a task.
func (r *Room) Free(t *Task) (free int) {
	for _, a := range r.fleet.All() {
		if r.forecasts.Goes(&t.Asks, &a.Forecast) {
			free += a.Free(r.turn.Nano())
		}
	}
	return free
}

// NewHold is the hold for an award.
func (r *Room) NewHold(t *Task, in *market.Round, slot int, aw *market.Award) *Hold {
	a := r.fleet.Find(string(aw.Agent))
	h := &Hold{Hold: settle.Hold{ID: ledger.HoldID(r.cfg.Journal, in.Number, slot), Task: &t.Task, Msg: t.Msg,
		Deadline: t.Deadline, Unread: t.Own(), Sent: r.turn.Now()}, Whose: t, Agent: a}
	now, e := r.turn.Nano(), &h.Expected.Estimate
	h.Expected, h.First, h.Watch = r.forecasts.Expect(now, &t.Asks, &a.Forecast, a.Backlog(now))
	prompt := e.Prompt
	if t.Asks.Media { // nobody knows how many tokens a picture has before it was computed
		prompt = max(prompt, e.Most)
	}
	first, service := r.fleet.Within(&a.Agent, prompt, e.MaxTokens)
	usually, queued := a.Queued()
	h.Expected.Queued, h.Beyond = queued, queued > 0
	h.First, h.Watch, first, service = h.First+queued, h.Watch+usually, first+queued, service+queued
	h.Most, h.Expires, h.Limit = e.Most, h.Sent.Add(service+r.cfg.HoldGrace), first+r.cfg.HoldGrace/2
	h.Timeout = service + r.cfg.HoldGrace/2
	h.Award, h.Own, h.Index = *aw, in.Own(*aw), r.turn.Book.Size+1+int64(slot)
	if x := &t.Asks; x.Source.Session != 0 && !x.Media { // pictures and sound have names alone
		h.Verified = a.Forecast.Cache.Verified(x.Source.Session, x.Prompt)
	}
	h.Rec = ledger.Hold{
		Client: t.Client, Task: t.ID, Attempt: t.Msg.Attempt, Agent: a.ID(), Model: a.Reg().Model,
		Round: in.Number, Slot: slot, Kind: bus.DispatchTask, Request: t.Msg.Request, Key: t.Msg.Key,
		Amount: market.Hold(aw.Premium, e.Worst, min(t.Terms.Cap(), t.Most)), Tags: t.Msg.Tags,
		Premium: aw.Premium, Fee: r.cfg.Fee, Quoted: aw.Cost, Tariff: a.Seller().Tariff, Settle: r.cfg.Settle,
		Price:  a.Reg().Price,
		Prompt: e.Prompt, Cached: e.Cached, Output: e.Output, MaxTokens: e.MaxTokens,
		Expires: h.Expires.UnixNano(), Boot: a.Reg().Boot, Digest: t.Digest,
		Asserted: a.Forecast.Cache.Asserted(&t.Msg.Prompt, a.Forecast.Line().Tokens(t.Msg.Prompt.Tokens)),
	}
	h.Rec.Reader, h.Rec.Token, _ = bus.ReaderOf(t.Msg.Reply)
	if h.Rec.Reader == h.Rec.Client && h.Rec.Token == h.Rec.Task {
		h.Rec.Reader, h.Rec.Token = "", ""
	}
	return h
}

// What a hub puts on an idle agent is a task like any other, for that agent alone (forecast.Task.Only), in a
// round that is its alone, so that the journal proves it as any other. It is sent where nothing runs, while
// nobody waits: see package prewarm.

// Prewarms makes a task of the hub's own, which a client pays: an idle agent computes what another begins
// with, up to such a depth, for an answer of one token. There is none where the uses of that save less than
// it costs, or it may not be.
func (r *Room) Prewarms(of *Task, depth int32, by *prewarm.Room[*Task], client string,
	may func(*Task) bool) (*Task, estimate.Need) {
	for _, a := range r.fleet.All() {
		p, cache := &of.Msg.Prompt, a.Forecast.Cache // who says that it has lost that is not paid again
		if a.Free(r.turn.Nano()) == 0 || len(a.Runs) > 0 || !r.forecasts.Goes(&of.Asks, &a.Forecast) ||
			cache.Depth(p) >= depth ||
			cache.Had(p, 0, depth) == depth {
			continue
		}
		m := by.Copy(of.Msg, client, a.Reg().Model)
		if t := r.own(a, &m, depth, by); t != nil && may(t) {
			if need, no := r.Survey(t); no == nil {
				return t, need
			}
		}
	}
	return nil, estimate.Need{}
}

// Counted copies the counts of a hub, with what is known of its agents now.
func (r *Room) Counted(s *report.Stats) report.Stats {
	for _, a := range r.fleet.All() {
		if a.Joined() {
			s.Agent(a.ID()).Model = a.Reg().Model
		}
	}
	return s.Copy(func(x *report.AgentStats) {
		if a := r.fleet.Find(x.Agent); a != nil {
			x.Scores, x.State = a.Forecast.Answers.Scored(), r.fleet.State(&a.Agent)
			x.Slots, x.Running, x.Free = a.Reg().Slots, a.Running(), a.Vacant(r.turn.Nano())
			x.Second = r.Second(a)
		}
	})
}

// own makes it for an agent; nil if it does not pay, or the agent asks too much.
func (r *Room) own(a *Agent, m *bus.Task, depth int32, by *prewarm.Room[*Task]) *Task {
	t := r.NewTask(admission.New(m.Client, m.ID, m.Content(), 0), r.turn.Now())
	t.Deadline = r.turn.Now().Add(r.cfg.FundsWait)
	t.Asks.Only = &a.Forecast
	r.Read(t, m)
	e := r.forecasts.At(r.turn.Nano(), &t.Asks, &a.Forecast)
	p, card, held := &m.Prompt, a.Reg().Price, t.Asks.Features(&e)
	held.Cached = int(int64(e.Prompt) * int64(p.Prefixes[depth-1].Bytes) / int64(max(1, p.Bytes)))
	whole := held
	whole.Cached = 0
	money := market.Price{Miss: max(0, card.Miss-card.Hit)}.Cost(market.Usage{Prompt: held.Cached})
	if by.Saves(money, a.Forecast.First(whole)-a.Forecast.First(held)) <= e.Cost+r.cfg.Fee ||
		!r.Fair(a, e.Prompt, e.MaxTokens) {
		return nil
	}
	// It pays cost and fee: its round is its alone, and no slot has a price. The hold has to cover the worst.
	worth := math.Ceil(2 * float64(e.Worst+r.cfg.Fee) / max(0.01, e.Quality))
	t.Bid = admission.Fixed(market.Terms{Worth: market.Credits(min(worth, float64(market.MaxWorth))),
		Delta: 1, Patience: 1})
	return t
}

// Fair reports whether an agent may have the money of the hub's own client for so many tokens.
func (r *Room) Fair(a *Agent, prompt, output int) bool {
	asks := func(b *Agent) market.Credits {
		return market.WorstCase(b.Reg().Price, prompt, output) + b.Seller().Tariff
	}
	var others []market.Credits
	for _, b := range r.fleet.All() {
		if b.Seller().Owner != a.Seller().Owner && b.Joined() && b.Reg().Model == a.Reg().Model {
			others = append(others, asks(b))
		}
	}
	return prewarm.Fair(asks(a), others)
}
