package serve

import (
	"context"
	"testing"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/market"
)

// touchOnly is an engine that serves tasks at once, and touches in so long.
func touchOnly(o *town, takes time.Duration) {
	o.engine.acts = []act{func(ctx context.Context, token func(agentd.Chunk) error) (agentd.Answer, error) {
		o.engine.mu.Lock()
		r := o.engine.asked[len(o.engine.asked)-1]
		o.engine.mu.Unlock()
		if r.IDs == nil {
			return agentd.Answer{Finish: "stop", Usage: market.Usage{Prompt: 4, Output: 2}},
				token(agentd.Chunk{
					Text: "so", Tokens: []uint32{7, 8}, PromptIDs: []uint32{1, 2, 3, 4}, Prompt: 4, Count: 2,
					Events: 1})
		}
		select {
		case <-ctx.Done():
			return agentd.Answer{}, context.Cause(ctx)
		case <-time.After(takes):
		}
		return agentd.Answer{Finish: "length", TTFT: takes,
			Usage: market.Usage{Prompt: len(r.IDs), Cached: 4, Output: 1}}, nil
	}}
}

// touches has the town's hub say touches of ann's session, and waits until they are heard.
func (o *town) touch(epoch int64, ids ...string) {
	o.t.Helper()
	for _, id := range ids {
		d := dispatch("math/9/0")
		d.Epoch, d.Kind, d.MaxTokens, d.TimeoutMS = epoch, bus.DispatchPrefetch, 1, 2000
		d.Task = bus.Task{Client: "probe-math", ID: id}
		d.Session, d.Tokens = bus.SessionKey("ann", "s-h"), 4
		o.hub.Publish(bus.Msg{Subject: bus.DispatchSubject("a1", "math"),
			Reply: bus.TakenSubject("math", "9-0", "a1"), Data: encoded(o.t, d)})
	}
	pass(0)
}

// told are the codes of touches by their ids, "done" of those that were made.
func (o *town) told() map[string]bus.Code {
	codes := map[string]bus.Code{}
	for _, c := range o.done() {
		if c.Client == "probe-math" {
			if codes[c.Task] = c.Code; c.Outcome == bus.OutcomeDone {
				codes[c.Task] = "done"
			}
		}
	}
	return codes
}

func mayTouch(c *agentd.Config) { c.Agents[0].Slots, c.Agents[0].Touches = 3, true }

// A hub's touches are made with the tokens of the session's last turn, as many at once as the engine has
// sequences free, and each is told of once.
func TestTouchesAreMade(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		touchOnly(o, 10*time.Millisecond)
		o.dispatch(d)
		pass(20 * time.Millisecond)
		o.touch(d.Epoch, "t1", "t2", "t3", "t4")
		pass(11 * time.Millisecond)
		if got := o.told(); len(got) != 3 || got["t1"] != "done" {
			t.Errorf("after one touch's time: %v", got)
		}
		pass(10 * time.Millisecond)
		got := o.told()
		if len(got) != 4 || got["t4"] != "done" {
			t.Errorf("after two: %v", got)
		}
		q := o.engine.asked[1]
		if len(q.IDs) != 5 || q.IDs[4] != 7 || q.MaxTokens != 1 {
			t.Errorf("asked: %+v", q)
		}
		if s := o.server.Stats().Agents[0]; s.Touches != 4 || s.TouchedCached != 16 || s.Slots != 2 {
			t.Errorf("%+v", s)
		}
	}, mayTouch)
}

// A touch ends within a tenth of a second of a task's arrival, whether it is under way or waits, and the task
// has its first token meanwhile; one that came after the task goes on.
func TestTouchesMakeWay(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		touchOnly(o, time.Second)
		o.dispatch(d)
		pass(20 * time.Millisecond)
		o.touch(d.Epoch, "t1", "t2", "t3", "t4")
		pass(10 * time.Millisecond)
		next := dispatch("h2")
		next.Epoch = d.Epoch
		if r := o.dispatch(next); r.Code != "" {
			t.Fatalf("%+v", r)
		}
		o.touch(d.Epoch, "t5")
		if n := len(o.done()); n != 2 {
			t.Errorf("%d tasks are served at once, want 2", n)
		}
		pass(99 * time.Millisecond)
		got := o.told()
		for _, id := range []string{"t1", "t2", "t3", "t4"} {
			if got[id] != bus.CodeNoSlot {
				t.Errorf("%s: %q a tenth of a second after a task came", id, got[id])
			}
		}
		pass(time.Second)
		if got := o.told(); got["t5"] != "done" || len(got) != 5 {
			t.Errorf("one that came later: %v", got)
		}
	}, mayTouch)
}

// A touch is not made for longer than its hub waits, nor by an agent that is not set up for it, which says
// so.
func TestTouchesThatAreNotMade(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		touchOnly(o, time.Minute)
		o.dispatch(d)
		pass(20 * time.Millisecond)
		o.touch(d.Epoch, "t1")
		pass(2100 * time.Millisecond)
		if got := o.told(); got["t1"] != bus.CodeNoSlot {
			t.Errorf("after the hub's time: %v", got)
		}
	}, mayTouch)
	inTown(t, func(o *town, d *bus.Dispatch) {
		touchOnly(o, time.Millisecond)
		o.dispatch(d)
		pass(20 * time.Millisecond)
		o.touch(d.Epoch, "t1")
		pass(20 * time.Millisecond)
		if got := o.told(); got["t1"] != bus.CodeUnsupportedField {
			t.Errorf("an agent without touches: %v", got)
		}
	})
}
