package classifier

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

var noon = time.Unix(1_700_000_000, 0)

// tableOf reads hubs as people write them, one a line:
//
//	math: serves math; agents 2; room 9; model m price 100 ttft 50 quality 0.8 [free 1] [context 4000];
//	[general]; [silent 9s]; [new]
func tableOf(t *testing.T, text string) *Table {
	t.Helper()
	table := &Table{}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		domain, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			t.Fatalf("line %d: no colon: %s", i, line)
		}
		st := &bus.Status{Domain: domain, Epoch: 5, Seq: 1, Agents: 1, Slots: 4, Free: 4, Room: 10}
		heard, isNew := noon, false
		for _, part := range strings.Split(rest, ";") {
			words := strings.Fields(part)
			number := func(i int) int {
				n, err := strconv.Atoi(words[i])
				if err != nil {
					t.Fatalf("line %q: %v", line, err)
				}
				return n
			}
			switch words[0] {
			case "serves":
				st.Labels = words[1:]
			case "general":
				st.General = true
			case "agents":
				st.Agents = number(1)
			case "closed":
				st.Room, st.Closed = 0, "its disk is full"
				if len(words) > 1 {
					st.ClosedMS = int64(number(1))
				}
			case "room":
				st.Room = number(1)
			case "waiting":
				st.Waiting = number(1)
			case "free":
				st.Free = number(1)
			case "new":
				isNew = true
			case "silent":
				d, err := time.ParseDuration(words[1])
				if err != nil {
					t.Fatal(err)
				}
				heard = noon.Add(-d)
			case "model":
				m := bus.ModelStatus{Model: words[1], Agents: 1, Free: 1, Quality: 0.8}
				for i := 2; i < len(words); i += 2 {
					switch words[i] {
					case "price": // of a million tokens of any kind, in thousandths of a credit
						p := market.Credits(number(i+1)) * market.Credit / 1000
						m.Price = market.Price{Miss: p, Hit: p, Out: p}
					case "ttft":
						m.TTFTUS = int64(number(i+1)) * 1000
					case "quality":
						m.Quality, _ = strconv.ParseFloat(words[i+1], 64)
					case "free":
						m.Free = number(i + 1)
					case "pools":
						m.Pools = words[i+1]
					case "context":
						m.MaxModelLen = number(i + 1)
					default:
						t.Fatalf("line %q: what is %q", line, words[i])
					}
				}
				st.Models = append(st.Models, m)
			default:
				t.Fatalf("line %q: what is %q", line, words[0])
			}
		}
		entry := bus.HubEntry{Domain: domain, Labels: st.Labels, General: st.General}
		table = table.WithEntry(entry, 5, heard)
		if !isNew {
			table = table.WithStatus(st, heard)
		}
	}
	return table
}

func TestChoose(t *testing.T) {
	credits := func(c market.Credits) *market.Credits { return &c }
	share := func(x float64) *float64 { return &x }
	const three = `
		code:    serves code; model coder price 500 ttft 40
		general: serves general; general; model small price 100 ttft 20; model large price 900 ttft 200 quality 0.95
		math:    serves math; model m price 300 ttft 50`
	for _, c := range []struct {
		name, hubs string
		want       Want
		tried      string
		go_, code  string
	}{
		{name: "the hub that serves the label", hubs: three, want: Want{Label: "math", Confident: true},
			go_: "math"},
		{name: "not confident: the general hub", hubs: three, want: Want{Label: "general"}, go_: "general"},
		{name: "nobody serves it: the general hub", hubs: three, want: Want{Label: "law", Confident: true},
			go_: "general"},
		{name: "no general hub: the next best", hubs: "math: serves math; model m",
			want: Want{Label: "law", Confident: true}, go_: "math"},
		{name: "not confident and no general hub: who serves the label",
			hubs: "a: serves b; model m\nb: serves general; model m", want: Want{Label: "general"}, go_: "b"},
		{name: "full: passed over",
			hubs: "general: serves general; general; model m\nmath: serves math; room 0; model m",
			want: Want{Label: "math", Confident: true}, go_: "general"},
		{name: "no agents: passed over",
			hubs: "general: serves general; general; model m\nmath: serves math; agents 0",
			want: Want{Label: "math", Confident: true}, go_: "general"},
		{name: "silent: passed over",
			hubs: "general: serves general; general; model m\nmath: serves math; silent 9s; model m",
			want: Want{Label: "math", Confident: true}, go_: "general"},
		{name: "tried: the next", hubs: three, tried: "math", want: Want{Label: "math", Confident: true},
			go_: "general"},
		{name: "all tried", hubs: three, tried: "math general code",
			want: Want{Label: "math", Confident: true}, code: "no_room"},
		{name: "just elected, not heard yet", hubs: "math: serves math; new",
			want: Want{Label: "math", Confident: true, Model: "m"}, go_: "math"},
		{name: "heard before not heard", hubs: "a: serves math; new\nb: serves math; model m",
			want: Want{Label: "math", Confident: true}, go_: "b"},

		{name: "model: only hubs that have it", hubs: three,
			want: Want{Label: "math", Confident: true, Model: "coder"}, go_: "code"},
		{name: "model nobody has", hubs: three, want: Want{Label: "math", Confident: true, Model: "gpt"},
			code: "unknown_model"},
		{name: "model where no agent is there", hubs: "a: serves x; agents 0\nb: serves y; silent 9s; model m",
			want: Want{Label: "x", Confident: true, Model: "m"}, code: "no_room"},
		{name: "model whose hub is full", hubs: "a: serves x; room 0; model m",
			want: Want{Label: "x", Confident: true, Model: "m"}, code: "no_room"},
		{name: "the only hub takes no task", hubs: "a: serves x; closed; model m",
			want: Want{Label: "x", Confident: true, Model: "m"}, code: "unavailable"},
		{name: "one takes no task, and one is full",
			hubs: "a: serves x; closed; model m\nb: serves x; room 0; model m",
			want: Want{Label: "x", Confident: true, Model: "m"}, code: "no_room"},
		{name: "one takes no task, and one has refused", hubs: "a: serves x; closed; model m\nb: serves x; model m",
			tried: "b", want: Want{Label: "x", Confident: true, Model: "m"}, code: "no_room"},
		{name: "one takes no task, and none has another model", hubs: "a: serves x; closed; model m",
			want: Want{Label: "x", Confident: true, Model: "gpt"}, code: "unknown_model"},
		{name: "prompt longer than any context", hubs: "a: serves x; model m context 100",
			want: Want{Label: "x", Model: "m", PromptTokens: 400, PromptLeast: 100}, code: "prompt_too_long"},
		{name: "prompt that may be",
			hubs: "a: serves x; model m context 99\nb: serves y; model m context 100",
			want: Want{Label: "x", Confident: true, Model: "m", PromptTokens: 399, PromptLeast: 99},
			go_:  "b"},
		{name: "texts to embed, longer than any context",
			hubs: "a: serves x; model m context 100 pools embedding",
			want: Want{Label: "x", Model: "m", Kind: bus.KindEmbedding, PromptTokens: 400, PromptLeast: 100},
			code: "prompt_too_long"},
		{name: "prompt that one hub can read",
			hubs: "a: serves x; model m context 100\nb: serves y; model m context 200",
			want: Want{Label: "x", Confident: true, Model: "m", PromptTokens: 101}, go_: "b"},
		{name: "nobody there", hubs: "a: serves x; silent 1h", want: Want{Label: "x"}, code: "no_hub"},

		{name: "named by the client", hubs: three, want: Want{Label: "math", Confident: true, Hub: "code"},
			go_: "code"},
		{name: "named, but full", hubs: "a: serves x; model m\nb: serves y; room 0; model m",
			want: Want{Label: "x", Confident: true, Hub: "b"}, go_: "a"},
		{name: "named, but gone", hubs: three, want: Want{Label: "math", Confident: true, Hub: "nowhere"},
			go_: "math"},
		{name: "the session's hub", hubs: three,
			want: Want{Label: "math", Confident: true, Session: "general"}, go_: "general"},
		{name: "the client's word before the session's past", hubs: three,
			want: Want{Label: "math", Confident: true, Hub: "code", Session: "general"}, go_: "code"},
		{name: "an id used before", hubs: three, want: Want{Label: "math", Confident: true, Pinned: "code"},
			go_: "code"},
		{name: "an id used before at a hub that is gone: never elsewhere", hubs: three,
			want: Want{Label: "math", Confident: true, Pinned: "gone"}, code: "unavailable"},
		{name: "at one that is silent", hubs: "math: serves math; silent 9s; model m",
			want: Want{Label: "math", Confident: true, Pinned: "math"}, code: "unavailable"},
		{name: "at one whose status is late, which has just said that it has the task",
			hubs: "math: serves math; silent 9s; model m",
			want: Want{Label: "math", Confident: true, Pinned: "math", There: true}, go_: "math"},

		{name: "two hubs of a label: in haste, the fast one", hubs: `
			a: serves x; model m price 100 ttft 1500 quality 0.9
			b: serves x; model m price 100 ttft 100 quality 0.8`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1000, Terms: bus.Terms{Delta: share(0.2)}},
			go_:  "b"},
		{name: "for quality, the good one", hubs: `
			a: serves x; model m price 100 ttft 1500 quality 0.9
			b: serves x; model m price 100 ttft 100 quality 0.3`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1000, Terms: bus.Terms{Delta: share(0.95)}},
			go_:  "a"},
		{name: "all else equal, the cheap one", hubs: `
			a: serves x; model m price 300 ttft 100
			b: serves x; model m price 100 ttft 100`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1000}, go_: "b"},
		{name: "worth much: the good and dear one", hubs: `
			a: serves x; model m price 1000 ttft 100 quality 0.9
			b: serves x; model m price 100 ttft 100 quality 0.5`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1000,
				Terms: bus.Terms{Worth: credits(market.Credit), Delta: share(0.9)}}, go_: "a"},
		{name: "the same below its price: the one that max_price affords", hubs: `
			a: serves x; model m price 1000 ttft 100 quality 0.9
			b: serves x; model m price 100 ttft 100 quality 0.5`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1000,
				Terms: bus.Terms{Worth: credits(market.Credit), Delta: share(0.9),
					MaxPrice: credits(market.Credit / 5000)}}, go_: "b"},
		{name: "every slot taken counts as waiting", hubs: `
			a: serves x; waiting 40; model m price 100 ttft 300 free 0
			b: serves x; model m price 100 ttft 600`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1000}, go_: "b"},
		{name: "a prompt longer than each context, and a hub without agents", hubs: `
			a: general; agents 0
			b: serves x; model m context 4096`,
			want: Want{Label: "x", Confident: true, PromptTokens: 16384, PromptLeast: 4096},
			code: "prompt_too_long"},
		{name: "that is full, whose context would do", hubs: `
			a: general; free 0; room 0; model m context 16384
			b: serves x; model m context 4096`,
			want: Want{Label: "x", Confident: true, PromptTokens: 9000}, code: "no_room"},
		{name: "an answer that one would cut", hubs: `
			a: serves x; model m price 100 context 2500
			b: model m price 300 context 4096
			c: model m price 200 context 4096`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1900, OutputTokens: 2000}, go_: "c"},
		{name: "and would not", hubs: `
			a: serves x; model m price 100 context 2500
			b: model m context 4096`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1900, OutputTokens: 400}, go_: "a"},
		{name: "and all would: where least is cut", hubs: `
			a: serves x; model m context 2500
			b: model m context 3000`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1900, OutputTokens: 2000}, go_: "b"},
		{name: "where its session was", hubs: `
			a: model m context 2500
			b: model m context 4096`,
			want: Want{Label: "x", Session: "a", PromptTokens: 1900, OutputTokens: 2000}, go_: "b"},
		{name: "and that the client names", hubs: `
			a: model m context 2500
			b: model m context 4096`,
			want: Want{Label: "x", Hub: "a", PromptTokens: 1900, OutputTokens: 2000}, go_: "a"},
		{name: "by a model that is not asked for", hubs: `
			a: serves x; model m context 2500; model n context 9000
			b: model m context 4096`,
			want: Want{Label: "x", Model: "m", PromptTokens: 1900, OutputTokens: 2000}, go_: "b"},
		{name: "whose context is not said", hubs: `
			a: serves x; model m context 2500
			b: model m`,
			want: Want{Label: "x", Confident: true, PromptTokens: 1900, OutputTokens: 2000}, go_: "b"},
		{name: "a long prompt, where one context is not said", hubs: `
			a: serves x; model m context 2500; model n`,
			want: Want{Label: "x", Confident: true, PromptTokens: 3000, OutputTokens: 20}, go_: "a"},
		{name: "all equal: the emptier, then the first by name", hubs: `
			a: serves x; free 1; model m
			b: serves x; free 3; model m
			c: serves x; free 3; model m`,
			want: Want{Label: "x", Confident: true}, go_: "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := Default()
			got, err := tableOf(t, c.hubs).Choose(&config, &c.want, noon, strings.Fields(c.tried))
			switch {
			case c.code != "" && (err == nil || err.Code != bus.Code(c.code)):
				t.Errorf("chose %q, %v; want code %s", got, err, c.code)
			case c.code == "" && (err != nil || got != c.go_):
				t.Errorf("chose %q, %v; want %s", got, err, c.go_)
			}
		})
	}
}

// Whoever is sent away as no hub takes tasks is told when one may, by what the hubs say: not to ask four
// times a second while a disk is full.
func TestWhenAClosedHubMayBeAskedAgain(t *testing.T) {
	config := Default()
	for hubs, want := range map[string]int64{
		"a: serves x; closed 10000; model m":                                    10_000,
		"a: serves x; closed 60000; model m\nb: serves x; closed 1000; model m": 1000,
		"a: serves x; closed 0; model m":                                        leadMS, // it does not say
	} {
		_, no := tableOf(t, hubs).Choose(&config, &Want{Label: "x", Confident: true, Model: "m"}, noon, nil)
		if no == nil || no.Code != bus.CodeUnavailable {
			t.Fatalf("%q: %v", hubs, no)
		}
		if r := Refusal(no, "ann", "", nil); r.RetryMS != want {
			t.Errorf("%q: again in %d ms, want %d", hubs, r.RetryMS, want)
		}
	}
}

// A hub's planned restart is outlived by clients that come twice more, when they are told to: it takes a
// second until another leads, and as long until that has its agents.
func TestARestartIsOutlived(t *testing.T) {
	config := Default()
	for hubs, code := range map[string]bus.Code{"a: serves x; silent 1h": bus.CodeNoHub,
		"a: serves x; agents 0": bus.CodeNoRoom, "a: serves x; closed 0; model m": bus.CodeUnavailable} {
		_, no := tableOf(t, hubs).Choose(&config, &Want{Label: "x", Confident: true}, noon, nil)
		if no == nil || no.Code != code || 2*Refusal(no, "ann", "", nil).RetryMS < 2000 {
			t.Errorf("%q: %v, again in %d ms", hubs, no, Refusal(no, "ann", "", nil).RetryMS)
		}
	}
}

func TestUnknownModelNamesThoseServed(t *testing.T) {
	config := Default()
	_, err := tableOf(t, "a: serves x; model m2; model m1\nb: serves y; model m1").Choose(&config,
		&Want{Model: "m3"}, noon, nil)
	if err == nil || !strings.Contains(err.Message, `"m3"`) || !strings.Contains(err.Message, "m1, m2") {
		t.Errorf("error is %v; want it to name m3 and list m1, m2", err)
	}
}

// A model whose only agents are away for a moment is not one that never was: who asks is told to come again.
// After ten minutes it is unknown like any other.
func TestModelThatWasSoldOfLate(t *testing.T) {
	config := Default()
	hub := func(domain string) bus.HubEntry { return bus.HubEntry{Domain: domain, Journal: domain} }
	status := func(domain string, epoch int64, seq uint64, models ...string) *bus.Status {
		st := &bus.Status{Domain: domain, Epoch: epoch, Seq: seq, Agents: 1, Slots: 4, Free: 4, Room: 10}
		for _, m := range models {
			st.Models = append(st.Models, bus.ModelStatus{Model: m, Agents: 1, Free: 1})
		}
		return st
	}
	both := new(Table).WithEntry(hub("a"), 5, noon).WithEntry(hub("b"), 5, noon).
		WithStatus(status("a", 5, 1, "m1"), noon).WithStatus(status("b", 5, 1, "m2"), noon)
	later := noon.Add(time.Second)
	for name, table := range map[string]*Table{
		"its agents left": both.WithStatus(status("a", 5, 2), later),
		"another came":    both.WithStatus(status("a", 5, 2, "m3"), later),
		"its hub left":    both.Without("a", later),
		"a new leader":    both.WithEntry(hub("a"), 6, later).WithStatus(status("a", 6, 1), later),
		"its hub is silent": both.WithStatus(status("a", 5, 2, "m1"), later).
			WithStatus(status("b", 5, 9, "m2"), later.Add(config.StatusTTL)),
		"it went before, and b sells others": both.WithStatus(status("a", 5, 2), later).
			WithStatus(status("b", 5, 2, "m4"), later),
	} {
		t.Run(name, func(t *testing.T) {
			speak := func(at time.Time) *Table {
				return table.WithStatus(status("b", 5, 10, "m2"), at)
			}
			want := func(model string, at time.Time, code bus.Code, says string) {
				t.Helper()
				_, err := speak(at).Choose(&config, &Want{Model: model}, at, nil)
				if err == nil || err.Code != code || !strings.Contains(err.Message, says) {
					t.Errorf("%s after %v: %v; want %s that says %q", model, at.Sub(noon), err, code, says)
				}
				if ms := Refusal(err, "ann", "", nil).RetryMS; (ms >= 1000) != (code == bus.CodeUnavailable) {
					t.Errorf("%s: come again after %d ms", code, ms)
				}
			}
			soon := later.Add(config.StatusTTL + 2*time.Second)
			want("m1", soon, bus.CodeUnavailable, `"m1" was served here until`)
			want("m1", soon, bus.CodeUnavailable, "served now: m2")
			want("m9", soon, bus.CodeUnknownModel, "m2")
			want("m1", soon.Add(soldFor), bus.CodeUnknownModel, "m2")
		})
	}
	back := both.WithStatus(status("a", 5, 2), later).WithStatus(status("a", 5, 3, "m1"), later)
	if got, err := back.Choose(&config, &Want{Model: "m1"}, later, nil); err != nil || got != "a" {
		t.Errorf("back again it goes to %q, %v; want a", got, err)
	}
	many := both
	for i := range 5 * maxSold {
		many = many.WithStatus(status("a", 5, uint64(i+2), fmt.Sprint("x", i)), later)
	}
	if len(many.sold) > maxSold {
		t.Errorf("%d models are remembered; want at most %d", len(many.sold), maxSold)
	}
}

// Whatever the statuses say: nobody is chosen who is blocked or was tried, trying everyone ends, and the
// order of news does not matter.
func TestChooseHoldsForAnyTable(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var lines []string
		for i := range 1 + rng.IntN(6) {
			line := fmt.Sprintf("h%d: serves %s; agents %d; room %d; model m%d price %d ttft %d", i,
				[]string{"x", "y"}[rng.IntN(2)],
				rng.IntN(3), rng.IntN(3), rng.IntN(2), rng.IntN(1000), rng.IntN(3000))
			if rng.IntN(3) == 0 {
				line += "; general"
			}
			lines = append(lines, line)
		}
		a := tableOf(t, strings.Join(lines, "\n"))
		rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		b := tableOf(t, strings.Join(lines, "\n"))
		config := Default()
		want := Want{Label: "x", Confident: rng.IntN(2) == 0, PromptTokens: rng.IntN(5000)}
		if rng.IntN(2) == 0 {
			want.Model = "m1"
		}
		var tried []string
		for {
			hub, err := a.Choose(&config, &want, noon, tried)
			again, errAgain := b.Choose(&config, &want, noon, tried)
			if hub != again || (err == nil) != (errAgain == nil) {
				t.Fatalf("seed %d: %q in one order of news, %q in another", seed, hub, again)
			}
			if err != nil {
				break
			}
			i, _ := a.find(hub)
			if code := a.Hubs[i].blocked(&config, &want, want.PromptTokens, noon); code != "" {
				t.Fatalf("seed %d: chose %s, which is blocked: %s", seed, hub, code)
			}
			tried = append(tried, hub)
			if len(tried) > len(lines) {
				t.Fatalf("seed %d: chose one twice: %v", seed, tried)
			}
		}
	}
}

func TestTableTakesNewsOnce(t *testing.T) {
	table := tableOf(t, "a: serves x; room 7; model m")
	room := func(table *Table) int { return table.Hubs[0].Status.Room }
	for _, c := range []struct {
		name string
		st   bus.Status
		want int
	}{
		{"newer", bus.Status{Domain: "a", Epoch: 5, Seq: 2, Room: 1}, 1},
		{"out of order", bus.Status{Domain: "a", Epoch: 5, Seq: 0, Room: 1}, 7},
		{"an earlier leader's", bus.Status{Domain: "a", Epoch: 4, Seq: 9, Room: 1}, 7},
		{"of a hub that is not in the registry", bus.Status{Domain: "b", Epoch: 5, Seq: 9, Room: 1}, 7},
		{"of a leader that the registry has not named",
			bus.Status{Domain: "a", Epoch: 1 << 50, Seq: 2, Room: 1}, 7},
		{"of a number that cannot be", bus.Status{Domain: "a", Epoch: 5, Seq: 1 << 50, Room: 1}, 7},
	} {
		if got := room(table.WithStatus(&c.st, noon)); got != c.want {
			t.Errorf("%s: room is %d, want %d", c.name, got, c.want)
		}
	}
	if st := table.WithEntry(bus.HubEntry{Domain: "a"}, 6, noon).Hubs[0].Status; st != nil {
		t.Error("a new leader kept the old one's status")
	}
	if st := table.WithEntry(bus.HubEntry{Domain: "a", Hub: "x"}, 5, noon).Hubs[0].Status; st == nil {
		t.Error("the same leader's new entry lost its status")
	}
	if n := len(table.Without("a", noon).Hubs); n != 0 {
		t.Error("hubs stayed that are gone")
	}
	if len(table.Hubs) != 1 {
		t.Error("news changed a table that others read")
	}
}

// What the registry remembers of a hub counts until it is forgotten, and what the door has seen of it for as
// long as readers ask, whichever comes first.
func TestHubsThatHaveLed(t *testing.T) {
	if bus.LedFor < leftFor+2*bus.LedEvery {
		t.Errorf("a hub is remembered for %v, and writes that down each %v: not for %v after it has left",
			bus.LedFor, bus.LedEvery, leftFor)
	}
	misses := func(table *Table, after time.Duration, want bool) {
		t.Helper()
		if got := table.Misses(noon.Add(after), time.Time{}); got != want {
			t.Errorf("misses a hub after %v: %v", after, got)
		}
	}
	a, b := bus.HubEntry{Domain: "a", Journal: "ja"}, bus.HubEntry{Domain: "a", Journal: "jb"}
	table := (&Table{}).WithLed("ja", noon).WithLed("jb", noon)
	misses(table, time.Hour, true)
	table = table.WithEntry(a, 5, noon)
	misses(table, 0, true)
	table = table.WithoutLed("jb")
	misses(table, 0, false)
	misses(table.WithLed("ja", noon), 0, false) // it leads

	left := table.Without("a", noon)
	misses(left, leftFor, true)
	misses(left.WithLed("ja", noon), leftFor+time.Second, false) // it was seen to leave
	misses(left.WithoutLed("ja"), leftFor-time.Second, true)
	misses(left.WithEntry(b, 6, noon), time.Second, true)
	misses(left.WithEntry(a, 6, noon), time.Second, false)
	later := left.WithEntry(b, 6, noon).Without("a", noon.Add(leftFor+time.Second)) // both are known still
	misses(later.WithLed("ja", noon), 3*leftFor, false)

	// A hub that had left when a task was first sent cannot have it. Of one that only the registry remembers
	// the door knows by when: as it was told of it, or of all hubs.
	soon := noon.Add(time.Minute)
	for name, c := range map[string]struct {
		table *Table
		left  time.Time
	}{
		"seen to leave":           {left, noon},
		"another leads since":     {left.WithEntry(b, 6, soon), noon},
		"remembered":              {(&Table{}).WithLed("ja", noon), noon},
		"remembered, and no more": {(&Table{}).WithLed("ja", noon).Whole(soon), soon},
		"seen, and all are known": {left.Whole(soon), noon},
	} {
		for first, want := range map[time.Time]bool{{}: true, c.left.Add(-time.Second): true, c.left: true,
			c.left.Add(1): false} {
			if got := c.table.Misses(soon.Add(time.Second), first); got != want {
				t.Errorf("%s: of a task first sent at %v it misses one: %v", name, first, got)
			}
		}
	}
}

// A task that its reader asks for again was first sent as long ago as the reader says, and as it may have
// been on its way; one whose reader does not say may have been sent at any time.
func TestWhenATaskWasFirstSent(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d - sentWithin) }
	for _, c := range []struct {
		age, clock int64 // ms; by the reader's clock, against noon; 0: it does not say
		want       time.Time
	}{
		{0, 0, time.Time{}}, {1, 0, ago(time.Millisecond)}, {60_000, 0, ago(time.Minute)},
		{60_000, -59_000, ago(time.Minute)}, {60_000, -61_000, ago(61 * time.Second)},
	} {
		task := &bus.Task{AgeMS: c.age}
		if c.clock != 0 {
			task.FirstMS = noon.UnixMilli() + c.clock
		}
		if got := FirstSent(task, noon); !got.Equal(c.want) {
			t.Errorf("%d ms, by the clock %d ms: %v, want %v", c.age, c.clock, got, c.want)
		}
	}
}

// Whatever is said once in a hub's name, what it says itself counts again within seconds.
func TestOneForgedStatus(t *testing.T) {
	for _, forged := range []bus.Status{
		{Epoch: 1 << 50, Seq: 1 << 50}, {Epoch: 5, Seq: 1 << 50}, {Epoch: 5, Seq: 1<<63 - 1},
		{Epoch: 5, Seq: 60}, {Epoch: 0}, {Epoch: 1<<62 - 1},
	} {
		for _, heard := range []bool{false, true} { // the hub has been heard before
			forged.Domain = "a"
			table := (&Table{}).WithEntry(bus.HubEntry{Domain: "a"}, 5, noon)
			seq := uint64(7)
			if heard {
				table = table.WithStatus(&bus.Status{Domain: "a", Epoch: 5, Seq: seq, Room: 9}, noon)
			}
			table = table.WithStatus(&forged, noon)
			for at := time.Duration(0); ; at += time.Second {
				seq++
				if table = table.WithStatus(&bus.Status{Domain: "a", Epoch: 5, Seq: seq, Room: 9},
					noon.Add(at)); table.Hubs[0].Status != nil && table.Hubs[0].Status.Seq == seq {
					break
				}
				if at > 3*time.Second {
					t.Errorf("%+v: the hub is not believed for %v", forged, at)
					break
				}
			}
		}
	}
}

// Who waits for a minute asks other doors, or the same one, four times more: that is one request, refused
// once.
func TestWhoAsksAgainIsCountedOnce(t *testing.T) {
	c := Default()
	d := NewDesk(&c, maphash.MakeSeed())
	no := &bus.Answer{Result: &bus.Result{Code: bus.CodeNoRoom}}
	for i := range 5 {
		if err := d.Enter("ann", 100); err != nil {
			t.Fatal(err)
		}
		d.Answered("ann", 100, true, i > 0, no)
	}
	s := d.Stats(new(Table), noon)
	if s.Received-s.Repeated != 1 || s.Refused[bus.CodeNoRoom] != 1 || s.Open != 0 {
		t.Errorf("%+v", s)
	}
}

func TestConfig(t *testing.T) {
	good := Default()
	good.ID = "d"
	if err := good.Validate(); err != nil {
		t.Fatalf("the default is refused: %v", err)
	}
	for want, spoil := range map[string]func(*Config){
		"id":                  func(c *Config) { c.ID = "a.b" },
		"general":             func(c *Config) { c.General = "" },
		"labels":              func(c *Config) { c.Labels = map[string]string{"law": "a b"} },
		"min_confidence":      func(c *Config) { c.MinConfidence = 1.5 },
		"max_payload":         func(c *Config) { c.MaxPayload = 0 },
		"silence":             func(c *Config) { c.Silence = -1 },
		"max_open_per_client": func(c *Config) { c.MaxOpenPerClient = -1 },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v; want it to name the field", want, err)
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	table := tableOf(&testing.T{}, `
		code:    serves code; model coder price 500 ttft 40; model b price 1; model c price 9
		general: serves general; general; model small price 100 ttft 20; model large price 900 ttft 200 quality 0.95
		math:    serves math; model m price 300 ttft 50; model n price 4
		maths:   serves math; model m price 200 ttft 90`)
	config := Default()
	want := Want{Label: "math", Confident: true, PromptTokens: 500}
	b.ReportAllocs()
	for b.Loop() {
		table.Choose(&config, &want, noon, nil)
	}
}
