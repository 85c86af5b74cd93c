package ledger

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"souk/market"
)

// Seen holds a hub's forecasts for a task on an agent, from which cost and value in the round were computed.
// It proves nothing and changes nothing; a hold has the same figures where the task was placed.
type Seen struct {
	Prompt   int      // tokens, expected
	Cached   int      // of which believed to be in the agent's cache
	Output   int      // tokens, expected
	Evidence Evidence // of Cached
	// from dispatch to the first token: the mean, and between which two nine of ten were expected
	First, Least, Most time.Duration
}

// Evidence says on what the forecast of cached tokens rests.
type Evidence uint8

// The kinds of evidence.
const (
	EvidenceSent   Evidence = iota // what the hub itself had sent there, and what came of it
	EvidencePartly                 // that, and what the agent says of a part of what its engine holds
	EvidenceEvents                 // what the agent says, by what its engine publishes of its cache
	evidences
)

func (e Evidence) String() string {
	switch e {
	case EvidenceSent:
		return "by what was sent there"
	case EvidencePartly:
		return "by what was sent there and some of the engine's events"
	case EvidenceEvents:
		return "by the engine's events"
	}
	return fmt.Sprintf("evidence(%d)", uint8(e))
}

// String puts it into words.
func (s Seen) String() string {
	cached := "nothing of it believed to be cached"
	if s.Cached > 0 {
		cached = fmt.Sprintf("%d believed to be cached, %s", s.Cached, s.Evidence)
	}
	return fmt.Sprintf("expected %d prompt tokens, %s; %d output tokens; first token in %v (%v to %v)",
		s.Prompt, cached, s.Output, s.First, s.Least, s.Most)
}

// SeenStep is the precision of the times in a journal.
const SeenStep = 100 * time.Microsecond

// Rounded returns s as a journal keeps it: the times in whole steps, none below 0, and in order.
func (s Seen) Rounded() Seen {
	least := stepped(s.Least)
	first := max(least, stepped(s.First))
	s.Least, s.First, s.Most = least, first, max(first, stepped(s.Most))
	return s
}

// stepped is d in whole steps, as [time.Duration.Round] has it, but for what is below 0. By a constant it is
// divided in a tenth of the time.
func stepped(d time.Duration) time.Duration {
	if d <= 0 || d > math.MaxInt64-SeenStep {
		return max(0, d.Round(SeenStep))
	}
	return (d + SeenStep/2) / SeenStep * SeenStep
}

// A round's list of Seen is empty, or says of each edge, in the order of market.Round.Edges and then of
// Others:
//
//	prompt ± less that before; four times cached and the evidence; output ± less that before;
//	first token, in steps of 100 us; by how much the least is less; by how much the most is more
func appendSeen(b []byte, all []Seen) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	var before Seen
	const most = 6 * binary.MaxVarintLen64
	for _, s := range all {
		at := len(b)
		b = slices.Grow(b, most)[:at+most]
		at += binary.PutVarint(b[at:], int64(s.Prompt-before.Prompt))
		at += binary.PutUvarint(b[at:], uint64(s.Cached)<<2|uint64(s.Evidence))
		at += binary.PutVarint(b[at:], int64(s.Output-before.Output))
		at += binary.PutUvarint(b[at:], uint64(s.First/SeenStep))
		at += binary.PutUvarint(b[at:], uint64((s.First-s.Least)/SeenStep))
		at += binary.PutUvarint(b[at:], uint64((s.Most-s.First)/SeenStep))
		b, before = b[:at], s
	}
	return b
}

// maxSeen bounds each number of a Seen, so that none overflows.
const maxSeen = 1 << 31

// seen reads forecasts into a list whose memory is used again.
func (d *decoder) seen(r *market.Round, all []Seen) []Seen {
	n := d.Count(6)
	if n > 0 && n != len(r.Edges)+len(r.Others) {
		d.Fail("what was expected is not of the round's edges")
	}
	if n == 0 || d.Fault != "" {
		return all[:0]
	}
	bounded := func(x uint64) int64 {
		if x >= maxSeen {
			d.Fail("an expectation beyond all bounds")
			return 0
		}
		return int64(x)
	}
	var before Seen
	all = slices.Grow(all[:0], n)[:n]
	for i := range all {
		s := Seen{Prompt: before.Prompt + d.Int()}
		cached := d.Uvarint()
		s.Cached, s.Evidence = int(bounded(cached>>2)), Evidence(cached&3)
		s.Output = before.Output + d.Int()
		s.First = time.Duration(bounded(d.Uvarint())) * SeenStep
		s.Least = s.First - time.Duration(bounded(d.Uvarint()))*SeenStep
		s.Most = s.First + time.Duration(bounded(d.Uvarint()))*SeenStep
		if s.Prompt < 0 || s.Prompt >= maxSeen || s.Output < 0 || s.Output >= maxSeen || s.Least < 0 ||
			s.Evidence >= evidences {
			d.Fail("an expectation beyond all bounds")
		}
		if d.Fault != "" {
			return nil
		}
		all[i], before = s, s
	}
	return all
}

// Expected returns the forecasts for an award's task on its agent; nil if none were written.
func (r *Round) Expected(aw *market.Award) *Seen {
	if len(r.Seen) != len(r.Round.Edges)+len(r.Round.Others) {
		return nil
	}
	return seenOf(&r.Round, r.Seen, aw)
}

// Explain is [market.Explain] with what was expected of each task on each agent and what policies set, where
// that was written.
func (r *Round) Explain() (market.Explanation, error) {
	x, err := market.Explain(r.Round, r.Outcome)
	if err != nil {
		return x, err
	}
	for _, set := range r.Set { // in the order of the tasks
		i := slices.IndexFunc(x.Tasks,
			func(t market.TaskExplanation) bool { return string(t.Task) == set.Task })
		if i >= 0 {
			x.Tasks[i].Notes = append(x.Tasks[i].Notes, set.String())
		}
	}
	r.explain(&x)
	if len(r.Seen) != len(r.Round.Edges)+len(r.Round.Others) {
		return x, nil
	}
	edges, others := r.Seen[:len(r.Round.Edges)], r.Seen[len(r.Round.Edges):]
	for i := range x.Tasks {
		for j := range x.Tasks[i].Options {
			x.Tasks[i].Options[j].Note, edges = edges[0].String(), edges[1:]
		}
		for j := range x.Tasks[i].Others {
			x.Tasks[i].Others[j].Note, others = others[0].String(), others[1:]
		}
	}
	return x, nil
}
