package main

import (
	"context"

	"souk/integration/lab/compare"
	"souk/integration/lab/virtual"
)

const crowdAbout = `Recorded dialogues on simulated engines, turn by turn, once with every rule in front and once with
the market. The market is the real one: a hub's node and its agents whose messages all pass the codec and take
0.3 ms a hop, whose records take 1 ms to be durable, and whose journal is audited at all levels. Rules route at
once and for nothing, 0.3 ms from the engines, and see what a hub sees.

Engines alike are eight with Llama 3.1 8B on an RTX PRO 6000, as measured: 8 requests at once, a step of 9.4 ms
that grows with the prompt tokens computed in it, with the requests that run and with the tokens that they hold.
The same callers ask the same questions under every rule; they differ by seed. Callers say no terms unless a
world says so, and share one cache group.

Open arrivals come first. A trace whose callers do not outnumber the slots by half is played with arrivals,
at a part of what the engines can serve: in a closed loop who is served sooner asks sooner, and a sum a second
says who asked. So it does of a crowd that is refused: who is refused asks his next question at once, and a rule
that refuses all but the dearest tasks gathers more of these a second than callers would bring to it.
`

const cliffAbout = `The same on two engines whose caches hold less than the open sessions need, or nearly so; a ring of
conversations and Mooncake's requests, too. [crowd](crowd.md) says what the market and the engines are.
`

const clockAbout = `Stand-in engines over HTTP, behind a whole market in one process or a router that follows the rule. It is
there to be held against the figures of virtual time: [crowd](crowd.md). Callers, market and engines share the
machine with one another and with whatever else runs there, and a market computes more than a router does: what
it loses here and not there is processor time. Each figure is of one run.
`

const serversAbout = `Running vLLM servers, behind a whole market in one process or a router that follows the rule. The same callers
ask the same questions under every rule, and get answers of as many tokens as were recorded, whatever they say:
the next question has the recorded one before it. So of answers nothing is found again, though **bound** counts them.
A prompt is as long as the servers' own tokenizer says, and rules find its blocks by that, as a router does that
has the model's tokenizer; cached tokens are those that servers report. What rules and callers forecast by is the
profile that was fitted to each server. Callers, market and servers share the machine where that is one. Each
figure is of one run.
`

// crowdMore plays the parts of the page of crowds beside its traces: fleets, terms and callers; and the cost
// of keeping the caches of clients apart.
func crowdMore(ctx context.Context, o virtual.CrowdOptions) ([]virtual.Row, []compare.Section, error) {
	loads := []float64{0.9, 1.1}
	var worlds []virtual.World
	for _, x := range []struct {
		trace, fleet string
		terms        virtual.Terms
		callers      virtual.Callers
		loads        []float64
	}{
		{"mtrag", "mixed", virtual.Tempers, "", loads}, {"mtrag", "two-speeds", virtual.Tempers, "", loads},
		{"mtrag", "dear-and-cheap", virtual.Tempers, "", loads},
		{"mtrag", "mixed", virtual.NoTerms, "", loads}, {"mtrag", "two-speeds", virtual.NoTerms, "", loads},
		{"mtrag", "alike", virtual.Tempers, "", loads}, {"mtrag", "alike", virtual.Spread, "", loads},
		{"mtrag", "mixed", virtual.Tempers, virtual.OneKey, loads},
		{"crowd", "alike", "", virtual.OneKey, []float64{0}},
		{"crowd", "alike", virtual.Tempers, "", []float64{0}},
		{"crowd", "mixed", virtual.Tempers, "", []float64{0}},
		{"crowd", "two-speeds", virtual.Tempers, "", []float64{0}},
	} {
		w := o.World
		w.Terms, w.Callers = x.terms, x.callers
		var err error
		if w.Fleet, err = virtual.FleetNamed(x.fleet); err != nil {
			return nil, nil, err
		}
		if w.Trace, err = virtual.TraceNamed(x.trace); err != nil {
			return nil, nil, err
		}
		at, err := w.At(x.loads)
		if err != nil {
			return nil, nil, err
		}
		worlds = append(worlds, at...)
	}
	o.Progress = progressOf("fleets, terms and callers")
	rows, err := virtual.Compare(ctx, worlds, o)
	if err != nil {
		return nil, nil, err
	}
	o.Traces, o.Loads = []string{"new@1", "new@own", "long@1", "long@own", "tau@1", "tau@own"}, []float64{0.9}
	o.Progress = progressOf("cache groups")
	apart, err := virtual.Crowd(ctx, o)
	sections := []compare.Section{{Title: "Whose caches are kept apart", About: groupsAbout, Rows: apart}}
	return rows, sections, err
}

const groupsAbout = `In all worlds above callers share one cache group, as if they were one client. A market keeps the
caches of its clients apart, since who finds a text cached learns that somebody sent it; who shares is for the
operator to say. Here one system prompt is behind all that is asked, and callers are in one group or each in its
own. Engines, and the indexes of rules, are salted as the market's keyed hashes are, so that nothing of a group
is found, or believed to be found, in another. Of **new** each conversation is its caller's only one, behind
16,000 bytes; of **long** and **tau** callers begin one after another, behind as much and behind 6,000 bytes.
`
