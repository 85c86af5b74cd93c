package hub

import (
	"math/bits"
	"time"

	"souk/hub/predict"
)

// backlog is how long what an agent has in hand keeps a task from its first token, as quotes have it: of all
// of it, and of the prompts before it alone, which are computed meanwhile where a task waits for a slot.
// Agents whose backlogs are nearly equal have equal ones, so that a task is quoted once on all of them. An
// idle agent has none.
type backlog = predict.Delay

// load is what an agent has in hand, by the hub's own dispatches; of tasks of which it knows no more than
// that they run, their number.
func (n *Node) load(a *agent) predict.Load {
	l := a.queue.Load(n.nano)
	l.Decoding += max(0, len(a.holds)-a.queue.Len()) + a.stuck
	return l
}

// backlog returns the backlog of a task that comes to an agent now, or as soon as it has a slot.
func (n *Node) backlog(a *agent) backlog {
	if len(a.holds)+a.stuck+a.queue.Len() == 0 {
		return backlog{}
	}
	l := n.load(a)
	if over := len(a.holds) + a.stuck - max(0, a.slots-1); over > 0 {
		l.Decoding = max(0, l.Decoding-over)
	}
	if l == (predict.Load{}) {
		return backlog{}
	}
	in := a.predictor.Delay(l)
	return backlog{All: nearly(in.All), Queue: nearly(in.Queue)}
}

// besides is the backlog had an agent computed all prompts that it has in hand.
func (n *Node) besides(a *agent) backlog {
	running := min(len(a.holds)+a.stuck, max(0, a.slots-1))
	if running == 0 {
		return backlog{}
	}
	return backlog{All: nearly(a.predictor.Delay(predict.Load{Decoding: running}).All)}
}

// nearly is a time with an eighth of itself rounded up, or half a millisecond.
func nearly(d time.Duration) time.Duration {
	const least = 19 // bits of nanoseconds
	low := max(least, bits.Len64(uint64(max(0, d)))-4)
	mask := time.Duration(1)<<low - 1
	return (max(0, d) + mask) &^ mask
}

// hearsWithin is how long a dispatch and a summary take at most together, as far as it matters: of what was
// dispatched since, a summary may say nothing.
const hearsWithin = 100 * time.Millisecond

// queue puts a dispatched task behind what its agent has in hand.
func (n *Node) queue(h *hold) {
	a, f := h.agent, &h.features
	f.InFlight, f.Load = len(a.holds), n.load(a)
	cached := f.Cached
	work, ok := a.rate.Takes(f.Counted - cached)
	if !ok {
		work = a.predictor.Work(f.Counted-cached, cached)
	}
	h.said = a.predictor.Forecast(*f)
	h.queued = a.queue.Sent(n.nano, f.Counted, cached, work, h.said.TTFT, h.rec.Output, n.itl(a))
}

// length is how many tokens the answer to a task is expected to have.
type length struct {
	until int64    // by Node.nano: then it is asked anew
	n     int      // of these
	known [4]known // by what agents differ in
}

// known is an expected length where nothing is known of whose it is, and by that, in tokens.
type known struct{ usual, tokens int }

// lengthsEvery is how long what a waiting task's answer is expected to have is not asked anew: every answer
// changes it a little, and with it all quotes of all who wait.
const lengthsEvery = time.Second

// length is how many tokens the answer to a task is expected to have, by whose it is. In a round it is the
// same whenever it is asked.
func (n *Node) length(t *task, a *agent) int {
	x, usual := &t.length, a.predictor.Usual(t.assumed())
	if n.nano >= x.until {
		x.until, x.n = n.at(lengthsEvery), 0
	}
	for _, k := range x.known[:x.n] {
		if k.usual == usual {
			return k.tokens
		}
	}
	tokens := n.outputs.Expect(t.source(), usual)
	if !t.open {
		tokens = min(tokens, t.msg.MaxTokens)
	}
	if x.n < len(x.known) {
		x.known[x.n] = known{usual, tokens}
		x.n++
	}
	return tokens
}

// assumed is how many tokens an answer may have, of which the prior says what part it uses. Of one that has
// no limit it is as many as people ask for where they name one.
func (t *task) assumed() int {
	if t.open {
		return 1024
	}
	return t.msg.MaxTokens
}

// good is how long what was asked last is not asked anew.
func (x *length) good() int64 {
	if x.n < len(x.known) {
		return x.until
	}
	return 0 // it may not be remembered
}

// source is whose a task is.
func (t *task) source() predict.Source {
	return predict.Source{Client: t.key.client, Role: t.msg.Role, Domain: t.msg.Domain, Kind: t.msg.Kind,
		Session: t.session, Prompt: t.msg.Prompt.Tokens, Turn: t.msg.Turn, Most: t.msg.MaxTokens}
}

// prefill is how long an agent takes to compute a prompt of which it holds so much.
func (a *agent) prefill(prompt, cached int) time.Duration {
	if d, ok := a.rate.Takes(prompt - cached); ok {
		return d
	}
	f := predict.Features{Counted: max(1, prompt), Cached: cached}
	whole := a.predictor.First(f)
	f.Cached = f.Counted - 1
	return max(0, whole-a.predictor.First(f))
}
