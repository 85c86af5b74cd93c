// Package hostile plays one hostile client against a whole market in memory.
package hostile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/market"
)

// What agents may send beside the chunks of answers themselves: a multiple of what they were told, and of
// each answer its chunks again every so often, and heartbeats.
const (
	amplified    = 16 // a control of twenty bytes on what there is not is answered by one word of two hundred
	againEvery   = 900 * time.Millisecond
	beatsASecond = 256 // bytes, of one answer
)

// seeds are games, each of which once found a fault, or stands for a kind of them. needs is what has to hold
// first.
var seeds = []struct {
	name  string
	needs bool
	moves []byte
}{
	{"nothing", true, nil},
	{"one task", true, game(ask(0, 0))},
	{"tasks of all three clients", true, game(ask(0, 0), ask(0, 1), ask(0, 2), pass(6))},
	{"it leaves at once", true, game(ask(0, 0), ask(6, 0), ask(7, 1))},
	{"the same id twice", true, game(ask(0, 0), shape{id: 1}.bytes(), []byte{0}, pass(6), shape{like: 8,
		id: 1}.bytes(), []byte{0}, pass(6))},
	{"a collected answer", true, game(shape{stream: 1}.bytes(), pass(6))},
	{"cancelled while it is served", true, game(shape{tokens: 2, extras: eos}.bytes(), pass(4),
		[]byte{moveCancelAgent, 0}, pass(6))},
	{"cancelled at hub and door", true, game(ask(7, 0), []byte{moveCancelHub, 0}, ask(7, 1),
		[]byte{moveCancelDoor, 0}, pass(6))},
	{"a thousand million tokens", true, game(shape{tokens: 7}.bytes(), shape{tokens: 6}.bytes(), pass(6),
		[]byte{moveCancelAgent, 0})},
	{"terms of nothing", true, game(shape{terms: 2}.bytes(), shape{terms: 6}.bytes(), shape{terms: 8}.bytes(),
		shape{terms: 9}.bytes(), shape{terms: 4}.bytes(), pass(6))},
	{"past its deadline", true, game(shape{deadline: 3}.bytes(), shape{deadline: 5}.bytes(), pass(6))},
	{"feedback on what there is not", true, game([]byte{moveFeedback, 255, 0}, ask(0, 0), []byte{moveFeedback,
		0, 1}, pass(6), []byte{moveFeedback, 0, 1})},
	{"noise everywhere", true, game([]byte{moveNoise, 0, 3, 1, 2, 3}, []byte{moveNoise, 1, 2, 0x81, 0xc0},
		[]byte{moveNoise, 4, 5, 0xdf, 255, 255, 255, 255}, pass(6))},
	{"acks and resumes of what there is not", true, game([]byte{moveAck, 255, 2}, []byte{moveResume, 3, 1,
		255, 255}, ask(0, 0), pass(6),
		[]byte{moveAck, 2, 0}, []byte{moveResume, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0}, pass(6))},
	{"an answer that never was goes on", true, game([]byte{moveMsgpack, 0}, shape{}.rest()[:15], []byte{1, 0,
		1, 1, 3, 1, 50}, pass(6))},
	{"clients that share a prompt", true, game(ask(7, 0), pass(6), ask(7, 1), pass(3), []byte{moveCancelAgent,
		0}, pass(6), ask(7, 2), pass(6))},
	{"cancelled before its first token", true, game(ask(7, 0), pass(2), []byte{moveCancelAgent,
		0}, pass(6), ask(7, 1), pass(6))},
	{"cancelled before its first token, by way of the hub", true, game(ask(7, 0), pass(2),
		[]byte{moveCancelHub, 0}, pass(6))},
	{"a token a byte", true, game(ask(8, 0), pass(6))},
	{"documents", true, game(shape{end: 8, extras: [][2]byte{{2, 0}}}.bytes(), pass(6))},
	{"a template of its own", true, game(shape{end: 8, extras: [][2]byte{{3, 0}, {4,
		0}}}.bytes(), pass(6))},
	{"tools", true, game(shape{end: 8, extras: [][2]byte{{1, 0}}}.bytes(), pass(6))},
	{"a session's name under another text, cancelled", true, game(shape{like: 7, end: 7,
		session: 1}.bytes(), pass(6),
		shape{like: 8, tokens: 2, extras: eos, session: 1}.bytes(), pass(4), []byte{moveCancelAgent,
			0}, pass(6))},
	{"separators in one round", true, game([]byte{moveRound, 0, 4}, two.rest(), joined.rest(),
		two.rest(), joined.rest(), two.rest(), joined.rest(), pass(6))},
	{"recalled by its client", true, game(ask(7, 0), pass(2),
		[]byte{moveRecall, 0, 0, 0}, pass(6))},
	{"resumes without end", true, game(shape{like: 7, tokens: 2, extras: eos}.bytes(), pass(5),
		bytes.Repeat(resumes, 40), pass(6))},
}

var (
	eos     = [][2]byte{{0, 0}} // as many tokens as it may have
	resumes = []byte{moveResume, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0}
	two     = shape{join: 1}
	joined  = shape{join: 2}
)

func game(moves ...[]byte) (all []byte) {
	for _, m := range moves {
		all = append(all, m...)
	}
	return all
}

// ask is a plain task of a client, whose prompt begins in one of the ways in which prompts begin.
func ask(like, client byte) []byte { return shape{like: like, client: client}.bytes() }

func pass(which byte) []byte { return []byte{movePass, which} }

// Whatever a client sends and whenever it leaves: no process dies, every task has a last word, the agents are
// paid, the ledger audits clean, and nobody is left with work that does not end.
func TestHostileClient(t *testing.T) {
	for _, s := range seeds {
		if s.needs {
			t.Run(s.name, func(t *testing.T) { plays(t, s.moves) })
		}
	}
	games := 20
	if os.Getenv("SOUK_SOAK") != "" {
		games = 5000
	}
	for range games {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { plays(t, random(r)) })
	}
}

// random is a game that asks more than it talks.
func random(r *rand.Rand) (moves []byte) {
	for range 5 + r.IntN(20) {
		switch r.IntN(4) {
		case 0:
			moves = append(moves, ask(byte(r.IntN(121)), byte(r.IntN(3)))...)
		case 1:
			moves = append(moves, pass(byte(r.IntN(8)))...)
		default:
			for range 1 + r.IntN(24) {
				moves = append(moves, byte(r.IntN(256)))
			}
		}
	}
	return moves
}

func FuzzHostileClient(f *testing.F) {
	for _, s := range seeds {
		if s.needs {
			f.Add(s.moves)
		}
	}
	f.Fuzz(func(t *testing.T, moves []byte) { plays(t, moves) })
}

// plays plays a game to its end and judges what is left.
func plays(t *testing.T, moves []byte) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, direct, nil)
		begun := time.Now()
		c := &client{h: h, moves: moves}
		c.play()
		played := time.Since(begun)
		ends := h.close()
		h.everyTaskHasALastWord(c)
		h.agentsArePaid(ends)
		h.agentsSayLittle(c, played)
		if t.Failed() {
			t.Logf("moves %v", moves)
		}
	})
}

// everyTaskHasALastWord: each request was answered, and each stream that was promised has an end.
func (h *house) everyTaskHasALastWord(c *client) {
	h.t.Helper()
	for _, a := range c.asked {
		said := h.answers[a.inbox]
		if len(said) != 1 {
			h.t.Errorf("task %s of %s was answered %d times", a.id, a.client, len(said))
			continue
		}
		promise, err := accepted(said[0])
		if err != nil {
			h.t.Errorf("task %s of %s was answered %q: %v", a.id, a.client, said[0], err)
		} else if promise != nil && h.last[promise.Reply] == nil {
			h.t.Errorf("task %s of %s was promised a stream on %s, which has no end", a.id, a.client,
				promise.Reply)
		}
	}
}

// agentsSayLittle: what agents said again is within bounds, however often they were asked.
func (h *house) agentsSayLittle(c *client, lasted time.Duration) {
	h.t.Helper()
	most := amplified*c.said + h.anew*int(2+min(lasted, 10*time.Minute)/againEvery) +
		len(h.last)*beatsASecond*int(1+lasted/time.Second)
	if h.again > most {
		h.t.Errorf("%d bytes of the client's and %d of answers had the agents send "+
			"%d again in %v: at most %d are right", c.said, h.anew, h.again, lasted, most)
	}
}

// agentsArePaid: for every request that an engine computed, its agent has its card's price of what was
// computed.
func (h *house) agentsArePaid(ends map[string]ending) {
	h.t.Helper()
	for agent, e := range h.engine {
		for _, id := range e.order {
			q := e.served[id]
			end, ours := ends[id]
			if !ours {
				continue // the agent's own probe
			}
			switch {
			case end.hold.Agent != agent:
				h.t.Errorf("hold %s of %s was served by %s", id, end.hold.Agent, agent)
			case end.capture == nil && end.void == nil:
				h.t.Errorf("hold %s has no end", id)
			case q.refused && end.capture != nil:
				h.t.Errorf("hold %s was paid, and its engine had refused it", id)
			case !q.refused:
				h.paidInFull(id, q, end)
			}
		}
	}
	for id, end := range ends {
		reached := h.engine[end.hold.Agent].served[id] != nil
		if end.capture != nil && !reached && end.capture.Cost != 0 {
			h.t.Errorf("hold %s cost %s, and never reached an engine", id, end.capture.Cost)
		}
	}
}

// paidInFull is the rule: the prompt as the engine counted it, of which what it found in its cache where it
// said so and no more than that where it did not come to say it, and the tokens that were taken; by the card,
// and no less because the hold was short.
func (h *house) paidInFull(id string, q *request, end ending) {
	h.t.Helper()
	if end.capture == nil {
		h.t.Errorf("hold %s: its engine computed %d tokens, and nothing was paid: void for %s", id, q.prompt,
			end.void.Reason)
		return
	}
	u, cost := end.capture.Usage, end.capture.Cost
	if u.Prompt != q.prompt || u.Cached > q.cached || q.finished && u.Cached != q.cached ||
		u.Output != q.relayed {
		h.t.Errorf("hold %s: its engine computed %d prompt tokens, %d of them cached, and %d were taken: "+
			"%+v is on record", id, q.prompt, q.cached, q.relayed, u)
	}
	if want := end.hold.Price.Cost(market.Usage{Prompt: q.prompt, Cached: u.Cached,
		Output: q.relayed}); cost != want {
		h.t.Errorf("hold %s: %s were paid of the %s that its card says", id, cost, want)
	}
	if end.capture.Outcome != bus.OutcomeDone && end.capture.Outcome != bus.OutcomeCancelled {
		h.t.Errorf("hold %s: outcome %s", id, end.capture.Outcome)
	}
}
