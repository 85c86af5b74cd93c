package economics

import (
	"slices"

	"souk/market"
	"souk/market/flow"
)

// rule says who is served where, and for what beside the cost.
type rule struct {
	name  string
	place func(s *sim, ds []demand) ([]place, error)
}

var rules = []rule{{"souk", placeSouk}, {"max-flow", placeMaxFlow}}

func placeSouk(s *sim, ds []demand) ([]place, error) {
	_, places, err := s.honest(ds, market.SettleMetered)
	return places, err
}

// placeMaxFlow is the paper's network as printed: min-cost MAX-flow on the edges of positive welfare, and
// Eq. 8 by solving again without each task. A bonus on every edge, larger than all welfare together, makes
// the greatest weight the greatest number first.
func placeMaxFlow(s *sim, ds []demand) ([]place, error) {
	var bonus int64 = 1
	weight := func(j, a int) int64 { return int64(ds[j].value[a] - ds[j].quote[a]) }
	for j := range ds {
		var most int64
		for a := range s.nodes {
			most = max(most, weight(j, a))
		}
		bonus += most
	}
	var solver flow.Solver
	solve := func(without int) ([]int32, int64, error) {
		p := flow.Problem{Off: []int32{0}}
		for _, n := range s.nodes {
			p.Slots = append(p.Slots, int32(n.slots))
		}
		for j := range ds {
			for a := range s.nodes {
				if w := weight(j, a); j != without && w > 0 &&
					(s.allowed == nil || s.allowed(ds[j].person, a)) {
					p.Seat, p.Weight = append(p.Seat, int32(a)), append(p.Weight, w+bonus)
				}
			}
			p.Off = append(p.Off, int32(len(p.Seat)))
		}
		if err := solver.Solve(&p, nil); err != nil {
			return nil, 0, err
		}
		var welfare int64
		for j, a := range solver.Match {
			if a >= 0 {
				welfare += weight(j, int(a))
			}
		}
		return solver.Match, welfare, nil
	}
	match, welfare, err := solve(-1)
	if err != nil {
		return nil, err
	}
	match = slices.Clone(match)
	var out []place
	for j, a := range match {
		if a < 0 {
			continue
		}
		_, without, err := solve(j)
		if err != nil {
			return nil, err
		}
		out = append(out, place{task: j, agent: int(a),
			premium: market.Credits(without - (welfare - weight(j, int(a))))})
	}
	return out, nil
}

// score holds the results of a market under one rule, as things came to be: times with the line before each
// prefill, costs metered.
type score struct {
	asked, served, lost, below int // turns; below: served at a loss to the client
	clients, unhappy           int // unhappy: lost money over the whole run
	welfare, utility, premiums float64
}

// add adds another market.
func (sc *score) add(o *score) {
	sc.asked, sc.served, sc.lost = sc.asked+o.asked, sc.served+o.served, sc.lost+o.lost
	sc.below += o.below
	sc.clients, sc.unhappy = sc.clients+o.clients, sc.unhappy+o.unhappy
	sc.welfare, sc.utility, sc.premiums = sc.welfare+o.welfare, sc.utility+o.utility, sc.premiums+o.premiums
}

// play plays a market under a rule.
func (sc *score) play(s *sim, rl rule, rounds int) error {
	kept := make([]market.Credits, len(s.people))
	for range rounds {
		ds := s.demands()
		places, err := rl.place(s, ds)
		if err != nil {
			return err
		}
		out, lost := s.serve(ds, places)
		sc.asked, sc.lost, sc.served = sc.asked+len(ds), sc.lost+lost, sc.served+len(out)
		for _, sv := range out {
			d := ds[sv.task]
			cost := d.real[sv.agent]
			keeps := sv.value - cost - sv.premium
			sc.welfare += micro(sv.value - cost)
			sc.utility += micro(keeps)
			sc.premiums += micro(sv.premium)
			if keeps < 0 {
				sc.below++
			}
			kept[d.person] += keeps
		}
	}
	sc.clients += len(kept)
	for _, k := range kept {
		if k < 0 {
			sc.unhappy++
		}
	}
	return nil
}
