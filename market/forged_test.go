package market

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A million outcomes of honest rounds are forged with SOUK_SOAK=1, ten thousand without, each in one way that
// changes its bytes, and not one is accepted that a stranger could object to. The rounds follow one on the
// other, with seats of now and to come, clients with several tasks, ties, slots that have a price a second,
// tolls and parts of them that are not charged; half of them are cut as a hub cuts them. What may be accepted
// differs in a proof that is as true as the first, or in what is the hub's word alone, and then the tolls of
// all rounds after it follow from that word, too.
func TestForgedOutcomes(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 13))
	t.Logf("seed %d", seed)
	var all forgeries
	for n, most := 0, times(10_000); all.sum().made < most; n++ {
		links := chain(t, rng, n)
		for i := range links {
			for kind := range forgers {
				if err := all.forge(rng, links[i:], kind); err != nil {
					t.Fatalf("seed %d, chain %d, round %d, %s: %v", seed, n, i, forgers[kind].name, err)
				}
			}
			all.rounds, all.paid = all.rounds+1, all.paid+len(links[i].o.Awards)
			if err := links[i].fair(); err != nil {
				t.Fatalf("seed %d, chain %d, round %d: %v", seed, n, i, err)
			}
		}
	}
	t.Log("\n" + all.String())
	for kind, c := range all.kinds {
		if c.made == 0 || c.refused+c.later == 0 {
			t.Errorf("%s: %d forged, %d found", forgers[kind].name, c.made, c.refused+c.later)
		}
	}
	if all.paid == 0 || all.priced == 0 || all.tolled == 0 {
		t.Errorf("%+v: the test sees nothing", all)
	}
}

// link is a round of a journal, and what the rounds before it taught.
type link struct {
	r     Round
	o     Outcome
	g     Ground
	set   map[[2]string]Credits // what policies charge a task on an agent
	rates Rates
}

// chain makes rounds that follow one on the other, as a hub does, and checks that each is accepted.
func chain(t *testing.T, rng *rand.Rand, n int) (links []link) {
	t.Helper()
	var rates Rates
	at, prev := int64(1_700_000_000_000)+rng.Int64N(20_000), [32]byte{byte(n)}
	for i := range 10 {
		x := link{r: crowdRound(rng, n), set: map[[2]string]Credits{}, rates: clone(&rates)}
		if n%12 == 0 {
			x.r = bigCrowd(rng, 12+rng.IntN(24), 2+rng.IntN(4), 6, 1+rng.IntN(8), 1+rng.Int64N(50))
			x.r.Rule.Clarke = []string{ClarkeTask, ClarkeClient}[n/12%2]
		}
		x.r.Number, x.r.Prev = uint64(i+1), prev
		at += rng.Int64N(400)
		if rng.IntN(20) == 0 {
			at += rng.Int64N(50_000)
		}
		x.ground(rng, at)
		if x.clear(t, rng, n) {
			links = append(links, x)
			prev = x.r.Hash()
			rates.Learn(&x.r, &x.o, &x.g)
		}
	}
	return links
}

func clone(x *Rates) Rates {
	c := *x
	for _, known := range []*map[AgentID]Rate{&c.Agents, &c.Fresh} {
		*known = maps.Clone(*known)
		for id, r := range *known {
			r.Excess = slices.Clone(r.Excess)
			(*known)[id] = r
		}
	}
	return c
}

// ground makes up what runs at the agents, and has that and the prices a second be the tolls, beside those
// that policies set.
func (x *link) ground(rng *rand.Rand, at int64) {
	r, g := &x.r, &x.g
	g.At, g.Lost = at, uint32(rng.IntN(FullShare+1))
	least := Credits(0)
	for _, a := range r.Agents {
		l := Load{Second: x.rates.Of(a.Agent, at).PriceAt(at), Running: rng.IntN(4),
			Service: WholeService(time.Duration(1 + rng.Int64N(int64(3*time.Second))))}
		if c := PerSecond(l.Second, l.Service); l.Running > 0 && (g.Common == "" || c < least) {
			least, g.Common, g.Service = c, a.Agent, l.Service
		}
		g.Loads = append(g.Loads, l)
	}
	if least == 0 {
		g.Common, g.Service = "", 0
	} else if rng.IntN(2) == 0 { // two or three clients were refused, who may be in the round or not
		clients := []string{"nobody", r.Tasks[0].Client, "somebody"}
		g.Refused = slices.Compact(append(clients[:1:1], r.Tasks[len(r.Tasks)-1].Client, "somebody"))
		if rng.IntN(2) == 0 {
			g.Refused = g.Refused[:2]
		}
		for i := range g.Loads {
			g.Loads[i].Refused = uint8(rng.IntN(1 << len(g.Refused)))
		}
	}
	for i := range r.Edges {
		e := &r.Edges[i]
		l := &g.Loads[e.Agent]
		if rng.IntN(2) == 0 {
			e.Toll = 0
		}
		x.set[edgeName(r, e)] = e.Toll
		s := Stay{Service: WholeService(l.Service * time.Duration(50+rng.IntN(100)) / 100),
			Prefill: WholePrefill(time.Duration(rng.Int64N(int64(time.Second)))),
			Mine:    rng.IntN(l.Running + 1)}
		if l.Second == 0 {
			s = Stay{}
		}
		g.Stays = append(g.Stays, s)
	}
	x.toll(r, g)
}

func edgeName(r *Round, e *Edge) [2]string {
	return [2]string{string(r.Tasks[e.Task].ID), string(r.Agents[e.Agent].Agent)}
}

// toll has the edges of a round bear what follows from a ground.
func (x *link) toll(r *Round, g *Ground) {
	lowest := x.rates.Of(g.Common, g.At)
	common := PerSecond(lowest.PriceAt(g.At), g.Service)
	refused := func(at int, but string) bool {
		others := map[string]bool{}
		for i, c := range g.Refused {
			if g.Loads[at].Refused&(1<<i) != 0 {
				others[c] = true
			}
		}
		delete(others, but)
		return len(others) >= 2
	}
	for i := range r.Edges {
		e := &r.Edges[i]
		l, s, client := &g.Loads[e.Agent], &g.Stays[i], r.Tasks[e.Task].Client
		most, off := common, PerSecond(lowest.Without(g.At, client), g.Service)
		if refused(e.Agent, "") {
			most = 0
		}
		if refused(e.Agent, client) {
			off = 0
		}
		toll := s.Toll(l.Second, l.Running, most)
		without := s.Toll(x.rates.Of(r.Agents[e.Agent].Agent, g.At).Without(g.At, client),
			l.Running-s.Mine, off)
		e.Toll, e.Own = x.set[edgeName(r, e)]-toll, toll-min(toll, without)
	}
}

// clear clears the round, cut or whole; false: nobody begins.
func (x *link) clear(t *testing.T, rng *rand.Rand, n int) bool {
	t.Helper()
	r, g := &x.r, &x.g
	fail := func(err error) {
		if err != nil {
			t.Fatalf("chain %d: %v\n%+v\n%+v", n, err, r, g)
		}
	}
	if rng.IntN(2) == 0 {
		var c Cutter
		free := map[AgentID]int{}
		for _, a := range r.Agents {
			for _, s := range a.Seats {
				if !s.Later {
					free[a.Agent] += s.Slots
				}
			}
		}
		whole := r.Agents
		var keeps []time.Duration
		for i, e := range r.Edges {
			keeps = append(keeps, g.Stays[i].Keeps(g.Loads[e.Agent].Running))
		}
		k, err := c.Cut(r, keeps, FullShare-g.Lost, nil, 3, nil)
		fail(err)
		for _, at := range k.At {
			if at.Agent >= 0 && !at.Later {
				free[whole[at.Agent].Agent]--
			}
		}
		var loads []Load
		for _, a := range k.Agents {
			l := g.Loads[a]
			l.Spare = free[whole[a].Agent] > 0
			loads = append(loads, l)
		}
		var stays []Stay
		for _, e := range k.Edges {
			stays = append(stays, g.Stays[e])
		}
		g.Loads, g.Stays = loads, stays
	}
	o, err := Clear(*r)
	fail(err)
	if x.o = o; len(o.Awards) == 0 {
		return false
	}
	if x.rates.Calm(r, &x.o) {
		x.g = Ground{}
	}
	fail(x.check(r, &x.o, &x.g))
	return true
}

// check judges a round as a stranger does.
func (x *link) check(r *Round, o *Outcome, g *Ground) error {
	if err := Check(*r, *o); err != nil {
		return err
	}
	return x.rates.Check(r, o, g, func(edge int) Credits { return x.set[edgeName(r, &r.Edges[edge])] })
}

// fair says what is wrong where somebody pays more than the task is worth there, or less than is due.
func (x *link) fair() error {
	for _, a := range x.o.Awards {
		if a.Cost+a.Premium > a.Value || a.Premium < x.r.Fee || a.Cost < 0 {
			return fmt.Errorf("%+v: paid above its value, or below cost and fee", a)
		}
	}
	return nil
}

// forgeries counts what was forged, by kind.
type forgeries struct {
	kinds                        []forgedKind
	rounds, paid, priced, tolled int
}

type forgedKind struct{ made, refused, proof, later, word int }

func (f *forgeries) sum() (all forgedKind) {
	for _, k := range f.kinds {
		all.made, all.refused, all.proof = all.made+k.made, all.refused+k.refused, all.proof+k.proof
		all.later, all.word = all.later+k.later, all.word+k.word
	}
	return all
}

func (f *forgeries) String() string {
	var b strings.Builder
	row := func(name string, k forgedKind) {
		fmt.Fprintf(&b, "%-72s %8d %8d %8d %8d %8d\n", name, k.made, k.refused, k.later, k.proof, k.word)
	}
	fmt.Fprintf(&b, "%-72s %8s %8s %8s %8s %8s\n", "forged", "made", "refused", "later", "proof", "word")
	for i, k := range f.kinds {
		row(forgers[i].name, k)
	}
	row("all", f.sum())
	fmt.Fprintf(&b, "%d rounds, %d awards, %d of these rounds with prices a second, %d with tolls for them\n"+
		"later: found by a round after it; proof: as true as the first; word: the hub's, and what is\n"+
		"charged after it follows from it", f.rounds, f.paid, f.priced, f.tolled)
	return b.String()
}

// forge forges the first of some rounds, and says what is wrong where that is accepted.
func (f *forgeries) forge(rng *rand.Rand, links []link, kind int) error {
	if f.kinds == nil {
		f.kinds = make([]forgedKind, len(forgers))
	}
	x := &links[0]
	if kind == 0 {
		if slices.ContainsFunc(x.g.Loads, func(l Load) bool { return l.Second > 0 }) {
			f.priced++
		}
		if slices.ContainsFunc(x.r.Edges, func(e Edge) bool { return e.Toll < x.set[edgeName(&x.r, &e)] }) {
			f.tolled++
		}
	}
	good := x.o.AppendCanonical(nil)
	o, err := DecodeOutcome(good)
	if err != nil {
		return err
	}
	r, g := x.r, x.g
	r.Edges, g.Loads, g.Stays = slices.Clone(r.Edges), slices.Clone(g.Loads), slices.Clone(g.Stays)
	forgers[kind].forge(&forgery{rng, x, &r, &o, &g})
	charged := !slices.Equal(r.Edges, x.r.Edges)
	told := !bytes.Equal(g.AppendCanonical(nil), x.g.AppendCanonical(nil))
	if !charged && !told && bytes.Equal(o.AppendCanonical(nil), good) {
		return nil // nothing is forged
	}
	k := &f.kinds[kind]
	k.made++
	if x.check(&r, &o, &g) != nil {
		k.refused++
		return nil
	}
	seconds := len(g.Loads) != len(x.g.Loads)
	for i := range min(len(g.Loads), len(x.g.Loads)) {
		seconds = seconds || g.Loads[i].Second != x.g.Loads[i].Second
	}
	_, named := x.r.place(x.g.Common)
	if _, in := x.r.place(g.Common); g.Common != x.g.Common && !seconds && !(named && in) {
		k.word++ // of an agent that the round does not name only the hub says whether somebody runs there
		return nil
	}
	if same := slices.EqualFunc(g.Loads, x.g.Loads, func(a, b Load) bool { return a.Refused == b.Refused }) &&
		slices.Equal(g.Refused, x.g.Refused); !same && !seconds && g.Common == x.g.Common {
		k.word++ // who was refused does not stand in a round
		return nil
	}
	if charged || seconds {
		return fmt.Errorf("other tolls or prices a second are accepted\n%+v\n%+v\ntrue:\n%+v\n%+v", r, g,
			x.r, x.g)
	}
	// A proof may be another that is as true; money, places and order may not differ.
	o.Witnesses, o.Ties = x.o.Witnesses, x.o.Ties
	for i := range min(len(o.Clients), len(x.o.Clients)) {
		o.Clients[i].Moves, o.Clients[i].Prices = x.o.Clients[i].Moves, x.o.Clients[i].Prices
	}
	if !bytes.Equal(o.AppendCanonical(nil), good) {
		return fmt.Errorf("a false outcome is accepted\n%+v\n%+v\ntrue:\n%+v", r, o, x.o)
	}
	if !told {
		k.proof++
		return nil
	}
	rates := clone(&x.rates)
	rates.Learn(&x.r, &x.o, &g)
	for i := range links[1:] {
		next := links[i+1]
		if next.rates = rates; next.check(&next.r, &next.o, &next.g) != nil {
			k.later++
			return nil
		}
		for a, l := range next.g.Loads {
			if rates.Of(next.r.Agents[a].Agent, next.g.At).PriceAt(next.g.At) != l.Second {
				return fmt.Errorf("a second at %s is accepted that no round taught", next.r.Agents[a].Agent)
			}
		}
		rates.Learn(&next.r, &next.o, &next.g)
	}
	k.word++
	return nil
}
