package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus/tip"
	"souk/market"
)

// unwanted has a made-up round say that slots stay free, so that nobody wants more and they cost nothing.
func unwanted(r Record) Record {
	r.Round.Ground = market.Ground{Loads: make([]market.Load, len(r.Round.Round.Agents)),
		Stays: make([]market.Stay, len(r.Round.Round.Edges))}
	for i := range r.Round.Ground.Loads {
		r.Round.Ground.Loads[i].Spare = true
	}
	return r
}

// distribution is the n-th order to a hub: its surplus goes to a client, or for "" outside.
func distribution(n uint64, client string, amount market.Credits) tip.Ordered {
	return tip.Ordered{Kind: "distribute", Number: n, Client: client, Amount: amount}
}

func clearRound(t testing.TB, r market.Round) market.Outcome {
	t.Helper()
	o, err := market.Clear(r)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func splitTask(id market.TaskID) (client, task string) {
	client, task, _ = strings.Cut(string(id), "/")
	return client, task
}

// trade writes a hub's journal of about n records: rounds of up to 8 tasks with contention, captures, voids,
// allotments. It returns the frames and the treasury's journal that goes with them.
func trade(t testing.TB, seed uint64, n int) (hub, treasury *desk) {
	return tradeOn(t, seed, n, false)
}

// tradeOn is trade that keeps bytes instead of frames, for long journals.
func tradeOn(t testing.TB, seed uint64, n int, keep bool) (hub, treasury *desk) {
	rng := rand.New(rand.NewPCG(seed, 7))
	hub, treasury = newDesk(t, "hub-maths", RoleHub), newDesk(t, "treasury", RoleTreasury)
	hub.keep = keep
	if keep { // the first frame was written before
		hub.stored, hub.frames = store(hub.frames), nil
	}
	clients := make([]string, 12)
	for i := range clients {
		clients[i] = fmt.Sprintf("client-%d", i)
		treasury.must(NewDeposit(fmt.Sprint("d", i), clients[i], 200_000*market.Credit, nil,
			treasury.nextSalt()))
		treasury.must(NewGrant(hub.name, uint64(i+1), clients[i], 100_000*market.Credit, "",
			treasury.nextSalt()))
		hub.must(NewAccept(hub.name, uint64(i+1), clients[i], 100_000*market.Credit, hub.nextSalt()))
	}
	tasks := 0
	for records := 0; records < n; {
		k := 1
		if rng.IntN(3) == 0 {
			k = 2 + rng.IntN(7)
		}
		number, prev := hub.book.LastRound()
		r := market.Round{Domain: "maths", Number: number + 1, Prev: prev, Rule: market.DefaultRule,
			Fee: 1000}
		for a := range 4 {
			r.Agents = append(r.Agents,
				market.Supply{Agent: market.AgentID(fmt.Sprint("agent-", a)),
					Seats: []market.Seat{{Slots: 1}}})
		}
		for j := range k {
			tasks++
			c := clients[rng.IntN(len(clients))]
			r.Tasks = append(r.Tasks,
				market.Task{ID: market.TaskID(fmt.Sprintf("%s/t%d", c, tasks)), Client: c})
			for a := range r.Agents {
				r.Edges = append(r.Edges,
					market.Edge{Task: j, Agent: a, Value: market.Credits(2_000_000 + rng.IntN(5_000_000)),
						Cost: market.Credits(rng.IntN(900_000))})
			}
		}
		r.Sort()
		o := clearRound(t, r)
		frame := []Record{unwanted(NewRound(hub.name, r, o, hub.nextSalt()))}
		var holds []Hold
		for slot, a := range o.Awards {
			h := holdFor(r, a, slot)
			holds = append(holds, h)
			frame = append(frame, newHold(hub.name, h, hub.nextSalt()))
		}
		hub.must(frame...)
		records += len(frame) + len(holds)
		frame = nil
		for i, h := range holds {
			if rng.IntN(20) == 0 {
				frame = append(frame, NewVoid(hub.name, h, "agent_failed", hub.nextSalt()))
			} else {
				use := market.Usage{Prompt: 400, Cached: rng.IntN(400), Output: 1 + rng.IntN(200)}
				cost := market.Settle(h.Settle, h.Price, 0, h.Quoted, use, h.Amount-h.Premium)
				frame = append(frame,
					NewCapture(hub.name, h,
						Capture{Outcome: "done", Finish: "stop", Cost: cost, Usage: use, TTFTUS: 1234},
						hub.nextSalt()))
			}
			if rng.IntN(2) == 0 || i == len(holds)-1 {
				hub.must(frame...)
				frame = nil
			}
		}
	}
	for _, c := range clients[:3] {
		n := hub.book.LastReturn(hub.name) + 1
		hub.must(NewReturn(hub.name, n, c, market.Credit, hub.nextSalt()))
		treasury.must(NewReclaim(hub.name, n, c, market.Credit, treasury.nextSalt()))
	}
	return hub, treasury
}

// foresee has the first rounds of a journal say what was expected, which need not be written.
func foresee(frames []Frame) {
	for _, f := range frames[:30] {
		if f.Records[0].Kind == KindRound {
			var holds []Hold
			for _, r := range f.Records[1:] {
				holds = append(holds, *r.Hold)
			}
			f.Records[0].Round.Seen = expected(f.Records[0].Round.Round, holds)
		}
	}
}

// expected makes a hub's forecasts for a round's edges, with those of the holds.
func expected(r market.Round, holds []Hold) []Seen {
	all := make([]Seen, len(r.Edges)+len(r.Others))
	for i := range all {
		all[i] = Seen{Prompt: 400 + i, Cached: 16 * i, Output: 50 - i, Evidence: Evidence(i % 3),
			First: time.Duration(i+1) * SeenStep, Least: SeenStep, Most: 90 * time.Millisecond}
		for _, h := range holds {
			if i < len(r.Edges) && string(r.Tasks[r.Edges[i].Task].ID) == h.Client+"/"+h.Task &&
				string(r.Agents[r.Edges[i].Agent].Agent) == h.Agent {
				all[i].Prompt, all[i].Cached, all[i].Output = h.Prompt, h.Cached, h.Output
			}
		}
	}
	return all
}

// stored is a frame's bytes as a journal would give them.
type stored struct {
	seq   uint64
	epoch int64
	data  []byte
}

func store(frames []Frame) []stored {
	out := make([]stored, len(frames))
	for i := range frames {
		out[i] = stored{frames[i].Seq, frames[i].Epoch, AppendFrame(nil, &frames[i])}
	}
	return out
}

func audit(name string, level int, frames []stored) *Audit {
	a := NewAudit(name, level)
	for _, f := range frames {
		a.Frame(f.seq, f.epoch, f.data)
	}
	return a
}
