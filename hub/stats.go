package hub

import (
	"cmp"
	"maps"
	"slices"

	"souk/bus"
	"souk/bus/policy"
	"souk/market"
)

// Stats counts what a hub did since its start, for reports.
type Stats struct {
	Arrived int64              // tasks looked at, repeats aside
	Repeats int64              // requests whose task was known
	Looks   int64              // whose door was to ask first whether another hub has the task
	Tasks   map[bus.Code]int64 // last words by code; "" = served

	Rounds    int64
	RoundSize map[int]int64 // rounds by number of tasks
	Awards    int64
	Stopped   int64          // rounds cleared at posted prices because their solve took too long
	Contested int64          // rounds with a slot price above zero
	Welfare   market.Credits // as quoted
	Quoted    market.Credits // cost of what was captured, as it was quoted

	Captured int64
	Cost     market.Credits // due to agents
	Premium  market.Credits // paid beside, the fee included
	Fee      market.Credits
	Priced   int64              // captures with a slot price above zero
	Voids    map[bus.Code]int64 // holds ended without payment, by reason
	// tasks that another agent got because theirs failed before anything was delivered
	Moved  int64
	Hedged int64 // of these, those whose first token was late
	// of these, those whose first agent turned out to be well: see Node.firstCame
	HedgedFalse int64
	Continued   int64 // answers that went on at another agent
	Late        int64 // completions of holds that had ended: repeats, or too late

	Rejected     int64 // messages that meant nothing here
	BadAgents    int64 // registrations that cannot be sold under
	BadPrices    int64 // price cards where a hit costs more than a miss
	BadSummaries int64
	Faults       int64 // what must not happen and did
	OldTreasury  int64 // words of a treasury of an earlier epoch than one that had spoken

	Policies []policy.State // runtime policies, by where they are asked
	Owed     []Owed         // clients that wait, by the policy that shares slots; at most mostOwed

	Open, Waiting, Holds int // now
	Sessions             SessionStats
	Trees                TreeStats
	Regime               RegimeStats

	agents map[string]*AgentStats
	Agents []AgentStats // sorted by name
}

// Owed is a client's deficit: it wanted and was due so many seconds of slots of late, and did not have them.
type Owed struct {
	Client  string
	Seconds float64
}

// mostOwed is how many clients are named with their deficits.
const mostOwed = 8

// SessionStats says how many sessions have places now.
type SessionStats struct {
	Places  int // sessions that have one
	Waiting int // tasks that wait for one
}

// TreeStats says of the trees on what forecasts leave over how many there are for first tokens, of how many
// of them it is added now, and how often that began; and the same of that for lengths of answers.
type TreeStats struct {
	Firsts, FirstsOpen, FirstsOpened int
	LengthsOpen                      bool
	LengthsOpened                    int
}

// AgentStats counts what one agent did.
type AgentStats struct {
	Agent      string
	Model      string
	Tasks      int64
	Usage      market.Usage
	Cost       market.Credits
	Premium    market.Credits
	TTFTUS     int64 // sum, of tasks that report it
	Refused    int64
	Unanswered int64
	Failed     int64
	Expired    int64
	Dead       int64 // times that nobody listened any more where it had
	Differing  int64 // claims that the rule did not bear out
	Judged     int64
	Quality    float64 // sum of judgements
	Scores     []Scored
}

func newStats() Stats {
	return Stats{Tasks: map[bus.Code]int64{}, RoundSize: map[int]int64{}, Voids: map[bus.Code]int64{},
		agents: map[string]*AgentStats{}}
}

// maxAgentStats bounds the agents counted one by one; the rest are counted under "".
const maxAgentStats = 4096

func (s *Stats) agent(id string) *AgentStats {
	a := s.agents[id]
	if a == nil {
		if len(s.agents) >= maxAgentStats {
			id = ""
			if a = s.agents[id]; a != nil {
				return a
			}
		}
		a = &AgentStats{Agent: id}
		s.agents[id] = a
	}
	return a
}

// count counts one more by its code. Of the words that agents may say instead of one, however many, the
// count is one together.
func count(by map[bus.Code]int64, c bus.Code) {
	if c != "" && !c.Known() {
		c = bus.CodeAgentFailed
	}
	by[c]++
}

func (s *Stats) round(r *market.Round, o *market.Outcome) {
	s.Rounds++
	s.RoundSize[len(r.Tasks)]++
	s.Awards += int64(len(o.Awards))
	s.Welfare += o.Welfare
	if len(o.Prices) > 0 {
		s.Contested++
	}
}

func (s *Stats) captured(a *AgentStats, h *hold, c *bus.Completion, cost market.Credits) {
	s.Captured++
	s.Cost += cost
	s.Premium += h.rec.Premium
	s.Fee += h.rec.Fee
	s.Quoted += h.rec.Quoted
	if h.rec.Premium > h.rec.Fee {
		s.Priced++
	}
	a.Model = h.rec.Model
	a.Tasks++
	a.Usage.Prompt += c.Usage.Prompt
	a.Usage.Cached += c.Usage.Cached
	a.Usage.Output += c.Usage.Output
	a.Cost += cost
	a.Premium += h.rec.Premium
	a.TTFTUS += c.TTFTUS
}

// Stats is a copy of the counts.
func (n *Node) Stats() Stats {
	s := n.stats
	s.Tasks, s.RoundSize, s.Voids = maps.Clone(s.Tasks), maps.Clone(s.RoundSize), maps.Clone(s.Voids)
	s.Open, s.Waiting, s.Holds = n.open, n.waiting, len(n.holds)
	s.Sessions = SessionStats{Places: n.sessions.table.Places(), Waiting: n.sessions.waiting}
	s.Policies, s.Owed = n.runtime.host.States(n.now), n.owed()
	s.Trees.Firsts, s.Trees.FirstsOpen, s.Trees.FirstsOpened = n.classes.Gates()
	s.Trees.LengthsOpen, s.Trees.LengthsOpened = n.outputs.Gate()
	s.Regime = n.regimeStats()
	s.agents = nil
	s.Agents = make([]AgentStats, 0, len(n.stats.agents))
	for _, a := range n.stats.agents {
		x := *a
		if a := n.lookup(x.Agent); a != nil {
			x.Scores = a.scored()
		}
		s.Agents = append(s.Agents, x)
	}
	slices.SortFunc(s.Agents, func(a, b AgentStats) int { return cmp.Compare(a.Agent, b.Agent) })
	return s
}
