package hub

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/hub/line"
	"souk/market"
)

var manyLies = flag.Int("lies", 4000, "that TestNoLieAboutTermsPays tries; 100000 take a minute")

// crowdedHouse is a house with a few agents, of which some are full, prices of past rounds, and tasks of
// several clients that wait, one of them with a few. Its round is held by hand: see weigh.
func crowdedHouse(t *testing.T, seed uint64) *house {
	rng := rand.New(rand.NewPCG(seed, 21))
	h := newHouse(t, func(c *Config) {
		c.Batch.Eager, c.Batch.ClosesAt, c.Batch.Apart, c.Settle = false, 1000, 0, market.SettleQuoted
		c.Clarke = []string{market.ClarkeClient, market.ClarkeTask}[seed%2]
		c.Fee, c.Crowd.Beside = market.Credits(rng.IntN(1000)), time.Duration(rng.IntN(2))*time.Millisecond
		c.Crowd.Compute = 4 * float64(rng.IntN(2))
		c.Tiers = rng.IntN(2) == 0
		c.Crowd.Age = float64(rng.IntN(3)) * 2
	})
	slots := 0
	for i := range 2 + rng.IntN(3) {
		tiers := []market.Tier{{Slots: 1}}
		if rng.IntN(2) == 0 {
			tiers = append(tiers, market.Tier{Slots: 1, Toll: -market.Credits(1 + rng.IntN(20_000))})
		}
		slots += len(tiers)
		h.joinTiers(fmt.Sprint("a-", i), 0.6+rng.Float64()/4, tiers...)
	}
	ask := func(client, id string, change ...func(*bus.Task)) {
		if _, ok := h.prepaid[client]; !ok {
			h.prepaid[client] = 1000 * market.Credit
		}
		h.must(h.step(h.task(client, id, append([]func(*bus.Task){crowdTerms(rng)}, change...)...)))
	}
	for n := range slots + 4 { // rounds in which slots had prices, and sessions that agents hold
		ask(fmt.Sprint("c", n%4), fmt.Sprint("past-", n), sharedSession(rng))
	}
	h.pass(20 * time.Millisecond)
	for _, d := range slices.Clone(h.dispatched) {
		h.now = h.now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
		h.serve(d, market.Usage{Prompt: 100, Output: 20 + rng.IntN(60)})
	}
	h.pass(20 * time.Millisecond)
	for n, d := range slices.Clone(h.dispatched[min(slots, len(h.dispatched)):]) {
		if h.accept(d); n%2 == 0 {
			h.serve(d, market.Usage{Prompt: 100, Output: 20 + rng.IntN(60)})
		}
	}
	for n := range 3 + rng.IntN(8) {
		h.now = h.now.Add(time.Duration(rng.IntN(200)) * time.Microsecond)
		ask(fmt.Sprint("c", rng.IntN(4)), fmt.Sprint("t", n), sharedSession(rng))
	}
	h.now = h.now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
	h.n.advance(h.now)
	for _, t := range h.waiting() {
		t.reserved = market.MaxWorth / 8 // what was reserved goes by the terms, and is not the subject
	}
	return h
}

func crowdTerms(rng *rand.Rand) func(*bus.Task) {
	worth, delta := market.Credits(2_000_000+rng.IntN(60_000_000)), 0.1+rng.Float64()*0.8
	patience := int64(100 + rng.IntN(8000))
	if rng.IntN(4) == 0 {
		worth, patience = worth*50, patience*20
	}
	return func(m *bus.Task) {
		m.Terms = bus.Terms{Worth: &worth, Delta: &delta, PatienceMS: &patience}
	}
}

// sharedSession gives a task a session of a few, whose text is as long as some blocks.
func sharedSession(rng *rand.Rand) func(*bus.Task) {
	s, tokens := fmt.Sprint("s-", rng.IntN(6)), 60+rng.IntN(300)
	return func(m *bus.Task) {
		m.Session, m.Prompt.Tokens, m.Prompt.Bytes = s, tokens, 4*tokens
		m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 200, Hash: bus.SessionKey("all", s)}}
	}
}

// waiting is who waits, by arrival.
func (h *house) waiting() []*task {
	all := h.n.batch.Take(nil, 1<<20)
	for _, t := range all {
		h.n.batch.Add(t, t.arrived)
	}
	return all
}

// weigh is the next round as the hub makes it, of those who wait and are wanted; nothing comes of it.
func (h *house) weigh(wanted func(*task) bool) (market.Round, market.Outcome) {
	n := h.n
	all := h.waiting()
	for _, t := range all {
		if t.home = nil; !wanted(t) {
			n.batch.Remove(t)
		}
		n.unquote(t)
	}
	n.collect()
	n.lineUp()
	n.meet()
	r := n.assemble()
	o, err := n.solve(r)
	h.must(err)
	for _, t := range all {
		n.batch.Remove(t)
		n.batch.Add(t, t.arrived)
	}
	return *r, o
}

func everybody(*task) bool { return true }

// gain is what a round is worth to a client by its true terms: what its tasks are given, less what they pay,
// and for those that wait what waiting is worth to them, all by truth.
func gain(o *market.Outcome, client string, worth map[string]market.Credits) (sum market.Credits) {
	awarded := map[market.TaskID]bool{}
	for _, a := range o.Awards {
		if v, ok := worth[string(a.Task)+">"+string(a.Agent)]; ok {
			sum += v - a.Cost - a.Premium
			awarded[a.Task] = true
		}
	}
	for id, v := range worth {
		if !slices.Contains([]byte(id), '>') && !awarded[market.TaskID(id)] {
			sum += v
		}
	}
	return sum
}

// truth is what the last round weighed of a client's tasks: "task>agent" to its value, and "task" to what
// waiting is worth.
func (h *house) truth(client string) map[string]market.Credits {
	s, m := &h.n.round, map[string]market.Credits{}
	for _, p := range s.pairs {
		if t := s.tasks[p.task]; t.key.client == client {
			m[string(t.id)+">"+s.agents[p.agent].id] = p.value
			m[string(t.id)] = s.waits[p.task].Loss
		}
	}
	return m
}

// Whatever a client says of worth, delta and patience of its tasks, the round that the hub makes of it gives
// it no more than the truth would. Waiting is an outcome of the round, so it counts as what the hub forecasts
// that it is worth.
func TestNoLieAboutTermsPays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	tried, moved, waits, several := 0, 0, 0, 0
	for n := uint64(0); tried < *manyLies; n++ {
		h := crowdedHouse(t, seed+n)
		rng := rand.New(rand.NewPCG(seed, n))
		by := map[string][]*task{}
		for _, x := range h.waiting() {
			by[x.key.client] = append(by[x.key.client], x)
		}
		for client, own := range by {
			if h.n.cfg.Clarke == market.ClarkeTask && len(own) > 1 {
				continue // a client with several tasks may gain there: the other rule is the default
			}
			_, honest := h.weigh(everybody)
			worth := h.truth(client)
			if slices.ContainsFunc(h.n.round.waits, func(w market.Wait) bool { return w.Loss > 0 }) {
				waits++
			}
			best := gain(&honest, client, worth)
			if len(own) > 1 {
				several++
			}
			for range 12 {
				terms := make([]market.Terms, len(own))
				for i, x := range own {
					terms[i] = x.terms
					x.terms = lie(rng, x.terms)
				}
				_, o := h.weigh(everybody)
				for i, x := range own {
					x.terms = terms[i]
				}
				if tried++; !slices.Equal(o.Awards, honest.Awards) {
					moved++
				}
				if got := gain(&o, client, worth); got > best {
					t.Fatalf("house %d: %s has %s by a lie, and %s by the truth", n, client, got, best)
				}
			}
		}
	}
	if t.Logf("%d lies, %d of them moved awards; %d rounds had waits, %d clients several tasks", tried, moved,
		waits, several); moved < tried/20 || waits == 0 || several == 0 {
		t.Error("the test sees little")
	}
}

func lie(rng *rand.Rand, t market.Terms) market.Terms {
	t.MaxPrice = market.MaxWorth
	if rng.IntN(3) > 0 {
		times := []float64{0, 0.1, 0.5, 0.9, 1.1, 2, 10, 1000}[rng.IntN(8)]
		t.Worth = min(market.MaxWorth/16, market.Credits(float64(t.Worth)*times))
	}
	if rng.IntN(3) == 0 {
		t.Delta = []float64{0, 1, rng.Float64()}[rng.IntN(3)]
	}
	if rng.IntN(3) == 0 {
		t.Patience = []time.Duration{time.Millisecond, t.Patience / 10, t.Patience * 10,
			market.MaxPatience}[rng.IntN(4)]
	}
	return t
}

// A forecast of waits that is wrong is worth something to liars: how much, of what a client has by the truth.
// The bound is that of market/doc.go.
func TestWhatABiasedForecastIsWorth(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const seed = 1
	for _, bias := range []float64{0.25, 0.5, 2, 4} {
		var sum, most, truthful float64
		tried, paid := 0, 0
		for n := range uint64(60) {
			h := crowdedHouse(t, seed+2*n+1) // clarke: client is 0, task 1
			h.n.cfg.Clarke = market.ClarkeClient
			rng := rand.New(rand.NewPCG(seed, n))
			own := h.waiting()[:1]
			client := own[0].key.client
			own = slices.DeleteFunc(h.waiting(), func(x *task) bool { return x.key.client != client })
			h.weigh(everybody)
			worth := h.truth(client) // by ends as they will be
			sent := map[*hold]time.Time{}
			for _, x := range h.n.holds {
				sent[x] = x.sent
				left := h.n.service(x.agent, x.ttft, x.length()) - h.n.now.Sub(x.sent)
				x.sent = x.sent.Add(time.Duration(float64(left) * (bias - 1)))
			}
			_, honest := h.weigh(everybody)
			best := gain(&honest, client, worth)
			better, k := h.lied(rng, client, own, 30, worth, best)
			tried, paid = tried+30, paid+k
			truthful += float64(best)
			sum += float64(better - best)
			if best > 0 {
				most = max(most, float64(better-best)/float64(best))
			}
		}
		t.Logf("waits forecast %v times as long: %d of %d lies pay; the best of 30 is worth %.2f %% more "+
			"than the truth, to one client %.1f %%", bias, paid, tried, 100*sum/truthful, 100*most)
		if sum > truthful/100 || paid == 0 {
			t.Errorf("%d lies pay, and are worth %v of the truth, want at most a hundredth", paid, sum/truthful)
		}
	}
}

// No home, no line, no toll and no forecast of a wait reads what is bid in the round: with any other terms of
// one client's tasks they stay, and with them what waiting is worth to all others.
func TestNoBidIsInTheCrowdsTolls(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	compared, waits, tolled := 0, 0, 0
	for n := range uint64(60) {
		h := crowdedHouse(t, seed+n)
		rng := rand.New(rand.NewPCG(seed, n))
		client := h.waiting()[0].key.client
		seen := func() (tolls map[string]string, homes string) {
			h.weigh(everybody)
			s := &h.n.round
			tolls = map[string]string{}
			for _, p := range s.pairs {
				x := s.tasks[p.task]
				tolls[string(x.id)+">"+s.agents[p.agent].id] = fmt.Sprint(p.toll)
				if tolled += 0; p.toll < 0 {
					tolled++
				}
				if x.key.client != client {
					tolls[string(x.id)] = fmt.Sprint(s.waits[p.task])
					if s.waits[p.task].Loss > 0 {
						waits++
					}
				}
			}
			for _, x := range s.tasks {
				homes += fmt.Sprint(x.id, x.home.id, x.place, " ")
			}
			return tolls, homes + fmt.Sprint(h.n.crowd.tolls)
		}
		tolls, homes := seen()
		for range 5 {
			own := slices.DeleteFunc(h.waiting(), func(x *task) bool { return x.key.client != client })
			for i, j := range rng.Perm(len(own)) {
				own[i].terms = lie(rng, own[j].terms)
			}
			again, same := seen()
			if same != homes {
				t.Fatalf("house %d: %s, and before a client bid otherwise %s", n, same, homes)
			}
			for of, was := range tolls {
				if compared++; again[of] != was {
					t.Fatalf("house %d: %s is %s, and was %s before a client bid otherwise", n, of, again[of],
						was)
				}
			}
		}
	}
	if compared == 0 || waits == 0 || tolled == 0 {
		t.Errorf("%d compared, %d waits, %d tolls: the test sees little", compared, waits, tolled)
	}
}

// inNoHurry gives a task long patience and much to lose.
func inNoHurry(m *bus.Task) {
	w, p := market.Credit, int64(600_000)
	m.Terms.Worth, m.Terms.PatienceMS = &w, &p
}

// A full agent that says nothing more does not hold those who wait for it, and nobody has to say so.
func TestASilentAgentsWaitersLookAgain(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Silence = 4300 * time.Millisecond })
	h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
	h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
	h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.MaxTokens = 1000 })))
	h.accept(h.take("ann", "t1"))
	h.must(h.step(h.task("bob", "t2", inNoHurry)))
	at, seq := h.now, uint64(1)
	for len(h.dispatched) == 0 && h.now.Sub(at) < 20*time.Second {
		h.pass(min(500*time.Millisecond, max(time.Millisecond, h.wake.Sub(h.now))))
		seq++
		h.must(h.step(&bus.Summary{Agent: "a-2", Boot: 1, Seq: seq, State: bus.StateReady, Slots: 1,
			Price: card(1, 1, 4)}))
	}
	if h.running() != "bob/t2>a-2" || h.now.Sub(at) < h.n.cfg.Silence ||
		h.now.Sub(at) > h.n.cfg.Silence+100*time.Millisecond {
		t.Errorf("%s after %v, want bob/t2>a-2 once a-1 was silent for %v", h.running(), h.now.Sub(at),
			h.n.cfg.Silence)
	}
}

// Nothing happens while a task rather waits than take a slot that is free, and what it waits for takes longer
// than was forecast. It takes the slot at most a second after it would have, had it been looked at all the
// while.
func TestWhoRatherWaitsIsLookedAtEachSecond(t *testing.T) {
	begins := func(tokens int, patience time.Duration, every time.Duration) time.Duration {
		h := newHouse(t, func(c *Config) {
			c.Silence, c.Suspect, c.Deadline = time.Hour, time.Hour, time.Hour
		})
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		h.join("a-2", "llama", 1, 0.5, card(1, 1, 4))
		h.must(h.step(h.task("ann", "t1", func(m *bus.Task) { m.MaxTokens = tokens })))
		h.accept(h.take("ann", "t1"))
		h.must(h.step(h.task("bob", "t2", func(m *bus.Task) {
			w, ms := market.Credit, patience.Milliseconds()
			m.Terms.Worth, m.Terms.PatienceMS = &w, &ms
		})))
		at := h.now
		for h.running() == "" && h.now.Sub(at) < 10*time.Minute {
			h.pass(min(every, max(time.Microsecond, h.wake.Sub(h.now))))
			if every < time.Second {
				h.n.news()
				h.run()
			}
		}
		return h.now.Sub(at)
	}
	waited := 0
	for _, tokens := range []int{50, 200, 1000} {
		for _, patience := range []time.Duration{20 * time.Second, 100 * time.Second, 600 * time.Second} {
			want, got := begins(tokens, patience, 10*time.Millisecond), begins(tokens, patience, time.Hour)
			if want > time.Second {
				waited++
			}
			if got > want+tollsFade+10*time.Millisecond {
				t.Errorf("up to %d tokens, patience %v: it begins after %v, and would have after %v", tokens,
					patience, got, want)
			}
		}
	}
	if waited < 5 {
		t.Errorf("%d tasks waited for more than a second: the test sees little", waited)
	}
}

// The agent with the prompts of 300 tasks leaves. All stand in other lines then, and all are served.
func TestAHomeThatLeavesWith300InLine(t *testing.T) {
	h := crowdHouse(t, 2048, nil)
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	text := func(m *bus.Task) {
		m.Session, m.Prompt.Tokens, m.Prompt.Bytes = "shared", 400, 1600
		m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 1600, Hash: 7}}
	}
	for i := range 2 {
		h.must(h.step(h.task("ann", fmt.Sprint("warm-", i), text)))
	}
	h.serve(h.take("ann", "warm-0"), market.Usage{Prompt: 400, Output: 10})
	h.must(h.step(h.task("ann", "busy", text)))
	for _, d := range h.dispatched {
		h.accept(d)
	}
	h.dispatched = nil
	for i := range 300 {
		client := fmt.Sprint("c", i%20)
		h.prepaid[client] = 100 * market.Credit
		h.must(h.step(h.task(client, fmt.Sprint("t", i), text, func(m *bus.Task) { m.Session = "shared" })))
	}
	for i := range 3 {
		h.join(fmt.Sprint("b-", i), "llama", 4, 0.9, card(1, 1, 4))
	}
	h.n.Leave(h.now, "a-1")
	h.run()
	served := map[string]int{}
	for i := 0; i < 1000 && len(h.dispatched)+h.n.waiting > 0; i++ {
		for _, d := range slices.Clone(h.dispatched) {
			d = h.take(d.Task.Client, d.Task.ID)
			served[h.agentOf(d)]++
			h.serve(d, market.Usage{Prompt: 400, Output: 10})
		}
		for _, x := range h.waiting() {
			if x.home != nil && x.home.id == "a-1" {
				t.Fatalf("%s stands in the line of an agent that has left", x.id)
			}
		}
		h.pass(10 * time.Millisecond)
		seq := uint64(i + 2)
		for k := range 3 {
			h.must(h.step(&bus.Summary{Agent: fmt.Sprint("b-", k), Boot: 1, Seq: seq, State: bus.StateReady,
				Slots: 4, Price: card(1, 1, 4)}))
		}
	}
	if sum := served["b-0"] + served["b-1"] + served["b-2"]; sum != 300 || h.n.waiting != 0 {
		t.Errorf("%v served, %d wait", served, h.n.waiting)
	}
	h.audited()
}

// However long an agent is busy, nobody who has waited for twice its patience is without a slot that is free
// and worth something to it, or rather waits.
func TestNobodyWaitsLongerThanTwiceItsPatience(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	waited := 0
	for n := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, n))
		h := newHouse(t, func(c *Config) { c.Silence = time.Hour })
		h.join("a-1", "llama", 1, 0.95, card(1, 1, 4))
		h.join("a-2", "llama", 8, 0.3, card(1, 1, 4))
		h.must(h.step(h.task("ann", "t0", func(m *bus.Task) { m.MaxTokens = 3000 })))
		h.accept(h.take("ann", "t0"))
		arrived, patience := map[string]time.Time{}, map[string]time.Duration{}
		look := func() {
			for _, d := range h.dispatched {
				if arrived[d.Task.ID].IsZero() {
					continue // dispatched again
				}
				w := h.now.Sub(arrived[d.Task.ID])
				if w > 0 {
					waited++
				}
				if limit := 2*patience[d.Task.ID] + lookAgain + h.n.cfg.Batch.MaxWait; w > limit {
					t.Fatalf("house %d: %s waited %v for a free slot, want at most %v", n, d.Task.ID, w,
						limit)
				}
				delete(arrived, d.Task.ID)
			}
			h.dispatched = nil
		}
		for i := range 1 + rng.IntN(6) {
			id := fmt.Sprint("t", i+1)
			// worth something anywhere, however late
			ms, delta, w := int64(1+rng.IntN(12_000)), 0.8+rng.Float64()/10, market.Credit
			arrived[id], patience[id] = h.now, time.Duration(ms)*time.Millisecond
			h.must(h.step(h.task("bob", id, func(m *bus.Task) {
				m.Terms = bus.Terms{Worth: &w, Delta: &delta, PatienceMS: &ms}
			})))
			look() // it may have been served at once
			for to := h.now.Add(time.Duration(rng.IntN(50)) * time.Millisecond); h.now.Before(to); {
				next := to // a hub is ticked when it wants to be
				if !h.wake.IsZero() && h.wake.Before(to) {
					next = later(h.wake, h.now.Add(time.Microsecond))
				}
				h.pass(next.Sub(h.now))
				look()
			}
		}
		for range 100_000 {
			look()
			if len(arrived) == 0 || h.wake.IsZero() {
				break
			}
			h.pass(max(0, h.wake.Sub(h.now)))
		}
		if len(arrived) > 0 {
			for id := range arrived {
				t.Errorf("house %d: %s of patience %v is not served: %q", n, id, patience[id],
					h.answerTo("inbox.bob."+id))
			}
		}
	}
	if waited < 10 {
		t.Errorf("%d tasks waited: the test sees little", waited)
	}
}

// A solve that is stopped is cleared at posted prices: nobody has a wait there, and nobody is missing who was
// pruned. The round is recorded and awarded.
func TestAStoppedSolveHasNoWaits(t *testing.T) {
	seen := 0
	for seed := range uint64(30) {
		h := crowdedHouse(t, seed)
		r, _ := h.weigh(everybody)
		if r.Pruned == (market.Pruned{}) || !slices.ContainsFunc(r.Tasks, func(x market.Task) bool {
			return x.Wait != nil
		}) {
			continue
		}
		seen++
		posted := *h.n.posted()
		o, err := market.Clear(posted)
		if err == nil {
			err = market.Check(posted, o)
		}
		if err != nil || len(posted.Tasks) != len(h.n.round.edged) {
			t.Fatalf("%d tasks of %d: %v", len(posted.Tasks), len(h.n.round.edged), err)
		}
	}
	if seen < 3 {
		t.Fatalf("%d rounds had waits and were pruned: the test sees little", seen)
	}
}

// Whatever terms, agents and clocks say, rounds are made and recorded, tolls and waits are amounts, and every
// task has its end.
func TestTheCrowdAtEveryEdge(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, n))
		h := newHouse(t, func(c *Config) {
			c.Crowd = line.Params{Waiting: true, Compute: 1000, Age: 1000,
				Beside: time.Second}
			c.Deadline = time.Minute
		})
		for i := range 3 {
			h.join(fmt.Sprint("a-", i), "llama", 1+rng.IntN(3), rng.Float64(), card(1, 1, 4))
		}
		asked := 0
		for i := range 60 {
			client := fmt.Sprint("c", rng.IntN(8))
			h.prepaid[client] = market.MaxWorth
			w := []market.Credits{0, 1, market.Credit, market.MaxWorth / 64, 1 << 62}[rng.IntN(5)]
			delta := []float64{0, 1, 1e-300, rng.Float64()}[rng.IntN(4)]
			ms := []int64{0, 1, 1000, 365 * 24 * 3600 * 1000, 1 << 62}[rng.IntN(5)]
			err := h.step(h.task(client, fmt.Sprint("t", i), func(m *bus.Task) {
				m.Terms = bus.Terms{Worth: &w, Delta: &delta, PatienceMS: &ms}
			}))
			if err == nil {
				asked++
			}
			for _, d := range slices.Clone(h.dispatched) {
				if rng.IntN(2) == 0 {
					d = h.take(d.Task.Client, d.Task.ID)
					c := completion(h.agentOf(d), d, market.Usage{Prompt: 100, Output: 1 + rng.IntN(50)})
					c.ITLUS = []int64{0, 1, 60_000_000}[rng.IntN(3)]
					c.TTFTUS = []int64{0, 1, 3_600_000_000}[rng.IntN(3)]
					h.must(h.step(c))
				}
			}
			h.pass([]time.Duration{0, time.Millisecond, time.Second}[rng.IntN(3)])
		}
		h.pass(2 * time.Minute)
		h.pass(time.Hour)
		if h.n.waiting != 0 || h.n.stats.Faults != 0 || asked == 0 {
			t.Fatalf("house %d: %d wait after their deadlines, %d faults, %d asked", n, h.n.waiting,
				h.n.stats.Faults, asked)
		}
		h.audited()
	}
}
