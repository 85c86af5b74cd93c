// Package hub clears one domain: it collects tasks into rounds, expects what each would cost and be worth
// on each agent, clears and prices the round, records it, and hands the tasks to their agents.
//
// [Node] is the whole of it as a state machine: messages in, effects out, no I/O and no clock.
// Package hub/serve runs a Node on a bus, a registry and a journal.
package hub

import (
	"errors"
	"fmt"
	"time"

	"souk/bus"
	"souk/hub/account"
	"souk/hub/admission"
	"souk/hub/config"
	"souk/hub/fleet"
	"souk/hub/forecast"
	"souk/hub/meeting"
	"souk/hub/policy"
	"souk/hub/prewarm"
	"souk/hub/queue"
	"souk/hub/regime"
	"souk/hub/report"
	"souk/hub/settle"
	"souk/hub/status"
	"souk/hub/tariff"
	"souk/hub/turn"
	"souk/ledger"
)

// ErrNotLeading marks input to a Node whose hub does not lead its domain: nothing may be recorded.
var ErrNotLeading = errors.New("hub does not lead its domain")

// What a Node wants done, and the parts of it; what it is told to do; and what it counts.
type (
	Ready   = turn.Ready
	Message = turn.Message
	Funds   = turn.Funds
	Placed  = turn.Placed

	Config = config.Config
	Parts  = config.Parts
	Stats  = report.Stats

	task  = meeting.Task
	agent = meeting.Agent
	hold  = meeting.Hold
)

// Default is a hub's configuration but for its names.
func Default() Config { return config.Default() }

// Node is a hub without its wires. Its effects depend only on its configuration, its journal, its seed, and
// the order and times of its inputs. For one goroutine.
type Node struct {
	// Limit is called before every solve. The solve ends early once the function that it returns says so, if
	// that is not nil; the round then has no slot prices. It never changes what the prices are.
	Limit func() (stop func() bool)

	// These a shell may call by itself.
	Forecasts *forecast.Room // what is learned, to be kept for the next life
	Policies  *policy.Room
	Queue     *queue.Room[*meeting.Task]
	Past      *ledger.History // into which the journal is replayed, until Restore

	cfg, file Config // in force, and as configured
	turn      turn.Turn

	fleet   *fleet.Room[*agent]
	meeting *meeting.Room
	rest    bool // the next round is of whom the last left out

	prewarms *prewarm.Room[*task]
	regimes  *regime.Room

	settle    *settle.Room
	admission *admission.Room[*task]
	tariffs   *tariff.Room
	money     *account.Room

	status *status.Room
	stats  Stats
}

// NewNode returns a hub with an empty book. seed makes the salts of its records; it must be secret and new
// for every start, but for simulations.
func NewNode(cfg Config, seed [32]byte) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, file: cfg, Past: NewHistory(), stats: report.New(),
		Limit: func() func() bool { return nil }}
	n.turn = turn.New(cfg.Journal, cfg.Domain, n.Past.Book, seed)
	by := forecast.Params{Gates: cfg.Parts.Gates, Settle: cfg.Settle, Hold: cfg.Terms.Hold,
		Judging: cfg.Quality}
	n.Forecasts = forecast.New(by, func(id string) *forecast.Agent { return &n.fleet.Enrol(id).Forecast })
	n.Queue = queue.NewRoom[*task](&n.turn, cfg.Batch, cfg.MaxWaiting, waiters{n})
	n.fleet = fleet.New(&n.turn, cfg.Limits,
		func(id string) *agent { return meeting.NewAgent(n.Forecasts, id) }, func(gone *agent) {
			n.Forecasts.Drop(&gone.Forecast)
			n.settle.Forget(gone.ID())
		}, n.Queue.News)
	n.meeting = meeting.New(&n.cfg, &n.turn, n.fleet, n.Forecasts)
	n.admission = admission.NewRoom(&n.turn, cfg.Deadlines, admission.MostKnown,
		func(t *task) admission.Served { return t.Served(n.turn.Now(), n.settle.HasNoEnd) })
	n.status = status.New(&n.turn, cfg.StatusEvery)
	n.settle = settle.New(&n.turn, settle.Limits{MaxRefusals: cfg.MaxRefusals, MaxKnown: admission.MostKnown,
		KeepBodies: 32 << 20, Hedge: cfg.Hedge}, holding{n})
	n.tariffs = tariff.New(&n.turn, cfg.Epoch, cfg.Rule, n.fleet.Sellers, func() {
		for _, a := range n.fleet.All() {
			a.Reprice(n.tariffs)
		}
		n.Queue.News()
	})
	n.turn.Passed = n.Forecasts.Prefixes.Advance
	n.regimes = regime.New(&n.turn, cfg.Regimes, cfg.Regime, cfg.Parts.Toll)
	n.Policies = policy.NewRoom(&n.turn, cfg.Policies, &cfg.Parts.Policies, admission.MostKnown,
		func() bool { return n.Queue.Next() == 0 })
	n.money = account.New(&n.turn, cfg.Times, payers{n})
	n.prewarms = prewarm.New[*task](&n.turn, cfg.Prewarm)
	return n, nil
}

// NewHistory returns an empty history, which keeps what a replayed journal leaves to do.
func NewHistory() *ledger.History {
	return ledger.NewHistory(ledger.HistoryLimits{Ends: admission.MostKnown, Keep: admission.KeepIDs,
		Returns: account.MaxReturns})
}

// Book is the hub's book, to be read.
func (n *Node) Book() *ledger.Book { return n.turn.Book }

// Config returns the configuration in force: as configured, with the domain's settings over it.
func (n *Node) Config() Config { return n.cfg }

// Step takes a message in. A message that means nothing here is an error, changes nothing and is counted;
// whoever waits for an answer to it gets one all the same.
func (n *Node) Step(now time.Time, m bus.Message) (err error) {
	n.turn.Advance(now)
	defer func() {
		if err != nil {
			n.stats.Rejected++
		}
	}()
	if _, settles := m.(*bus.Completion); !n.turn.Leading && !settles {
		return ErrNotLeading
	}
	err = m.Validate()
	switch m := m.(type) {
	case *bus.Task:
		if err != nil {
			n.admission.Refuse(m, admission.CodeOf(err), 0, "%s", bus.MessageOf(err))
			return err
		}
		return requests{n}.admit(m, now)
	case *bus.Completion:
		if n.turn.Doubt != "" { // the newest journal may have more of the hold: the agent says it again
			return fmt.Errorf("completion of %s on hold %s is not taken: %s", m.Agent, m.Hold, n.turn.Doubt)
		}
		return n.settle.Completed(m, err)
	}
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *bus.DispatchReply:
		return n.settle.Replied(m)
	case *bus.Summary:
		return n.summarised(m)
	case *bus.Holdings:
		return n.reported(m)
	case *bus.Ask:
		return n.tariffs.Asked(m)
	case *bus.Cancel:
		return requests{n}.cancel(m)
	case *bus.SessionEnd:
		n.Policies.Ended(n.turn.Now(), bus.SessionKey(m.Client, m.Session))
		return nil
	case *bus.Feedback:
		return requests{n}.judged(m)
	case *bus.FundsReply:
		return n.money.Answered(m)
	case *bus.Recall:
		return n.money.Recalled(m)
	}
	return fmt.Errorf("hub: no use for a %T", m)
}

// Tick lets time pass: whatever was due by now happens.
func (n *Node) Tick(now time.Time) {
	n.turn.Advance(now)
	n.turn.Ring()
	n.money.CloseOn()
	n.admission.ForgetEnded()
}

// Ready clears the rounds that are due and returns what is to be done since the last call. Step all messages
// at hand before calling it, so that tasks that came together are cleared together.
func (n *Node) Ready() Ready {
	if n.turn.Leading {
		before := n.stats.Rounds
		for again := true; again; again = (rounds{n}).prewarm() {
			for !n.turn.Full && n.turn.Doubt == "" && n.Queue.Due(n.fleet.Free(n.Queue.Next())) {
				for _, h := range (rounds{n}).clear() {
					n.settle.Begin(&h.Hold)
				}
			}
		}
		n.turn.Out.Rounds = int(n.stats.Rounds - before)
		if n.regimes.Observe(n.fleet.Taking, waiters{n}.watched) {
			n.Queue.News()
		}
		n.Policies.Report()
		if n.status.Due() {
			n.turn.Out.Status = n.Status()
		}
		at := n.turn.Next()
		if free := n.fleet.Free(n.Queue.Next()); !n.turn.Full && n.turn.Doubt == "" && free > 0 {
			at = turn.Earlier(at, n.Queue.Deadline(free))
		}
		n.turn.Out.Wake = turn.Earlier(at, n.status.Next())
	} else if n.turn.Book.OpenCount() > 0 {
		n.turn.Out.Wake = n.turn.Next()
	}
	return n.turn.Take()
}
