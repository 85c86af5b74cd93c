package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// echo is a market that answers with the number of messages it was sent, after a second.
func echo(_ context.Context, t bus.Task) (Answer, error) {
	time.Sleep(time.Second)
	var body struct{ Messages []Message }
	if err := json.Unmarshal(t.Body, &body); err != nil {
		return Answer{}, err
	}
	r := bus.Result{Client: t.Client, Hub: "math", Agent: "a1",
		Usage: market.Usage{Prompt: 10, Cached: 4, Output: 2}, Cost: 5, Premium: 3, Fee: 1}
	return Answer{Text: fmt.Sprintf("%d heard", len(body.Messages)), Result: r, TTFT: time.Second}, nil
}

func dialogues(n, turns int) []Dialogue {
	ds := make([]Dialogue, n)
	for i := range ds {
		ds[i] = Dialogue{ID: fmt.Sprint(i), Domain: "test", System: "Be brief."}
		for t := range turns {
			ds[i].Turns = append(ds[i].Turns, Turn{User: fmt.Sprintf("question %d", t), Answer: "recorded"})
		}
	}
	return ds
}

func TestTurnsFollowOneAnotherWithTheAnswersReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		heard := map[string][]string{}
		market := func(ctx context.Context, task bus.Task) (Answer, error) {
			var body struct{ Messages []Message }
			json.Unmarshal(task.Body, &body)
			var said []string
			for _, m := range body.Messages {
				said = append(said, m.Role+": "+m.Content)
			}
			mu.Lock()
			heard[task.Session] = append(heard[task.Session],
				fmt.Sprintf("%d %s %s", task.Turn, task.Hub, strings.Join(said, " | ")))
			mu.Unlock()
			return echo(ctx, task)
		}
		p, err := Play(t.Context(), dialogues(5, 2), Config{Clients: Mix(1, 4), Concurrency: 3, Run: "r"},
			market)
		if err != nil || p != (Played{Dialogues: 5}) {
			t.Fatalf("got %+v, %v", p, err)
		}
		want := []string{
			"0  system: Be brief. | user: question 0",
			"1 math system: Be brief. | user: question 0 | assistant: 2 heard | user: question 1",
		}
		for i := range 5 {
			if diff := cmp.Diff(want, heard[fmt.Sprintf("r-%d", i)]); diff != "" {
				t.Errorf("session r-%d: want -, got +\n%s", i, diff)
			}
		}
	})
}

func TestConcurrencyAndArrivalsBoundWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		market := func(ctx context.Context, task bus.Task) (Answer, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			return echo(ctx, task)
		}
		begin := time.Now()
		if _, err := Play(t.Context(), dialogues(9, 1), Config{Clients: Mix(1, 2), Concurrency: 3},
			market); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); most.Load() != 3 || took != 3*time.Second {
			t.Errorf("%d at a time for %v, want 3 for 3s", most.Load(), took)
		}
		begin = time.Now()
		arrivals := []time.Duration{0, 10 * time.Second}
		if _, err := Play(t.Context(), dialogues(2, 1),
			Config{Clients: Mix(1, 2), Concurrency: 3, Arrivals: arrivals}, market); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 11*time.Second {
			t.Errorf("took %v, want 11s: the second arrives after 10", took)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := func(code bus.Code, retry int64, times int) Market {
			n := 0
			return func(ctx context.Context, task bus.Task) (Answer, error) {
				if n++; n <= times {
					return Answer{Result: bus.Result{Code: code, RetryMS: retry}}, nil
				}
				return echo(ctx, task)
			}
		}
		for _, c := range []struct {
			name   string
			market Market
			want   Played
			asked  int
		}{
			{"for now: asked again", refuse(bus.CodeNoRoom, 50, 2), Played{Dialogues: 1}, 3},
			{"for now, but too often", refuse(bus.CodeNoRoom, 50, 9), Played{BrokenOff: 1}, 4},
			{"for good: the dialogue ends", refuse(bus.CodeNotWorthIt, 0, 1), Played{BrokenOff: 1}, 1},
		} {
			tally := NewTally()
			cfg := Config{Clients: Mix(1, 1), Concurrency: 1, Retries: 3, Turn: tally.Add}
			got, err := Play(t.Context(), dialogues(1, 1), cfg, c.market)
			if err != nil || got != c.want || tally.Report(0, got).Total.Asked != c.asked {
				t.Errorf("%s: got %+v, %v, asked %d; want %+v, asked %d", c.name, got, err,
					tally.Report(0, got).Total.Asked, c.want, c.asked)
			}
		}
	})
}

// An answer that was served is judged by the one that was recorded, where one was, and the report has the
// mean.
func TestAnswersAreJudgedByThoseRecorded(t *testing.T) {
	d := Dialogue{ID: "d", Turns: []Turn{{User: "Where?", Answer: "In Paris."}, {User: "When?"},
		{User: "Who?", Answer: "Nobody at all"}}}
	market := func(_ context.Context, task bus.Task) (Answer, error) {
		return Answer{Text: "It was in Paris", Result: bus.Result{Client: task.Client}}, nil
	}
	tally, judged := NewTally(), []float64(nil)
	played, err := Play(t.Context(), []Dialogue{d}, Config{Clients: Mix(1, 1), Concurrency: 1,
		Turn: tally.Add, Judge: func(a Answer) { judged = append(judged, *a.Quality) }}, market)
	r := tally.Report(0, played)
	if err != nil || !slices.Equal(judged, []float64{1, 0}) || r.Judged == nil ||
		r.Judged.Answers != 2 || r.Judged.Quality != 0.5 {
		t.Errorf("judged %v, report %+v: %v", judged, r.Judged, err)
	}
}

func TestAnUnreachableMarketEndsTheReplay(t *testing.T) {
	broken := errors.New("connection refused")
	market := func(context.Context, bus.Task) (Answer, error) { return Answer{}, broken }
	_, err := Play(t.Context(), dialogues(50, 1), Config{Clients: Mix(1, 1), Concurrency: 2}, market)
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "dialogue ") {
		t.Errorf("got %v, want the market's error with its dialogue", err)
	}
	if _, err := Play(t.Context(), nil, Config{}, market); err == nil {
		t.Error("a replay without clients was taken")
	}
	if _, err := Play(t.Context(), dialogues(2, 1),
		Config{Clients: Mix(1, 1), Concurrency: 1, Arrivals: []time.Duration{0}}, market); err == nil {
		t.Error("one arrival for two dialogues was taken")
	}
}

func TestMixIsTheSameForTheSameSeed(t *testing.T) {
	a, b, c := Mix(7, 20), Mix(7, 20), Mix(8, 20)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("same seed, other terms:\n%s", diff)
	}
	if cmp.Equal(a, c) {
		t.Error("another seed gave the same terms")
	}
	ids := map[string]bool{}
	for _, x := range a {
		if err := x.Terms.Validate(); err != nil || !bus.ValidID(x.ID) || ids[x.ID] {
			t.Errorf("client %+v: %v", x, err)
		}
		ids[x.ID] = true
	}
}

func TestReportAddsUp(t *testing.T) {
	tally := NewTally()
	d, c := Dialogue{Domain: "CoQA"}, Client{ID: "c", Kind: "hurried"}
	for i := range 100 {
		r := bus.Result{Hub: "math", Agent: "a1", Model: "m",
			Usage: market.Usage{Prompt: 100, Cached: 25, Output: 10}, Cost: 1000, Premium: 10, Fee: 2}
		switch i {
		case 7:
			r.Premium = 0
		case 8:
			r.Premium = 20
		}
		tally.Add(d, c, Answer{Result: r, TTFT: time.Duration(i+1) * time.Millisecond})
	}
	tally.Add(d, c, Answer{Result: bus.Result{Hub: "math", Code: bus.CodeNoRoom}})
	tally.AddRound(&ledger.Round{
		Round: market.Round{Domain: "math", Tasks: make([]market.Task, 3)},
		Outcome: market.Outcome{Awards: []market.Award{{SlotPrice: 7}, {SlotPrice: 0}},
			Prices: []market.SlotPrice{{Price: 7}}, Welfare: 40},
	})
	r := tally.Report(2*time.Second, Played{Dialogues: 5, BrokenOff: 1})
	want := Part{Name: "total", Asked: 101, Served: 100, Prompt: 10000, Cached: 2500, Output: 1000,
		Share: 0.25, Cost: 100_000, Premium: 1000, Bill: Bill{All: 1.01, P50: 1.01, P99: 1.01, Most: 1.02}}
	got := r.Total
	if got.TTFT.P50 < 50 || got.TTFT.P50 > 50.1 || got.TTFT.P99 < 99 || got.TTFT.P99 > 99.1 {
		t.Errorf("TTFT = %+v, want 50 and 99 ms within 0.1 %%", got.TTFT)
	}
	got.TTFT = Times{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("total: want -, got +\n%s", diff)
	}
	if r.Surplus != 800 || r.Several() != 1 || r.Contested() != 1 {
		t.Errorf("surplus %v, rounds of several %d, contested %d; want 0.0000008, 1, 1", r.Surplus,
			r.Several(), r.Contested())
	}
	if diff := cmp.Diff([]Refusals{{bus.CodeNoRoom, 1}}, r.Refused); diff != "" {
		t.Errorf("refused: want -, got +\n%s", diff)
	}
	var out bytes.Buffer
	r.Write(&out)
	for _, line := range []string{"101 tasks asked, 100 served in 2.0 s (50 a second); 5 dialogues to " +
		"their end, 1 broken off",
		"10,000 prompt, of which 25.0 % from cache; 1,000 output", "refused  no_room 1",
		"bill     1.01 times the price card for all of it; of a task p50 1.01, p99 1.01, at most 1.02",
		"sizes    1 of 3 tasks"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the report lacks %q:\n%s", line, out.String())
		}
	}
	encoded, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(encoded), `"surplus":0.0000008`) {
		t.Errorf("%v: %s", err, encoded)
	}
}
