package economics

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"souk/integration/lab/page"
	"souk/market"
)

// large is the paper's setting for Fig. 6: 100 agents, 200 tasks at once; here with 200 slots in all.
var large = shape{clients: 200, agents: 100, slots: 2, cacheSize: 24_000}

// cut deals n things into k clusters of equal size: in order of their domain, so that each cluster has few of
// them, or in an order drawn at random.
func cut(n, k int, domain func(i int) int, aligned bool, rng *rand.Rand) []int {
	order := rng.Perm(n)
	if aligned {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(domain(a), domain(b)) })
	}
	out := make([]int, n)
	for at, i := range order {
		out[i] = at * k / n
	}
	return out
}

// divide cuts a world into clusters of clients and agents.
func (s *sim) divide(k int, clientsAligned, agentsAligned bool, seed uint64) (client, agent []int) {
	rng := rand.New(rand.NewPCG(seed, 0x636c7573))
	client = cut(len(s.people), k, func(i int) int { return i % len(domains) }, clientsAligned, rng)
	agent = cut(len(s.nodes), k, func(i int) int { return s.nodes[i].special }, agentsAligned, rng)
	return client, agent
}

// part cuts one cluster out of a round, as its hub would see it: tasks and agents keep their order. It also
// returns their indices in the round.
func part(r market.Round, client, agent []int, k int) (sub market.Round, tasks, agents []int) {
	sub = r
	sub.Tasks, sub.Agents, sub.Edges = nil, nil, nil
	sub.Domain = fmt.Sprintf("cluster-%d", k)
	newTask, newAgent := make([]int, len(r.Tasks)), make([]int, len(r.Agents))
	for j := range r.Tasks {
		if client[j] == k {
			newTask[j] = len(tasks)
			tasks, sub.Tasks = append(tasks, j), append(sub.Tasks, r.Tasks[j])
		}
	}
	for a := range r.Agents {
		if agent[a] == k {
			newAgent[a] = len(agents)
			agents, sub.Agents = append(agents, a), append(sub.Agents, r.Agents[a])
		}
	}
	for _, e := range r.Edges {
		if client[e.Task] == k && agent[e.Agent] == k {
			e.Task, e.Agent = newTask[e.Task], newAgent[e.Agent]
			sub.Edges = append(sub.Edges, e)
		}
	}
	return sub, tasks, agents
}

// cutting holds the results of a market of some clusters.
type cutting struct {
	welfare float64 // a turn asked, micro-credits, as things came to be
	served  float64 // share of turns asked
}

// clusters measures what cutting costs. What it saves is time to clear, which make bench measures.
func clusters(ctx context.Context, src *source, o Options) (Result, error) {
	ks := []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 50}
	cuts := []string{"by domain", "at random"}
	rounds, markets := max(o.Rounds/15, 1), max(o.Markets/3, 1)
	runs, err := each(ctx, o, "clusters", len(cuts)*len(ks)*markets, func(i int) (cutting, error) {
		return playClusters(src, rounds, o.seed(i%markets), ks[i/markets%len(ks)], i < len(ks)*markets)
	})
	if err != nil {
		return Result{}, err
	}
	t := Table{Columns: []string{"clusters K", "cut", "welfare a turn", "of K = 1", "turns served"},
		Note: "Welfare in micro-credits a turn asked."}
	plot := page.Plot{Title: "Welfare against the number of clusters", X: "clusters K",
		Y: "% of the welfare of one market", LogX: true, OwnX: true}
	var findings []string
	for c, name := range cuts {
		line := page.Series{Name: name}
		for i, k := range ks {
			at := (c*len(ks) + i) * markets
			of := make([][2]cutting, markets) // beside the same market in one piece
			for m := range of {
				of[m] = [2]cutting{runs[at+m], runs[m]}
			}
			welfare := over(of, func(x *[2]cutting) float64 { return x[0].welfare })
			share := over(of, func(x *[2]cutting) float64 { return 100 * x[0].welfare / x[1].welfare })
			served := over(of, func(x *[2]cutting) float64 { return x[0].served })
			t.Rows = append(t.Rows,
				[]any{k, name, welfare.Mean, Percent(share.Mean / 100), Percent(served.Mean)})
			line.Add(float64(k), share.Mean, share.Within)
			if k == 6 {
				findings = append(findings, fmt.Sprintf("Six clusters cut %s keep %.1f %% of the welfare of one market.",
					name, share.Mean))
			}
		}
		plot.Series = append(plot.Series, line)
	}
	return Result{
		About: []string{fmt.Sprintf("%d agents with %d slots each, %d clients, each of one domain; %d "+
			"markets over %d rounds for each K. Agents and clients stand in a line, by domain or at "+
			"random, and the line is cut into K equal parts.", large.agents, large.slots, large.clients,
			markets, rounds)},
		Findings: findings, Tables: []Table{t}, Plots: []page.Plot{plot},
	}, nil
}

func playClusters(src *source, rounds int, seed uint64, k int, aligned bool) (cutting, error) {
	s := newWorld(src, large, seed, true)
	client, agent := s.divide(k, aligned, aligned, seed)
	var welfare float64
	asked, served := 0, 0
	for range rounds {
		ds := s.demands()
		whole := s.round(ds, market.SettleMetered, func(j, a int) market.Credits { return ds[j].value[a] })
		var places []place
		for c := range k {
			r, tasks, agents := part(whole, client, agent, c)
			of, err := clear(r)
			if err != nil {
				return cutting{}, err
			}
			for _, p := range of {
				places = append(places, place{tasks[p.task], agents[p.agent], p.premium, p.cost})
			}
		}
		slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.task, b.task) })
		done, _ := s.serve(ds, places)
		asked, served = asked+len(ds), served+len(done)
		for _, sv := range done {
			welfare += micro(sv.value - ds[sv.task].real[sv.agent])
		}
	}
	return cutting{welfare / float64(asked), float64(served) / float64(asked)}, nil
}

// schemes are the four ways to cut a market of the paper's Fig. 7.
func schemes(ctx context.Context, src *source, o Options) (Result, error) {
	list := []struct {
		name            string
		clients, agents bool
	}{{"Full-Mix", false, false}, {"Ideal", true, true}, {"Task-Mix", false, true},
		{"Agent-Mix", true, false}}
	sh := shape{clients: 72, agents: 24, slots: 2, cacheSize: 24_000}
	k := len(domains)
	rounds := max(o.Rounds/3, 1)
	n := len(list) * len(rules)
	runs, err := each(ctx, o, "schemes", n, func(cell int) ([]score, error) {
		all := make([]score, o.Markets)
		for m := range all {
			s := newWorld(src, sh, o.seed(m), true)
			client, agent := s.divide(k, list[cell/len(rules)].clients, list[cell/len(rules)].agents,
				o.seed(m))
			s.allowed = func(p, a int) bool { return client[p] == agent[a] }
			if err := all[m].play(s, rules[cell%len(rules)], rounds); err != nil {
				return nil, err
			}
		}
		return all, nil
	})
	if err != nil {
		return Result{}, err
	}
	t := Table{
		Columns: []string{"scheme", "rule", "welfare a turn", "client utility", "premiums", "turns lost",
			"served below zero", "clients below zero"},
		Note: "As things came to be, micro-credits a turn asked. Served below zero: turns whose client " +
			"paid more than the answer was worth to it."}
	bars := page.Plot{Title: "Welfare a turn", Y: "micro-credits"}
	below := page.Plot{Title: "Served turns below zero", Y: "% of served turns"}
	for _, l := range list {
		bars.Groups, below.Groups = append(bars.Groups, l.name), append(below.Groups, l.name)
	}
	for range rules {
		bars.Series, below.Series = append(bars.Series, page.Series{}), append(below.Series, page.Series{})
	}
	var welfare [4]float64
	for cell := range n {
		var s score
		for m := range runs[cell] {
			s.add(&runs[cell][m])
		}
		l, rl := list[cell/len(rules)], rules[cell%len(rules)]
		asked, served := float64(max(s.asked, 1)), float64(max(s.served, 1))
		t.Rows = append(t.Rows,
			[]any{l.name, rl.name, s.welfare / asked, s.utility / asked, s.premiums / asked,
				Percent(float64(s.lost) / asked), Percent(float64(s.below) / served),
				Percent(float64(s.unhappy) / float64(s.clients))})
		x := float64(cell / len(rules))
		at := cell % len(rules)
		bars.Series[at].Name, below.Series[at].Name = rl.name, rl.name
		gain := over(runs[cell], func(s *score) float64 { return s.welfare / float64(max(s.asked, 1)) })
		loss := over(runs[cell],
			func(s *score) float64 { return 100 * float64(s.below) / float64(max(s.served, 1)) })
		bars.Series[at].Add(x, gain.Mean, gain.Within)
		below.Series[at].Add(x, loss.Mean, loss.Within)
		if at == 0 {
			welfare[cell/len(rules)] = s.welfare / asked
		}
	}
	return Result{
		About: []string{
			fmt.Sprintf("%d clusters, %d clients, %d agents with %d slots each; %d markets over %d rounds. "+
				"Full-Mix: clients and agents dealt out at random. Ideal: both by domain. Task-Mix: agents "+
				"by domain, clients at random. Agent-Mix: clients by domain, agents at random.", k,
				sh.clients, sh.agents, sh.slots, o.Markets, rounds),
		},
		Findings: []string{fmt.Sprintf("Under souk, against Full-Mix: Ideal %+.1f %% welfare, Task-Mix "+
			"%+.1f %%, Agent-Mix %+.1f %%.", 100*(welfare[1]/welfare[0]-1), 100*(welfare[2]/welfare[0]-1),
			100*(welfare[3]/welfare[0]-1))},
		Tables: []Table{t}, Plots: []page.Plot{bars, below},
	}, nil
}
