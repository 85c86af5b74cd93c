package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"souk/market"
)

var checks = sync.Pool{New: func() any { return new(RoundCheck) }}

// RoundCheck is one round to be checked against its certificate (level 4). It stands alone, so that many can
// be checked at the same time.
type RoundCheck struct {
	memory  Round // used again
	judged  bool  // whether the round was, by market.Round.Validate
	invalid error // what it said

	Journal string
	Seq     uint64
	Domain  string // of the journal
	Round   *Round
	Holds   []Hold          // that follow in its frame, in order
	Tariffs []market.Tariff // in force, by class
}

// Findings checks the round: its outcome has the greatest welfare and the least prices (market.Check, without
// solving), its tasks are priced as those of the clients that they are of, and its holds are its awards,
// premium by premium. It is called once: what it is of is used again after that.
func (c *RoundCheck) Findings() []Finding {
	defer func() {
		c.Round, c.Holds, c.Tariffs, c.judged = nil, c.Holds[:0], nil, false
		checks.Put(c)
	}()
	var out []Finding
	r, o, seen, sets := &c.Round.Round, &c.Round.Outcome, c.Round.Seen, c.Round.Set
	add := func(invariant, record, expected, format string, args ...any) {
		out = append(out, Finding{Level: LevelAuctions, Invariant: invariant, Journal: c.Journal, Seq: c.Seq,
			Record: cmp.Or(record, RoundID(c.Journal, r.Number)), Expected: expected,
			Found: fmt.Sprintf(format, args...),
			Show:  fmt.Sprintf("ledger round %d --explain --journal %s", r.Number, c.Journal)})
	}
	err := c.invalid
	if !c.judged {
		err = r.Validate()
	}
	if err == nil {
		err = market.CheckValid(r, o)
	}
	if err != nil {
		add("I6", "", "the certified outcome", "%v", err)
		seen, sets = nil, nil
	}
	for _, s := range sets {
		if wrong := s.judge(r); wrong != "" {
			add("I6", "", fmt.Sprintf("task %s, %s", clip(s.Task), s), "%s", wrong)
		}
	}
	if r.Domain != c.Domain {
		add("I6", "", fmt.Sprintf("domain %q, as the journal's", c.Domain), "%q", clip(r.Domain))
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		// bills are made by client, and paid by whom the task's id names
		if client, _, _ := strings.Cut(string(t.ID), "/"); t.Client != client {
			add("I6", "", "every task priced as one of its own client", "task %s as one of %q",
				clip(string(t.ID)), clip(t.Client))
			break
		}
	}
	if r.Rule.Pricing == market.PricingTariff || r.Rule.Instead == market.PricingTariff {
		c.sellers(r, func(expected, format string, args ...any) { add("I6", "", expected, format, args...) })
	}
	if len(c.Holds) != len(o.Awards) {
		add("I9", "", fmt.Sprintf("%d holds in its frame, one for each award", len(o.Awards)), "%d",
			len(c.Holds))
	}
	for slot := range min(len(c.Holds), len(o.Awards)) {
		h, aw := &c.Holds[slot], &o.Awards[slot]
		if s := seenOf(r, seen, aw); s != nil && (s.Prompt != h.Prompt || s.Cached != h.Cached ||
			s.Output != h.Output) {
			add("I6", HoldID(c.Journal, h.Round, h.Slot),
				fmt.Sprintf("what the round expected: %d prompt tokens, %d of them cached, %d output tokens",
					s.Prompt, s.Cached, s.Output), "%d, %d, %d", h.Prompt, h.Cached, h.Output)
		}
		if h.is(aw, r) {
			continue
		}
		add("I6", HoldID(c.Journal, h.Round, h.Slot),
			fmt.Sprintf("the award: task %s on %s, premium %s, cost as quoted %s, tariff %s, fee %s, "+
				"settle %s", clip(string(aw.Task)), clip(string(aw.Agent)), aw.Premium, aw.Cost,
				tariffOf(r, aw.Agent), r.Fee, r.Rule.Settle),
			"task %s/%s on %s, premium %s, quoted %s, tariff %s, fee %s, settle %s", h.Client, h.Task,
			h.Agent, h.Premium, h.Quoted, h.Tariff, h.Fee, h.Settle)
	}
	return out
}

// seenOf returns the forecast for an award's task on its agent; nil if none was written.
func seenOf(r *market.Round, seen []Seen, aw *market.Award) *Seen {
	if len(seen) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(r.Edges, aw, func(e market.Edge, aw *market.Award) int {
		return cmp.Or(cmp.Compare(r.Tasks[e.Task].ID, aw.Task),
			cmp.Compare(r.Agents[e.Agent].Agent, aw.Agent))
	})
	if !ok {
		return nil
	}
	return &seen[i]
}

// is reports whether a hold matches an award.
func (h *Hold) is(aw *market.Award, r *market.Round) bool {
	client, task, ok := strings.Cut(string(aw.Task), "/")
	return ok && h.Client == client && h.Task == task && h.Agent == string(aw.Agent) &&
		h.Premium == aw.Premium && h.Quoted == aw.Cost && h.Fee == r.Fee && h.Settle == r.Rule.Settle &&
		h.Tariff == tariffOf(r, aw.Agent)
}

// tariffOf is the tariff of an agent in a round, 0 where there are none.
func tariffOf(r *market.Round, agent market.AgentID) market.Credits {
	if len(r.Sellers) == 0 {
		return 0
	}
	i, ok := slices.BinarySearchFunc(r.Agents, agent,
		func(s market.Supply, id market.AgentID) int { return cmp.Compare(s.Agent, id) })
	if !ok || i >= len(r.Sellers) {
		return 0
	}
	return r.Sellers[i].Tariff
}

// sellers checks that whoever sells in a round won its class's epoch, and at that epoch's tariff.
func (c *RoundCheck) sellers(r *market.Round, add func(expected, format string, args ...any)) {
	for i, s := range r.Sellers {
		if i >= len(r.Agents) {
			return // Check reports it
		}
		at, ok := slices.BinarySearchFunc(c.Tariffs, s.Class,
			func(t market.Tariff, class string) int { return cmp.Compare(t.Class, class) })
		switch {
		case !ok:
			add("a tariff of class "+clip(s.Class), "agent %s sells, and no epoch was cleared",
				clip(string(r.Agents[i].Agent)))
		case c.Tariffs[at].Amount != s.Tariff:
			add(fmt.Sprintf("the tariff %s of epoch %d of %s", c.Tariffs[at].Amount, c.Tariffs[at].Epoch,
				clip(s.Class)), "agent %s at %s", clip(string(r.Agents[i].Agent)), s.Tariff)
		case !slices.Contains(c.Tariffs[at].Winners, s.Owner):
			add(fmt.Sprintf("an owner that won epoch %d of %s", c.Tariffs[at].Epoch, clip(s.Class)),
				"agent %s of %s", clip(string(r.Agents[i].Agent)), clip(s.Owner))
		}
	}
}

// lost says of which rounds prices a second and tolls cannot be recomputed, as a round before them is missing
// or was refused, and what it taught is not known.
type lost struct {
	seq         uint64 // of the frame where that was seen; 0: all is known
	at          int64  // of the first round after it that says its time, as market.Ground does; 0: none yet
	first, last uint64 // rounds since that were not checked, or not whether slots cost nothing there
}

// rates recomputes what a round says of slots from the rounds before it (level 4); nil is one that cannot be
// read. What is no round the check of the round says.
func (a *Audit) rates(seq uint64, x *Round, taken bool) {
	if x == nil || !taken {
		a.lost.seq, a.lost.at = cmp.Or(a.lost.seq, seq), 0
	}
	if x == nil || a.next.invalid != nil {
		return
	}
	r, rates := &x.Round, &a.book.kept.Rates
	if l := &a.lost; l.seq > 0 {
		says := len(x.Ground.Loads) > 0
		if says && l.at > 0 && market.Known(l.at, x.Ground.At) {
			a.unchecked()
			*l = lost{}
		} else if l.first, l.last = cmp.Or(l.first, r.Number), r.Number; says {
			if taken && l.at == 0 {
				l.at = x.Ground.At
			}
			return
		} else { // that slots cost nothing is its word, that nobody wants one is seen
			rates = &market.Rates{}
		}
	}
	set := func(edge int) (sum market.Credits) {
		if len(x.Set) == 0 {
			return 0
		}
		e := &r.Edges[edge]
		of := Set{Task: string(r.Tasks[e.Task].ID), Agent: string(r.Agents[e.Agent].Agent)}
		from, _ := slices.BinarySearchFunc(x.Set, of, CompareSets)
		for _, s := range x.Set[from:] {
			if s.Task != of.Task || s.Agent != of.Agent {
				break
			}
			sum = max(sum+s.Toll, -market.MaxCredits)
		}
		return sum
	}
	if err := rates.Check(r, &x.Outcome, &x.Ground, set); err != nil {
		a.Add(Finding{Level: LevelAuctions, Invariant: "I6", Seq: seq, Record: clip(a.rec.ID),
			Expected: "tolls and prices a second as the rounds before taught", Found: err.Error(),
			Show: fmt.Sprintf("ledger round %d --explain --journal %s", r.Number, a.journal())})
	}
}

// unchecked says of which rounds prices were not checked, if there are any that it has not been said of.
func (a *Audit) unchecked() {
	if l := &a.lost; l.first > 0 {
		a.Add(Finding{Level: LevelAuctions, Invariant: "I6", Seq: l.seq, Damage: true,
			Expected: "each round, as those after it follow from what it taught",
			Found: fmt.Sprintf("one is missing here or before, or cannot be read or taken: tolls and prices a "+
				"second of rounds %d to %d could not be recomputed", l.first, l.last)})
		l.first, l.last = 0, 0
	}
}
