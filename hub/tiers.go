package hub

import (
	"slices"
	"time"

	"souk/bus"
	"souk/bus/congest"
)

// An agent's slots cost the more, the more of them are taken: one more task slows those that run beside it.
// What its operator says of that rules. Where nobody says, the hub measures it: by its own count of what each
// agent has in hand, corrected by what agents say of that once it has lasted, and by how long answers take.
// So an agent that says that load does not slow it has no more tasks for it.

// alikeUnderLoad is what agents have in common that are slowed alike.
type alikeUnderLoad struct {
	model, class string
	context      int
}

// inHand notes that what an agent has in hand is another number of tasks.
func (n *Node) inHand(a *agent) { a.load.Runs(n.nano, len(a.holds)+a.stuck) }

// setTiers sets the congestion charges of an agent for later rounds.
func (n *Node) setTiers(a *agent) {
	if n.cfg.LearnTiers && a.measured {
		if tiers := a.load.Tiers(a.slots, a.price.Out); !slices.Equal(tiers, a.tiers) {
			a.tiers = tiers
		}
		return
	}
	a.tiers = a.published
}

// slowed takes in how long an answer took beside others.
func (n *Node) slowed(h *hold, c *bus.Completion) {
	a := h.agent
	if c.Outcome != bus.OutcomeDone || !a.load.Learn(n.nano, congest.Served{Spent: h.spent,
		Took: n.now.Sub(h.sent), TTFT: time.Duration(c.TTFTUS) * time.Microsecond,
		ITL: time.Duration(c.ITLUS) * time.Microsecond, Output: c.Usage.Output}) || !n.cfg.LearnTiers {
		return
	}
	for _, b := range n.roster {
		if b.joined && b.measured && b.load.Beside(&a.load) {
			n.setTiers(b)
		}
	}
	n.news()
}
