package market

import "fmt"

// Limits of one round. A hub's rounds are a hundred times smaller. The limits bound the memory that hostile
// bytes can take, and keep every sum of the solver within an int64.
const (
	MaxTasks     = 1 << 17
	MaxAgents    = 1 << 14
	MaxSeats     = 1 << 12 // of one agent
	MostSeats    = 1 << 16 // of all agents together
	MaxSlots     = 1 << 20 // of one seat
	MaxEdges     = 1 << 20
	MaxSeatEdges = 1 << 22 // edges, each counted once for every seat of its agent
	MaxTurn      = 1<<turnBits - 1
	MaxShown     = 8       // of [Round.Others] for one task
	MaxPruned    = 1 << 40 // of each count of [Pruned]
	MaxID        = 256     // bytes of an id or name
)

// Pricing and Clarke rules, [Rule.Pricing] and [Rule.Clarke].
const (
	PricingVCG = "vcg" // price cards and slot prices: the paper's (iemas 4.2)
	// ClarkeTask prices each task by what it costs the others, other tasks of its client among them.
	ClarkeTask = "task"
	// ClarkeClient prices all tasks of a client together. Truth is best also for clients with several tasks.
	ClarkeClient = "client"
)

// DefaultRule is how rounds are priced and settled where nothing else is configured.
var DefaultRule = Rule{Pricing: PricingVCG, Settle: SettleMetered, Clarke: ClarkeClient}

// Validate judges a rule: only rules that [Clear] knows pass.
func (r Rule) Validate() error {
	switch {
	case r.Pricing != PricingVCG && r.Pricing != PricingTariff && r.Pricing != PricingPosted:
		return fmt.Errorf("rule: pricing is %q, want %q, %q or %q", clip(r.Pricing), PricingVCG,
			PricingTariff, PricingPosted)
	case r.Instead != "" && (r.Pricing != PricingPosted || r.Instead != PricingVCG &&
		r.Instead != PricingTariff):
		return fmt.Errorf("rule: pricing %q instead of %q: only %q stands in, for %q or %q", r.Pricing,
			clip(r.Instead), PricingPosted, PricingVCG, PricingTariff)
	case r.Settle != SettleMetered && r.Settle != SettleQuoted:
		return fmt.Errorf("rule: settle is %q, want %q or %q", r.Settle, SettleMetered, SettleQuoted)
	case r.Clarke != ClarkeTask && r.Clarke != ClarkeClient:
		return fmt.Errorf("rule: clarke is %q, want %q or %q", r.Clarke, ClarkeTask, ClarkeClient)
	}
	return nil
}

// Validate judges a round; [Clear] never panics on one that passes. Its errors name the field and the limit.
// It wants the canonical order of [Round.Sort] without duplicates, and
//
//	max weight x (seats of all agents + 1) < 2^62
//
// so that no sum along a path of exchanges, at most one for each seat, leaves an int64; and at most 2^62 for
// the sum of every task's largest weight, so that welfare does not.
func (r *Round) Validate() error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("round %s-%d: %w", clip(r.Domain), r.Number, err)
	}
	return nil
}

func (r *Round) validate() error {
	if err := r.Rule.Validate(); err != nil {
		return err
	}
	switch {
	case len(r.Domain) > MaxID:
		return fmt.Errorf("domain has %d bytes, want at most %d", len(r.Domain), MaxID)
	case r.Fee < 0 || r.Fee > MaxWorth:
		return fmt.Errorf("fee is %s, want 0 to %s credits", r.Fee, MaxWorth)
	case len(r.Tasks) > MaxTasks:
		return fmt.Errorf("%d tasks, want at most %d", len(r.Tasks), MaxTasks)
	case len(r.Agents) > MaxAgents:
		return fmt.Errorf("%d agents, want at most %d", len(r.Agents), MaxAgents)
	case len(r.Edges) > MaxEdges:
		return fmt.Errorf("%d edges, want at most %d", len(r.Edges), MaxEdges)
	}
	for i, t := range r.Tasks {
		if err := validateID(string(t.ID)); err != nil {
			return fmt.Errorf("task %d: id %w", i, err)
		}
		if len(t.Client) > MaxID || t.Client == "" && r.Rule.Clarke == ClarkeClient {
			return fmt.Errorf("task %s: client has %d bytes, want 1 to %d", t.ID, len(t.Client), MaxID)
		}
		if i > 0 && t.ID <= r.Tasks[i-1].ID {
			return fmt.Errorf("task %s: %s", t.ID, orderFault(t.ID == r.Tasks[i-1].ID))
		}
		if t.Second < 0 || t.Second > MaxCredits {
			return fmt.Errorf("task %s: a second costs it %s, want 0 to %s credits", t.ID, t.Second, MaxCredits)
		}
		if t.Turn < 0 || t.Turn > MaxTurn {
			return fmt.Errorf("task %s: turn is %d, want 0 to %d", t.ID, t.Turn, MaxTurn)
		}
		if t.Within < 0 || t.Within > MaxIn {
			return fmt.Errorf("task %s: within is %v, want 0 to %v", t.ID, t.Within, MaxIn)
		}
	}
	seats, err := r.validateAgents()
	if err != nil {
		return err
	}
	if err := r.validateSellers(); err != nil {
		return err
	}
	if err := r.validateRest(); err != nil {
		return err
	}
	return r.validateEdges(seats)
}

// validateRest judges the form and the bounds of what the proof does not cover.
func (r *Round) validateRest() error {
	p := r.Pruned
	for _, n := range [4]int{p.Tasks, p.Edges, p.Planned, p.Beyond} {
		if n < 0 || n > MaxPruned {
			return fmt.Errorf("pruned: a count of %d, want 0 to %d", n, MaxPruned)
		}
	}
	if r.Rule.Pricing == PricingPosted && (p.Tasks > 0 || p.Edges > 0 || p.Planned > 0 || len(r.Others) > 0) {
		return fmt.Errorf("%d tasks and %d edges pruned under pricing %q, where all that are served stand in "+
			"line", p.Tasks, p.Edges, PricingPosted)
	}
	own, shown := 0, 0 // where the current task's edges begin in Edges, and how many others it has so far
	for i, e := range r.Others {
		if !r.holds(&e) || i > 0 && compareEdges(r.Others[i-1], e) >= 0 {
			return r.edgeFault("other edge", r.Others, i)
		}
		if shown++; i == 0 || r.Others[i-1].Task != e.Task {
			shown = 1
		}
		for own < len(r.Edges) && compareEdges(r.Edges[own], e) < 0 {
			own++
		}
		if shown > MaxShown || own < len(r.Edges) && compareEdges(r.Edges[own], e) == 0 {
			return fmt.Errorf("other edge %s > %s: is an edge too, or beyond %d of its task",
				r.Tasks[e.Task].ID, r.Agents[e.Agent].Agent, MaxShown)
		}
	}
	return nil
}

// validateSellers judges owners, classes and tariffs. Whether a tariff is the right one takes the epoch or
// the price list to check.
func (r *Round) validateSellers() error {
	p := r.Rule.Pricing
	named := p == PricingTariff || r.Rule.Instead == PricingTariff // every agent has an owner and a class
	switch n := len(r.Sellers); {
	case n == 0 && !named, n == 0 && len(r.Agents) == 0:
		return nil
	case p == PricingVCG || n != len(r.Agents):
		return fmt.Errorf("%d sellers of %d agents under pricing %q: one of each under %q, none under %q", n,
			len(r.Agents), p, PricingTariff, PricingVCG)
	}
	tariff := make(map[string]Credits)
	some := false
	for i, s := range r.Sellers {
		agent := r.Agents[i].Agent
		if len(s.Owner) > MaxID || len(s.Class) > MaxID || named && (s.Owner == "" || s.Class == "") {
			return fmt.Errorf("agent %s: owner and class have %d and %d bytes, want 1 to %d", agent,
				len(s.Owner), len(s.Class), MaxID)
		}
		if s.Tariff < 0 || s.Tariff > MaxWorth {
			return fmt.Errorf("agent %s: tariff is %s, want 0 to %s credits", agent, s.Tariff, MaxWorth)
		}
		if t, ok := tariff[s.Class]; ok && t != s.Tariff {
			return fmt.Errorf("agent %s: tariff is %s, and that of another agent of class %s is %s", agent,
				s.Tariff, s.Class, t)
		}
		tariff[s.Class] = s.Tariff
		some = some || s != Seller{}
	}
	if !some {
		return fmt.Errorf("%d sellers without a word: none is meant", len(r.Sellers))
	}
	return nil
}

func (r *Round) validateAgents() (seats int, err error) {
	for i, a := range r.Agents {
		if err := validateID(string(a.Agent)); err != nil {
			return 0, fmt.Errorf("agent %d: id %w", i, err)
		}
		if i > 0 && a.Agent <= r.Agents[i-1].Agent {
			return 0, fmt.Errorf("agent %s: %s", a.Agent, orderFault(a.Agent == r.Agents[i-1].Agent))
		}
		if _, err := ValidateSeats(a.Seats); err != nil {
			return 0, fmt.Errorf("agent %s: %w", a.Agent, err)
		}
		if k := len(a.Seats); k > 0 && a.Seats[k-1].Later && r.Rule.Pricing == PricingPosted {
			return 0, fmt.Errorf("agent %s: a seat to come under pricing %q, which plans nothing", a.Agent,
				PricingPosted)
		}
		seats += len(a.Seats)
	}
	if seats > MostSeats {
		return 0, fmt.Errorf("%d seats of all agents together, want at most %d", seats, MostSeats)
	}
	return seats, nil
}

func (r *Round) validateEdges(seats int) error {
	limit := Credits((1<<62 - 1) / uint64(seats+1))
	seatEdges, sold := 0, len(r.Sellers) > 0
	task, agent := -1, -1
	var most, sum Credits // the largest weight of the current task; the sum of those of all tasks before it
	tasks, agents := len(r.Tasks), r.Agents
	for i := range r.Edges {
		e := &r.Edges[i]
		if uint(e.Task) >= uint(tasks) || uint(e.Agent) >= uint(len(agents)) || !e.bounded() ||
			e.Task < task || e.Task == task && e.Agent <= agent {
			return r.edgeFault("edge", r.Edges, i)
		}
		if e.Task != task {
			most, sum = 0, sum+most
			if sum > 1<<62 {
				break
			}
		}
		task, agent = e.Task, e.Agent
		seatEdges += len(agents[e.Agent].Seats)
		if len(agents[e.Agent].Seats) == 0 {
			continue
		}
		if sold && e.Cost < r.Sellers[e.Agent].Tariff {
			return fmt.Errorf("edge %s > %s: cost is %s, less than the tariff %s that it bears",
				r.Tasks[e.Task].ID, r.Agents[e.Agent].Agent, e.Cost, r.Sellers[e.Agent].Tariff)
		}
		// No seat is worth more than one at once.
		w := e.Value - e.Cost + e.Toll - r.Fee
		if w > limit {
			return fmt.Errorf("edge %s > %s: weight is %s, want at most %s credits with %d seats in "+
				"the round",
				r.Tasks[e.Task].ID, r.Agents[e.Agent].Agent, w, limit, seats)
		}
		most = max(most, w)
	}
	if sum+most > 1<<62 { // both are at most 2^62 + 2^60
		return fmt.Errorf("the largest weights of all tasks sum to more than %s credits", Credits(1<<62))
	}
	if seatEdges > MaxSeatEdges {
		return fmt.Errorf("%d edges counted once for every seat of their agent, want at most %d",
			seatEdges, MaxSeatEdges)
	}
	return nil
}

// holds reports whether an edge names a task and an agent of the round, and its amounts are within bounds.
func (r *Round) holds(e *Edge) bool {
	return uint(e.Task) < uint(len(r.Tasks)) && uint(e.Agent) < uint(len(r.Agents)) && e.bounded()
}

// bounded reports whether its amounts are within bounds. What is too small is too large without its sign.
func (e *Edge) bounded() bool {
	return uint64(e.Value+MaxCredits) <= 2*uint64(MaxCredits) && uint64(e.Cost) <= uint64(MaxCredits) &&
		uint64(e.Own) <= uint64(-e.Toll) && uint64(-e.Toll) <= uint64(MaxCredits)
}

// edgeFault says what is wrong with item i of list, an edge that has a fault; what names the list.
func (r *Round) edgeFault(what string, list []Edge, i int) error {
	e := list[i]
	switch {
	case e.Task < 0 || e.Task >= len(r.Tasks):
		return fmt.Errorf("%s %d: task index is %d, want 0 to %d", what, i, e.Task, len(r.Tasks)-1)
	case e.Agent < 0 || e.Agent >= len(r.Agents):
		return fmt.Errorf("%s %d: agent index is %d, want 0 to %d", what, i, e.Agent, len(r.Agents)-1)
	}
	name := fmt.Sprintf("%s %s > %s", what, r.Tasks[e.Task].ID, r.Agents[e.Agent].Agent)
	switch {
	case e.Value < -MaxCredits || e.Value > MaxCredits:
		return fmt.Errorf("%s: value is %s, want at most %s credits in size", name, e.Value, MaxCredits)
	case e.Cost < 0 || e.Cost > MaxCredits:
		return fmt.Errorf("%s: cost is %s, want 0 to %s credits", name, e.Cost, MaxCredits)
	case e.Toll > 0 || e.Toll < -MaxCredits:
		return fmt.Errorf("%s: toll is %s, want %s to 0 credits", name, e.Toll, -MaxCredits)
	case e.Own < 0 || e.Own > -e.Toll:
		return fmt.Errorf("%s: the client's own part of its toll is %s, want 0 to %s", name, e.Own, -e.Toll)
	}
	return fmt.Errorf("%s: %s", name, orderFault(compareEdges(list[i-1], e) == 0))
}

func validateID(id string) error {
	if id == "" || len(id) > MaxID {
		return fmt.Errorf("has %d bytes, want 1 to %d", len(id), MaxID)
	}
	return nil
}

func orderFault(duplicate bool) string {
	if duplicate {
		return "listed twice"
	}
	return "out of order; Round.Sort first"
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
