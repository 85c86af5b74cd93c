package agentd

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/agentd/holdings"
	"souk/agentd/kvevent"
	"souk/agentd/policy"
	"souk/bus"
	runtimepolicy "souk/bus/policy"
	"souk/hub/congest"
	"souk/market"
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
	open   bool // the configuration names no model: the first that the engine serves is sold

	state    string
	draining bool
	claim    *bus.Claim // nil: no hub sells our slots
	fence    int64      // of the latest claim ever seen: a dispatch under an earlier one is refused
	running  int
	prefills int // of these, tasks of which the engine has said nothing yet
	ahead    int // tokens that it has yet to compute for them
	unsure   int // of these tasks, those of which nobody here knows how many that are
	watched  []watched
	holds    map[string]*hold
	order    []string         // of holds, oldest first
	pending  []*pendingReport // not acknowledged
	engine   *holdings.State  // what its cache holds
	texts    texts
	touching int // touches that the engine works on
	ttft     mean
	congest  congest.Line
	policies *policy.Host
	adapters

	generated *int64 // tokens, as the engine last counted them
	evicts    evicts

	seq        uint64    // of the last summary
	summarised time.Time // when it was sent
	now        time.Time // by the caller's clock, when it was last asked what is to be done
	news       bool      // something has changed since
	extra      int       // so many more summaries follow soon
	counts     Counts
}

// hold is what the agent remembers of a dispatch, so that the same one again gets the same reply.
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
	others       int  // tasks that ran when it began
	ahead        int  // tokens to compute before the engine says anything; it has begun where this is -1
	unsure       bool // that is as if the engine held nothing, as nobody here knows what it holds
	expected     holdings.Expected
	former       bool // an earlier life served it: only its completion is left
	// of prompt and answer so far, where they are kept for touches
	ids    []uint32
	prompt int // of these, the prompt's
}

// watched is a hold of which no token has come yet, and whose hub wants to hear if none comes in time.
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

// maxHolds is how many dispatches are remembered beside those that are served or pending: a repeated dispatch
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
	a := &Agent{cfg: cfg, lim: limits, info: info, boot: boot, secret: secret, open: open,
		state: bus.StateReady,
		texts: newTexts(textsKept), holds: map[string]*hold{}, news: true,
		policies: policy.New(limits.Policies, limits.knownPolicies(&cfg.Engine)),
		counts:   Counts{Refused: map[bus.Code]int64{}}}
	blocks := sha256.Sum256(append(secret[:], "names of blocks"...))
	a.engine = holdings.New(info.BlockSize, info.KVTokens, xxhash.Sum64String(cfg.ID)+uint64(boot), blocks)
	if at := cfg.Engine.KVEvents.Endpoint; at != "" && at != kvevent.NoEvents {
		a.engine.Want()
	}
	return a
}

// Registration is the agent's entry in the registry as of now.
func (a *Agent) Registration(node string) *bus.Registration {
	r := a.cfg.registration(node, a.boot, a.info, a.State())
	r.Tiers, r.Measured, r.Former = a.tiers(), len(a.cfg.Tiers) == 0, a.Former()
	return r
}

// Model is what the agent sells: as configured, else what its engine serves.
func (a *Agent) Model() string { return a.cfg.Model }

// Fence is that of the latest claim ever seen.
func (a *Agent) Fence() int64 { return a.fence }

// State is what the registry and summaries say.
func (a *Agent) State() string {
	if a.draining {
		return bus.StateDraining
	}
	return a.state
}

// Domain is where summaries go: to the hub that sells our slots, else to the one that we would join.
func (a *Agent) Domain() string {
	if a.claim != nil {
		return a.claim.Domain
	}
	return a.cfg.Domains[0].Domain
}

// Claimed says which hub sells the agent's slots now; nil: none does. A claim that another one has followed
// already is ignored: the registry's watch may be behind its answers.
func (a *Agent) Claimed(c *bus.Claim) {
	if c != nil && (c.Agent != a.cfg.ID || c.Fence < a.fence) {
		return
	}
	a.claim, a.news = c, true
	if c != nil && c.Fence > a.fence { // a new hub has missed what was sent before
		a.dueNow()
		a.engine.Claimed()
		a.fence = c.Fence
	}
}

// Unclaimed says that the claim of a fence is gone, which changes nothing if a later one is known.
func (a *Agent) Unclaimed(rev int64) {
	if rev >= a.fence {
		a.Claimed(nil)
	}
}

// Healthy says that the engine is well, and how many tokens it has generated so far, nil where it does not
// tell. A count that went back is an engine that started anew, with an empty cache.
func (a *Agent) Healthy(generated *int64) {
	if was := a.generated; was != nil && generated != nil && *generated < *was {
		a.restarted()
	}
	a.generated = generated
	a.healthy(bus.StateReady)
}

// Evicts takes in how many blocks the engine has given up so far, and how long nobody had asked for them
// then, in seconds, all together. What is not a number, or goes down, says nothing: the engine has started
// again.
func (a *Agent) Evicts(blocks, idle float64) {
	e := &a.evicts
	if n, s := blocks-e.blocks, idle-e.idle; n > 0 && s >= 0 && e.seen {
		age := time.Duration(min(s/n, mostIdle.Seconds()) * float64(time.Second))
		if e.age == 0 {
			e.age = age
		}
		e.age += time.Duration(n / (n + evictMemory) * float64(age-e.age))
	}
	*e = evicts{blocks: blocks, idle: idle, age: e.age, seen: blocks >= 0 && idle >= 0}
}

// evicts is how old blocks are that the engine gives up.
type evicts struct {
	blocks, idle float64 // so far
	seen         bool
	age          time.Duration
}

const (
	evictMemory = 32 // blocks that were given up before count as much as so many anew
	mostIdle    = 24 * time.Hour
)

// Returned says that an engine which was away is back: perhaps another process, with an empty cache and other
// sizes. If it no longer serves the model, the agent sells what it serves now, if the configuration names no
// model; if it names one, that is an error.
func (a *Agent) Returned(info Info) error {
	if !slices.Contains(info.Models, a.cfg.Model) {
		if !a.open || len(info.Models) == 0 {
			return fmt.Errorf("the engine serves %q, not %q: correct the agent's model, or leave it out to "+
				"sell whatever the engine serves", info.Models, a.cfg.Model)
		}
		a.cfg.Model, a.congest = info.Models[0], congest.Line{}
	}
	if info.BlockSize != a.info.BlockSize || info.KVTokens != a.info.KVTokens {
		a.engine.Became(info.BlockSize, info.KVTokens)
	}
	a.info = info
	a.restarted()
	return nil
}

// restarted is for an engine that started anew, and so holds nothing. One that says what it stores says that,
// too, and may have said more since.
func (a *Agent) restarted() {
	if a.news = true; a.engine.Evidence() == bus.EvidenceMirror {
		a.engine.Restarted()
	}
}

// Events takes in what the engine says of its cache.
func (a *Agent) Events(now time.Time, u kvevent.Update) {
	switch {
	case u.Restarted:
		a.engine.Listen()
		a.engine.Restarted()
	case u.Blind:
		a.engine.Blind()
	}
	if b := &u.Batch; len(b.Events) > 0 || b.Bad > 0 || b.Lost {
		a.engine.Apply(now, *b)
	}
}

// Asked says that a domain's hub has missed what the agent holds.
func (a *Agent) Asked(domain string) {
	if a.claim != nil && a.claim.Domain == domain {
		a.engine.Asked()
	}
}

// Unhealthy says that the engine does not answer, or hangs. What runs goes on; nothing new is accepted.
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
				reply: bus.DispatchReply{Agent: a.cfg.ID, Hold: r.Completion.Hold}})
	}
}

// maxFormer is how many earlier lives a registration names: more have not died within the life of a hold.
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
func (a *Agent) Idle() bool    { return a.running == 0 }
func (a *Agent) Settled() bool { return a.running == 0 && len(a.pending) == 0 }

// Dispatch accepts or refuses a hub's dispatch; domain is the sender, as its subject says. If start is true,
// the caller serves it now. The same hold again gets the same reply and is not served again. A refusal with
// CodeNotClaimed is not remembered, since news of the claim may be on its way.
func (a *Agent) Dispatch(domain string, d *bus.Dispatch) (reply bus.DispatchReply, start bool) {
	if h, ok := a.holds[d.Hold]; ok {
		if h.client != d.Task.Client || h.task != d.Task.ID || h.attempt != d.Task.Attempt && !h.former {
			return a.refusal(d, bus.CodeIDConflict, "the hold was used for another task"), false
		}
		return h.reply, false
	}
	code, why := a.judge(domain, d)
	if d.Kind == bus.DispatchPrefetch {
		return a.refusal(d, bus.CodeUnsupportedField, "kind: a touch is no task"), false
	}
	if code == bus.CodeNotClaimed {
		return a.refusal(d, code, why), false
	}
	h := &hold{client: d.Task.Client, task: d.Task.ID, attempt: d.Task.Attempt,
		reply: bus.DispatchReply{Agent: a.cfg.ID, Hold: d.Hold}}
	if code != "" {
		h.reply = a.refusal(d, code, why)
	} else {
		h.state, h.others = serving, a.running
		h.ahead = max(1, d.Task.Prompt.Tokens-a.engine.Held(&d.Task.Prompt))
		a.running++
		a.prefills++
		a.ahead += h.ahead
		if d.WatchMS > 0 {
			a.watched = append(a.watched, watched{id: d.Hold,
				within: time.Duration(d.WatchMS) * time.Millisecond})
		}
		if h.unsure = a.engine.Marks() == 0; h.unsure {
			a.unsure++
		}
		a.news = true
		a.counts.Accepted++
		a.hearArrived(d)
	}
	a.remember(d.Hold, h)
	return h.reply, code == ""
}

// Misled counts a dispatch whose answer was to go elsewhere than to its hub: it is not even refused.
func (a *Agent) Misled() { a.counts.Refused[bus.CodeBadRequest]++ }

func (a *Agent) refusal(d *bus.Dispatch, code bus.Code, why string) bus.DispatchReply {
	a.counts.Refused[code]++
	return bus.DispatchReply{Agent: a.cfg.ID, Hold: d.Hold, Code: code, Message: why}
}

// judge says why a dispatch is refused; "" if it is not.
func (a *Agent) judge(domain string, d *bus.Dispatch) (bus.Code, string) {
	switch {
	case d.Domain != domain:
		return bus.CodeBadRequest, fmt.Sprintf("domain: %s says that it is %s", domain, d.Domain)
	case d.Task.Reply == "" && d.Kind == bus.DispatchTask || d.Task.Reply != "" && !names(d.Task.Reply):
		return bus.CodeBadRequest, fmt.Sprintf("reply: %.80q is not a subject for answers", d.Task.Reply)
	case d.Kind == bus.DispatchPrefetch && !a.cfg.Touches:
		return bus.CodeUnsupportedField, "kind: this agent does not prefetch"
	case d.MaxTokens < 1:
		return bus.CodeBadRequest, "max_tokens: a dispatch always sets it"
	case d.Model != "" && d.Model != a.cfg.Model:
		return bus.CodeUnknownModel,
			fmt.Sprintf("model: %.80q is not served here, %q is", d.Model, a.cfg.Model)
	case d.Price != a.cfg.Price:
		return bus.CodeBadTerms,
			fmt.Sprintf("price: the quote was made from %v, this agent's card is %v", d.Price, a.cfg.Price)
	case a.draining:
		return bus.CodeDraining, "the agent is shutting down"
	// its hub has not heard yet that the agent was started again; when it does, it voids such holds
	case d.Boot != 0 && d.Boot != a.boot:
		return bus.CodeStaleEpoch, "the dispatch is for another start of this agent"
	case d.Fence != 0 && d.Fence < a.fence:
		return bus.CodeStaleEpoch,
			fmt.Sprintf("fence: claim %d has been followed by claim %d", d.Fence, a.fence)
	case a.claim == nil:
		return bus.CodeNotClaimed, "no hub sells this agent's slots"
	case a.claim.Domain == domain && d.Epoch < a.claim.Epoch: // from a hub that knows no fences
		return bus.CodeStaleEpoch, fmt.Sprintf("epoch: %d has been followed by %d", d.Epoch, a.claim.Epoch)
	case d.Fence != 0 && d.Fence != a.claim.Fence:
		return bus.CodeNotClaimed,
			fmt.Sprintf("the slots are sold by %s under claim %d", a.claim.Domain, a.claim.Fence)
	case a.claim.Domain != domain || a.claim.Epoch != d.Epoch:
		return bus.CodeNotClaimed,
			fmt.Sprintf("the slots are sold by %s, epoch %d", a.claim.Domain, a.claim.Epoch)
	// the hub's count of free slots says which tier it is: the agent checks only that it may exist
	case d.Tier >= market.MaxTiers:
		return bus.CodeBadRequest, fmt.Sprintf("tier: %d, an agent has at most %d", d.Tier, market.MaxTiers)
	case a.state != bus.StateReady:
		return bus.CodeNoSlot, "the engine is unhealthy"
	case a.running >= a.cfg.sold():
		return bus.CodeNoSlot, fmt.Sprintf("all %d slots are taken", a.cfg.sold())
	case len(a.pending)+a.running >= a.lim.MaxCompletions:
		return bus.CodeNoSlot, fmt.Sprintf("%d completions are not acknowledged", len(a.pending))
	}
	return "", ""
}

// remember keeps a hold and forgets the oldest closed one.
func (a *Agent) remember(id string, h *hold) {
	a.holds[id] = h
	a.order = append(a.order, id)
	for tries := len(a.order) - maxHolds; tries > 0; tries-- {
		old := a.order[0]
		a.order = a.order[1:]
		if a.holds[old].state != closed {
			a.order = append(a.order, old)
			continue
		}
		delete(a.holds, old)
	}
}

// Begin is the run of an accepted dispatch.
func (a *Agent) Begin(d *bus.Dispatch) *Run {
	r := NewRun(d, a.cfg.ID, a.cfg.Model, a.info.BlockSize)
	r.watch, r.now, r.forgets = a.watch(d), a.now, a.info.Forgets
	return r
}

// Request is what the engine is asked for a dispatch.
func (a *Agent) Request(d *bus.Dispatch) Request {
	kind := d.Task.Kind
	if kind == "" {
		kind = bus.KindChat
	}
	r := Request{ID: d.Hold, Kind: kind, Body: d.Task.Body, Model: a.cfg.Model, MaxTokens: d.MaxTokens,
		Trace: d.Task.Trace, Prompt: d.Task.Prompt.Tokens}
	if d.Kind == bus.DispatchWarmup {
		r.Priority = PriorityPrefetch
	}
	r.Count = a.mustCount(d)
	if from := d.Task.Resume; from != nil && len(from.Tokens) > 0 {
		r.Resume = &Resume{Tokens: from.Tokens, Text: from.Text, Reasoning: from.Reasoning, Calls: from.Calls,
			Whole: max(d.Whole, d.MaxTokens)}
		r.Prompt += len(from.Tokens)
	}
	return r
}

// mustCount reports whether the engine is to count a prompt before it computes it: the hold may not cover it,
// by what its bytes say.
func (a *Agent) mustCount(d *bus.Dispatch) bool {
	p, template := &d.Task.Prompt, a.info.Template
	switch {
	case d.PromptMost == 0 || p.Text == 0: // an earlier hub or door
		return false
	case template == nil || p.Loose == bus.LooseMedia: // it cannot
		return false
	case a.info.MaxModelLen > 0 && d.PromptMost >= a.info.MaxModelLen: // the engine refuses a longer one
		return false
	}
	bound, bounded := template.Bound(p)
	return !bounded || bound > d.PromptMost
}

// Began says that the engine has said the first of an answer: its prompt is computed, and was of these
// tokens.
func (a *Agent) Began(d *bus.Dispatch, prompt []uint32) {
	h := a.holds[d.Hold]
	if h == nil || h.state != serving {
		return
	}
	if h.ahead >= 0 {
		a.prefills--
		a.ahead -= h.ahead
		if h.unsure {
			a.unsure--
		}
		h.ahead, a.news = -1, true
		a.watched = slices.DeleteFunc(a.watched, func(w watched) bool { return w.id == d.Hold })
	}
	if a.cfg.Touches && len(prompt) > 0 {
		h.keep(d, prompt)
	}
	if d.Task.Resume == nil { // else an answer is part of it
		h.expected = a.engine.Prompt(&d.Task.Prompt, prompt)
	}
}

// Ended frees the run's slot and returns its completion, with what only the agent knows filled in. The caller
// sends it now, and calls Acked or Unsent.
func (a *Agent) Ended(d *bus.Dispatch, e *Ending) bus.Completion {
	c := &e.Completion
	a.Began(d, nil) // or never will
	a.running--
	a.news = true
	c.Boot = a.boot
	if h := a.holds[d.Hold]; h != nil {
		h.state = pending
		a.kept(d, h)
		if c.Outcome == bus.OutcomeDone && !c.Unmetered && !c.NoCacheReport {
			a.engine.Ended(a.now, h.expected, c.Usage.Prompt, c.Usage.Cached)
		}
		if c.Outcome == bus.OutcomeDone {
			a.congest.Learn(float64(h.others+a.running)/2, float64(c.ITLUS), c.Usage.Output)
		}
	}
	a.pending = append(a.pending, &pendingReport{Report: Report{d.Domain, *c}, sending: true})
	if c.TTFTUS > 0 {
		a.ttft.add(float64(c.TTFTUS))
	}
	a.counts.ended(c)
	a.hearEnded(d, e)
	return *c
}

// tiers are the agent's slots by congestion charge: as configured, else as measured.
func (a *Agent) tiers() []market.Tier {
	if len(a.cfg.Tiers) > 0 {
		return a.cfg.Tiers
	}
	return a.congest.Tiers(a.cfg.sold(), a.cfg.Price.Out)
}

// Acked says that a hub has acknowledged a completion. CodeLate means that the hold had ended and nothing was
// paid; CodeMoved, that the hub gave the task to another agent.
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

// Unsent says that nobody acknowledged a completion; it is due again after a pause that doubles. jitter, from
// 0 to 1, spreads the agents that wait for one hub. It returns true if the completion is abandoned: its hold
// expired long ago, so that even an acknowledgement would pay nothing.
func (a *Agent) Unsent(now time.Time, id string, jitter float64) (abandoned bool) {
	for _, p := range a.pending {
		if p.Completion.Hold != id {
			continue
		}
		if p.since.IsZero() {
			p.since = now
		}
		if now.Sub(p.since) > a.lim.KeepCompletions {
			a.Acked(id, "")
			a.counts.Abandoned++
			return true
		}
		pause := a.lim.RetryMax
		if p.tries < 20 {
			pause = min(pause, a.lim.RetryMin<<p.tries)
		}
		p.sending, p.due = false, now.Add(pause/2+time.Duration(jitter*float64(pause/2)))
		p.tries++
		return false
	}
	return false
}

// extraSummaries is how many summaries follow soon on the first after an outage of the bus: a hub that comes
// back a little later has missed that one, and gives no task to an agent that it has not heard.
const extraSummaries = 6

// Reconnected says that the bus is there again after it was away.
func (a *Agent) Reconnected() {
	a.extra = extraSummaries
	a.dueNow()
	a.engine.Asked()
}

// dueNow makes all completions due at once, and a summary: a hub that missed the last ones believes the agent
// gone.
func (a *Agent) dueNow() {
	a.summarised = time.Time{}
	for _, p := range a.pending {
		p.due, p.tries = time.Time{}, 0
	}
}

// Ready is what an Agent wants done now.
type Ready struct {
	Summary     *bus.Summary // nil: no news
	Domain      string       // whom it is for, and Holdings
	Holdings    []bus.Holdings
	Completions []Report               // to send again; each to be answered by Acked or Unsent
	Effects     []runtimepolicy.Effect // that a policy wants
	Heard       []runtimepolicy.Event  // for the agent that has the policy of their engine's adapters
	Faults      []error                // policies that were turned off since
	Wake        time.Time              // ask again then, if nothing happens before
}

// Report is a completion and the domain of the hub that it is for.
type Report struct {
	Domain     string
	Completion bus.Completion
}

// maxSending bounds how many completions are sent at once after an outage.
const maxSending = 32

// Ready returns what is due, once.
func (a *Agent) Ready(now time.Time) Ready {
	a.now = now
	r := Ready{Wake: now.Add(a.lim.SummaryEvery), Domain: a.Domain(), Effects: a.policies.Act(now),
		Faults: a.policies.Faults(), Heard: a.heard}
	a.heard = nil
	late := a.look(now)
	quiet, news := now.Sub(a.summarised), a.news || a.extra > 0
	switch {
	case quiet >= a.lim.SummaryEvery, news && quiet >= a.lim.SummaryGap:
		s := a.summary()
		r.Summary = &s
		if quiet < a.lim.SummaryEvery { // the first one after an outage is not one of the extra ones
			a.extra = max(0, a.extra-1)
		}
		a.summarised, a.news = now, false
		if a.extra > 0 {
			r.Wake = now.Add(a.lim.SummaryGap)
		}
	case news:
		r.Wake = a.summarised.Add(a.lim.SummaryGap)
	default:
		r.Wake = a.summarised.Add(a.lim.SummaryEvery)
	}
	if !late.IsZero() && late.Before(r.Wake) {
		r.Wake = late
	}
	if a.claim != nil {
		var wake time.Time
		r.Holdings, wake = a.engine.Take(now)
		for i := range r.Holdings {
			r.Holdings[i].Agent, r.Holdings[i].Boot = a.cfg.ID, a.boot
		}
		if wake.Before(r.Wake) {
			r.Wake = wake
		}
	}
	if asked := a.policies.Wake(); !asked.IsZero() && asked.Before(r.Wake) {
		r.Wake = asked
	}
	sending := 0
	for _, p := range a.pending {
		if p.sending {
			sending++
		}
	}
	for _, p := range a.pending {
		switch {
		case p.sending:
		case p.due.After(now):
			if p.due.Before(r.Wake) {
				r.Wake = p.due
			}
		case sending < maxSending:
			p.sending = true
			sending++
			r.Completions = append(r.Completions, p.Report)
		}
	}
	return r
}

// look finds the holds whose first token is late by now, and says when the next one may be.
func (a *Agent) look(now time.Time) (next time.Time) {
	for i := range a.watched {
		w := &a.watched[i]
		if w.due.IsZero() {
			w.due = now.Add(w.within)
		}
		switch {
		case w.late:
		case !w.due.After(now):
			w.late, a.news = true, true
		case next.IsZero() || w.due.Before(next):
			next = w.due
		}
	}
	return next
}

// late are the holds that a summary names as late.
func (a *Agent) late() (ids []string) {
	for _, w := range a.watched {
		if w.late && len(ids) < bus.MaxLate {
			ids = append(ids, w.id)
		}
	}
	return ids
}

// summary is what the agent says of itself.
func (a *Agent) summary() bus.Summary {
	a.seq++
	s := bus.Summary{Agent: a.cfg.ID, Boot: a.boot, Seq: a.seq, State: a.State(), Slots: a.cfg.sold(),
		Tiers: a.tiers(), Measured: len(a.cfg.Tiers) == 0, InFlight: a.running, Price: a.cfg.Price,
		TTFTUS:   a.ttft.value(),
		Prefills: a.prefills, Ahead: a.ahead, Late: a.late()}
	if a.unsure > 0 { // its hub knows better what it sent, and what of that is cached
		s.Ahead = 0
	}
	return s
}

// mean is a running mean over about the last 32 values.
type mean struct {
	n int
	x float64
}

func (m *mean) add(x float64) {
	if m.n < 32 {
		m.n++
	}
	m.x += (x - m.x) / float64(m.n)
}

func (m *mean) value() int64 { return int64(m.x) }
