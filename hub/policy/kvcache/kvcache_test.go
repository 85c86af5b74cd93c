package kvcache

import (
	"testing"
	"time"

	"souk/bus/policy"
	"souk/market"
)

var start = time.Unix(1_800_000_000, 0)

// What a client says that comes next is used again where it is, once, unless it has come already, ended, or
// is not known; and no more of it than there is room for.
func TestWhatIsSaidToComeNext(t *testing.T) {
	k := New(100)
	now := start
	turn := func(session policy.ID) {
		e := policy.Event{Kind: policy.Arrived, At: now, Client: 1, Session: session, Role: 5}
		k.Observe(e)
		e.Kind, e.Agent, e.Usage = policy.Served, 70+session, market.Usage{Prompt: 90, Output: 10}
		k.Observe(e)
	}
	next := func(from, to policy.ID) {
		k.Observe(policy.Event{Kind: policy.Next, At: now, Client: 1, Session: to, Parent: from})
	}
	act := func() []policy.Effect {
		return k.Act(now, policy.Room{Effects: 2, Tokens: 250, Work: policy.NewWork(1000)}, nil)
	}
	for s := range policy.ID(6) {
		turn(1 + s)
	}
	next(1, 2)
	next(1, 99)
	next(1, 1)
	if all := act(); len(all) != 1 || all[0].Session != 2 || all[0].Agent != 72 || all[0].Tokens != 100 ||
		all[0].Kind != policy.KeepAlive {
		t.Errorf("wanted %+v", all)
	}
	next(1, 3)
	turn(3)
	next(1, 4)
	k.Observe(policy.Event{Kind: policy.Ended, At: now, Session: 4})
	if all := act(); len(all) != 0 {
		t.Errorf("once, come already, or ended: wanted %+v", all)
	}
	next(1, 5)
	now = now.Add(time.Hour)
	if all := act(); len(all) != 0 {
		t.Errorf("an hour late: wanted %+v", all)
	}
	for s := range policy.ID(1_000_000) {
		next(1, 1+s%7)
	}
	one := policy.Room{Effects: 1, Tokens: 1 << 20, Work: policy.NewWork(1000)}
	if all := k.Act(now, one, nil); len(all) != 1 {
		t.Errorf("of a million hints, where there is room for one: wanted %d", len(all))
	}
	if all := act(); len(all) > 2 {
		t.Errorf("of a million hints: wanted %d", len(all))
	}
}

// Of ten thousand sessions as many are said to come next as are remembered, and then what is to be done is
// asked for until none is left: each is looked at once.
func BenchmarkAct(b *testing.B) {
	k := New(10_000)
	for s := range policy.ID(10_000) {
		for _, kind := range []policy.EventKind{policy.Arrived, policy.Served} {
			k.Observe(policy.Event{Kind: kind, At: start, Client: 1, Agent: 1, Session: s + 1, Role: 5,
				Usage: market.Usage{Prompt: 100}})
		}
	}
	const hints = 1024
	to := make([]policy.Effect, 0, 64)
	b.ReportAllocs()
	for from := policy.ID(0); b.Loop(); from = (from + hints) % 8_000 {
		for s := range policy.ID(hints) {
			k.Observe(policy.Event{Kind: policy.Next, At: start, Client: 1, Session: from + s + 1})
		}
		done := 0
		for done < hints {
			room := policy.Room{Effects: 64, Tokens: 1 << 20, Work: policy.NewWork(1 << 16)}
			done += len(k.Act(start, room, to))
		}
	}
}
