package market

import "slices"

// Pruner takes out of a round what cannot change its outcome. So a hub may consider all tasks that wait, and
// still solve, record and prove a small round. It reads every edge about once, and sorts no more edges than
// it keeps. The zero value is ready for use; it keeps its buffers. Not for concurrent use.
//
// Let the round have S free slots and T tasks. An edge from task j of client c to agent k is dropped if one
// of these holds:
//
//	1: j has a place of its own at another agent, which is worth as much to it as k or more
//	2: more than S tasks have a better edge to k, even without the tasks of any one client other than c
//	3: the agents that are better for j have at least T slots together
//
// A task has a place of its own at an agent if the agent's first tier has a slot for each task that has one
// there, and whoever else could go there has a place of its own elsewhere that is worth as much to it. Where
// all who have such a place and are somewhere that is worth no more to them move there, nobody is in their
// way, and nothing is lost: in the round, with a slot more, or without the tasks of one client. So welfare,
// slot prices and bills are those of the whole round. Where idle agents outnumber tasks, little else is left
// of it. The other two rules are for what this one leaves.
//
// An edge is better than another if its weight is greater; at equal weights, if its task came earlier; if
// these are equal too, if its agent comes earlier in the list, whose order a hub draws by lot. No bid decides
// between equal edges, and rounds stay small even where many bids or many agents are alike.
//
// Why the second and the third are exact: add to each edge's weight an infinitesimal amount that falls with
// its task's arrival, and a still smaller one that falls with its agent's place, so that no two edges are
// equal. Where the second rule drops an edge, some task with a better edge to k is left out however S slots,
// or S + 1, are assigned, and would add more in j's place. Where the third rule drops it, an agent that is
// better for j has a free slot. So no best assignment uses the edge: not in the round, not with one slot
// more, and not without the tasks of one client. Letting the infinitesimals go to 0, welfare, slot prices and
// bills stay the whole round's, and the awards are among its best. Among the best assignments that
// remain the round's seed chooses.
//
// The exception for one client is needed under [ClarkeClient]: its bill is found in the round without its
// tasks, and there lower edges of other tasks count.
type Pruner struct {
	// the client of each task of the next round, as a number from 0; nil: clients are told apart by their
	// names
	Clients []int32

	round     *Round
	everybody bool // under posted: those stay, too, that find every slot dear
	kept      Kept

	client []int32 // of every task, numbered
	agents []offered
	own    places
	weight []int64 // of every edge at its agent's first tier
	keep   []bool  // of every edge
	head   []int32 // where the items of each agent begin
	items  []item
	taken  []int32 // by client, how many of its edges rank above the current one
	row    []item
	index  []int32 // of tasks, then of agents: their index in the round that is left; -1: dropped
	byName map[string]int32
}

// offered is what pruning needs of an agent.
type offered struct {
	room   int   // slots of all its tiers; 0: none
	first  int   // slots of the first
	charge int64 // of the first
}

// slots is how many of an agent's slots that number of tasks can take.
func (a *offered) slots(tasks int) int { return min(a.room, tasks) }

// item is an edge, or one tier of it, with what it is sorted by: its weight, then its place among equals.
type item struct {
	weight int64
	order  int64
	edge   int32
	tier   int32
}

func (a *item) before(b *item) bool {
	if a.weight != b.weight {
		return a.weight > b.weight
	}
	return a.order < b.order || a.order == b.order && a.edge < b.edge
}

// maxTries bounds how often a round that is beyond its limit is pruned again.
const maxTries = 4

// Kept says what became of a round's lists. Its indexes are those before Prune, ascending. It is valid until
// the next Prune.
type Kept struct {
	Tasks, Agents, Edges []int32 // that were kept, including agents that appear in Round.Others alone
	TooExpensive         []int32 // of Tasks: under posted, those that find no slot worth what it charges
	Outbid               []int32 // dropped: others bid more on every agent that they could have gone to
	Waiting              []int32 // dropped: waiting was worth more to them than any of these slots
	OverLimit            []int32 // dropped: the round was at its limit
}

// Prune reduces r to what can change its outcome. The tasks of r are in the order in which they came, and its
// agents in any; Prune keeps both. It sets Others, to the show best of the dropped edges of each task that is
// kept, and Pruned; everything else is set before. The lists of r are new afterwards, and share no memory
// with the old ones.
//
// At most limit tasks are kept. Where pruning leaves more, the tasks that came last are taken out of the
// whole round until limit are left, whatever they bid. Under pricing posted nothing is pruned, since all
// clients are served in a line, and no task has a wait: where there are more than limit, the first limit stay
// of those that find a slot worth what it costs.
func (p *Pruner) Prune(r *Round, limit, show int) *Kept {
	p.round = r
	p.weigh()
	if p.lone(limit, show) {
		p.round = nil
		return &p.kept
	}
	p.number()
	first := len(r.Tasks)
	p.everybody = first <= limit
	for tries := 0; p.within(first) > limit; tries++ {
		// The tasks up to the last one that has room stay. Some that were dropped because of later ones
		// return.
		if first = p.through(limit); tries == maxTries {
			first = limit
		}
	}
	p.finish(first, show)
	p.round = nil
	return &p.kept
}

// lone prunes the round of one task, as most are: of its edges that are worth anything the best is the only
// one needed. It reports whether there is one.
func (p *Pruner) lone(limit, show int) bool {
	r, k := p.round, &p.kept
	if len(r.Tasks) != 1 || limit < 1 || r.Rule.Pricing == PricingPosted {
		return false
	}
	best := -1
	for i, w := range p.weight {
		if w >= 0 && (best < 0 || w > p.weight[best] ||
			w == p.weight[best] && r.Edges[i].Agent < r.Edges[best].Agent) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	clear(p.keep)
	p.keep[best] = true
	k.Tasks, k.Agents, k.Edges = append(k.Tasks[:0], 0), k.Agents[:0], append(k.Edges[:0], int32(best))
	k.TooExpensive, k.Outbid, k.Waiting, k.OverLimit = k.TooExpensive[:0], k.Outbid[:0], k.Waiting[:0],
		k.OverLimit[:0]
	r.Pruned = Pruned{Edges: len(r.Edges) - 1}
	p.row = p.others(p.row[:0], 0, len(r.Edges), show)
	p.index, p.head = resize(p.index, 1+len(r.Agents)), resize(p.head, len(r.Agents))
	agent := p.index[1:]
	for i := range agent {
		agent[i], p.head[i] = -1, 0
	}
	p.index[0], agent[r.Edges[best].Agent], p.head[r.Edges[best].Agent] = 0, 0, 1
	for i := range p.row {
		agent[r.Edges[p.row[i].edge].Agent] = 0
	}
	p.write(p.index[:1], agent, p.head, p.row)
	return true
}

// MostKept is how many tasks of a round with so many agents and free slots Prune keeps at most, whoever waits
// and whatever they bid. By the second rule an agent's edge stays with no more than slots better ones. Under
// [ClarkeClient] those of another client do not count. Of the client of whom most are better than the worst
// edge that stays, slots + 1 stay at most, as others do not help these; and of all others slots are better
// than that edge, at most.
func MostKept(clarke string, agents, slots int) int {
	if clarke == ClarkeClient {
		return agents * (2*slots + 2)
	}
	return agents * (slots + 1)
}

// weigh computes the weight of every edge.
func (p *Pruner) weigh() {
	r := p.round
	p.agents = resize(p.agents, len(r.Agents))
	for k := range p.agents {
		var a offered
		for i, t := range r.Agents[k].Tiers {
			if a.room += t.Slots; i == 0 {
				a.first, a.charge = t.Slots, int64(t.Toll)
			}
		}
		p.agents[k] = a
	}
	p.weight, p.keep = resize(p.weight, len(r.Edges)), resize(p.keep, len(r.Edges))
	waits := r.Rule.Pricing != PricingPosted
	for i := range r.Edges {
		e := &r.Edges[i]
		a := &p.agents[e.Agent]
		p.weight[i] = -1
		if a.room > 0 {
			p.weight[i] = int64(e.Value-e.Cost+e.Toll-r.Fee) + a.charge
			if waits {
				p.weight[i] -= int64(r.Tasks[e.Task].loss())
			}
		}
	}
}

// number numbers the clients of the tasks.
func (p *Pruner) number() {
	r := p.round
	p.client = resize(p.client, len(r.Tasks))
	p.taken = p.taken[:0]
	if r.Rule.Clarke != ClarkeClient {
		return
	}
	if len(p.Clients) == len(r.Tasks) && len(r.Tasks) > 0 {
		copy(p.client, p.Clients)
		p.taken = resize(p.taken, 1+int(slices.Max(p.Clients)))
		clear(p.taken)
		return
	}
	if p.byName == nil {
		p.byName = map[string]int32{}
	}
	clear(p.byName)
	for t := range r.Tasks {
		if t > 0 && r.Tasks[t].Client == r.Tasks[t-1].Client {
			p.client[t] = p.client[t-1]
			continue
		}
		n, ok := p.byName[r.Tasks[t].Client]
		if !ok {
			n = int32(len(p.taken))
			p.byName[r.Tasks[t].Client], p.taken = n, append(p.taken, 0)
		}
		p.client[t] = n
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// through is how many tasks have come by the time that the limit-th of the kept ones came.
func (p *Pruner) through(limit int) int {
	p.index = resize(p.index, len(p.round.Tasks))
	clear(p.index)
	for t, row := range p.rows() {
		if slices.Contains(p.keep[row[0]:row[1]], true) {
			p.index[t] = 1
		}
	}
	for i, kept := range p.index {
		if limit -= int(kept); limit == 0 {
			return i + 1
		}
	}
	return len(p.index)
}

// within prunes among the tasks that came first. It returns how many of these keep an edge.
func (p *Pruner) within(first int) (tasks int) {
	r := p.round
	if r.Rule.Pricing == PricingPosted {
		for t, row := range p.rows() {
			keep := t < first && (p.everybody || slices.Max(p.weight[row[0]:row[1]]) >= 0)
			for i := row[0]; i < row[1]; i++ {
				p.keep[i] = keep
			}
			if keep {
				tasks++
			}
		}
		return tasks
	}
	p.live(first)
	p.settle()
	if slots, most := p.demand(); most > slots+1 { // else no edge has more than slots edges above it
		p.byAgent()
		for k := range r.Agents {
			p.agent(p.items[p.head[k]:p.head[k+1]], slots)
		}
	}
	for _, row := range p.rows() {
		if slices.Contains(p.keep[row[0]:row[1]], true) {
			tasks++
		}
	}
	for _, row := range p.rows() {
		p.task(row[0], row[1], tasks)
	}
	return tasks
}

// rows yields, task by task, where its edges begin and end.
func (p *Pruner) rows() func(func(int, [2]int) bool) {
	edges := p.round.Edges
	return func(yield func(int, [2]int) bool) {
		for lo := 0; lo < len(edges); {
			hi := lo + 1
			for hi < len(edges) && edges[hi].Task == edges[lo].Task {
				hi++
			}
			if !yield(edges[lo].Task, [2]int{lo, hi}) {
				return
			}
			lo = hi
		}
	}
}

// live marks as kept all edges of the tasks that came first whose weight is not negative.
func (p *Pruner) live(first int) {
	edges := p.round.Edges
	for i := range edges {
		p.keep[i] = p.weight[i] >= 0 && edges[i].Task < first
	}
}

// demand counts the edges that are kept by agent. It returns how many slots can be taken, and the most edges
// to one agent.
func (p *Pruner) demand() (slots, most int) {
	r := p.round
	p.head = resize(p.head, len(r.Agents)+1)
	clear(p.head)
	for i := range r.Edges {
		if p.keep[i] {
			p.head[r.Edges[i].Agent]++
		}
	}
	for k := range p.agents {
		n := int(p.head[k])
		slots, most = slots+p.agents[k].slots(n), max(most, n)
	}
	return slots, most
}

// byAgent groups the edges that demand counted by agent.
func (p *Pruner) byAgent() {
	r := p.round
	sum := int32(0)
	for k := range p.head {
		sum, p.head[k] = sum+p.head[k], sum
	}
	p.items = resize(p.items, int(sum))
	for i := range r.Edges {
		if p.keep[i] {
			at := &p.head[r.Edges[i].Agent]
			p.items[*at] = item{weight: p.weight[i], order: int64(r.Edges[i].Task), edge: int32(i)}
			*at++
		}
	}
	copy(p.head[1:], p.head) // each now says where the next begins
	p.head[0] = 0
}

// agent drops the edges to one agent that rank too low: the second rule.
func (p *Pruner) agent(list []item, slots int) {
	if len(list) <= slots+1 {
		return
	}
	// so many are kept, in whatever order they rank
	sure := slots + 1
	choose(list, sure)
	rest := list[sure:]
	for _, x := range rest {
		p.keep[x.edge] = false
	}
	if len(p.taken) == 0 {
		return
	}
	above := int32(0)                // edges that rank above the current one; of these:
	most, next := int32(0), int32(0) // how many the client with most has, and the one with second most
	leader := int32(-1)              // the client with most
	count := func(c int32) {
		above++
		p.taken[c]++
		switch n := p.taken[c]; {
		case c == leader:
			most = n
		case n > most:
			leader, most, next = c, n, most
		default:
			next = max(next, n)
		}
	}
	for i := range list[:sure] {
		count(p.client[p.round.Edges[list[i].edge].Task])
	}
	heap := rest
	for len(heap) > 0 && int(above-most) <= slots {
		if len(heap) == len(rest) {
			build(heap)
		}
		top, last := heap[0], len(heap)-1
		heap[0], heap[last] = heap[last], top // what was taken off is kept behind the heap
		heap = heap[:last]
		sink(heap, 0)
		c, others := p.client[p.round.Edges[top.edge].Task], most
		if c == leader {
			others = next
		}
		p.keep[top.edge] = int(above-others) <= slots
		count(c)
	}
	for _, part := range [2][]item{list[:sure], rest[len(heap):]} {
		for i := range part {
			p.taken[p.client[p.round.Edges[part[i].edge].Task]] = 0
		}
	}
}

// task drops the edges of one task to agents that are never its best: the third rule.
func (p *Pruner) task(lo, hi, tasks int) {
	r := p.round
	p.row = p.row[:0]
	slots := 0
	for i := lo; i < hi; i++ {
		if p.keep[i] {
			a := &p.agents[r.Edges[i].Agent]
			p.row = append(p.row, item{weight: p.weight[i], order: int64(r.Edges[i].Agent), edge: int32(i)})
			slots += a.slots(tasks)
		}
	}
	if slots <= tasks {
		return
	}
	for _, x := range p.row {
		p.keep[x.edge] = false
	}
	heap := p.row
	if tasks == 1 { // as in most rounds: the best edge is the only one needed
		best := &heap[0]
		for i := range heap {
			if heap[i].before(best) {
				best = &heap[i]
			}
		}
		p.keep[best.edge] = true
		return
	}
	build(heap)
	for better := 0; len(heap) > 0 && better < tasks; {
		top := &heap[0]
		tiers := r.Agents[r.Edges[top.edge].Agent].Tiers
		if top.tier == 0 {
			p.keep[top.edge] = true
		}
		better += tiers[top.tier].Slots
		if top.tier++; int(top.tier) < len(tiers) {
			top.weight += int64(tiers[top.tier].Toll - tiers[top.tier-1].Toll)
		} else {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		sink(heap, 0)
	}
}
