package clock

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/cmd/replay"
	"souk/integration/lab/virtual"
)

func setting(t *testing.T) virtual.Setting {
	t.Helper()
	ds, err := replay.BundledSet("mtrag.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	return virtual.Setting{Engines: 2, Scripts: virtual.NewScripts(ds[:6], false, 16), Callers: 6,
		Tasks: 40, Seed: 1,
		Engine: virtual.EngineConfig{Profile: vllmsim.Instant, Slots: 4, MaxBatched: 2048, Blocks: 1000,
			BlockSize: 16}}
}

// All that is asked is answered, by engines that count the same tokens as were planned, whether a market or a
// router stands before them.
func TestPlay(t *testing.T) {
	for _, rule := range []string{"sticky", "round-robin", "market"} {
		s := setting(t)
		f, err := Play(t.Context(), nil, s, rule, rule == "market")
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if f.Refused > 0 || f.P50 <= 0 || f.Longest < f.P99 || f.Throughput <= 0 ||
			f.Share <= 0 {
			t.Errorf("%s: %+v", rule, f)
		}
		// Two thirds of the questions go on from one before, which a session that stays finds again.
		if rule == "sticky" && f.Share < f.Bound-0.01 || rule == "round-robin" && f.Share > f.Bound-0.05 {
			t.Errorf("%s: share %v of %v", rule, f.Share, f.Bound)
		}
	}
	s := setting(t)
	if _, err := Play(t.Context(), nil, s, "tea-leaves", false); err == nil {
		t.Error("a rule that there is not")
	}
	s.Tasks = 0
	if _, err := Play(t.Context(), nil, s, "sticky", false); err == nil {
		t.Error("no end")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Play(ctx, nil, setting(t), "sticky", false); err == nil {
		t.Error("a run that was stopped is one")
	}
}

// What the router or an engine says that is no answer is an error.
func TestStreamErrors(t *testing.T) {
	p := &router{}
	for _, h := range []http.Handler{p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("data: {\"usage\":{\"prompt_tokens\":\"many\"}}\n\n"))
	})} {
		s := httptest.NewServer(h)
		defer s.Close()
		r, err := http.NewRequest(http.MethodPost, s.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := stream(s.Client(), r); err == nil {
			t.Errorf("%T: no error", h)
		}
	}
}

// What callers ask by the clock is what they ask in virtual time, in the same order and after the same
// pauses.
func TestQuestionsAreThoseOfVirtualTime(t *testing.T) {
	s := setting(t)
	s.Think, s.Say, s.Scrape = 100*time.Millisecond, virtual.Spread, time.Second
	rule, err := virtual.NewRule("round-robin", 1)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := virtual.Run(s, rule)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[int][]*virtual.Request{}
	for _, q := range all {
		own := asked[q.Caller]
		want := s.Questions(q.Caller, 20)[len(own)]
		since := q.Arrived
		if len(own) > 0 {
			since -= own[len(own)-1].Done
		}
		if want.Turn != q.Turn || want.Prompt != q.Prompt || want.Output != q.Output ||
			want.Terms != q.Terms || want.Think != since {
			t.Fatalf("caller %d asks %+v, by the clock %+v", q.Caller, q, want)
		}
		asked[q.Caller] = append(own, q)
	}
	if len(all) != s.Tasks {
		t.Errorf("%d questions", len(all))
	}
}
