package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
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
	h.must(h.step(&bus.Summary{Agent: rec.Agent, Boot: 1, Seq: uint64(h.now.UnixMilli()),
		State: bus.StateReady, Slots: 1,
		Price: card(1, 1, 4)}))
	return held
}

// Money is held for an answer of 100 tokens by what its agent has reported, as far as that is believed.
func TestHowLongMoneyIsHeld(t *testing.T) {
	tokens := func(itl time.Duration) time.Duration { return 100*itl + Default().HoldGrace }
	for _, c := range []struct {
		name   string
		change func(*Config)
		others time.Duration // what two others of its class take
		class  string        // of the others; empty: the same
		says   time.Duration
		want   time.Duration
	}{
		{"nothing is known", nil, 0, "", 0, tokens(100 * time.Millisecond)},
		{"it is slow, and given time", nil, 0, "", 250 * time.Millisecond, tokens(250 * time.Millisecond)},
		{"it claims a minute, alone in its class", nil, 0, "", time.Minute, tokens(400 * time.Millisecond)},
		{"it claims a minute among fast ones", nil, 10 * time.Millisecond, "", time.Minute,
			tokens(400 * time.Millisecond)},
		{"it is slow among slow ones", nil, 200 * time.Millisecond, "", 700 * time.Millisecond,
			tokens(700 * time.Millisecond)},
		{"it claims a minute among slow ones", nil, 200 * time.Millisecond, "", time.Minute,
			tokens(800 * time.Millisecond)},
		{"it claims a minute, and another class is slow", nil, 200 * time.Millisecond, "cpu", time.Minute,
			tokens(400 * time.Millisecond)},
		{"they lie together", nil, time.Minute, "", time.Minute, tokens(time.Second)},
		{"engines here are slow, says the operator", func(c *Config) { c.Prior.Slowest = 2 * time.Second }, 0,
			"", time.Minute, tokens(2 * time.Second)},
		{"and may be slower", func(c *Config) { c.Prior.Slowest, c.MaxITL = 2*time.Second, 10*time.Second },
			0, "", time.Minute,
			tokens(8 * time.Second)},
	} {
		h := newHouse(t, c.change)
		if c.others > 0 {
			for i := range 2 {
				reg := registration(fmt.Sprintf("b-%d", i), "llama", 1, 0.9, card(1, 1, 4))
				reg.Class = c.class
				h.must(h.n.Join(h.now, reg))
				h.serveSlowly(fmt.Sprintf("b%d", i), c.others)
				h.n.Leave(h.now, reg.Agent)
			}
			for i := range 2 { // they are there, and busy
				reg := registration(fmt.Sprintf("b-%d", i), "llama", 1, 0.9, card(1, 1, 4))
				reg.Class, reg.State = c.class, bus.StateDraining
				h.must(h.n.Join(h.now, reg))
			}
		}
		h.join("a-1", "llama", 1, 0.9, card(1, 1, 4))
		if c.says > 0 {
			h.serveSlowly("t1", c.says)
		}
		if got := h.serveSlowly("t2", time.Millisecond); got > c.want || got < c.want-c.want/50 {
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
	if got := h.n.slowest(h.n.lookup("a-1")); got != 300*time.Millisecond {
		t.Errorf("it is given %v for a token, want 300 ms", got)
	}
	if got := h.n.slowest(h.n.lookup("a-2")); got != 100*time.Millisecond {
		t.Errorf("another is given %v", got)
	}
}
