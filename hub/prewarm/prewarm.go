// Package prewarm is a room of a hub: which texts it puts on idle agents before anybody asks there, when, and
// whether that is worth what it costs.
//
// Where many dialogues begin alike, an agent that has had none of them computes that beginning anew, and so
// gets none of them. The hub may give such an agent the text beforehand: it has it serve a task of the hub's
// own, a copy of one that just went elsewhere, for a single token, of which nobody hears. No bid of the round
// is read: what a second is worth is of those who were served before.
package prewarm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/hub/turn"
	"souk/market"
)

// Params say how often texts are put on idle agents. [bus.ProberOf] the domain pays, whom the operator funds:
// where it has no money nothing is prewarmed.
type Params struct {
	Every time.Duration `yaml:"every"` // least time between two; 0: nothing is prewarmed
}

// Default prewarms wherever there is money for it.
func Default() Params { return Params{Every: time.Second} }

// Validate judges parameters and changes nothing.
func (p Params) Validate() error {
	if p.Every != 0 && (p.Every < 10*time.Millisecond || p.Every > time.Hour) {
		return fmt.Errorf("every: %v is neither 0 nor from 10ms to 1h", p.Every)
	}
	return nil
}

const (
	within   = time.Minute // as many dialogues are expected to begin alike as last so long
	usesKept = 1024        // texts that are counted
)

// Room knows which texts many tasks begin with. T is a task of the hub; its zero value is none.
type Room[T comparable] struct {
	turn  *turn.Turn
	every time.Duration
	uses  *bounded.Cache[uint64, uint64, uses] // by the last prefix that such a text has

	asked T              // the last to be given to an agent that began as many do
	depth int32          // its last prefix that any agent held, then
	each  float64        // dialogues that an agent would have of those that begin so
	own   T              // the task of the hub's own that is on its way
	next  int64          // by Turn.Nano: when there may be another
	named int            // tasks of the hub's own
	mean  market.Credits // what a second costs those who were served lately
}

// uses counts how often a text was begun with in this span of time and the one before.
type uses struct {
	span        int64
	now, before int
}

// New returns the room of a hub that knows no text.
func New[T comparable](t *turn.Turn, p Params) *Room[T] {
	return &Room[T]{turn: t, every: p.Every, uses: bounded.New[uint64, uint64, uses](usesKept, 0)}
}

// Served takes in what a second costs a task that is served. Much more than the mean counts as ten times it.
func (r *Room[T]) Served(second market.Credits) {
	r.mean = cmp.Or(r.mean, second)
	r.mean += (min(second, 10*r.mean) - r.mean) / 64
}

// Begins counts a task that goes to an agent among those that begin as it does: with a text up to its prefix
// of such a depth, which so many of all agents hold.
func (r *Room[T]) Begins(t T, prefix uint64, depth int32, holders, agents int) {
	if r.every == 0 {
		return
	}
	u, _ := r.uses.Add(prefix, prefix)
	if span := r.turn.Nano() / int64(within); span != u.span {
		if u.before = 0; span == u.span+1 {
			u.before = u.now
		}
		u.span, u.now = span, 0
	}
	u.now++
	if again := max(u.now, u.before) - 1; again > 0 && holders < agents {
		r.asked, r.depth, r.each = t, depth, float64(again)/float64(agents)
	}
}

// Wanted returns the task whose text is wanted on an agent that lacks it, and the depth of that, where it is
// time for one, and the hub is idle: nobody waits. Nobody is told of it twice.
func (r *Room[T]) Wanted(idle bool) (t T, depth int32, ok bool) {
	var none T
	t, r.asked = r.asked, none
	if t == none || !idle || r.own != none || r.turn.Nano() < r.next || r.turn.Draining || r.turn.Full ||
		r.turn.Doubt != "" {
		return none, 0, false
	}
	r.next = r.turn.In(r.every)
	return t, r.depth, true
}

// Copy makes a task of the hub's own, which a client pays, of one whose text is wanted: it has a new name and
// asks for one token. The hub alone may hear that: who pays may be anybody, and the text is another's.
func (r *Room[T]) Copy(of *bus.Task, client, model string) bus.Task {
	m := *of
	m.Client, m.ID = client, fmt.Sprintf("prewarm-%d-%d", r.turn.Epoch, r.named)
	r.named++
	m.Session, m.Turn, m.Role, m.Source, m.Run, m.Inbox, m.Tags = "", 0, "", "", "", "", ""
	m.SessionEnd, m.BackMS, m.Parent, m.Next, m.Declared, m.Request, m.Key = false, 0, "", "", false, "", ""
	m.Reply = bus.ReplyTo(r.turn.Journal, m.ID)
	m.Attempt, m.Failover, m.MaxTokens, m.Model, m.Terms = 0, "off", 1, model, bus.Terms{}
	return m
}

// Saves returns what an agent saves if it holds the wanted text: so much money and time in each of the
// expected dialogues, of which every agent counts as serving an equal share.
func (r *Room[T]) Saves(money market.Credits, sooner time.Duration) market.Credits {
	sum := float64(money) + float64(float64(r.mean)*max(0, sooner).Seconds())
	return market.Credits(min(r.each*sum, float64(market.MaxWorth)))
}

// Fair reports whether an agent that asks so much may have the money of the hub's own client. No client said
// what its tokens are worth, and nobody bids against the agent, so nothing but what others ask bounds it:
// agents of other owners, or one with several agents would say itself what is fair. It may ask twice as much
// as the median; of two in the middle the lesser counts, and where its owner is alone there is none.
func Fair(asks market.Credits, others []market.Credits) bool {
	if len(others) == 0 {
		return true
	}
	slices.Sort(others)
	median := max(1, others[(len(others)-1)/2])
	return asks-median <= median
}

// Sent says that a task of the hub's own waits for its money. There is no other before long: an empty account
// is not asked over and over.
func (r *Room[T]) Sent(own T) { r.own, r.next = own, r.turn.In(within) }

// Own is the task of the hub's own that is on its way; none: there is none.
func (r *Room[T]) Own() T { return r.own }

// Soon says that the next may come soon: there was money, though its agent may have been idle no more.
func (r *Room[T]) Soon() { r.next = r.turn.In(r.every) }

// Over says that it has ended.
func (r *Room[T]) Over() { r.own = *new(T) }
