package economics

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
	"souk/market"
)

// owners is a market of independent owners, one agent each.
var owners = shape{clients: 36, agents: 12, slots: 2, cacheSize: 24_000}

// What serving a task costs an owner beside the metered cost is its own secret: 0 to dearest, even. No ask
// above the ceiling counts.
const (
	dearest  market.Credits = 200_000
	ceiling  market.Credits = 250_000
	announce market.Credits = 125_000 // the posted tariff: half the ceiling, whoever asks what
)

// shifts are the lies: an ask so far from the truth.
var shifts = []market.Credits{-200_000, -100_000, -50_000, -25_000, 0, 25_000, 50_000, 100_000, 150_000,
	200_000}

// paid holds the results of a market of owners over one epoch, at the quote.
type paid struct {
	asked, served, deficits          int
	winners                          int
	welfare, clients, owned, surplus market.Credits
	one                              market.Credits // gain of the owner that may lie
}

// pricings compares what agents are paid by: their own cards, a tariff, a published price.
func pricings(ctx context.Context, src *source, o Options) (Result, error) {
	type way struct {
		name, short, pricing string
		all                  market.Credits // every owner asks so much beyond the truth
	}
	ways := []way{{"vcg, honest owners", "vcg, honest", market.PricingVCG, 0},
		{"vcg, all ask 100 more", "vcg, +100", market.PricingVCG, 100_000},
		{"tariff", "tariff", market.PricingTariff, 0}, {"posted", "posted", market.PricingPosted, 0}}
	loads := []int{12, 24, 36}
	rounds := max(o.Rounds/5, 1)
	runs, err := each(ctx, o, "pricing", len(loads)*len(ways), func(cell int) ([]paid, error) {
		w, all := ways[cell%len(ways)], make([]paid, o.Markets)
		for m := range all {
			err := all[m].play(src, rounds, o.seed(m), loads[cell/len(ways)], w.pricing, w.all, -1, 0)
			if err != nil {
				return nil, err
			}
		}
		return all, nil
	})
	if err != nil {
		return Result{}, err
	}
	t := Table{
		Columns: []string{"clients per slot", "pricing", "owners that sell", "welfare a turn",
			"client utility", "owners' gain", "surplus", "turns served", "rounds with a deficit"},
		Note: "At the quote, settled as quoted, micro-credits a turn asked. Welfare: value less metered " +
			"cost and less what serving truly cost the owner. Clients, owners and surplus add up to it."}
	slots := owners.agents * owners.slots
	bars := page.Plot{Title: fmt.Sprintf("Who gets the welfare, at %.1f clients per slot",
		float64(loads[2])/float64(slots)), Y: "micro-credits a turn asked",
		Series: []page.Series{{Name: "clients"}, {Name: "owners"}, {Name: "surplus"}}}
	deficits := 0
	for cell := range len(loads) * len(ways) {
		var p paid
		for m := range runs[cell] {
			p.add(&runs[cell][m])
		}
		w, clients := ways[cell%len(ways)], loads[cell/len(ways)]
		n := float64(max(p.asked, 1))
		t.Rows = append(t.Rows,
			[]any{float64(clients) / float64(slots), w.name, float64(p.winners) / float64(o.Markets),
				micro(p.welfare) / n, micro(p.clients) / n, micro(p.owned) / n, micro(p.surplus) / n,
				Percent(float64(p.served) / n), p.deficits})
		deficits += p.deficits
		if clients == loads[2] {
			x := float64(len(bars.Groups))
			bars.Groups = append(bars.Groups, w.short)
			for i := range bars.Series {
				e := over(runs[cell], func(p *paid) float64 {
					gets := []market.Credits{p.clients, p.owned, p.surplus}
					return micro(gets[i]) / float64(max(p.asked, 1))
				})
				bars.Series[i].Add(x, e.Mean, e.Within)
			}
		}
	}

	kinds := []string{market.PricingVCG, market.PricingTariff, market.PricingPosted}
	lies, err := each(ctx, o, "owners' lies", len(kinds)*len(loads)*o.Markets,
		func(i int) ([]market.Credits, error) {
			m, load, kind := i%o.Markets, loads[i/o.Markets%len(loads)], kinds[i/o.Markets/len(loads)]
			var out []market.Credits
			for _, by := range shifts {
				var p paid
				if err := p.play(src, rounds, o.seed(m), load, kind, 0, m%owners.agents, by); err != nil {
					return nil, err
				}
				out = append(out, p.one)
			}
			return out, nil
		})
	if err != nil {
		return Result{}, err
	}
	l := Table{
		Columns: []string{"pricing", "asks beyond the truth", "owner's gain", "against the truth",
			"lies tried", "lies that paid"},
		Note: "One owner asks more or less than the truth for one epoch, all others are honest; the same " +
			"market, seed and clients. Micro-credits an epoch, means over markets and loads. An ask below " +
			"0 counts as 0."}
	plotted := page.Plot{Title: "What an owner gains by asking more or less than the truth",
		X: "asks beyond the truth (micro-credits a task)", Y: "milli-credits an epoch"}
	var findings []string
	honest := slices.Index(shifts, 0)
	for k, kind := range kinds {
		line := page.Series{Name: kind}
		tried, pays := 0, 0
		best := 0.0
		for s, by := range shifts {
			var sum market.Credits
			var more []float64
			n, won := 0, 0
			for _, run := range lies[k*len(loads)*o.Markets : (k+1)*len(loads)*o.Markets] {
				sum, more, n = sum+run[s], append(more, micro(run[s]-run[honest])), n+1
				if run[s] > run[honest] {
					won++
				}
			}
			if s == honest {
				n = 0
			}
			tried, pays = tried+n, pays+won
			mean := micro(sum) / float64(len(loads)*o.Markets)
			gain := virtual.NewEstimate(more)
			best = max(best, gain.Mean)
			l.Rows = append(l.Rows, []any{kind, micro(by), mean, gain.Mean, n, won})
			line.Add(micro(by), gain.Mean/1000, gain.Within/1000)
		}
		plotted.Series = append(plotted.Series, line)
		findings = append(findings,
			fmt.Sprintf("Under %s %d of %d owners' lies paid; the best shift gains %.0f micro-credits an "+
				"epoch on average.", kind, pays, tried, best))
	}
	findings = append(findings, fmt.Sprintf("%d rounds had a deficit.", deficits))
	return Result{
		About: []string{
			fmt.Sprintf("%d owners with one agent of %d slots each; serving a task costs an owner 0 to "+
				"%.0f micro-credits beside the metered cost, which it alone knows. %d markets, one epoch "+
				"of %d rounds after one that warms caches, for %d, %d and %d clients.", owners.agents,
				owners.slots, micro(dearest), o.Markets, rounds, loads[0], loads[1], loads[2]),
			fmt.Sprintf("vcg: an agent is paid its metered cost and what its owner asks. tariff: the "+
				"lowest m owners win, m fixed from the epoch before, and are paid what the first loser "+
				"asked, or the ceiling of %.0f. posted: owners who take %.0f a task sell, and clients are "+
				"served one after another.", micro(ceiling), micro(announce)),
		},
		Findings: findings, Tables: []Table{t, l}, Plots: []page.Plot{bars, plotted},
	}, nil
}

// add adds another market.
func (p *paid) add(o *paid) {
	p.asked, p.served, p.deficits, p.winners = p.asked+o.asked, p.served+o.served, p.deficits+o.deficits,
		p.winners+o.winners
	p.welfare, p.clients, p.owned, p.surplus = p.welfare+o.welfare, p.clients+o.clients, p.owned+o.owned,
		p.surplus+o.surplus
}

// play plays a market: an epoch with honest owners, which warms caches and shows how busy the class is, and
// one that counts, in which every owner asks all beyond the truth and the liar by.
func (p *paid) play(src *source, rounds int, seed uint64, clients int, pricing string, all market.Credits,
	liar int, by market.Credits) error {
	sh := owners
	sh.clients = clients
	s := newSim(src, sh, seed)
	rng := rand.New(rand.NewPCG(seed, 0x6f776e))
	truth := make([]market.Credits, sh.agents)
	for i := range truth {
		truth[i] = market.Credits(rng.Int64N(int64(dearest) + 1))
	}
	asks := slices.Clone(truth)
	use := market.ClassUse{}
	for range truth {
		use.Slots = append(use.Slots, sh.slots)
	}
	if err := s.epoch(new(paid), rounds, pricing, truth, asks, 0, -1, &use); err != nil {
		return err
	}
	for i := range asks {
		asks[i] += all
	}
	if liar >= 0 {
		asks[liar] = max(0, asks[liar]+by)
	}
	return s.epoch(p, rounds, pricing, truth, asks, market.NextWinners([]market.ClassUse{use}), liar, &use)
}

// terms says which agents sell, and what each is paid for a task beside the metered cost.
func (s *sim) terms(pricing string, asks []market.Credits,
	winners int) (of func(a int) (market.Credits, bool), n int, err error) {
	switch pricing {
	case market.PricingVCG:
		return func(a int) (market.Credits, bool) { return asks[a], true }, len(asks), nil
	case market.PricingPosted:
		for _, x := range asks {
			if x <= announce {
				n++
			}
		}
		return func(a int) (market.Credits, bool) { return announce, asks[a] <= announce }, n, nil
	}
	e := market.Epoch{Class: "economics", Number: s.number, Ceiling: ceiling, Winners: winners}
	for i, x := range asks {
		a := market.Ask{Owner: string(s.nodes[i].id), Amount: x}
		e.Seals = append(e.Seals, market.Sealed{Owner: a.Owner, Seal: a.Seal(e.Class, e.Number)})
		e.Opened = append(e.Opened, a)
	}
	t, err := e.Clear()
	if err == nil {
		err = market.CheckTariff(e, t)
	}
	return func(a int) (market.Credits, bool) {
		return t.Amount, slices.Contains(t.Winners, string(s.nodes[a].id))
	}, len(t.Winners), err
}

func (s *sim) epoch(out *paid, rounds int, pricing string, truth, asks []market.Credits, winners, liar int,
	use *market.ClassUse) error {
	of, n, err := s.terms(pricing, asks, winners)
	if err != nil {
		return err
	}
	out.winners += n
	index := make(map[market.AgentID]int)
	for a := range s.nodes {
		index[s.nodes[a].id] = a
	}
	for range rounds {
		ds := s.demands()
		r, err := withTariffs(
			s.round(ds, market.SettleQuoted, func(j, a int) market.Credits { return ds[j].value[a] }),
			func(id market.AgentID) (market.Credits, bool) { return of(index[id]) })
		if err != nil {
			return err
		}
		if pricing == market.PricingPosted {
			r.Rule.Pricing = pricing
		}
		places, err := clear(r)
		if err != nil {
			return err
		}
		out.asked, out.served, use.Peak = out.asked+len(ds), out.served+len(places),
			max(use.Peak, len(places))
		var pays, due market.Credits
		for _, p := range places {
			d := ds[p.task]
			tariff, _ := of(p.agent)
			pays, due = pays+p.cost+p.premium, due+d.quote[p.agent]+tariff
			gain := tariff - truth[p.agent]
			out.welfare += d.value[p.agent] - d.quote[p.agent] - truth[p.agent]
			out.clients += d.value[p.agent] - p.cost - p.premium
			out.owned += gain
			out.surplus += p.premium
			if p.agent == liar {
				out.one += gain
			}
		}
		if pays < due {
			out.deficits++
		}
		s.serve(ds, places)
	}
	return nil
}

// withTariffs is a round as clients see it under pricing tariff or posted: the cost of every edge includes
// its agent's tariff, and agents without one, whose owner did not win, sell nothing. Who sells, and at which
// tariff, is fixed before any value is read.
func withTariffs(r market.Round, of func(market.AgentID) (tariff market.Credits, sells bool)) (market.Round,
	error) {
	edges := make([]market.Edge, 0, len(r.Edges))
	for _, e := range r.Edges {
		if e.Agent < 0 || e.Agent >= len(r.Agents) {
			return market.Round{}, fmt.Errorf("round %s-%d: agent index is %d, want 0 to %d", r.Domain,
				r.Number, e.Agent, len(r.Agents)-1)
		}
		tariff, sells := of(r.Agents[e.Agent].Agent)
		if !sells {
			continue
		}
		cost, ok := e.Cost.Add(tariff)
		if !ok || tariff < 0 || cost > market.MaxCredits {
			return market.Round{}, fmt.Errorf("round %s-%d: agent %s: cost %s and tariff %s are together beyond "+
				"%s credits, or one is negative",
				r.Domain, r.Number, r.Agents[e.Agent].Agent, e.Cost, tariff, market.MaxCredits)
		}
		e.Cost = cost
		edges = append(edges, e)
	}
	r.Edges = edges
	return r, nil
}
