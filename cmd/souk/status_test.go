package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/cmd/local"
	"souk/market"
)

// wellSurvey returns one of a market in which nothing is wrong.
func wellSurvey() *local.Survey {
	return &local.Survey{AtMS: 1_800_000_000_000, Hubs: []local.HubSurvey{{Domain: "math",
		Status: &bus.Status{Domain: "math", Agents: 1, Slots: 4, Free: 3, Regime: "below",
			Models: []bus.ModelStatus{{Model: "llama", Agents: 1, Free: 3,
				Price: market.Price{Miss: 75_000_000}}}},
		Feed: &bus.Feed{Domain: "math", Journal: "math", AtMS: 1_800_000_000_000,
			State: &bus.FeedState{Served: 5, Running: 1,
				Avail: 3 * market.Credit, Held: 7, Surplus: 11, Payable: 13, Fleet: 1,
				Agents: []bus.FeedAgent{{Agent: "a-1", Model: "llama", Slots: 4, Running: 1}}}}}},
		Money: &bus.FundsReply{Deposits: 10 * market.Credit, Prepaid: 6 * market.Credit,
			Hubs: []bus.HubFunds{{Hub: "math", Domain: "math"}}},
		Parts: &local.Parts{Nodes: 1, Agents: 1, Running: []local.Part{{Kind: "door", Name: "door-1", PID: 5,
			Host: "h"}, {Kind: "hub", Name: "math", Journal: "math"}, {Kind: "treasury", Name: "treasury"}}}}
}

// Whatever is not well is found, with what to do about it, and nothing else.
func TestWhatIsNotWellIsFound(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	if all := local.Findings(wellSurvey(), nil, now); len(all) != 0 {
		t.Errorf("of a market that is well: %+v", all)
	}
	day := 24 * time.Hour
	for _, test := range []struct {
		name   string
		change func(*local.Survey)
		says   string
	}{
		{"the treasury is silent", func(s *local.Survey) {
			s.Money, s.Silent = nil, []local.Silence{{Part: "treasury", Why: "no answer"}}
		}, "treasury: it does not answer, so no money moves: no answer"},
		{"etcd is", func(s *local.Survey) {
			s.Parts, s.Silent = nil, []local.Silence{{Part: "etcd", Why: "refused"}}
		}, "etcd: it does not answer"},
		{"a hub is", func(s *local.Survey) { s.Hubs[0].Status, s.Hubs[0].Feed = nil, nil },
			"hub math: it says nothing: no task of math is served"},
		{"all are", func(s *local.Survey) { s.Hubs = nil }, "hubs: none says how it is"},
		{"one only speaks", func(s *local.Survey) {
			s.Hubs[0].Feed, s.Silent = nil, []local.Silence{{Part: "hub math", Why: "older"}}
		}, "hub math: it does not answer: older"},
		{"it is closed", func(s *local.Survey) { s.Hubs[0].Status.Closed = "the disk is full" },
			"hub math: it takes no task: the disk is full"},
		{"it does not sell", func(s *local.Survey) { s.Hubs[0].Feed.State.Unready = "stands by" },
			"hub math: it does not sell: stands by"},
		{"it has no agents", func(s *local.Survey) { s.Hubs[0].Status.Agents = 0 },
			"hub math: it has no agents"},
		{"it had faults", func(s *local.Survey) { s.Hubs[0].Feed.State.Faults = 2 }, "hub math: 2 faults"},
		{"a policy is off", func(s *local.Survey) {
			s.Hubs[0].Status.Policies = []bus.PolicyStatus{{Hook: "keep", Policy: "kv", OffMS: 5,
				Why: "hung"}}
		}, "hub math: policy kv of keep is off: hung"},
		{"its clock is ahead", func(s *local.Survey) { s.Hubs[0].Feed.AtMS += 3_600_000 },
			"hub math: its clock is 1h0m0s off"},
		{"an agent is dead", func(s *local.Survey) { s.Hubs[0].Feed.State.Agents[0].State = "dead" },
			"hub math: agents dead: a-1"},
		{"one drains", func(s *local.Survey) { s.Hubs[0].Feed.State.Agents[0].State = "draining" }, ""},
		{"one is nobody's", func(s *local.Survey) {
			s.Parts.Lonely, s.Parts.Alone = 5, []string{"a", "b", "c",
				"d", "e"}
		},
			"agents: 5 have no hub that sells their slots: a, b, c and 2 more"},
		{"no door", func(s *local.Survey) { s.Parts.Running = s.Parts.Running[1:] },
			"doors: the registry names none"},
		{"nobody has the money", func(s *local.Survey) { s.Parts.Running = s.Parts.Running[:2] },
			"treasury: none leads"},
		{"a hub led", func(s *local.Survey) { s.Parts.Earlier = []string{"code"} },
			"hub code: it led within the last 9m0s"},
		{"the treasury misses one", func(s *local.Survey) {
			s.Money.Hubs = append(s.Money.Hubs, bus.HubFunds{Hub: "old", Allotted: market.Credit,
				HeardMS: now.Add(-time.Hour).UnixMilli()})
		}, "hub old: the treasury has heard nothing of it for 1h0m0s, and it has 1 credits of clients"},
		{"creds end", func(*local.Survey) {}, "credentials: of hub math: ends in 13 days, on 2027-01-"},
		{"creds are over", func(*local.Survey) {}, "credentials: of hub math: ended on 2027-01-"},
		{"creds are good", func(*local.Survey) {}, ""},
	} {
		s := wellSurvey()
		test.change(s)
		var creds []local.Credential
		switch test.name {
		case "creds end":
			creds = []local.Credential{{Role: bus.RoleHub, Name: "math",
				Ends: now.Add(14*day - time.Second).UTC()}}
		case "creds are over":
			creds = []local.Credential{{Role: bus.RoleHub, Name: "math", Ends: now.UTC()}}
		case "creds are good":
			creds = []local.Credential{{Role: bus.RoleHub, Name: "math", Ends: now.Add(14 * day).UTC()}}
		}
		all := local.Findings(s, local.EndSoon(creds, now), now)
		if test.says == "" && len(all) == 0 {
			continue
		}
		if len(all) != 1 || !strings.HasPrefix(all[0].Part+": "+all[0].What, test.says) {
			t.Errorf("%s: %+v, want %q", test.name, all, test.says)
		}
	}
}

// The page has 80 columns and a bounded number of lines, however large the market and whatever its parts are
// called, and nothing in it that a terminal obeys.
func TestThePageOfAHugeAndHostileMarket(t *testing.T) {
	s := wellSurvey()
	wide := strings.Repeat("宽ж", 100)
	hostile := "\x1b[2J\x1b]0;owned\a\r\n" + wide
	s.Hubs[0].Status.Regime, s.Hubs[0].Status.Closed = hostile, strings.Repeat(hostile, 5)
	for i := range 500 {
		d := fmt.Sprintf("domain-%d-of-a-name-that-is-long-indeed", i)
		h := local.HubSurvey{Domain: d, Status: &bus.Status{Domain: d, Agents: 1 << 16, Slots: 1 << 16,
			Free: 1 << 16}}
		for k := range 20 {
			h.Status.Models = append(h.Status.Models, bus.ModelStatus{Model: fmt.Sprint(hostile, k),
				Agents: 1 << 20,
				Free:   1 << 20, SlotPrice: market.MaxCredits, Price: market.Price{Miss: market.MaxCredits,
					Hit: market.MaxCredits, Out: market.MaxCredits}})
		}
		s.Hubs = append(s.Hubs, h)
		s.Parts.Running = append(s.Parts.Running, local.Part{Kind: "hub", Name: d, Journal: hostile,
			Host: hostile,
			PID:  1 << 22})
	}
	s.Parts.Agents, s.Parts.Nodes, s.Parts.Lonely = 10_000, 10_000, 9_000
	s.Parts.Alone = []string{hostile, hostile, hostile}
	now := time.UnixMilli(s.AtMS)
	r := statusPage{&local.Report{Market: hostile, Survey: s, Findings: local.Findings(s, nil, now),
		Known: 3}}
	var out bytes.Buffer
	if err := r.page(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) > 200 {
		t.Errorf("%d lines", len(lines))
	}
	for i, l := range lines {
		if strings.HasSuffix(l, " ") {
			t.Errorf("line %d ends in spaces: %q", i, l)
		}
		if text.StringWidth(l) > pageWidth {
			t.Errorf("line %d has %d columns: %q", i, text.StringWidth(l), l)
		}
		if strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("line %d: %q", i, l)
		}
	}
}

// Creds that are not renewed by themselves, as they were made for less than 90 days, are told of in their
// last third, of at most two weeks; when they are over they have ended as was meant. Revoked ones are not
// told of.
func TestBriefCredsAreToldOf(t *testing.T) {
	data, now := t.TempDir(), time.Now()
	keys, err := natsauth.Init(natsauth.Dir(data))
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for name, valid := range map[string]time.Duration{"month": 60 * day, "guest": 3 * day, "gone": 60 * day} {
		if _, err := keys.Add(bus.RoleViewer, bus.IDs{Name: name}, now, valid); err != nil {
			t.Fatal(err)
		}
	}
	if err := keys.Revoke("gone", now); err != nil {
		t.Fatal(err)
	}
	s := local.Reach{Data: data}
	for _, test := range []struct {
		after time.Duration
		want  string
	}{{day, ""}, {2*day + time.Hour, "guest"}, {3*day + time.Hour, ""}, {45 * day, ""}, {47 * day, "month"},
		{61 * day, ""}} {
		var names []string
		at := now.Add(test.after)
		for _, c := range local.EndSoon(s.Credentials(new(local.Survey), at), at) {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("after %v of %q, want %q", test.after, got, test.want)
		}
	}
}
