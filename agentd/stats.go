package agentd

import (
	"maps"

	"souk/agentd/holdings"
	"souk/bus"
	"souk/bus/policy"
	"souk/market"
)

// Counts are an agent's totals since its start.
type Counts struct {
	Accepted  int64              `json:"accepted"`
	Refused   map[bus.Code]int64 `json:"refused"`
	Done      int64              `json:"done"`
	Cancelled int64              `json:"cancelled"`
	Failed    map[bus.Code]int64 `json:"failed"`
	Late      int64              `json:"late"` // served, but the hold had ended: unpaid
	// failed before anything was delivered, and served by another agent
	Moved     int64 `json:"moved"`
	Abandoned int64 `json:"abandoned"` // never acknowledged
	Prompt    int64 `json:"prompt_tokens"`
	Cached    int64 `json:"cached_tokens"`
	Output    int64 `json:"output_tokens"`
	Unmetered int64 `json:"unmetered"` // answers without the engine's usage
	// answers whose tokens, by their ids, are others than the engine's usage says
	Differs int64          `json:"usage_differs"`
	Earned  market.Credits `json:"earned"` // costs claimed, acknowledged or not

	// of its adapter, which a policy had loaded or used again; undone: the engine had no room or failed, or
	// another one was being loaded
	Loads       int64 `json:"loads,omitempty"`
	LoadsUndone int64 `json:"loads_undone,omitempty"`

	// answers that held what a policy looks for, by the name of that
	Caught map[string]int64 `json:"caught,omitempty"`
}

func (n *Counts) ended(c *bus.Completion) {
	switch c.Outcome {
	case bus.OutcomeDone:
		n.Done++
	case bus.OutcomeCancelled:
		n.Cancelled++
	default:
		if n.Failed == nil {
			n.Failed = map[bus.Code]int64{}
		}
		n.Failed[c.Code]++
	}
	if c.Unmetered {
		n.Unmetered++
	}
	if c.Said != nil {
		n.Differs++
	}
	n.Prompt += int64(c.Usage.Prompt)
	n.Cached += int64(c.Usage.Cached)
	n.Output += int64(c.Usage.Output)
	if sum, ok := n.Earned.Add(c.Cost); ok {
		n.Earned = sum
	}
}

// AgentStats is a snapshot of one agent.
type AgentStats struct {
	Agent    string         `json:"agent"`
	Model    string         `json:"model"`
	State    string         `json:"state"`
	Why      string         `json:"why,omitempty"` // its engine is not as it should be, as of the last look
	Domain   string         `json:"domain"`        // of the hub that sells its slots, "" if none does
	Slots    int            `json:"slots"`
	InFlight int            `json:"in_flight"`
	Pending  int            `json:"pending"` // completions not acknowledged
	Awaited  int64          `json:"awaited"` // leases waited for whose holder nothing proved to have ended
	Cache    CacheStats     `json:"cache"`
	Policies []policy.State `json:"policies,omitempty"` // runtime policies, by where they are asked
	Counts
}

// CacheStats says how much is known of an engine's cache, and by which evidence.
type CacheStats struct {
	Evidence string  `json:"evidence"` // bus.EvidenceEvents or bus.EvidenceInferred
	Coverage float64 `json:"coverage"` // share that is known by events
	Blocks   int     `json:"blocks"`
	Prefixes int     `json:"prefixes"` // of texts
	holdings.Counts
}

// Stats is a snapshot of a node, agents in the order of its configuration.
type Stats struct {
	Node   string       `json:"node"`
	Agents []AgentStats `json:"agents"`
}

// Stats returns a snapshot.
func (a *Agent) Stats() AgentStats {
	s := AgentStats{Agent: a.cfg.ID, Model: a.cfg.Model, State: a.State(), Slots: a.cfg.Slots,
		InFlight: a.running,
		Pending:  len(a.pending), Counts: a.counts,
		Cache: CacheStats{Evidence: a.engine.Evidence(), Coverage: a.engine.Coverage(),
			Blocks: a.engine.Blocks, Prefixes: a.engine.Prefixes(),
			Counts: a.engine.Counts}}
	if a.claim != nil {
		s.Domain = a.claim.Domain
	}
	s.Refused, s.Failed = maps.Clone(s.Refused), maps.Clone(s.Failed)
	s.Caught = maps.Clone(s.Caught)
	s.Policies = a.policies.States(a.now)
	return s
}
