package sage

import (
	"math"
	"testing"
	"time"

	"souk/bus/policy"
)

// Of sessions that were forgotten, as there were too many, none is thought to go on: what a role is worth is
// by those that are remembered, and by all of them once.
func TestForgottenSessionsDoNotGoOn(t *testing.T) {
	const remembers = 500
	s, now := New(Params{}, remembers), start
	for i := range policy.ID(100_000) {
		now = now.Add(time.Millisecond)
		s.Observe(policy.Event{Kind: policy.Arrived, At: now, Client: 2, Session: 1000 + i, Role: 7 + i%300})
		if i%3 == 0 {
			s.Observe(policy.Event{Kind: policy.Ended, At: now, Session: 1000 + i})
		}
	}
	var weigh [roles]float64
	for _, x := range s.sessions.All() {
		s.refresh(x)
		weigh[x.last] += float64(x.share)
	}
	for r, want := range weigh {
		if got := float64(s.live[r]); r > 0 && math.Abs(got-want) > 0.01 {
			t.Errorf("of role %d %.1f sessions are thought to go on, and those that are remembered are %.1f", r, got,
				want)
		}
	}
}

// A role that takes the place of a forgotten one begins anew: sessions that ran the other do not say what
// comes after it, nor how many began with it.
func TestARoleInTheForgottenOnesPlace(t *testing.T) {
	s, now := New(Params{}, 10_000), start
	for i := range policy.ID(endOf - 1) {
		now = walk(s, now, 1000+i, 1000+i)
	}
	other := func(kind policy.EventKind, role policy.ID) {
		now = now.Add(time.Second)
		s.Observe(policy.Event{Kind: kind, At: now, Client: 2, Session: 1, Role: role})
	}
	other(policy.Arrived, 5)
	other(policy.Served, 5)
	if s.index(1, 1000, false) != 0 {
		t.Fatal("role 5 has nobody's place")
	}
	now = walk(s, now, 1000, 2000) // as of client 1, whose role 1000 was forgotten
	if f := s.Predict(now, 1, nil); len(f) > 0 {
		t.Errorf("after role 5, after which nothing was seen, comes %+v", f)
	}
	for i := range policy.ID(50_000) {
		now = now.Add(time.Millisecond)
		s.Observe(policy.Event{Kind: policy.Arrived, At: now, Client: 1, Session: 100_000 + i,
			Role: 100_000 + i})
		s.Observe(policy.Event{Kind: policy.Ended, At: now, Session: 100_000 + i})
	}
	if p := s.Anchor(100_000 + 49_999); p > 0.1 {
		t.Errorf("a role that ran once, of %d that all did, runs soon with a chance of %.2f", endOf-1, p)
	}
}
