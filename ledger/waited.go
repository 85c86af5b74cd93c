package ledger

import (
	"encoding/binary"
	"fmt"
	"time"

	"souk/market"
)

// Waited says how long a task of a round had waited, by the hub's word: earlier rounds left it, as it was
// worth more to plan it for a slot to come, or to have others begin.
type Waited struct {
	Task   int // index into market.Round.Tasks
	For    time.Duration
	Rounds int    // that left it
	Agent  string // whose slot to come it had in the last plan; "": none
}

// String puts it into words.
func (w Waited) String() string {
	s := fmt.Sprintf("it has waited for %v, in %s", w.For, market.Some(w.Rounds, "round"))
	if w.Agent != "" {
		s += ", at last for a slot of " + w.Agent
	}
	return s
}

// A round's list of Waited, sorted by task, is of: how many tasks lie between it and the one before; time, in
// steps of 100 us; rounds; agent string.
func appendWaited(b []byte, all []Waited) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	before := -1
	for _, w := range all {
		b = binary.AppendUvarint(b, uint64(w.Task-before-1))
		b = binary.AppendUvarint(b, uint64(stepped(w.For)/SeenStep))
		b = appendStrings(binary.AppendUvarint(b, uint64(w.Rounds)), w.Agent)
		before = w.Task
	}
	return b
}

// waited reads such a list into one whose memory is used again.
func (d *decoder) waited(r *market.Round, all []Waited) []Waited {
	before := -1
	all = all[:0]
	for range d.Count(4) {
		after, steps, rounds := d.Uvarint(), d.Uvarint(), d.Uvarint()
		w := Waited{Task: before + 1 + int(min(after, market.MaxTasks)),
			For: time.Duration(min(steps, maxSeen)) * SeenStep, Rounds: int(min(rounds, maxSeen)),
			Agent: d.Name()}
		if w.Task >= len(r.Tasks) || steps >= maxSeen || rounds >= maxSeen {
			d.Fail("a wait beyond all bounds, or of no task of the round")
		}
		if d.Fault != "" {
			return nil
		}
		all, before = append(all, w), w.Task
	}
	return all
}

// explain adds to what is said of a round what a second cost at its agents, and who had waited.
func (r *Round) explain(x *market.Explanation) {
	costs := make(map[market.AgentID]market.Credits, len(r.Ground.Loads))
	for i, l := range r.Ground.Loads {
		costs[r.Round.Agents[i].Agent] = l.Second
	}
	for i := range x.Tasks {
		for _, options := range [2][]market.Option{x.Tasks[i].Options, x.Tasks[i].Others} {
			for k := range options {
				if c := costs[options[k].Agent]; c > 0 {
					options[k].Cause = fmt.Sprintf(
						"a second there costs %s, because of tasks that wanted it before", c)
				}
			}
		}
	}
	for _, w := range r.Waited {
		x.Tasks[w.Task].Notes = append(x.Tasks[w.Task].Notes, w.String())
	}
}
