package bus

import (
	"errors"
	"time"

	"souk/market"
)

// A hub shows what it does to those who look on, and only while somebody does. A message on
// [WatchSubject] begins that, or lets it go on for WatchFor; a request there is answered once by a whole
// Feed.
const (
	WatchFor  = 5 * time.Second
	FeedEvery = 100 * time.Millisecond // the least time between two feeds
	MaxFeed   = 16 << 10               // bytes of one

	MaxFeedRounds = 4   // of one feed
	MaxFeedTasks  = 16  // awards of a round, and likewise tasks left out
	MaxFeedAgents = 128 // of one feed
)

// Feed tells of a hub's rounds and state. It names no client, no task and nothing of a prompt; who may know
// them finds them in the journal, by the number of a round and the slot of an award.
type Feed struct {
	Domain  string `json:"domain" msgpack:"domain" want:"id"`
	Journal string `json:"journal" msgpack:"journal" want:"id"`
	Epoch   int64  `json:"epoch" msgpack:"epoch"`
	AtMS    int64  `json:"at_ms" msgpack:"at_ms" want:"unix"` // by the hub's clock
	// rounds since the last feed, oldest first; those without a place here are only counted
	Rounds []FeedRound `json:"rounds,omitempty" msgpack:"rounds,omitempty" want:"most:4"`
	Unseen int64       `json:"unseen,omitempty" msgpack:"unseen,omitempty"`
	// the hub as a whole, once a second; nil: this feed has only rounds
	State *FeedState `json:"state,omitempty" msgpack:"state,omitempty"`
}

// FeedState is a hub as a whole. What only grows counts since its start.
type FeedState struct {
	Hub string `json:"hub" msgpack:"hub"` // instance
	// why it does not sell; "": it does
	Unready string `json:"unready,omitempty" msgpack:"unready,omitempty" want:"text"`
	// when its creds end; 0: never
	Expires int64 `json:"expires_ms,omitempty" msgpack:"expires,omitempty" want:"unix"`
	Tasks   int64 `json:"tasks" msgpack:"tasks,omitempty"`     // that came
	Served  int64 `json:"served" msgpack:"served,omitempty"`   // and were paid for
	Refused int64 `json:"refused" msgpack:"refused,omitempty"` // or ended with a code
	Rounds  int64 `json:"rounds" msgpack:"rounds,omitempty"`   // that gave slots
	Awards  int64 `json:"awards" msgpack:"awards,omitempty"`
	// rounds cleared at posted prices, as their solve took too long
	Stopped int64 `json:"stopped,omitempty" msgpack:"stopped,omitempty"`
	// what must not happen, and did
	Faults  int64 `json:"faults,omitempty" msgpack:"faults,omitempty"`
	Waiting int   `json:"waiting" msgpack:"waiting,omitempty"` // tasks
	Running int   `json:"running" msgpack:"running,omitempty"` // open holds
	// clients' money here, not held and held for tasks that run; what the hub took beside costs; and what it
	// owes agents
	Avail   market.Credits `json:"avail" msgpack:"avail,omitempty" want:"sum"`
	Held    market.Credits `json:"held" msgpack:"held,omitempty" want:"sum"`
	Surplus market.Credits `json:"surplus" msgpack:"surplus,omitempty" want:"sum"`
	Fee     market.Credits `json:"fee" msgpack:"fee,omitempty" want:"sum"`
	Payable market.Credits `json:"payable" msgpack:"payable,omitempty" want:"sum"`
	Fleet   int            `json:"fleet" msgpack:"fleet,omitempty"` // agents that it knows
	// those that have trouble first, then the busiest; some, where there are many
	Agents []FeedAgent `json:"agents,omitempty" msgpack:"agents,omitempty" want:"most:128"`
}

// FeedAgent is an agent as its hub sees it.
type FeedAgent struct {
	Agent   string `json:"agent" msgpack:"agent" want:"id"`
	Model   string `json:"model" msgpack:"model,omitempty"`
	State   string `json:"state,omitempty" msgpack:"state,omitempty"` // why it is given nothing; "": it is
	Slots   int    `json:"slots" msgpack:"slots,omitempty" want:"slots"`
	Running int    `json:"running" msgpack:"running,omitempty" want:"slots"`
	Free    int    `json:"free" msgpack:"free,omitempty" want:"slots"`
	// since the hub's start: tasks paid for, prompt tokens and those of them from its cache, and what it
	// earned
	Tasks  int64          `json:"tasks" msgpack:"tasks,omitempty"`
	Prompt int64          `json:"prompt" msgpack:"prompt,omitempty"`
	Cached int64          `json:"cached" msgpack:"cached,omitempty"`
	Cost   market.Credits `json:"cost" msgpack:"cost,omitempty" want:"sum"`
	Failed int64          `json:"failed,omitempty" msgpack:"failed,omitempty"` // or late, dead, refused
}

// FeedRound is a round that gave slots to somebody.
type FeedRound struct {
	Number  uint64 `json:"number" msgpack:"number"`
	AtMS    int64  `json:"at_ms" msgpack:"at_ms" want:"unix"`
	Pricing string `json:"pricing" msgpack:"pricing"`
	// posted prices stand in, as its solve took too long
	Instead bool           `json:"instead,omitempty" msgpack:"instead,omitempty"`
	Tasks   int            `json:"tasks" msgpack:"tasks,omitempty"`   // that met, those left out too
	Agents  int            `json:"agents" msgpack:"agents,omitempty"` // on its record
	Welfare market.Credits `json:"welfare" msgpack:"welfare,omitempty" want:"sum"`
	// tasks that got a slot, their premiums, and the dearest slot's price
	Given     int            `json:"given" msgpack:"given,omitempty"`
	Premiums  market.Credits `json:"premiums" msgpack:"premiums,omitempty" want:"signed"`
	SlotPrice market.Credits `json:"slot_price" msgpack:"slot_price,omitempty"`
	// some of them, and of those left out
	Awards []FeedAward `json:"awards,omitempty" msgpack:"awards,omitempty" want:"most:16"`
	Left   []FeedLeft  `json:"left,omitempty" msgpack:"left,omitempty" want:"most:16"`
	// awards, and tasks left out, that have no place here
	More int `json:"more,omitempty" msgpack:"more,omitempty"`
}

// FeedAward is a slot given; its receipt is JOURNAL/ROUND/SLOT.
type FeedAward struct {
	Slot      int            `json:"slot" msgpack:"slot,omitempty"`
	Agent     string         `json:"agent" msgpack:"agent" want:"id"`
	Value     market.Credits `json:"value" msgpack:"value,omitempty" want:"signed"`
	Cost      market.Credits `json:"cost" msgpack:"cost,omitempty"`
	Premium   market.Credits `json:"premium" msgpack:"premium,omitempty" want:"signed"`
	SlotPrice market.Credits `json:"slot_price" msgpack:"slot_price,omitempty"`
}

// FeedLeft is a task that got no slot now: where it came nearest to one, and the value above which it would
// have had it there, all else equal. Planned: it waits for a slot there that is to come; Needed is 0.
type FeedLeft struct {
	Agent   string         `json:"agent" msgpack:"agent" want:"id"`
	Value   market.Credits `json:"value" msgpack:"value,omitempty" want:"signed"`
	Needed  market.Credits `json:"needed" msgpack:"needed,omitempty" want:"signed"`
	Planned bool           `json:"planned,omitempty" msgpack:"planned,omitempty"`
}

// Won returns the task that would have won a slot with the value it needed: the one that lacked least; nil
// where none was left without a slot to come.
func (r FeedRound) Won() (least *FeedLeft) {
	for i := range r.Left {
		l := &r.Left[i]
		if !l.Planned && (least == nil || l.Needed-l.Value < least.Needed-least.Value) {
			least = l
		}
	}
	return least
}

// Validate: of rounds only those that give something are shown.
func (f *Feed) Validate() error {
	for i := range f.Rounds {
		if f.Rounds[i].Number == 0 {
			return errors.New("rounds.number: they count from 1")
		}
	}
	return judge(f)
}

// UnixMS is a time in Unix milliseconds; 0 for the zero time.
func UnixMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// WatchSubject is the subject on which a hub hears who looks on.
func WatchSubject(domain, viewer string) string { return Root + "hub." + domain + ".watch." + viewer }

// FeedSubject is the subject of a hub's [Feed].
func FeedSubject(domain string) string { return Root + "feed." + domain }
