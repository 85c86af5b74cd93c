package agentd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/market"
)

// Reasons for which the agent ends an answer.
var (
	ErrCancelled = errors.New("the client cancelled")
	ErrTimeout   = errors.New("the task's time is over")
	ErrDrained   = errors.New("the agent is shutting down")
	ErrWithdrawn = errors.New("the hub heard no reply to its dispatch, and took it back")
	ErrLate      = errors.New("the first token is late, and the hub took the task back")
	errCapped    = errors.New("the price cap is reached")
	errEnough    = errors.New("max_tokens are reached")
	errTooLong   = errors.New("the answer is longer than one message can be, and ends here: ask for a stream")
	errUnsayable = errors.New("the answer is longer than one message can be: ask for a stream")
	errBeyond    = errors.New("the prompt has more tokens than its hold covers")
	errCaught    = errors.New("the answer is cut before what this agent does not pass on")
)

// Run meters one dispatch being served, and decides when it must stop.
type Run struct {
	d         *bus.Dispatch
	agent     string
	model     string
	seq       uint64 // number of the next chunk
	first     uint64 // number of its first chunk: not 0 where an answer goes on
	prompt    int    // tokens: told by the engine, until then the dispatch's estimate
	base      int    // of these, the task's own: the others are of an answer that broke off elsewhere
	kept      int    // output tokens taken over from there
	began     bool   // the engine said something
	cancelled bool   // its client has cancelled: it ends once the engine has said how long the prompt is
	block     int    // tokens of a block of the engine's cache
	count     int    // output tokens relayed
	text      strings.Builder
	extra     []bus.Extra
	tool      uint64 // that the answer calls first, by bus.ToolKey
	forgets   bool   // the engine's template leaves reasoning out of later prompts
	shared    bool   // prompts of other cache groups are found in the engine's cache, too
	ids       bool   // the engine said which tokens these are
	thought   int    // output tokens that are reasoning, and what came before these
	bytes     int    // of text and extra collected
	out       bus.Chunk
	gathered  gathered
	pools     bool      // it is a pooling task: all of its answer is there at once
	watch     *watch    // what a policy looks at; nil: none does
	now       time.Time // when the engine sent what is taken now
}

// NewRun begins to serve d at an engine that caches blocks of so many tokens.
func NewRun(d *bus.Dispatch, agent, model string, blockSize int) *Run {
	r := &Run{d: d, agent: agent, model: model, prompt: d.Task.Prompt.Tokens, block: max(1, blockSize),
		pools: bus.Pooling(d.Task.Kind)}
	if from := d.Task.Resume; from != nil {
		r.seq = from.Seq // its reader sees one stream
		r.first = from.Seq
	}
	return r
}

// Withheld reports whether the end of a failed run is withheld until its hub has decided: nothing of it was
// delivered, so another agent may serve the task, and its reader need never know.
func (r *Run) Withheld(e *Ending) bool {
	return e.Completion.Outcome == bus.OutcomeFailed && r.d.Task.Failover != "off" && r.seq == r.first &&
		(e.Completion.Code.Broken() || e.Completion.Code.Unbegun())
}

// usage returns the usage to bill if the answer ends now. An engine reports only at the end how many tokens
// it found in its cache. Until then they are taken to be those that the hub believed of this very prompt, in
// whole blocks and without the last token, which is always computed. What the session had here before is no
// measure: it may have been another text.
func (r *Run) usage(output int) market.Usage {
	held := max(0, min(r.d.Cached, r.prompt-1))
	return market.Usage{Prompt: r.prompt, Cached: held / r.block * r.block, Output: output}
}

// Cancel says that the client has cancelled. It reports whether the run is to go on until the engine has
// said how long the prompt is, which it has begun to compute: that much is due, and a cancel that came
// sooner would have it for nothing.
func (r *Run) Cancel() (waits bool) {
	r.cancelled = true
	return !r.began && r.d.FirstMS > 0
}

// Take meters what the engine sent. It returns the chunk to relay, which is valid until the next call, or nil
// if there is nothing to relay yet. The error says why the answer must end here, after that chunk and what
// waits: the engine's tokens would cost more than the hold covers, are more than were asked for, or are not
// to be passed on.
func (r *Run) Take(c Chunk) (*bus.Chunk, error) {
	if n := c.Counted + c.Base + c.Kept; n > 0 { // before the engine is asked for anything
		r.prompt = n
		if c.Base > 0 {
			r.base, r.kept = c.Base, c.Kept
		}
		if r.beyond() {
			why := fmt.Sprintf("the engine counts %d tokens in the prompt, and the hold covers %d: "+
				"a higher max_price covers more", n, r.d.PromptMost)
			return nil, &EngineError{Code: bus.CodePromptTooLong, Message: why}
		}
	}
	if c.Prompt > 0 {
		r.prompt = c.Prompt
	}
	if r.pools && r.beyond() { // than any text of so many bytes has
		r.prompt = r.d.PromptMost
	}
	r.began, r.ids = r.began || c.Events > 0, r.ids || len(c.Tokens) > 0
	for i := 0; i < len(c.Extra) && r.tool == 0; i++ {
		r.tool = bus.ToolKey(toolOf(c.Extra[i].Choice))
	}
	switch {
	case r.cancelled:
		return nil, ErrCancelled
	case c.Prompt > 0 && r.beyond():
		return nil, errBeyond
	}
	if c.Count > 0 {
		if r.count+c.Count > r.d.MaxTokens {
			return nil, errEnough
		}
		if r.d.Settle != market.SettleQuoted &&
			r.d.Price.Cost(r.usage(r.count+c.Count))+r.d.Tariff > r.d.CostCap {
			return nil, errCapped
		}
		r.count += c.Count
		if c.Thought > 0 {
			r.thought = r.count - c.Count + c.Thought
		}
	}
	var caught error
	if r.watch != nil {
		before := c.Count + r.watch.count
		c, caught = r.watch.pass(r.now, c)
		r.count -= before - c.Count - r.watch.count // of what is never passed on
	}
	if c.Text == "" && len(c.Tokens) == 0 && len(c.Extra) == 0 &&
		!(c.Finish && r.d.Task.Stream && (r.seq > 0 || !r.gathered.since.IsZero())) {
		return nil, caught
	}
	if !r.d.Task.Stream {
		r.bytes += len(c.Text)
		for _, x := range c.Extra {
			r.bytes += len(x.Choice) + 16
		}
		// the rest of the Result needs room
		if r.bytes > bus.MaxAnswer-4096 || len(r.extra)+len(c.Extra) > bus.MaxItems {
			if r.pools { // a part of it is of no use
				return nil, errUnsayable
			}
			r.count -= c.Count // which is not in it
			return nil, errTooLong
		}
		for _, x := range c.Extra {
			x.At += r.text.Len()
			r.extra = append(r.extra, x)
		}
		r.text.WriteString(c.Text)
		return nil, caught
	}
	if r.gathers() {
		return r.gather(&c), caught
	}
	return r.number(&c), caught
}

// number makes the chunk that goes out next.
func (r *Run) number(c *Chunk) *bus.Chunk {
	r.out = bus.Chunk{Task: r.d.Task.ID, Attempt: r.d.Task.Attempt, Seq: r.seq, Text: c.Text,
		Tokens: c.Tokens, Count: c.Count, Extra: c.Extra, Finish: c.Finish}
	r.seq++
	return &r.out
}

// toolOf is the name of the tool that an engine's event begins to call; "" if it begins none.
func toolOf(choice []byte) string {
	if !bytes.Contains(choice, []byte(`"tool_calls"`)) {
		return ""
	}
	type said struct {
		Calls []struct {
			Function struct{ Name string } `json:"function"`
		} `json:"tool_calls"`
	}
	var x struct{ Delta, Message said }
	if json.Unmarshal(choice, &x) != nil { // it is passed on as it is, and means nothing here
		return ""
	}
	for _, c := range slices.Concat(x.Delta.Calls, x.Message.Calls) {
		if c.Function.Name != "" {
			return c.Function.Name
		}
	}
	return ""
}

func (r *Run) beyond() bool { return r.d.PromptMost > 0 && r.prompt > r.d.PromptMost }

// undo takes back a chunk that could not be sent, and what was to follow it: numbers have no gaps, and nobody
// pays for it.
func (r *Run) undo(c *bus.Chunk) {
	r.seq = c.Seq
	r.count -= c.Count + r.gathered.chunk.Count
	r.gathered = gathered{}
}

// Heartbeat tells the reader that the task is alive; it takes no number.
func (r *Run) Heartbeat() *bus.Chunk {
	c := &bus.Chunk{Task: r.d.Task.ID, Attempt: r.d.Task.Attempt, Seq: r.seq, Heartbeat: true}
	if c.Attempt > 0 {
		c.Agent = r.agent
	}
	return c
}

// Ending holds a run's completion for the hub and its result for the client, which agree.
type Ending struct {
	Completion bus.Completion
	Result     bus.Result
	Caught     []string      // names of what a policy found in the answer
	Engine     bool          // the engine failed
	Fault      string        // what it did, without its own words; "" if it did nothing
	Missing    bool          // it has no endpoint for such tasks
	Stalled    bool          // it went silent
	Again      time.Duration // after which it may be asked again, as it says
	// do not trust its /health before it has served a token: a server that shuts down still says 200
	Doubtful bool
}

// End settles the run by the same rule as the hub, market.Settle. Under "quoted" pricing the cost is
// the quote; else it is:
//
//	what ended it                  outcome                       cost
//	the engine finished            done                          by usage
//	price cap or max_tokens        done, finish_reason "length"  by what was relayed
//	a prompt longer than its hold  done, finish_reason "length"  all that the hold covers
//	no message holds the rest      done, finish_reason "length"  by what is in the answer
//	a policy of the agent's        done, "content_filter"        by what was relayed
//	the client cancelled           cancelled                     by the prompt, what was relayed, the
//	                                                             premium; nothing if the engine sent nothing
//	anything else                  failed                        nothing
func (r *Run) End(a Answer, err error) Ending {
	d := r.d
	if r.watch != nil && err != nil { // what is held back is not passed on, so nobody pays for it
		r.count -= r.watch.drop()
	}
	e := Ending{
		Completion: bus.Completion{
			Agent: r.agent, Hold: d.Hold, Client: d.Task.Client, Task: d.Task.ID,
			Outcome: bus.OutcomeDone, Finish: a.Finish, Usage: a.Usage, Relayed: r.count,
			NoCacheReport: a.NoCacheReport, Unmetered: a.Unmetered, Said: a.Said,
			TTFTUS: a.TTFT.Microseconds(), ITLUS: a.ITL.Microseconds(),
		},
		Result: bus.Result{
			Client: d.Task.Client, Task: d.Task.ID, Session: d.Task.Session, Hub: d.Domain,
			Agent: r.agent, Model: r.model, Stop: a.Stop,
			Receipt: &bus.Receipt{ID: d.Hold, Index: d.Index, Journal: d.Journal, Round: d.Round,
				Epoch: d.Epoch, Earlier: d.Earlier},
		},
	}
	c, res := &e.Completion, &e.Result
	if c.Tool = r.tool; r.watch != nil {
		e.Caught = r.watch.by.Caught()
	}
	if r.cancelled && err != nil && !errors.Is(err, ErrCancelled) { // no other agent is to serve it
		e.fail(err)
		c.Outcome, res.Code, res.RetryMS = bus.OutcomeDone, "", 0
		err = ErrCancelled
	}
	// what an engine says is not believed where it is more than it was asked for
	said := a.Usage
	if a.Said != nil {
		said = *a.Said
	}
	if err != nil || a.Unmetered || said.Output > d.MaxTokens || r.pools && a.Usage.Prompt != r.prompt {
		c.Unmetered, c.Usage = true, r.usage(r.count)
		c.NoCacheReport = c.Usage.Cached == 0 // else what the same text implies, which is charged as hits
	}
	if r.shared { // what others asked is not told by a bill
		c.Usage.Cached = min(c.Usage.Cached, max(d.Cached, d.Asserted))
	}
	switch {
	case err == nil:
	case errors.Is(err, errCapped):
		c.Finish, res.Message = "length", "cut at the price cap: a higher max_price buys more, or, "+
			"where that was all its client had, a deposit"
		if d.Open {
			res.Message = "cut where an answer without max_tokens costs as much as it may: name max_tokens, or, " +
				"where a max_price or what its client had was less, more of that"
		}
	case errors.Is(err, errEnough):
		c.Finish = "length"
	case errors.Is(err, errTooLong):
		c.Finish, res.Message = "length", err.Error()
	case errors.Is(err, errCaught):
		c.Finish = bus.FinishFiltered
		res.Message = fmt.Sprintf("%v (%s)", err, strings.Join(e.Caught, ", "))
	case errors.Is(err, errBeyond):
		c.Finish = "length"
		res.Message = fmt.Sprintf("%v: %d tokens, of which %d are covered; a higher max_price covers more",
			err, r.prompt, d.PromptMost)
	case errors.Is(err, ErrCancelled):
		c.Outcome, c.Code, res.Message = bus.OutcomeCancelled, bus.CodeCancelled, err.Error()
		if !r.began {
			c.Usage, c.NoCacheReport = market.Usage{}, true
		}
	case errors.Is(err, ErrTimeout) && !r.began: // another engine may be better
		e.fail(&EngineError{Code: bus.CodeEngineFailed, Stalled: true,
			Message: "the engine said nothing in the task's time"})
	default:
		e.fail(err)
	}
	// nobody can go on with such an answer: the next one is not to break off, too
	e.Doubtful = e.Doubtful || e.Engine && r.count > 0 && !r.ids
	if c.Finish == "length" && res.Message == "" && d.MaxTokens < d.Task.MaxTokens {
		res.Message = fmt.Sprintf("cut after %d tokens of the %d that max_tokens asks for: no agent that may serve it "+
			"has a context with more room", c.Usage.Output, d.Task.MaxTokens)
	}
	billed := c.Usage
	if c.Outcome != bus.OutcomeFailed && !c.Unused() {
		billed, c.Asserted = bus.Billed(c.Usage, d.Asserted), d.Asserted
		c.Cost = market.Settle(d.Settle, d.Price, d.Tariff, d.Quoted, billed, d.CostCap)
		res.Cost, res.SlotPrice = c.Cost, d.SlotPrice
		res.Premium = market.SettlePremium(d.Settle, c.Outcome == bus.OutcomeCancelled, d.Premium, d.Fee,
			d.Quoted, c.Cost, d.CostCap+d.Premium-c.Cost)
		res.Toll, res.Fee, res.Own = d.Toll, d.Fee, d.Own
	}
	if d.Task.Resume == nil && c.Outcome == bus.OutcomeDone {
		if res.Thought = min(r.thought, c.Usage.Output); r.forgets {
			c.Thought = res.Thought
		}
	}
	res.Code = cmp.Or(res.Code, c.Code)
	res.Finish, res.Usage, res.Unmetered = c.Finish, billed, c.Unmetered
	res.TTFTUS, res.ITLUS, res.Chunks = c.TTFTUS, c.ITLUS, r.seq
	// the whole answer, of which this agent is paid for its part
	if r.base > 0 && c.Outcome != bus.OutcomeFailed {
		res.Billed = &billed
		res.Usage = market.Usage{Prompt: r.base, Cached: min(billed.Cached, max(0, r.base-1)),
			Output: r.kept + c.Usage.Output}
	}
	if !d.Task.Stream {
		res.Text, res.Extra = r.text.String(), r.extra
	}
	return e
}

// fail fills in the codes: the hub hears of the agent, the client of its task.
func (e *Ending) fail(err error) {
	c, res := &e.Completion, &e.Result
	c.Outcome, c.Finish, res.Message = bus.OutcomeFailed, "", Clip(err.Error())
	c.Code = bus.CodeAgentFailed
	var engine *EngineError
	switch {
	case errors.As(err, &engine):
		c.Code, e.Stalled = engine.Code, engine.Stalled
		failed := engine.Code == bus.CodeEngineFailed
		e.Missing = engine.Missing
		e.Engine, e.Fault = (failed || engine.Code.Unbegun()) && !e.Missing, engine.Plain()
		e.Doubtful = failed && (engine.Stalled || engine.Status >= 500)
		switch engine.Code {
		case bus.CodeNoSlot: // the engine is full, which is no fault
			e.Engine, e.Again, res.Code = false, engine.Again, bus.CodeNoRoom
			res.RetryMS = max(1000, e.Again.Milliseconds())
		case bus.CodeUnavailable, bus.CodeUnknownModel: // its engine may be starting
			res.Code, res.RetryMS = bus.CodeUnavailable, 1000
		}
	case errors.Is(err, ErrTimeout):
		c.Code = bus.CodeTimeout
	case errors.Is(err, errUnsayable), errors.Is(err, bus.ErrTooLarge):
		c.Code = bus.CodeTooLarge
	}
}

// Clip bounds a message that is sent to others.
func Clip(s string) string {
	if len(s) > bus.MaxText/2 {
		return strings.ToValidUTF8(s[:bus.MaxText/2], "") + "..."
	}
	return s
}
