// Package hub clears one domain: it collects tasks into rounds, expects what each would cost and be worth
// on each agent, clears and prices the round, records it, and hands the tasks to their agents.
//
// [Node] is the whole of it as a state machine: messages in, effects out, no I/O and no clock.
// Package hub/serve runs a Node on a bus, a registry and a journal.
package hub

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	runtimepolicy "souk/bus/policy"
	"souk/hub/batch"
	"souk/hub/policy"
	"souk/hub/predict"
	"souk/hub/prefix"
	"souk/hub/regime"
	"souk/hub/session"
	"souk/ledger"
	"souk/market"
)

// ErrNotLeading marks input to a Node whose hub does not lead its domain: nothing may be recorded.
var ErrNotLeading = errors.New("hub does not lead its domain")

// Ready is what a Node wants done, in this order. Nothing leaves before every frame of this Ready, and of
// those before it, is durable.
type Ready struct {
	Frames     []ledger.Frame // make durable first: an award nobody recorded never happened
	Dispatches []bus.Dispatch // then hand the tasks to their agents; each is answered by a DispatchReply
	// and say what follows from what is durable now: answers, acknowledgements, cancels
	Messages []Message
	Funds    []Funds        // ask the treasury; each is answered by a FundsReply with the same id
	Settle   ledger.Settled // and remember, if it is not AsItWas
	Status   *bus.Status    // nil if there is no news
	Faults   []error        // what should never happen, and did: log it loudly
	Wake     time.Time      // Tick then, if nothing arrives before; zero: no need
	Probes   []string       // suspect agents: ask whether anybody listens there, and Step an Absent if not
	Placed   []Placed       // beside Dispatches: whom each is for, and what there is to measure of it
	Rounds   int            // how many were cleared for this
	// what policies want engines to do: no agent can be told that, so a hub's process passes them by; the lab
	// has simulated engines do them, to see what they are worth
	Wishes []runtimepolicy.Effect
}

// Urgent reports whether this turn must be done at once. One that has frames, and beside them nothing but
// acknowledgements and status, can wait a little to share its sync with the next.
// A turn without frames needs no sync, so it never waits.
func (r *Ready) Urgent() bool {
	if len(r.Frames) == 0 || len(r.Dispatches) > 0 || len(r.Funds) > 0 || len(r.Probes) > 0 {
		return true
	}
	for _, l := range r.Messages {
		if _, ack := l.Body.(*bus.CompletionAck); !ack {
			return true
		}
	}
	return false
}

// Message is what is said to a subject.
type Message struct {
	Subject string
	Body    bus.Message
}

// Funds is a request to the treasury.
type Funds struct {
	Op      string
	Request bus.FundsRequest
}

// Placed says which agent a dispatch is for and when its task arrived. Free means that the task had to wait
// for nothing (there was a free slot, the money was there, and no task was ahead), so that all the time since
// was spent by the hub itself.
type Placed struct {
	Agent   string
	Arrived time.Time
	Free    bool
}

// Empty reports whether there is nothing to do but wait.
func (r *Ready) Empty() bool {
	return len(r.Frames) == 0 && len(r.Dispatches) == 0 && len(r.Messages) == 0 && len(r.Funds) == 0 &&
		len(r.Probes)+len(r.Wishes) == 0 && r.Status == nil && len(r.Faults) == 0 &&
		r.Settle == ledger.AsItWas
}

// Node is a hub without its wires. Its effects depend only on its configuration, its journal, its seed, and
// the order and times of its inputs. For one goroutine.
type Node struct {
	// Limit, if not nil, is called before every solve. The solve ends early once the function that it returns
	// says so; the round then has no slot prices. It never changes what the prices are.
	Limit func() (stop func() bool)

	cfg   Config
	file  settings // as configured; cfg holds what is in force
	book  *ledger.Book
	salts *rand.ChaCha8

	now time.Time // never goes back
	// now in nanoseconds since 1970, by the monotonic clock: setting the wall clock does not move it
	nano     int64
	past     bool            // now was read from the journal's last frame, and not yet from a clock
	history  *ledger.History // until Restore
	heard    time.Time       // when the message being stepped came; may be a little before now
	epoch    int64
	leading  bool
	draining bool
	full     bool   // the journal takes no new holds
	doubt    string // why the journal may not be the newest, and nothing is taken in: see marks.go; ""
	closing  bool   // the hub ends: see Close
	notEnded string // why the treasury has not ended it

	roster   []*agent         // sorted by id
	early    map[string]bool  // agents not sold here that have said what they hold: see tooSoon
	classes  *predict.Classes // of those that are forecast alike
	outputs  *predict.Outputs // how long answers are
	prefixes *prefix.Index    // what they are believed to hold
	seeds    seeds
	sessions sessions
	kinds    kinds
	runtime  runtime
	regimes  regimes
	batch    *batch.Batch[*task]
	room     room
	slots    int // of all agents that are sold here
	round    scratch
	plan     planning
	hedges   hedges

	led     time.Time // since when
	reached time.Time // when the bus was last there again
	cut     bool      // it is away
	hears   time.Time // until then completions may still come that were sent while the bus was away
	bodies  int       // bytes kept of tasks that run

	known   map[taskKey]*task // open, and ended ones as long as they are remembered
	ended   []*task           // remembered, in the order of their end, from index forgot on
	forgot  int
	open    int
	waiting int // in batch

	holds    map[string]*hold
	acks     *bounded.Cache[string, string, bus.Code]      // of ended holds, by client
	lookups  *bounded.Cache[string, taskKey, []doorLookup] // of tasks that are not known
	timers   timers
	sales    map[string]*sale // under pricing tariff, by class
	accounts map[string]*account
	opened   uint64 // accounts, so far
	treasury treasury
	marks    heardOf

	status statusState
	stats  Stats
	out    Ready
}

// NewNode returns a hub with an empty book. seed makes the salts of its records; it must be secret and new
// for every start, but for simulations.
func NewNode(cfg Config, seed [32]byte) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	past := NewHistory(cfg)
	n := &Node{
		cfg: cfg, file: settings{cfg.Batch, cfg.Rule}, history: past, book: past.Book(),
		salts:   rand.NewChaCha8(seed),
		classes: predict.NewClasses(cfg.Prior, cfg.Parts.Gates), outputs: predict.NewOutputs(cfg.Parts.Gates),
		kinds: kinds{all: map[kindOf]*kind{}},
		batch: batch.New[*task](cfg.Batch),
		known: map[taskKey]*task{}, holds: map[string]*hold{}, accounts: map[string]*account{},
		acks:     bounded.New[string, string, bus.Code](cfg.MaxKnown, 0),
		lookups:  bounded.New[string, taskKey, []doorLookup](maxLookups, 0),
		prefixes: prefix.NewIndex(cfg.Prefix),
		early:    map[string]bool{},
		treasury: newTreasury(), marks: heardOf{among: map[string]bool{}}, sales: map[string]*sale{},
		stats: newStats(),
	}
	n.prefixes.Spread(secretOf(seed, "marks"))
	n.regimes.watch = regime.NewWatch(cfg.Regimes)
	n.runtime.host = policy.New(cfg.Policies, &cfg.Parts.Policies, cfg.MaxKnown)
	n.runtime.tick.owner = &n.runtime
	n.plan.again.owner, n.plan.spent.owner = &n.plan, &n.plan.spent
	n.sessions.table, n.sessions.sweep.owner = session.New(cfg.Sessions), &n.sessions
	n.seeds.uses = bounded.New[uint64, uint64, uses](usesKept, 0)
	n.treasury.again.owner, n.treasury.sweep.timer.owner = &n.treasury, &n.treasury.sweep
	return n, nil
}

// NewHistory is what is kept of a journal while it is replayed.
func NewHistory(cfg Config) *ledger.History {
	return ledger.NewHistory(ledger.HistoryLimits{Ends: cfg.MaxKnown, Keep: cfg.KeepIDs, Returns: maxReturns})
}

// Book is the hub's book, to be read.
func (n *Node) Book() *ledger.Book { return n.book }

// Past is what the journal is replayed into, from its first frame or a snapshot; nil after Restore.
func (n *Node) Past() *ledger.History { return n.history }

// Config is what is in force: as configured, with the domain's settings over it.
func (n *Node) Config() Config { return n.cfg }

// Step takes a message in. A message that means nothing here is an error, changes nothing and is counted;
// whoever waits for an answer to it gets one all the same.
func (n *Node) Step(now time.Time, m bus.Message) error {
	n.advance(now)
	n.heard = now
	err := n.step(m)
	if err != nil {
		n.stats.Rejected++
	}
	return err
}

func (n *Node) step(m bus.Message) error {
	if _, settles := m.(*bus.Completion); !n.leading && !settles {
		return ErrNotLeading
	}
	err := m.Validate()
	switch m := m.(type) {
	case *bus.Task:
		if err != nil {
			n.refuse(m, codeOr(err, bus.CodeBadRequest), 0, "%s", bus.MessageOf(err))
			return err
		}
		return n.admit(m)
	case *bus.Completion:
		if n.doubt != "" { // the newest journal may have the hold, or more of it: the agent says it again
			return fmt.Errorf("completion of %s on hold %s is not taken: %s", m.Agent, m.Hold, n.doubt)
		}
		if err != nil {
			return n.unfit(m, err)
		}
		return n.complete(m)
	case *bus.DispatchReply:
		if err != nil {
			return err
		}
		return n.replied(m)
	case *bus.Summary:
		if err != nil {
			n.stats.BadSummaries++
			return err
		}
		return n.summarised(m)
	case *bus.Holdings:
		if err != nil {
			n.stats.BadSummaries++
			return err
		}
		return n.reported(m)
	case *bus.Ask:
		if err != nil {
			return err
		}
		return n.asked(m)
	case *bus.Cancel:
		if err != nil {
			return err
		}
		return n.cancel(m)
	case *bus.SessionEnd:
		if err != nil {
			return err
		}
		n.SessionEnded(n.now, m.Client, m.Session)
		return nil
	case *bus.Feedback:
		if err != nil {
			return err
		}
		return n.judged(m)
	case *bus.FundsReply:
		if err != nil {
			return err
		}
		return n.funded(m)
	case *bus.Recall:
		if err != nil {
			return err
		}
		return n.recall(m)
	}
	return fmt.Errorf("hub: no use for a %T", m)
}

// Tick lets time pass: whatever was due by now happens.
func (n *Node) Tick(now time.Time) {
	n.advance(now)
	for t := n.timers.pop(n.now); t != nil; t = n.timers.pop(n.now) {
		t.owner.due(n)
	}
	n.closeOn()
	n.forgetEnded()
}

// Ready clears the rounds that are due and returns what is to be done since the last call. Step all messages
// at hand before calling it, so that tasks that came together are cleared together.
func (n *Node) Ready() Ready {
	if n.leading {
		before := n.stats.Rounds
		for again := true; again; again = n.sow() {
			for !n.full && n.doubt == "" && n.batch.Due(n.now, n.freeSlots(n.batch.Len())) {
				n.clear()
			}
		}
		n.out.Rounds = int(n.stats.Rounds - before)
		n.observe()
		n.policyFaults()
		n.report()
		n.out.Wake = n.wake()
	} else if len(n.holds) > 0 {
		n.out.Wake = n.timers.next()
	}
	out := n.out
	n.out = Ready{}
	return out
}

// wake is when there is next something to do.
func (n *Node) wake() time.Time {
	at := n.timers.next()
	if !n.full && n.doubt == "" && n.batch.Len() > 0 && n.freeSlots(1) > 0 {
		at = earlier(at, n.batch.Deadline())
	}
	return earlier(at, n.status.next)
}

// earlier is the earlier of two times, the zero time being none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// advance sets now, and what is believed to be in caches by then.
func (n *Node) advance(now time.Time) {
	n.setClock(now)
	n.prefixes.Advance(n.nano)
}

// setClock sets now, unless the clock went back. The first time after a restart is always taken, even if it
// is before the journal's last frame: otherwise nothing would be due until the clock has caught up.
func (n *Node) setClock(now time.Time) {
	switch {
	case n.past || n.now.IsZero():
		n.now, n.nano, n.past = now, now.UnixNano(), false
	case now.After(n.now):
		n.nano += now.Sub(n.now).Nanoseconds()
		n.now = now
	}
}

// at is a moment from now as nanoseconds, to be compared with nano.
func (n *Node) at(from time.Duration) int64 { return n.nano + from.Nanoseconds() }

// commit makes one frame of records and puts it first among what is to be done, or changes nothing.
func (n *Node) commit(records ...ledger.Record) error {
	seq, epoch, last := n.book.Last()
	records = n.withMark(records)
	f := ledger.Frame{
		Version: ledger.FrameVersion, Epoch: max(n.epoch, epoch), Seq: seq + 1,
		Time: max(n.now.UnixNano(), last), Records: records,
	}
	if err := n.book.ApplyFrame(f); err != nil {
		return err
	}
	n.out.Frames = append(n.out.Frames, f)
	n.wrote(&f)
	return nil
}

func (n *Node) salt() (s [16]byte) {
	n.salts.Read(s[:])
	return s
}

// send adds a message.
func (n *Node) send(subject string, m bus.Message) {
	if subject != "" {
		n.out.Messages = append(n.out.Messages, Message{subject, m})
	}
}

// fault reports something that should never happen.
func (n *Node) fault(err error) {
	n.stats.Faults++
	n.out.Faults = append(n.out.Faults, err)
}

// news says that what did not fit may fit now: all who were left are considered again.
func (n *Node) news() {
	n.batch.News()
	n.status.changed = true
}

func codeOr(err error, code bus.Code) bus.Code {
	if c := bus.CodeOf(err); c != bus.CodeInternal && c != "" {
		return c
	}
	return code
}

// money says an amount for people.
func money(c market.Credits) string { return c.String() + " credits" }

// secretOf is a number by a hub's seed, for one use.
func secretOf(seed [32]byte, use string) uint64 {
	sum := sha256.Sum256(append([]byte(use), seed[:]...))
	return binary.LittleEndian.Uint64(sum[:])
}
