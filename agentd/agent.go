package agentd

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/agentd/holdings"
	"souk/agentd/kvevent"
	"souk/agentd/policy"
	"souk/bus"
)

// Agent is the state machine of one agent: which hub may use its slots, which tasks it runs, and which
// completions its hubs have not acknowledged. Values in, values out; one caller at a time.
//
// It is the authority on its own slots: whatever hubs believe, no slot is sold twice.
type Agent struct {
	cfg  AgentConfig
	lim  Config
	info Info
	boot int64
	// random, and known to this process alone
	secret [32]byte
	pools  string
	open   bool // the configuration names no model: the first that the engine serves is sold

	state    string
	draining bool
	claim    *bus.Claim // nil: no hub sells our slots
	Fence    int64      // of the latest claim ever seen: a dispatch under an earlier one is refused
	running  int
	prefills int // of these, tasks of which the engine has said nothing yet
	watched  []watched
	holds    map[string]*hold
	order    []string         // of holds, oldest first
	pending  []*pendingReport // not acknowledged
	engine   *holdings.State  // what its cache holds
	policies *policy.Host
	adapters

	generated *int64 // tokens, as the engine last counted them
	full      full
	noQueue   bool      // the engine has refused a task beyond its slots
	without   string    // feature: the kind of tasks that the engine has no endpoint for
	askAt     time.Time // when it is asked for that again
	served    string    // such features that it cannot have, as it has answered

	seq        uint64    // of the last summary
	summarised time.Time // when it was sent
	now        time.Time // by the caller's clock, when it was last asked what is to be done
	news       bool      // something has changed since
	extra      int       // so many more summaries follow soon
	counts     Counts
}

// hold records a dispatch, so that a repeated dispatch gets the same reply.
//
//	state    what it means                                    what comes next
//	closed   it was refused, or its completion acknowledged   forgotten when maxHolds younger ones have come
//	serving  the engine works on it                           pending
//	pending  its hub has not acknowledged the completion      closed
type hold struct {
	client, task string
	attempt      int
	reply        bus.DispatchReply
	state        holdState
	beyond       bool // it came when all slots were taken
	began        bool // the engine has said something, or failed to
	former       bool // an earlier life served it: only its completion is left
}

// watched is a hold without a token yet, whose hub wants to hear if none comes in time.
type watched struct {
	id     string
	within time.Duration // of when the machine first saw it
	due    time.Time     // zero: it has not seen it
	late   bool
}

type holdState uint8

const (
	closed holdState = iota
	serving
	pending
)

// pendingReport is a completion that its hub has not acknowledged.
type pendingReport struct {
	Report
	since   time.Time // of the first failure to send it
	due     time.Time
	tries   int
	sending bool
}

// maxHolds bounds the dispatches remembered beside those that are served or pending: a repeated dispatch
// comes within seconds.
const maxHolds = 4096

// NewAgent makes the machine for an engine that is ready. boot rises with every start of the node; secret is
// random, and known to this process alone.
func NewAgent(cfg AgentConfig, limits Config, info Info, boot int64, secret [32]byte) *Agent {
	limits = limits.WithDefaults()
	open := cfg.Model == ""
	if open && len(info.Models) > 0 {
		cfg.Model = info.Models[0]
	}
	pools := cfg.registration("", 0, info, "").Pools
	if pools != "" { // and what comes of that is no output
		cfg.Price.Out = 0
	}
	a := &Agent{cfg: cfg, pools: pools, lim: limits, info: info, boot: boot, secret: secret, open: open,
		state: bus.StateReady,
		holds: map[string]*hold{}, news: true,
		policies: policy.New(limits.Policies, limits.knownPolicies(&cfg.Engine)),
		counts:   Counts{Refused: map[bus.Code]int64{}}}
	blocks := sha256.Sum256(append(secret[:], "names of blocks"...))
	a.engine = holdings.New(info.BlockSize, info.KVTokens, xxhash.Sum64String(cfg.ID)+uint64(boot), blocks)
	a.engine.Adapter(info.adapter(cfg.Model))
	return a
}

// Registration is the agent's entry in the registry as of now.
func (a *Agent) Registration(node string) *bus.Registration {
	r := a.cfg.registration(node, a.boot, a.info, a.State())
	r.Former = a.Former()
	if r.KVTokens = a.room(); a.without != "" {
		r.Features = append(r.Features, a.without)
	}
	return r
}

// room returns the tokens of its engine's cache that the agent can count on. Agents that sell one engine
// share its cache in proportion to their slots.
func (a *Agent) room() int { return a.lim.part(&a.cfg, a.info.KVTokens) }

// Model returns the model that the agent sells: the configured one, else the one its engine serves.
func (a *Agent) Model() string { return a.cfg.Model }

// State returns the agent's state for the registry and summaries.
func (a *Agent) State() string {
	if a.draining {
		return bus.StateDraining
	}
	return a.state
}

// Domain returns where summaries go: to the hub that sells our slots, else to the one that we would join.
func (a *Agent) Domain() string {
	if a.claim != nil {
		return a.claim.Domain
	}
	return a.cfg.Domains[0].Domain
}

// Claimed tells which hub sells the agent's slots now; nil: none does. A claim that another one has followed
// already is ignored: the registry's watch may be behind its answers.
func (a *Agent) Claimed(c *bus.Claim) {
	if c != nil && (c.Agent != a.cfg.ID || c.Fence < a.Fence) {
		return
	}
	a.claim, a.news = c, true
	if c != nil && c.Fence > a.Fence { // a new hub has missed what was sent before
		a.dueNow()
		a.engine.NewHub()
		a.Fence = c.Fence
	}
}

// Unclaimed tells that the claim of a fence is gone, which changes nothing if a later one is known.
func (a *Agent) Unclaimed(rev int64) {
	if rev >= a.Fence {
		a.Claimed(nil)
	}
}

// Healthy tells that the engine is well, and how many tokens it has generated so far, nil if unknown. A count
// that went back shows that the engine has started anew, with an empty cache.
func (a *Agent) Healthy(generated *int64) {
	if was := a.generated; was != nil && generated != nil && *generated < *was {
		a.restarted()
	}
	a.generated = generated
	a.healthy(bus.StateReady)
}

// WrongModel is the error for an engine that does not serve the configured model.
func WrongModel(serves []string, model string) error {
	return fmt.Errorf("the engine serves %q, not %q: correct the agent's model, or leave it out to sell "+
		"whatever the engine serves", serves, model)
}

// Returned tells that an engine which was away is back: perhaps another process, with an empty cache and
// other sizes. If it no longer serves the model, the agent sells what it serves now, if the configuration
// names no model; if it names one, that is an error.
func (a *Agent) Returned(info Info) error {
	if !slices.Contains(info.Models, a.cfg.Model) {
		if !a.open || len(info.Models) == 0 {
			return WrongModel(info.Models, a.cfg.Model)
		}
		a.cfg.Model = info.Models[0]
	}
	if pools := a.cfg.registration("", 0, info, "").Pools; pools != a.pools {
		return fmt.Errorf("the engine served %s, and serves %s now: start the agent again", bus.Routes(a.pools),
			bus.Routes(pools))
	}
	a.engine.Adapter(info.adapter(a.cfg.Model))
	was := a.info
	a.info = info
	if info.BlockSize != was.BlockSize || info.KVTokens != was.KVTokens {
		a.engine.Became(info.BlockSize, info.KVTokens)
	}
	a.restarted()
	return nil
}

// restarted notes that the engine started anew, with an empty cache. One that publishes events has told that
// itself, and may have stored more since.
func (a *Agent) restarted() {
	a.full, a.noQueue, a.without, a.served = full{}, false, "", ""
	if a.news = true; a.engine.Evidence() == bus.EvidenceInferred {
		a.engine.Restarted()
	}
}

// Events takes in events of the engine's cache.
func (a *Agent) Events(u kvevent.Update) {
	switch {
	case u.Restarted:
		a.engine.Listen()
		a.engine.Restarted()
	case u.Blind:
		a.engine.Blind()
	}
	if b := &u.Batch; len(b.Events) > 0 || b.Bad > 0 || b.Lost {
		a.engine.Apply(*b)
	}
}

// Asked tells that a domain's hub has missed a report of the cache.
func (a *Agent) Asked(domain string) {
	if a.claim != nil && a.claim.Domain == domain {
		a.engine.Asked()
	}
}

// Unhealthy tells that the engine does not answer, or hangs. Running tasks go on; new ones are refused.
func (a *Agent) Unhealthy() { a.healthy(bus.StateUnhealthy) }

func (a *Agent) healthy(state string) {
	if a.state != state {
		a.state, a.news = state, true
	}
}

// Drain stops new work for good.
func (a *Agent) Drain() { a.draining, a.news = true, true }

// Restore takes in the completions of earlier lives that no hub has acknowledged.
func (a *Agent) Restore(left []Report) {
	for _, r := range left {
		a.pending = append(a.pending, &pendingReport{Report: r})
		a.remember(r.Completion.Hold,
			&hold{client: r.Completion.Client, task: r.Completion.Task, former: true, state: pending,
				reply: bus.DispatchReply{Agent: a.cfg.ID, Boot: r.Completion.Boot,
					Hold: r.Completion.Hold}})
	}
}

// maxFormer bounds the earlier lives that a registration names: more have not died within the life of a hold.
const maxFormer = 8

// Former are the boots of earlier lives with pending completions, at most maxFormer of them.
func (a *Agent) Former() (boots []int64) {
	for _, p := range slices.Backward(a.pending) {
		b := p.Completion.Boot
		if b != a.boot && !slices.Contains(boots, b) && len(boots) < maxFormer {
			boots = append(boots, b)
		}
	}
	return boots
}

// Pending returns the completions that their hubs have not acknowledged; with the id of a hold, only its own.
func (a *Agent) Pending(id string) (out []Report) {
	for _, p := range a.pending {
		if id == "" || p.Completion.Hold == id {
			out = append(out, p.Report)
		}
	}
	return out
}

// Idle reports whether nothing runs; Settled whether nothing waits for an acknowledgement either.
func (a *Agent) Idle() bool { return a.running == 0 }

func (a *Agent) Settled() bool { return a.running == 0 && len(a.pending) == 0 }

// Ended frees the run's slot and returns its completion, with what only the agent knows filled in. The caller
// sends it now, and calls Acked or Unsent.
func (a *Agent) Ended(d *bus.Dispatch, e *Ending) bus.Completion {
	c := &e.Completion
	a.began(d, nil) // or never will
	a.running--
	a.news = true
	c.Boot = a.boot
	if h := a.holds[d.Hold]; c.Code == bus.CodeNoSlot && h != nil && h.beyond {
		a.noQueue = true // of its slots nothing is known by that
	} else if c.Code == bus.CodeNoSlot {
		a.full.refuses(a.now, d.Task.Client, a.running, e.Again)
	}
	if no := bus.Without(d.Task.Kind); e.Missing {
		switch e.Missing = false; {
		case no == a.without: // this one was under way
		case a.without == "" && !strings.Contains(a.served, no): // it is sold for others
			a.without, e.Missing = no, true
		default: // it had one before, or has none at all
			e.Engine = true
		}
	}
	if h := a.holds[d.Hold]; h != nil {
		h.state = pending
	}
	a.pending = append(a.pending, &pendingReport{Report: Report{d.Domain, *c}, sending: true})
	a.counts.ended(c)
	a.hearEnded(d, e)
	return *c
}

// Acked tells that a hub has acknowledged a completion. CodeLate means that the hold had ended and nothing
// was paid; CodeMoved, that the hub gave the task to another agent.
func (a *Agent) Acked(id string, code bus.Code) {
	a.pending = slices.DeleteFunc(a.pending, func(p *pendingReport) bool { return p.Completion.Hold == id })
	if h := a.holds[id]; h != nil && h.state == pending {
		h.state = closed
		switch code {
		case bus.CodeLate:
			a.counts.Late++
		case bus.CodeMoved:
			a.counts.Moved++
		}
	}
}

// Unsent tells that nobody acknowledged a completion; it is due again after a pause that doubles. jitter,
// from 0 to 1, spreads the agents that wait for one hub. It returns true if the completion is abandoned: its
// hold expired long ago, so that even an acknowledgement would pay nothing.
func (a *Agent) Unsent(now time.Time, id string, jitter float64) (abandoned bool) {
	for _, p := range a.pending {
		if p.Completion.Hold != id {
			continue
		}
		if p.since.IsZero() {
			p.since = now
		}
		if now.Sub(p.since) > keepCompletions {
			a.Acked(id, "")
			a.counts.Abandoned++
			return true
		}
		pause := retryMax
		if p.tries < 20 {
			pause = min(pause, retryMin<<p.tries)
		}
		p.sending, p.due = false, now.Add(pause/2+time.Duration(jitter*float64(pause/2)))
		p.tries++
		return false
	}
	return false
}
