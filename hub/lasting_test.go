package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// over checks that every task has its last word, no money is held or set aside, and that the books are right.
func (e *engines) over() {
	e.t.Helper()
	if st := e.n.Stats(); st.Open != 0 || st.Holds != 0 || st.Waiting != 0 {
		e.t.Errorf("%d tasks are open, %d wait, %d holds", st.Open, st.Waiting, st.Holds)
	}
	for client := range e.prepaid {
		if got := e.n.Money().Reserved(client); got != 0 {
			e.t.Errorf("%s of %s are set aside for nobody", got, client)
		}
	}
	for key := range e.asked {
		if e.answerTo("inbox."+key) == "" {
			e.t.Errorf("%s was told nothing", key)
		}
	}
	if len(e.faults) > 0 {
		e.t.Errorf("faults: %v", e.faults[0])
	}
	if found := e.findings(6); len(found) > 0 {
		e.t.Errorf("the audit finds %v", found[0])
	}
}

// dies has an agent end no task any more.
func (e *engines) dies(id string) {
	e.mute[id] = true
	e.runs = slices.DeleteFunc(e.runs, func(r run) bool {
		rec, ok := e.replica.Hold(r.d.Hold)
		return !ok || rec.Agent == id
	})
}

// While tasks wait, the agent that most of them wait for dies: silently, by its process, or by its
// registration. Whoever waits is served elsewhere by its deadline, whom it served moves there where nothing
// was delivered, and no money is lost or held for ever.
func TestWhoWaitsOutlivesAnAgent(t *testing.T) {
	for name, death := range map[string]func(*engines){
		"silent": func(*engines) {},
		"dead": func(e *engines) {
			for range 20 {
				e.lets(time.Second)
				e.n.Absent(e.now, "a-1")
				e.run()
				e.begin()
			}
		},
		"gone": func(e *engines) { e.leave("a-1"); e.run(); e.begin() },
		"restarted": func(e *engines) {
			r := e.agents["a-1"].Registration
			r.Boot++
			e.must(e.register(r))
			e.mute["a-1"] = false
			e.run()
			e.begin()
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngines(t, nil)
			e.join("a-1", "llama", 4, 0.9, card(1, 1, 4))
			e.join("a-2", "llama", 2, 0.85, card(1, 1, 4))
			at, moment := map[string]int{}, false
			e.began = func(d *bus.Dispatch) {
				if moment {
					at[e.agentOf(*d)]++
				}
			}
			late := func(m *bus.Task) { m.DeadlineMS = e.now.Add(5 * time.Minute).UnixMilli() }
			for k := range 30 {
				e.ask([]string{"ann", "bob"}[k%2], late)
			}
			e.lets(1500 * time.Millisecond)
			if e.n.Stats().Waiting < 10 {
				t.Fatalf("%d wait: the test sees little", e.n.Stats().Waiting)
			}
			waiting := e.n.Stats().Waiting
			e.dies("a-1")
			moment = true
			death(e)
			e.lets(30 * time.Minute)
			if at["a-1"]+at["a-2"] < waiting || at["a-1"] > 0 && name != "restarted" {
				t.Errorf("%d waited, and then tasks began at %v", waiting, at)
			}
			e.over()
		})
	}
}

// A hub that starts again knows what runs, and nobody who waited: whoever comes again is served, once, and
// what ran is paid, once. On a standby it is the same.
func TestWhoWaitsOutlivesAHub(t *testing.T) {
	e := newEngines(t, nil)
	join := func() {
		for k := range 2 {
			e.join(fmt.Sprint("a-", k), "llama", 2, 0.9, card(1, 1, 4))
		}
	}
	join()
	served := map[string]int{}
	e.ended = func(d *bus.Dispatch, _ market.Credits) { served[d.Task.ID]++ }
	var sent []*bus.Task
	for k := range 20 {
		m := e.task([]string{"ann", "bob"}[k%2], fmt.Sprint("t", k), func(m *bus.Task) {
			m.Terms.Worth = new(market.Credit / 50)
			m.DeadlineMS = e.now.Add(5 * time.Minute).UnixMilli()
		})
		sent = append(sent, m)
		copied := *m
		e.send(&copied)
	}
	e.lets(2500 * time.Millisecond)
	if len(served) == 0 || e.n.Stats().Waiting == 0 || e.n.Stats().Holds == 0 {
		t.Fatalf("%d are served, %+v: the test sees little", len(served), e.n.Stats())
	}
	e.restart()
	e.must(e.n.Lead(e.now, 8))
	e.run()
	join()
	for _, m := range sent {
		copied := *m
		copied.Inbox += ".again"
		e.must(e.step(&copied))
		e.begin()
	}
	e.lets(2 * time.Minute)
	for _, m := range sent {
		if served[m.ID] != 1 {
			t.Errorf("%s was served %d times, and is told %q", m.ID, served[m.ID], e.answerTo(m.Inbox+".again"))
		}
	}
	if st := e.n.Stats(); st.Open != 0 || st.Holds != 0 {
		t.Errorf("%d tasks are open, %d holds", st.Open, st.Holds)
	}
	e.audited()
}

// Eight long prompts that come in one moment do not go to one agent: each of four that are alike gets two.
func TestLongPromptsOfOneMomentSpread(t *testing.T) {
	e := newEngines(t, nil)
	for k := range 4 {
		e.join(fmt.Sprint("a-", k), "llama", 8, 0.9, card(1, 1, 4))
	}
	at := map[string]int{}
	e.began = func(d *bus.Dispatch) { at[e.agentOf(*d)]++ }
	for k := range 8 {
		m := e.task([]string{"ann", "bob"}[k%2], fmt.Sprint("t", k), func(m *bus.Task) {
			m.Prompt.Tokens, m.Prompt.Bytes, m.Prompt.Prefixes[0].Bytes = 6000, 24_000, 24_000
		})
		e.must(e.n.Step(e.now, m))
	}
	e.run()
	e.begin()
	e.lets(30 * time.Second)
	for id, n := range at {
		if n > 3 {
			t.Errorf("%d of 8 long prompts go to %s: %v", n, id, at)
		}
	}
	if len(at) != 4 {
		t.Errorf("they go to %v", at)
	}
	e.audited()
}

// Agents of which each is a class of its own, that end tasks at once or never, tasks that are worth all that
// may be said, prices that this makes, idle days after that: every task is answered by its deadline, nothing
// overflows, and a day later a slot costs its card again.
func TestPricesAndServicesAtEveryEdge(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	for _, service := range []time.Duration{0, time.Second, 365 * 24 * time.Hour} {
		for _, worth := range []market.Credits{1, market.Credit / 100, market.MaxWorth} {
			t.Run(fmt.Sprint("service ", service, ", worth ", worth), func(t *testing.T) {
				e := newEngines(t, nil)
				for k := range 3 {
					r := registration(fmt.Sprint("a-", k), fmt.Sprint("m", k), 1+k, 0.9, card(1, 1, 4))
					r.Class = fmt.Sprint("class-", k)
					e.must(e.register(r))
				}
				e.run()
				e.took = func(*bus.Dispatch) (time.Duration, market.Usage) {
					return service, market.Usage{Prompt: 100, Output: 50}
				}
				for range 2 {
					for range 40 {
						e.ask(fmt.Sprint("c", rng.IntN(4)), func(m *bus.Task) {
							m.Terms.Worth = &worth
							m.DeadlineMS = e.now.Add(time.Duration(1+rng.IntN(20)) * time.Second).UnixMilli()
						})
						e.lets(time.Duration(rng.IntN(200)) * time.Millisecond)
					}
					e.lets(30 * time.Second)
					if st := e.n.Stats(); st.Waiting != 0 {
						t.Fatalf("%d wait after their deadlines", st.Waiting)
					}
					e.runs = nil // what never ends is given up by the hub in its time
					e.lets(time.Hour)
					e.beat = e.now.Add(24 * time.Hour) // an idle day
					e.now = e.now.Add(24 * time.Hour)
				}
				e.beats()
				e.took = func(*bus.Dispatch) (time.Duration, market.Usage) {
					return time.Second, market.Usage{Prompt: 100, Output: 50}
				}
				e.began = func(d *bus.Dispatch) {
					if d.Premium > d.Quoted/100 {
						t.Errorf("a day later a task alone pays %s beside its cost of %s", d.Premium, d.Quoted)
					}
				}
				e.ask("lone")
				e.lets(time.Minute)
				e.over()
			})
		}
	}
}

// Nobody who waits is without a last word after its deadline, whatever it says it is worth and whatever comes
// of agents meanwhile; and nobody is refused as not worth its cost on a free fleet of which a quote says, in
// the same moment, that it would be given a slot.
func TestWaitsAreBoundedAndRefusalsTrue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	worths := []market.Credits{0, 1, 10_000, market.Credit / 10_000, market.Credit / 1000, market.Credit,
		market.MaxWorth}
	refused, wins, late := 0, 0, 0
	for range 40 {
		e := newEngines(t, nil)
		for k := range 1 + rng.IntN(4) {
			dear := market.Credits(1) << rng.IntN(10)
			e.join(fmt.Sprint("a-", k), fmt.Sprint("m", k%2), 1+rng.IntN(3), rng.Float64(),
				card(dear, dear, 4*dear))
		}
		e.took = func(*bus.Dispatch) (time.Duration, market.Usage) {
			return time.Duration(rng.IntN(5000)) * time.Millisecond, market.Usage{Prompt: 100, Output: 50}
		}
		terms := func(m *bus.Task) {
			m.Terms.Worth = &worths[rng.IntN(len(worths))]
			if rng.IntN(2) == 0 {
				m.Terms.Delta = new([]float64{0, 5e-324, 0.5, 1}[rng.IntN(4)])
			}
			if rng.IntN(2) == 0 {
				m.Terms.PatienceMS = new([]int64{1, 1000, 24 * 3600 * 1000}[rng.IntN(3)])
			}
			if rng.IntN(3) == 0 {
				m.Terms.MaxPrice = &worths[rng.IntN(len(worths))]
			}
			m.DeadlineMS = e.now.Add(time.Duration(50+rng.IntN(8000)) * time.Millisecond).UnixMilli()
		}
		deadlines := map[string]time.Time{}
		for range 60 {
			client := fmt.Sprint("c", rng.IntN(3))
			if len(e.runs) == 0 && e.n.Stats().Waiting == 0 && len(e.sick) == 0 {
				e.lets(2 * time.Minute) // until all prices of before are gone
				e.serial++
				m := e.task(client, fmt.Sprint("q", e.serial), terms)
				asked := *m
				win := slices.ContainsFunc(e.n.Quote(e.now, &asked).Models,
					func(x bus.ModelQuote) bool { return x.WouldWin })
				e.send(m)
				deadlines[m.Inbox] = time.UnixMilli(m.DeadlineMS)
				if r := e.told(client + "." + m.ID); r != nil && r.Code == bus.CodeNotWorthIt {
					if refused++; win {
						t.Fatalf("a quote says that it would be given a slot, and it is told: %s", r.Message)
					}
				} else if win {
					wins++
				}
			}
			for range rng.IntN(5) {
				id := e.ask(client, terms)
				deadlines["inbox."+client+"."+id] = e.now.Add(8050 * time.Millisecond)
			}
			e.lets(time.Duration(rng.IntN(1500)) * time.Millisecond)
			agent := fmt.Sprint("a-", rng.IntN(len(e.agents)))
			switch rng.IntN(6) {
			case 0:
				e.sick[agent] = []string{bus.StateUnhealthy, bus.StateDraining}[rng.IntN(2)]
			case 1:
				delete(e.sick, agent)
				delete(e.mute, agent)
			case 2:
				e.mute[agent] = true
			}
			for inbox, at := range deadlines {
				if e.now.After(at.Add(time.Millisecond)) {
					if late++; e.answerTo(inbox) == "" {
						t.Fatalf("%s has no answer %v after its deadline", inbox, e.now.Sub(at))
					}
					delete(deadlines, inbox)
				}
			}
		}
		clear(e.mute)
		e.lets(10 * time.Minute)
		e.over()
	}
	if refused < 50 || wins < 10 || late < 1000 {
		t.Errorf("%d were refused, %d would win, %d deadlines: the test sees little", refused, wins, late)
	}
}
