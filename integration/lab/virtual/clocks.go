package virtual

import (
	"time"

	"souk/hub"
	"souk/ledger"
)

// Clocks says how long parts of a market took on the machine that computed them, by [MarketOptions.Clock].
// They are of that machine and that moment: nothing of a run goes by them.
type Clocks struct {
	// rounds: what tasks would have of each agent, the plan, its prices, their proof, and the record. Where a
	// turn of the hub has several, each counts as their mean
	Rounds []time.Duration
	Hub    time.Duration // all that the hub did, rounds included
	Audit  time.Duration // of its journal
}

// cleared has the hub do what is due, and notes how long that took: by the clock, and in virtual time, as a
// hub's process does.
func (m *Market) cleared() hub.Ready {
	tasks, held, began := m.node.Queue.Waiting(), m.Held, m.Clock()
	m.node.Tick(m.now)
	r := m.node.Ready()
	took := m.Clock() - began
	m.Clocks.Hub += took
	rounds := m.Held - held
	for range rounds {
		m.Clocks.Rounds = append(m.Clocks.Rounds, took/time.Duration(rounds))
	}
	if m.Computes != nil {
		took = m.Computes(tasks, len(m.agents))
		if rounds > 0 {
			m.node.Queue.Took(took)
		}
		took *= time.Duration(rounds)
		m.busy = m.now.Add(took)
	}
	return r
}

// Recorded counts the rounds of a journal.
type Recorded struct {
	Rounds, Awards int
	Bytes          int // of their frames, in which their holds stand, too
}

// audited gives the audit a frame.
func (m *Market) audited(f *ledger.Frame, data []byte) {
	for i := range f.Records {
		if r := f.Records[i].Round; r != nil {
			m.Rounds.Rounds, m.Rounds.Awards = m.Rounds.Rounds+1, m.Rounds.Awards+len(r.Outcome.Awards)
			m.Rounds.Bytes += len(data)
		}
	}
	began := m.Clock()
	m.audit.Frame(f.Seq, f.Epoch, data)
	m.Clocks.Audit += m.Clock() - began
}
