package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

func named() Config {
	c := Default()
	c.Domain, c.Hub, c.Journal, c.Labels = "math", "hub-1", "hub-math", []string{"gsm8k"}
	return c
}

func TestConfig(t *testing.T) {
	c := named()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if err := Default().Validate(); err == nil {
		t.Error("a hub without names")
	}
	c.Journal, c.MaxWaiting, c.Deadline, c.Labels = "treasury", 0, 2*c.MaxDeadline, []string{"a b"}
	c.Batch.MaxBatch, c.Settle = 0, "barter"
	c.MaxAgents = MaxAgents + 1 // a round of theirs with one task of market.MaxWorth would not be cleared
	c.Regimes.Adapt = true
	err := c.Validate()
	for _, field := range []string{"journal", "labels", "max_waiting", "max_agents", "deadline", "max_batch",
		"settle", "no toll that follows"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// A domain's settings lie over a hub's file: what they leave out is as that says, and those that cannot be
// applied, or are another domain's, are refused.
func TestSettings(t *testing.T) {
	c, wait, eager := named(), int64(250), !named().Batch.Eager
	got, err := c.Overlay(&bus.MarketConfig{Domain: "math", MaxBatch: 7, MaxWaitMS: &wait, Eager: &eager})
	if err != nil || got.Batch.MaxBatch != 7 || got.Batch.MaxWait != 250*time.Millisecond ||
		got.Batch.Eager != eager || got.Settle != c.Settle || got.Deadline != c.Deadline {
		t.Errorf("%v: %+v", err, got.Batch)
	}
	if got, err = got.Overlay(nil); err != nil || got.Batch.MaxBatch != 7 {
		t.Errorf("without settings: %v, %+v", err, got.Batch)
	}
	for _, m := range []bus.MarketConfig{{Domain: "code"}, {Domain: "math", MaxBatch: -1},
		{Domain: "math", Pricing: "barter"}} {
		_, err := c.Overlay(&m)
		if err == nil || !strings.Contains(err.Error(), "settings of domain "+m.Domain) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

// An agent is sold where its first domain is served, with slots and at a card.
func TestWhatIsSold(t *testing.T) {
	c := named()
	for _, test := range []struct {
		change func(*bus.Registration)
		wrong  string // "": nothing
	}{
		{func(*bus.Registration) {}, ""},
		{func(r *bus.Registration) { r.Domains[0].Domain = "gsm8k" }, ""},
		{func(r *bus.Registration) { r.Domains[0].Domain = "code" }, "its first domain is code"},
		{func(r *bus.Registration) { r.Slots = 0 }, "slots"},
		{func(r *bus.Registration) { r.Price.Hit = 2 * r.Price.Miss }, "hit"},
		{func(r *bus.Registration) { r.Agent = "a b" }, "agent"},
	} {
		reg := bus.Registration{Agent: "a-1", Boot: 1, Model: "llama", BlockSize: 16, Slots: 2,
			Domains: []bus.DomainScore{{Domain: "math", Score: 0.9}, {Domain: "art", Score: 0.1}},
			State:   bus.StateReady, Price: market.Price{Miss: 2, Hit: 1, Out: 3}}
		test.change(&reg)
		err := c.Sells(&reg)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%v, want %q", err, test.wrong)
		}
	}
	if c.WaitingPerClient() != c.MaxWaiting/4 {
		t.Errorf("%d of a client may wait", c.WaitingPerClient())
	}
}

// A task that never reached the Node is told why, within the bounds of a message, under ids that can be sent.
func TestRefusalOfATaskThatWasNotRead(t *testing.T) {
	long := &bus.Error{Code: bus.CodeNoRoom, Message: strings.Repeat("x", bus.MaxText+1)}
	r := named().Refusal(&bus.Task{Client: "ann", ID: "t1"}, long, time.Second).Result
	if r.Client != "ann" || r.Task != "t1" || r.Hub != "math" || r.Code != bus.CodeNoRoom ||
		r.RetryMS != 1000 || len(r.Message) != bus.MaxText {
		t.Errorf("%+v", r)
	}
	a := named().Refusal(&bus.Task{Client: "a b", ID: "t1"}, errors.New("no message"), 0)
	if r := a.Result; r.Client != "unknown" || r.Task != "unknown" || r.Code != bus.CodeInternal ||
		a.Validate() != nil {
		t.Errorf("%+v, %v", r, a.Validate())
	}
}
