package clock

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"souk/agentd/vllmsim"
	"souk/integration/lab/fit"
	"souk/integration/lab/virtual"
)

// serving are stand-ins that run elsewhere, as far as whoever plays on them knows. What is behind hidden is
// not there.
func serving(t *testing.T, n int, profile vllmsim.Profile, hidden string) (v *Servers,
	all []*vllmsim.Server) {
	t.Helper()
	v = &Servers{}
	for range n {
		sim, err := vllmsim.New(vllmsim.Config{Profile: profile, MaxNumSeqs: 4, NumGPUBlocks: 1000})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sim.Close() })
		err = sim.StartBehind("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == hidden {
				http.NotFound(w, r)
				return
			}
			sim.ServeHTTP(w, r)
		}))
		if err != nil {
			t.Fatal(err)
		}
		s, err := fit.Find(t.Context(), sim.URL())
		if err != nil {
			t.Fatal(err)
		}
		profile.NumGPUBlocks, profile.MaxNumBatchedTokens = 1000, 2048
		if err := v.add(s, &fit.Fitted{Profile: profile}); err != nil {
			t.Fatal(err)
		}
		all = append(all, sim)
	}
	return v, all
}

// On running servers all that is asked is answered, with as many tokens as their own tokenizer counts, and
// what one run left in their caches is found by no other, whether or not they may be emptied.
func TestRunningServers(t *testing.T) {
	for _, hidden := range []string{"", "/reset_prefix_cache"} {
		v, _ := serving(t, 2, vllmsim.Instant, hidden)
		shares := map[string][]float64{}
		for _, rule := range []string{"sticky", "two-block-first:8", "market", "sticky"} {
			m, err := Play(t.Context(), v, setting(t), rule, rule == "market")
			if err != nil {
				t.Fatalf("%s: %v", rule, err)
			}
			// a rule that weighs worth and cost may refuse: by the clock it is not always the same few
			refused := m.Refused > 0 && (rule != "two-block-first:8" || m.Refused > 0.1)
			if refused || m.P50 <= 0 || m.Throughput <= 0 || m.Share < 0.3 || m.Share > 0.9 {
				t.Errorf("%s: %+v", rule, m)
			}
			shares[rule] = append(shares[rule], m.Share)
		}
		// which of a caller's questions are among the first forty differs by a few
		if s := shares["sticky"]; s[1] > s[0]+0.1 {
			t.Errorf("hidden %q: the same run once more finds what the first one left: %v", hidden, s)
		}
		if (v.salted > 0) != (hidden != "") {
			t.Errorf("hidden %q: %d runs with salts", hidden, v.salted)
		}
		for _, r := range v.runs {
			answered := 40 * (1 - r.of.Refused)
			if math.Abs(r.hits/r.queried-r.of.Share) > 1e-9 || math.Abs(float64(r.firsts)-answered) > 1e-9 ||
				r.lost > 0 {
				t.Errorf("the servers count otherwise than their answers say: %+v", r)
			}
		}
		said := v.Said()
		if strings.Count(said, "| market | 1 | 40 | 0 |") != 1 || strings.Contains(said, "left out") {
			t.Error(said)
		}
	}
}

// slow serves two engines that take long, and says what is asked of them.
func slow(t *testing.T) (v *Servers, sims []*vllmsim.Server, s virtual.Setting,
	questions [][]*virtual.Request) {
	t.Helper()
	v, sims = serving(t, 2, vllmsim.Profile{Name: "slow", Base: 1000}, "")
	s, err := v.sized(setting(t))
	if err != nil {
		t.Fatal(err)
	}
	for caller := range s.Callers {
		questions = append(questions, s.Questions(caller, 10))
	}
	return v, sims, s, questions
}

// A server that goes away in a run takes what it was answering with it, and nothing else; what cannot be
// played without it is left out, and all of it is said.
func TestAServerGoesAway(t *testing.T) {
	for gone, rule := range []string{"round-robin", "two-block-first:8", "market"} {
		gone %= 2 // the first one tokenizes
		v, sims, s, questions := slow(t)
		var was atomic.Bool
		m, err := v.once(t.Context(), s, questions, rule, false, func() {
			was.Store(true)
			_ = sims[gone].Close()
		})
		if err != nil || !was.Load() {
			t.Fatalf("%s: %v: %s", rule, err, v.Said())
		}
		r := v.runs[0]
		if r.tasks+r.lost != s.Tasks || r.lost > s.Callers || m.Refused > 0 ||
			rule == "market" && r.lost > 0 {
			t.Errorf("%s: %+v", rule, r)
		}
		if _, err := Play(t.Context(), v, setting(t), "sticky", false); !errors.Is(err, virtual.ErrLeftOut) {
			t.Errorf("it is played without the server: %v", err)
		}
		if said := v.Said(); !strings.Contains(said, "went away during "+rule+", seed 1: ") ||
			!strings.Contains(said, "* sticky, seed 1 was not played, as "+v.All[gone].URL+" did not answer") {
			t.Error(said)
		}
	}
}

// Where no server is left, what was played is played, and the page says so.
func TestAllServersGoAway(t *testing.T) {
	v, sims, s, questions := slow(t)
	if _, err := v.once(t.Context(), s, questions, "round-robin", false, func() {
		_, _ = sims[0].Close(), sims[1].Close()
	}); err != nil {
		t.Fatal(err)
	}
	if r := v.runs[0]; r.lost == 0 || r.tasks == 0 || !strings.Contains(v.Said(), "went away during round-robin") {
		t.Errorf("%+v: %s", r, v.Said())
	}
}

// Servers that do not fit a fleet, or one another, are refused.
func TestServersThatDoNotFit(t *testing.T) {
	v, _ := serving(t, 1, vllmsim.Instant, "")
	if _, err := Play(t.Context(), v, setting(t), "sticky", false); err == nil {
		t.Error("two engines on one server")
	}
	other := *v.All[0]
	other.Info.BlockSize = 64
	if err := v.add(&other, nil); err == nil {
		t.Error("blocks of two sizes")
	}
	if err := v.Kill(t.Context(), "true"); err == nil {
		t.Error("a server is killed in no run")
	}
}
