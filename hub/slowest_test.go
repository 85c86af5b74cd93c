package hub_test

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/predict"
	"souk/market"
)

// serveSlowly has a task served, and an ITL reported. It returns how long its money was held at most.
func (h *house) serveSlowly(id string, itl time.Duration) time.Duration {
	h.t.Helper()
	h.must(h.step(h.task("ann", id)))
	d := h.take("ann", id)
	rec, ok := h.replica.Hold(d.Hold)
	if !ok {
		h.t.Fatal("no hold")
	}
	h.accept(d)
	held := time.Unix(0, rec.Expires).Sub(h.now)
	c := completion(rec.Agent, d, market.Usage{Prompt: 100, Output: 10})
	c.ITLUS = itl.Microseconds()
	h.now = h.now.Add(itl) // more than has passed is not believed
	h.must(h.step(c))
	h.must(h.summary(rec.Agent, nil))
	return held
}

// Money is held for an answer of 100 tokens by what its agent has reported, as far as that is believed, and
// for a prompt by what is assumed.
func TestHowLongMoneyIsHeld(t *testing.T) {
	tokens := func(itl time.Duration) time.Duration { return 100*itl + hub.Default().HoldGrace }
	for _, c := range []struct {
		name       string
		says, want time.Duration
	}{
		{"nothing is known", 0, 10*time.Second + tokens(100*time.Millisecond)},
		{"it is slow, and given time", 250 * time.Millisecond, tokens(250 * time.Millisecond)},
		{"it claims a minute", time.Minute, tokens(400 * time.Millisecond)},
	} {
		h := newHouse(t, nil)
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		if c.says > 0 {
			h.serveSlowly("t1", c.says)
		}
		if got := h.serveSlowly("t2", time.Millisecond); got > c.want+c.want/50 || got < c.want-c.want/50 {
			t.Errorf("%s: held for %v, want %v", c.name, got, c.want)
		}
	}
}

// An engine that was cut for want of time gets more the next time.
func TestASlowEngineIsGivenMoreTime(t *testing.T) {
	h, d := oneRunning(t)
	h.accept(d)
	c := completion("a-1", d, market.Usage{Prompt: 100, Output: 90})
	c.Outcome, c.Code, c.Finish, c.Cost, c.ITLUS = bus.OutcomeFailed, bus.CodeTimeout, "", 0, 300_000
	h.must(h.step(c))
	if got := h.n.Slowest("a-1"); got != 300*time.Millisecond {
		t.Errorf("it is given %v for a token, want 300 ms", got)
	}
	if got := h.n.Slowest("a-2"); got != 100*time.Millisecond {
		t.Errorf("another is given %v", got)
	}
}

// An engine that is cut before its first token, or is many times slower than before, has as much time the
// next time as it would have needed: a cut teaches.
func TestACutTeaches(t *testing.T) {
	prompt, most := 7500, 16
	long := func(m *bus.Task) {
		m.MaxTokens, m.Prompt.Tokens, m.Prompt.Bytes = most, prompt, 4*prompt
		m.Prompt.Prefixes = []bus.PrefixHash{{Bytes: 4 * prompt}}
	}
	const second = 1000 // ms
	ask := func(h *house, id string) bus.Dispatch {
		h.must(h.step(h.task("ann", id, long)))
		d := h.take("ann", id)
		h.accept(d)
		return d
	}
	cut := func(h *house, d bus.Dispatch, after time.Duration, code bus.Code, itl int64) {
		h.pass(after)
		c := completion("a-1", d, market.Usage{})
		c.Outcome, c.Code, c.Finish, c.Cost, c.ITLUS = bus.OutcomeFailed, code, "", 0, itl
		if itl == 0 {
			c.TTFTUS = 0
		}
		h.must(h.step(c))
		h.must(h.summary("a-1", nil))
	}
	start := func(answers int) *house {
		h := newHouse(t, func(c *hub.Config) {
			c.SlowestITL, c.Silence, c.Suspect = hub.Default().SlowestITL, time.Hour, time.Hour
		})
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		for i := range answers {
			d := ask(h, fmt.Sprint("before", i))
			h.pass(time.Second)
			h.serve(d, market.Usage{Prompt: prompt, Output: 10})
		}
		return h
	}

	h := start(0)
	d := ask(h, "t1")
	if d.LimitMS < 7500*second/50 || d.TimeoutMS < d.LimitMS+16*second {
		t.Errorf("unknown, it may take %d ms for its first token, and %d in all", d.LimitMS, d.TimeoutMS)
	}
	if d.FirstMS > 10*second {
		t.Errorf("who cancels pays for a prompt that is computed within %d ms", d.FirstMS)
	}
	took := time.Duration(d.LimitMS) * time.Millisecond // it computes 10 tokens a second, and needs 750 s
	cut(h, d, took, bus.CodeEngineFailed, 0)
	if d = ask(h, "t2"); d.LimitMS < 750*second || d.LimitMS > 3600*second {
		t.Errorf("after a cut at %v it may take %d ms", took, d.LimitMS)
	}

	h = start(9)
	if d = ask(h, "t1"); d.LimitMS > 60*second {
		t.Errorf("an engine that answers in 50 ms may take %d ms", d.LimitMS)
	}
	cut(h, d, time.Duration(d.LimitMS)*time.Millisecond, bus.CodeEngineFailed, 0)
	if again := ask(h, "t2"); again.LimitMS < 3*d.LimitMS {
		t.Errorf("after a cut at %d ms it may take %d", d.LimitMS, again.LimitMS)
	}

	prompt, most = 100, 2000
	h = start(300)
	d = ask(h, "t1") // of 10 ms a token as before; and it takes 40 ms
	if d.TimeoutMS > 70*second {
		t.Errorf("2000 tokens of 10 ms may take %d ms", d.TimeoutMS)
	}
	cut(h, d, time.Duration(d.TimeoutMS)*time.Millisecond, bus.CodeTimeout, 40_000)
	if d = ask(h, "t2"); d.TimeoutMS < 80*second {
		t.Errorf("2000 tokens of 40 ms may take %d ms", d.TimeoutMS)
	}
}

// Once an agent was seen to answer two hundred times, money is held for as long as one answer in a hundred
// would take if all its slots were taken, and not for the slowest that is assumed. An agent that claims to be
// slow has others' money held no longer, and one that claims to be fast no shorter than their own answers
// take.
func TestMoneyIsHeldByWhatWasSeen(t *testing.T) {
	prompt := 100 * testConfig().SlowestITL // of which nothing is known here
	held := func(answers int, liar time.Duration) (agents [3]time.Duration) {
		h := newHouse(t, nil)
		ids := []string{"a-1", "a-2", "liar"}
		for _, id := range ids {
			h.join(id, "llama", 1, 0.9, card(1, 1, 4))
		}
		for i := range answers {
			for k, id := range ids {
				itl := 20*time.Millisecond + time.Duration(i%10)*time.Millisecond
				if k == 2 && liar > 0 {
					itl = liar
				}
				h.n.Teach(id, predict.Features{Prompt: 100, MaxTokens: 1000},
					predict.Observation{Prompt: 100, Output: 100, TTFT: 50 * time.Millisecond, ITL: itl})
			}
		}
		for k, id := range ids {
			agents[k] = h.n.AnswerWithin(id, 100, 1000) - prompt
		}
		return agents
	}
	assumed := 1000 * testConfig().SlowestITL
	if got := held(190, 0); got[0] < assumed || got[0] > assumed+time.Second {
		t.Errorf("after few answers money is held for %v, want %v", got[0], assumed)
	}
	seen := held(300, 0)
	if seen[0] < 29*time.Second || seen[0] > 32*time.Second {
		t.Errorf("of answers that take 20 to 29 s money is held for %v", seen[0])
	}
	for _, lie := range []time.Duration{time.Microsecond, time.Minute} {
		got := held(300, lie)
		for k := range 2 {
			if got[k] > seen[k]*5/4 || got[k] < 29*time.Second {
				t.Errorf("another says %v for a token: money is held for %v, and without it for %v", lie,
					got[k], seen[k])
			}
		}
	}
	if slow := held(300, 250*time.Millisecond)[2]; slow < 250*time.Second {
		t.Errorf("an agent that takes 250 ms for a token is given %v for a thousand", slow)
	}
}
