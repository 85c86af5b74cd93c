package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/hub/turn"
	"souk/market"
)

// Agent is one agent as a seller of slots. The room keeps it at least as long as its slots are sold or
// anything runs on it.
type Agent struct {
	// what rounds and quotes read of every agent stands first, and so together in memory
	joined     bool  // registered, and claimed by this hub
	sells      bool  // its owner won the epoch of its class, where there are epochs
	ready      bool  // by its last summary
	listed     bool  // as ready, by its registration
	drains     bool  // by the last of both
	silentFrom int64 // by Turn.Nano: when its last summary is too old
	avoidUntil int64 // by Turn.Nano: before then it gets no tasks
	sold       int   // of its slots, counted in Room.slots: those of its registration while it is joined
	queues     bool  // its engine takes a task beyond its slots into its own queue, by its last summary
	overcommit bool  // and that is worth it: see Room.Overcommit
	stuck      int   // of its slots, by the agent's count where it was higher than the hub's own for a while
	// for which its tasks kept a slot by themselves, of that for prompts: means
	own, prefill time.Duration
	Runs         []Run // in the order of their rounds: the hub's own count is the load
	last         int64 // by Turn.Nano: when the last first token came that is known
	id           string
	service      *Service // of its class
	seller       market.Seller
	pace         Pace
	reg          bus.Registration

	ended []Run // of which is learned what was their own once what ran beside them has ended

	seq  uint64
	said time.Time // when its last summary came; zero: none has since it joined

	excess      int // of the agent's count over the hub's own
	excessSince time.Time

	refusals int
	timer    turn.Timer // the end of avoid
	watch    lookout

	life      uint64 // of its engine in this boot, as it says
	restarted bool   // nothing was answered since
	askFrom   int64  // by Turn.Nano: before then it is not asked again what it holds
}

// Run is a task that an agent has, or may have.
type Run struct {
	Client, Task string
	Since        time.Time     // it was handed out
	Most         time.Duration // for which it may have a slot

	queued      bool          // what follows is known of its prompt, and not yet when its first token came
	prompt      int           // tokens
	work        time.Duration // to compute what of them is not cached
	sent, first int64         // when it was dispatched, and when its first token is expected

	served bool          // its first token came, as far as is known
	kept   time.Duration // for which it kept its slot; 0: it has it
	others time.Duration // of that, in which prompts of others were computed that were served
}

func (a *Agent) self() *Agent { return a }
func (a *Agent) ID() string   { return a.id }

// Reg returns the agent's registration, read-only, with slots and card as of its last summary. It names no
// agent if that has not registered in this life of the hub.
func (a *Agent) Reg() *bus.Registration { return &a.reg }

// Fresh reports whether a registration is of another process than the one that is known.
func (a *Agent) Fresh(reg *bus.Registration) bool { return a.reg.Agent == "" || reg.Boot != a.reg.Boot }

// Joined reports whether the hub sells the agent's slots: else it has left, and tasks may run on it still.
func (a *Agent) Joined() bool { return a.joined }

// Stays reports whether the hub sells the agent's slots, and will, as far as it says.
func (a *Agent) Stays() bool { return a.joined && a.listed && !a.drains }

// Seller returns the seller of the agent's slots, with the tariff for a task there beside its cost.
func (a *Agent) Seller() market.Seller { return a.seller }

// Sell sets the tariff for a task beside its cost and, where there are epochs, whether the owner sells.
func (a *Agent) Sell(tariff market.Credits, sells bool) { a.seller.Tariff, a.sells = tariff, sells }

// Open reports whether the agent takes tasks, now or as soon as it has a slot.
func (a *Agent) Open(now int64) bool {
	return a.joined && a.sells && now <= a.silentFrom && a.ready && a.listed && now >= a.avoidUntil
}

// Returns reports whether the agent takes no tasks now and may again, and for how long it is left alone.
func (a *Agent) Returns(now int64) (bool, time.Duration) {
	return a.joined && a.sells && !a.drains && !a.Open(now), time.Duration(max(0, a.avoidUntil-now))
}

// Running counts the slots in use, with those of tasks that the agent alone counts.
func (a *Agent) Running() int { return len(a.Runs) + a.stuck }

// Vacant counts the agent's slots that may be given away now.
func (a *Agent) Vacant(now int64) int {
	if !a.Open(now) {
		return 0
	}
	most, _ := a.slots()
	return max(0, most-a.Running())
}

// slots returns how many tasks the agent can have: where prompts take all of its engine's time before these
// are taken, as many as keep it busy with them, and some. More would wait there, first come, first served.
func (a *Agent) slots() (most int, prefillBound bool) {
	busy, known := a.busy()
	if known && busy < a.sold {
		return busy, true
	}
	return a.sold, false
}

// busy returns how many tasks keep the agent's engine busy with their prompts, and some; false: nothing is
// known of prompts.
func (a *Agent) busy() (tasks int, known bool) {
	if a.prefill <= 0 {
		return 0, false
	}
	return 4 + int((a.own+a.prefill-1)/a.prefill), true // two more leave it time to spare, six wait in it
}

// Usual returns how long a task keeps what is short at the agent on average, from itself and from others.
func (a *Agent) Usual() time.Duration {
	if _, bound := a.slots(); bound {
		return time.Duration(1+a.Running()) * a.Service().Prefill
	}
	return a.Service().Mean()
}

// Free returns how many tasks the agent can be given now: one more than it has slots, where that is worth it.
func (a *Agent) Free(now int64) int {
	if a.overcommit && a.queues && a.stuck == 0 && a.Open(now) {
		if most, bound := a.slots(); !bound && a.Running() == most {
			return 1
		}
	}
	return a.Vacant(now)
}

// Unqueues notes that the agent took no task beyond its slots: until its next summary it is given none.
func (a *Agent) Unqueues() { a.queues = false }

// Service returns the time for which tasks keep a slot, learned over the class.
func (a *Agent) Service() *Service {
	if a.service == nil {
		a.service = new(Service)
	}
	return a.service
}

// Begin records that a client's task was handed to the agent, which may have a slot for so long at most.
func (a *Agent) Begin(client, task string, now time.Time, most time.Duration) {
	a.Runs = append(a.Runs, Run{Client: client, Task: task, Since: now, Most: most})
}

// Computes puts the prompt of the task that began last behind what is in hand: its tokens, the time to
// compute what of them is not cached, and to its first token.
func (a *Agent) Computes(now int64, prompt int, work, ttft time.Duration) {
	x := &a.Runs[len(a.Runs)-1]
	x.queued, x.prompt, x.work = true, prompt, max(0, work)
	x.sent, x.first = now, now+int64(max(0, ttft))
}

// Computed records the time to the first token of a task that was served; 0: not known.
func (a *Agent) Computed(client, task string, ttft time.Duration) {
	i := a.find(client, task)
	if i < 0 {
		return
	}
	x := &a.Runs[i]
	if x.queued && ttft > 0 {
		a.last = max(a.last, x.sent+int64(ttft))
	}
	x.served, x.queued = true, false
	for _, all := range [2][]Run{a.Runs, a.ended} {
		for k := range all {
			if y, came := &all[k], all[k].Since.Sub(x.Since); y != x {
				y.others += max(0, min(ttft, came+cmp.Or(y.kept, market.MaxIn))-max(0, came, ttft-x.work))
			}
		}
	}
}

// Kept records for how long a task that ends now kept its slot. Its class learns that at once, and its own
// part of it later: of a prompt in hand nobody is to learn how much of it was cached.
func (a *Agent) Kept(client, task string, kept time.Duration) {
	if i := a.find(client, task); i >= 0 {
		x := a.Runs[i]
		x.kept = max(1, kept)
		if a.Service().Kept(x.kept); x.served { // what was refused or cancelled keeps no engine busy
			a.ended = append(a.ended, x)
		}
	}
}

// End records that the agent has a task no more.
func (a *Agent) End(client, task string) {
	if i := a.find(client, task); i >= 0 {
		a.Runs = slices.Delete(a.Runs, i, i+1)
	}
	a.ended = slices.DeleteFunc(a.ended, func(x Run) bool {
		if len(a.Runs) > 0 && a.Runs[0].Since.Before(x.Since.Add(x.kept)) {
			return false
		}
		own := x.kept - x.others
		a.Service().Ended(own)
		a.own = mean(a.own, own)
		a.prefill += (min(x.work, a.own) - a.prefill) / meanOf // at first slots are what is short
		return true
	})
	a.ended = a.ended[:min(len(a.ended), mostEnded)] // the last are left out, so that some are ever learned
}

func (a *Agent) find(client, task string) int {
	return slices.IndexFunc(a.Runs, func(x Run) bool { return x.Client == client && x.Task == task })
}

// Accepts records that the agent has taken a task: its earlier refusals are forgotten.
func (a *Agent) Accepts() { a.refusals = 0 }

// Unready marks the agent as taking no tasks, until a summary says otherwise.
func (a *Agent) Unready() { a.ready = false }

// Engine takes in the engine's life that the agent reports.
func (a *Agent) Engine(life uint64) {
	if life > a.life {
		a.life, a.restarted = life, a.restarted || a.life > 0
	}
}

// Answered records that the agent's engine has answered, and reports whether it was cold: its first answer
// since a restart.
func (a *Agent) Answered() (cold bool) {
	cold, a.restarted = a.restarted, false
	return cold
}

// Summary takes in an agent's word about itself. It returns an error, and changes nothing, if that is old. A
// card that is none leaves the last one.
func (r *Room[A]) Summary(a *Agent, s *bus.Summary) error {
	if s.Boot != a.reg.Boot || !bus.Later(a.seq, a.said, s.Seq, r.turn.Now()) {
		return fmt.Errorf("summary %d of %s (boot %d) is old", s.Seq, s.Agent, s.Boot)
	}
	now := r.turn.Nano()
	before, price, open := a.Free(now), a.reg.Price, a.Open(now)
	r.Alive(a)
	first := a.said.IsZero()
	a.seq, a.said, a.silentFrom = s.Seq, r.turn.Now(), r.turn.In(r.limits.Silence)
	if drains := s.State == bus.StateDraining; drains != a.drains {
		a.drains = drains
		r.changes++
	}
	a.ready, a.queues = s.State == bus.StateReady, s.Queue
	if s.Slots > 0 {
		a.reg.Slots = s.Slots // for later rounds
		r.sized(a, s.Slots)
	}
	if s.Price.Validate() == nil {
		a.reg.Price = s.Price // for later rounds: a hold carries the card it was made with
	}
	r.correct(a, s.InFlight, first)
	a.Said(now, now-int64(HearsWithin), s.Prefills)
	switch after := a.Free(now); {
	case after > before, open && !a.Open(now), after > 0 && a.reg.Price != price:
		r.news()
	case after != before:
		r.turn.Changed = true
	}
	return nil
}

// correct compares the agent's count of running tasks with the hub's. A summary is a little old, so a higher
// count is believed only once it has lasted: the agent runs something that the hub has given up. The first
// summary is believed at once: what it counts more was handed out by another hub.
func (r *Room[A]) correct(a *Agent, running int, first bool) {
	excess := running - len(a.Runs)
	switch {
	case excess <= 0:
		a.excess, a.stuck = 0, 0
	case a.excess == 0:
		a.excess, a.excessSince = excess, r.turn.Now()
		if first {
			a.stuck = excess
		}
	default:
		a.excess = min(a.excess, excess)
		a.stuck = min(a.stuck, a.excess)
		if r.turn.Now().Sub(a.excessSince) >= turn.Settling {
			a.stuck = a.excess
		}
	}
}

const (
	// AskAgain is the pause before an agent is asked again to report its cache.
	AskAgain = 5 * time.Second
	// HearsWithin bounds the delay of a dispatch and a summary together: this may not count the task yet.
	HearsWithin = 100 * time.Millisecond
	mostEnded   = 256 // tasks of which a class learns the rest later, as one beside them takes long
)

// AskAll asks an agent to report its whole cache again, unless it has just been asked.
func (r *Room[A]) AskAll(a *Agent) {
	if r.turn.Nano() >= a.askFrom {
		a.askFrom = r.turn.In(AskAgain)
		r.turn.Send(bus.ControlSubject(a.id, r.turn.Domain), &bus.HoldControl{Holdings: true})
	}
}

// TooSoon notes that an agent has reported its cache and is not sold here. The agent sees a claim as soon as
// the hub that made it, so its report may come before the hub knows of its own claim.
func (r *Room[A]) TooSoon(id string) {
	if len(r.early) < r.limits.MaxAgents {
		r.early[id] = true
	}
}
