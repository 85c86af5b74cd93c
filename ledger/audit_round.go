package ledger

import (
	"fmt"
	"slices"
	"strings"

	"souk/market"
)

// RoundCheck is one round to be checked against its certificate (level 4). It stands alone, so that many can be
// checked at the same time.
type RoundCheck struct {
	Journal string
	Seq     uint64
	Domain  string // of the journal
	Round   []byte // canonical bytes
	Outcome []byte
	Holds   []Hold // that follow in its frame, in order
}

func (c *RoundCheck) clone() RoundCheck {
	n := *c
	n.Round, n.Outcome, n.Holds = slices.Clone(c.Round), slices.Clone(c.Outcome), slices.Clone(c.Holds)
	return n
}

// Findings checks the round: its outcome has the greatest welfare and the least prices (market.Check, without
// solving), and its holds are its awards, premium by premium.
func (c *RoundCheck) Findings() []Finding {
	var out []Finding
	r, err := market.DecodeRound(c.Round)
	var o market.Outcome
	if err == nil {
		o, err = market.DecodeOutcome(c.Outcome)
	}
	if err != nil {
		return append(out, Finding{Level: LevelFrames, Invariant: "I17", Journal: c.Journal, Seq: c.Seq,
			Expected: "the encoding of a round and its outcome", Found: err.Error(), Damage: true})
	}
	id := RoundID(c.Journal, r.Number)
	add := func(invariant, record, expected, format string, args ...any) {
		out = append(out, Finding{Level: LevelAuctions, Invariant: invariant, Journal: c.Journal, Seq: c.Seq, Record: record,
			Expected: expected, Found: fmt.Sprintf(format, args...),
			Show: fmt.Sprintf("ledger round %d --explain --journal %s", r.Number, c.Journal)})
	}
	if err := market.Check(r, o); err != nil {
		add("I6", id, "the certified outcome", "%v", err)
	}
	if r.Domain != c.Domain {
		add("I6", id, fmt.Sprintf("domain %q, as the journal's", c.Domain), "%q", clip(r.Domain))
	}
	if len(c.Holds) != len(o.Awards) {
		add("I9", id, fmt.Sprintf("%d holds in its frame, one for each award", len(o.Awards)), "%d", len(c.Holds))
	}
	for slot := range min(len(c.Holds), len(o.Awards)) {
		h, aw := &c.Holds[slot], &o.Awards[slot]
		if h.is(aw, &r) {
			continue
		}
		add("I6", HoldID(c.Journal, h.Round, h.Slot),
			fmt.Sprintf("the award: task %s on %s, premium %s, cost as quoted %s, fee %s, settle %s", clip(string(aw.Task)), clip(string(aw.Agent)), aw.Premium, aw.Cost, r.Fee, r.Rule.Settle),
			"task %s/%s on %s, premium %s, quoted %s, fee %s, settle %s", h.Client, h.Task, h.Agent, h.Premium, h.Quoted, h.Fee, h.Settle)
	}
	return out
}

// is reports whether a hold is what an award says.
func (h *Hold) is(aw *market.Award, r *market.Round) bool {
	client, task, ok := strings.Cut(string(aw.Task), "/")
	return ok && h.Client == client && h.Task == task && h.Agent == string(aw.Agent) &&
		h.Premium == aw.Premium && h.Quoted == aw.Cost && h.Fee == r.Fee && h.Settle == r.Rule.Settle
}
