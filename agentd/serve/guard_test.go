package serve

import (
	"testing"
	"time"

	"souk/agentd"
	"souk/agentd/policy"
	"souk/agentd/policy/guard"
	"souk/bus"
	"souk/market"
)

// An answer that holds what the node looks for ends before it, at the reader and in the completion, and the
// engine's request is ended there; one that does not ends as it did.
func TestAnAnswerIsCutOnItsWay(t *testing.T) {
	inTown(t, func(o *town, d *bus.Dispatch) {
		o.engine.acts = []act{speak(time.Millisecond, "it", " is sec", "ret", " and more", " of it"),
			speak(time.Millisecond, "it", " is sec", "ond")}
		o.dispatch(d)
		pass(50 * time.Millisecond)
		if got, want := o.answer(), "0it|1 is |2[content_filter ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
		c := o.done()
		if len(c) != 1 || c[0].Outcome != bus.OutcomeDone || c[0].Finish != bus.FinishFiltered ||
			c[0].Relayed != 1 ||
			c[0].Cost != d.Price.Cost(market.Usage{Prompt: 20, Output: 1}) {
			t.Errorf("%+v", c)
		}
		if s := o.server.Stats().Agents[0]; s.Caught["n"] != 1 || s.Done != 1 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
		next := dispatch("h2")
		next.Epoch = d.Epoch
		o.dispatch(next)
		pass(50 * time.Millisecond)
		if got, want := o.answer(), "0it|1 is |2[content_filter ]|0it|1 is second|2[stop ]|"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	}, func(c *agentd.Config) {
		c.Policies = policy.Params{Guard: "patterns"}
		c.Patterns = []guard.Pattern{{Name: "n", Pattern: "secret", Action: guard.Cut}}
	})
}
