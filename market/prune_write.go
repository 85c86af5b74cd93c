package market

import "slices"

// finish writes the round that is left.
func (p *Pruner) finish(first, show int) {
	r, k := p.round, &p.kept
	posted := r.Rule.Pricing == PricingPosted
	k.Tasks, k.Agents, k.Edges = k.Tasks[:0], k.Agents[:0], k.Edges[:0]
	k.TooExpensive, k.Outbid, k.Waiting, k.OverLimit = k.TooExpensive[:0], k.Outbid[:0], k.Waiting[:0],
		k.OverLimit[:0]
	p.index = resize(p.index, len(r.Tasks)+len(r.Agents))
	task, agent := p.index[:len(r.Tasks)], p.index[len(r.Tasks):]
	for i := range p.index {
		p.index[i] = -1
	}
	wanted := p.head[:0] // how many edges each agent has left
	wanted = resize(wanted, len(r.Agents)+1)
	clear(wanted)
	r.Pruned = Pruned{}
	others := p.row[:0]
	for t, row := range p.rows() {
		lo, hi := row[0], row[1]
		if t >= first {
			k.OverLimit = append(k.OverLimit, int32(t))
			continue
		}
		live, loss := false, int64(0)
		if !posted {
			loss = int64(r.Tasks[t].loss())
		}
		before := len(k.Edges)
		for i := lo; i < hi; i++ {
			live = live || p.weight[i] >= 0
			if p.keep[i] {
				k.Edges = append(k.Edges, int32(i))
				wanted[r.Edges[i].Agent]++
				agent[r.Edges[i].Agent] = 0
			}
		}
		if !posted {
			r.Pruned.Edges += hi - lo - (len(k.Edges) - before)
		}
		switch {
		case len(k.Edges) > before:
			task[t] = int32(len(k.Tasks))
			k.Tasks = append(k.Tasks, int32(t))
			if !live {
				k.TooExpensive = append(k.TooExpensive, int32(t))
			}
			if !posted {
				others = p.others(others, lo, hi, show)
			}
		case live:
			k.Outbid = append(k.Outbid, int32(t))
		case loss > 0 && slices.Max(p.weight[lo:hi])+loss >= 0:
			k.Waiting = append(k.Waiting, int32(t))
		}
	}
	p.row = others
	r.Pruned.Tasks, r.Pruned.Waiting, r.Pruned.Beyond = len(k.Outbid), len(k.Waiting), len(k.OverLimit)
	for _, x := range others {
		agent[r.Edges[x.edge].Agent] = 0
	}
	p.write(task, agent, wanted, others)
}

// others appends the best edges of a task that were not kept, in the order of the round.
func (p *Pruner) others(list []item, lo, hi, show int) []item {
	start := len(list)
	for i := lo; i < hi; i++ {
		if p.keep[i] || show <= 0 || p.agents[p.round.Edges[i].Agent].room == 0 {
			continue
		}
		own := list[start:]
		if len(own) == show { // drop the worst; of equals, the last
			worst := 0
			for j, x := range own {
				if x.weight <= own[worst].weight {
					worst = j
				}
			}
			if p.weight[i] <= own[worst].weight {
				continue
			}
			list = slices.Delete(list, start+worst, start+worst+1)
		}
		list = append(list, item{weight: p.weight[i], edge: int32(i)})
	}
	return list
}

// small is the memory of what is left of most rounds: one task, and few agents that it might have gone to.
type small struct {
	tasks  [1]Task
	agents [4]Supply
	tiers  [4]Tier
	edges  [4]Edge
}

// write makes the round's lists anew.
func (p *Pruner) write(task, agent, wanted []int32, others []item) {
	r, k := p.round, &p.kept
	if len(k.Tasks) == 0 {
		r.Tasks, r.Agents, r.Edges, r.Sellers, r.Others, r.Parts = nil, nil, nil, nil, nil, nil
		return
	}
	var tasks []Task
	waits := 0
	for _, t := range k.Tasks {
		if r.Tasks[t].Wait != nil {
			waits++
		}
	}
	var of *small
	if len(k.Tasks) == 1 && len(k.Edges)+len(others) <= len(of.edges) {
		of = new(small)
		tasks = of.tasks[:0]
	} else {
		tasks = make([]Task, 0, len(k.Tasks))
	}
	copies := make([]Wait, 0, waits)
	for _, t := range k.Tasks {
		x := r.Tasks[t]
		switch {
		case r.Rule.Pricing == PricingPosted:
			x.Wait = nil
		case x.Wait != nil:
			copies = append(copies, *x.Wait)
			x.Wait = &copies[len(copies)-1]
		}
		tasks = append(tasks, x)
	}
	tiers := 0
	for i := range agent {
		if agent[i] >= 0 {
			agent[i] = int32(len(k.Agents))
			k.Agents = append(k.Agents, int32(i))
			tiers += len(r.Agents[i].Tiers)
		}
	}
	var agents []Supply
	var all []Tier
	var edges []Edge
	if of != nil && tiers <= len(of.tiers) {
		agents, all, edges = of.agents[:0], of.tiers[:0], of.edges[:len(k.Edges)]
	} else {
		agents, all = make([]Supply, 0, len(k.Agents)), make([]Tier, 0, tiers)
		edges = make([]Edge, len(k.Edges), len(k.Edges)+len(others))
	}
	var sellers []Seller
	if len(r.Sellers) == len(r.Agents) {
		sellers = make([]Seller, 0, len(k.Agents))
	}
	for _, i := range k.Agents {
		from := len(all)
		// More slots than tasks that want them change nothing.
		all = AppendFree(all, r.Agents[i].Tiers, 0, max(1, int(wanted[i])))
		agents = append(agents, Supply{Agent: r.Agents[i].Agent, Tiers: all[from:len(all):len(all)]})
		if sellers != nil {
			sellers = append(sellers, r.Sellers[i])
		}
	}
	place := func(i int32) Edge {
		e := r.Edges[i]
		e.Task, e.Agent = int(task[e.Task]), int(agent[e.Agent])
		return e
	}
	for at, i := range k.Edges {
		edges[at] = place(i)
	}
	tolls := r.Parts
	r.Parts = nil
	for at, i := range k.Edges {
		if len(tolls) > 0 && tolls[i] != (Toll{}) { // no parts are written if all that are left are 0
			if r.Parts == nil {
				r.Parts = make([]Toll, len(k.Edges))
			}
			r.Parts[at] = tolls[i]
		}
	}
	r.Others = nil
	if n := len(edges); len(others) > 0 {
		for _, x := range others {
			edges = append(edges, place(x.edge))
		}
		r.Others, edges = edges[n:], edges[:n:n]
	}
	r.Tasks, r.Agents, r.Edges, r.Sellers = tasks, agents, edges, sellers
}
