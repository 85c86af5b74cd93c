package classifier

import (
	"hash/maphash"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A door vouches once for each task at each hub that it sends it to, for what the task may cost, and says
// the same again where it sends it again; what is in another hub's hands counts there alone.
func TestADoorVouchesOnceForEachTask(t *testing.T) {
	c := Default()
	d := NewDesk(&c, maphash.MakeSeed())
	now := time.Unix(1_800_000_000, 0)
	table := &Table{}
	for i, domain := range []string{"law", "math"} {
		e := bus.HubEntry{Domain: domain, Labels: []string{domain}, Journal: "j-" + domain}
		table = table.WithEntry(e, int64(i+1), now)
	}
	send := func(id string, most market.Credits) (*Placing, Vouched) {
		t.Helper()
		task := &bus.Task{Client: "ann", ID: id, Prompt: bus.Prompt{Tokens: 10}, Hub: "math"}
		task.Terms.MaxPrice = &most
		p := d.Place(now, task, true, Want{Hub: "math", Label: "math", Confident: true})
		p.Tick(now, table)
		out := p.Ready()
		if out.Send != "math" {
			t.Fatalf("sent to %q", out.Send)
		}
		return p, out.Vouch
	}
	line := uint64(now.UnixMilli())
	p, v := send("t1", 30)
	if want := (Vouched{"j-math", line, 30, 30}); v != want {
		t.Errorf("first: %+v, want %+v", v, want)
	}
	p.Step(now, table, nil, bus.ErrDisconnected, now)
	p.Tick(now.Add(lookAgain), table)
	if out := p.Ready(); out.Send != "math" || out.Vouch != v {
		t.Errorf("sent again: %+v", out)
	}
	if _, v = send("t2", 12); v.Total != 42 || v.Most != 12 {
		t.Errorf("the next: %+v", v)
	}
	p.Step(now, table, &bus.Answer{Result: &bus.Result{Code: bus.CodeNoRoom}}, nil, now)
	if out := p.Ready(); out.Send != "law" || out.Vouch != (Vouched{"j-law", line, 30, 30}) {
		t.Errorf("refused: %+v", out)
	}
	q, _ := send("t3", 5)
	q.Step(now, table, &bus.Answer{Result: &bus.Result{Code: bus.CodeNoRoom}}, nil, now)
	if out := q.Ready(); out.Send != "law" || out.Vouch != (Vouched{"j-law", line, 35, 5}) {
		t.Errorf("at the next hub: %+v", out)
	}
}

// Totals have an end, and so has what a door counts: then it begins a new line, with a number that no life
// of the door has had, whatever its clock says.
func TestLinesOfVouchers(t *testing.T) {
	now := time.UnixMilli(5000)
	var v vouching
	v.line = 7000 // of the life before, whose clock was ahead
	if got := v.add(now, "ann", "j", 9); got != (Vouched{"j", 7001, 9, 9}) {
		t.Errorf("%+v", got)
	}
	got := v.add(now, "ann", "j", market.MaxCredits-9)
	if got.Line != 7001 || got.Total != market.MaxCredits {
		t.Errorf("%+v", got)
	}
	if got := v.add(now, "ann", "j", 1); got != (Vouched{"j", 7002, 1, 1}) {
		t.Errorf("%+v", got)
	}
	if got := v.of(now, "ann", "j", 1); got != (Vouched{"j", 7002, 1, 1}) {
		t.Errorf("%+v", got)
	}
	for i := range 3 * maxVouched {
		v.add(now, "c", string(rune(i+256)), 1)
		if len(v.totals) > maxVouched {
			t.Fatalf("%d are counted", len(v.totals))
		}
	}
	if v.line < 7004 {
		t.Errorf("line %d", v.line)
	}
	if got := v.of(now, "ann", "j", 4); got.Total != 4 { // it was forgotten with its line, and is said anew
		t.Errorf("%+v", got)
	}
}

// A client whose tasks may cost all there is uses up its own count at a hub, and no other client's.
func TestTheDearestTasksLeaveOthersTheirLine(t *testing.T) {
	now := time.UnixMilli(5000)
	var v vouching
	first := v.add(now, "ann", "j", 9)
	last := uint64(0)
	for i := range 50 {
		dear := v.add(now, "rich", "j", market.MaxCredits)
		if dear.Line <= last || dear.Total != market.MaxCredits {
			t.Fatalf("task %d: %+v, after line %d", i, dear, last)
		}
		last = dear.Line
		want := Vouched{"j", first.Line, market.Credits(10 + i), 1}
		if got := v.add(now, "ann", "j", 1); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if got := v.of(now, "ann", "j", 1); got != want {
			t.Fatalf("again: %+v, want %+v", got, want)
		}
	}
}

// What a task may cost is its client's word; or, where there is none, what the door's own price says of its
// tokens, which a client cannot make any larger than what models have context for.
func TestWhatATaskMayCost(t *testing.T) {
	c := Default()
	credits := func(n market.Credits) *market.Credits { return &n }
	perToken := c.Worth / 1_000_000
	for _, x := range []struct {
		task bus.Task
		want market.Credits
	}{
		{bus.Task{Terms: bus.Terms{MaxPrice: credits(7), Worth: credits(9)}}, 7},
		{bus.Task{Terms: bus.Terms{Worth: credits(9)}}, 9},
		{bus.Task{Prompt: bus.Prompt{Tokens: 1000}, MaxTokens: 500}, 1500 * perToken},
		{bus.Task{Prompt: bus.Prompt{Tokens: 1000}}, 2024 * perToken},
		{bus.Task{Prompt: bus.Prompt{Tokens: 1}, MaxTokens: 1}, 512 * perToken},
		{bus.Task{Prompt: bus.Prompt{Tokens: 10}, MaxTokens: bus.MaxTokens}, (10 + 128<<10) * perToken},
	} {
		if got := c.Most(&x.task); got != x.want {
			t.Errorf("%+v may cost %s, want %s", x.task, got, x.want)
		}
	}
	for _, bad := range []func(*Config){func(c *Config) { c.Worth = 0 },
		func(c *Config) { c.Worth = market.MaxPrice + 1 }, func(c *Config) { c.AnswerTokens = 0 }} {
		c := Default()
		if c.ID = "d"; c.Validate() != nil {
			t.Fatal(c.Validate())
		}
		if bad(&c); c.Validate() == nil {
			t.Errorf("%+v", c)
		}
	}
}
