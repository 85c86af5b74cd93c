// Package report counts what a hub does, for those who look after it.
package report

import (
	"cmp"
	"maps"
	"slices"

	"souk/bus"
	runtimepolicy "souk/bus/policy"
	"souk/hub/admission"
	"souk/hub/quality"
	"souk/hub/regime"
	"souk/hub/settle"
	"souk/ledger"
	"souk/market"
)

// Stats counts what a hub did since its start, for reports.
type Stats struct {
	admission.Tally

	Rounds  int64
	Awards  int64
	Stopped int64 // rounds cleared at posted prices because their solve took too long

	Captured int64
	Cost     market.Credits // due to agents
	Premium  market.Credits // paid beside, the fee included
	Fee      market.Credits
	Voids    map[bus.Code]int64 // holds ended without payment, by reason
	settle.Counts

	Rejected int64 // messages that meant nothing here
	Faults   int64 // what must not happen and did

	Policies []runtimepolicy.State // runtime policies, by where they are asked

	Open, Waiting, Holds int // now
	Regime               regime.Stats

	agents map[string]*AgentStats
	Agents []AgentStats // sorted by name
	models map[string]*ModelStats
	Models []ModelStats // likewise
}

// Served counts what was served and is paid.
type Served struct {
	Tasks   int64
	Usage   market.Usage
	Cost    market.Credits
	Premium market.Credits
}

func (s *Served) add(u market.Usage, cost, premium market.Credits) {
	s.Tasks++
	s.Usage.Prompt += u.Prompt
	s.Usage.Cached += u.Cached
	s.Usage.Output += u.Output
	s.Cost += cost
	s.Premium += premium
}

// ModelStats counts what the agents of one model did.
type ModelStats struct {
	Model string
	Served
}

// AgentStats counts what one agent did.
type AgentStats struct {
	Agent string
	Model string
	Served
	TTFTUS     int64 // sum, of tasks that report it
	Refused    int64
	Unanswered int64
	Failed     int64
	Expired    int64
	Dead       int64 // times that nobody listened any more where it had
	Differing  int64 // claims that the rule did not bear out

	// now, as the hub's rooms know it
	Scores               []quality.Scored
	Slots, Running, Free int
	Second               market.Credits // what a second of one of its slots costs
	State                string         // why it is given nothing; "": it is
}

// New has counted nothing.
func New() Stats {
	return Stats{Voids: map[bus.Code]int64{}, agents: map[string]*AgentStats{},
		models: map[string]*ModelStats{}}
}

// mostAgents bounds the agents counted one by one; the rest are counted under "".
const mostAgents = 4096

// Agent returns the counts of an agent, and Model those of a model.
func (s *Stats) Agent(id string) *AgentStats {
	x := of(s.agents, &id)
	x.Agent = id
	return x
}

func (s *Stats) Model(name string) *ModelStats {
	x := of(s.models, &name)
	x.Model = name
	return x
}

func of[T any](all map[string]*T, name *string) *T {
	if all[*name] == nil && len(all) >= mostAgents {
		*name = ""
	}
	if all[*name] == nil {
		all[*name] = new(T)
	}
	return all[*name]
}

// Ended counts how a hold has ended.
func (s *Stats) Ended(h *ledger.Hold, how settle.Ending) {
	a := s.Agent(h.Agent)
	switch how.Event {
	case settle.Refuses, settle.Rejects:
		a.Refused++
	case settle.Failed, settle.Unsaid, settle.Unfit:
		a.Failed++
	case settle.Expired:
		a.Expired++
	}
	if how.Event == "" { // it was counted when it ended
		return
	}
	x := how.Capture
	if x == nil {
		admission.Count(s.Voids, how.Reason)
		return
	}
	if x.Claim != nil {
		a.Differing++
	}
	s.Captured++
	s.Cost += x.Cost
	s.Premium += h.Due(x)
	s.Fee += h.Fee
	a.Model = h.Model
	a.TTFTUS += how.Account.TTFTUS
	a.add(how.Account.Usage, x.Cost, h.Due(x))
	s.Model(h.Model).add(how.Account.Usage, x.Cost, h.Due(x))
}

// Copy returns the counts at this time; know adds what the hub's rooms know of an agent.
func (s *Stats) Copy(know func(*AgentStats)) Stats {
	x := *s
	x.Voids, x.agents, x.models = maps.Clone(s.Voids), nil, nil
	x.Models = make([]ModelStats, 0, len(s.models))
	for _, m := range s.models {
		x.Models = append(x.Models, *m)
	}
	slices.SortFunc(x.Models, func(a, b ModelStats) int { return cmp.Compare(a.Model, b.Model) })
	x.Agents = make([]AgentStats, 0, len(s.agents))
	for _, a := range s.agents {
		x.Agents = append(x.Agents, *a)
		know(&x.Agents[len(x.Agents)-1])
	}
	slices.SortFunc(x.Agents, func(a, b AgentStats) int { return cmp.Compare(a.Agent, b.Agent) })
	return x
}
