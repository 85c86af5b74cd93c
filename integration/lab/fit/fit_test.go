package fit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/agentd/vllmsim"
)

var sizes = Sizes{Seqs: 8, Batched: 1024}

// A profile from which points were computed is found again, whichever of its parts are 0, and nearly so where
// each point is off by some percent, less what the stand-in takes beside it.
func TestTheProfileIsFoundAgain(t *testing.T) {
	s := &Server{written: 5}
	s.Info.BlockSize, s.Info.KVTokens, s.Info.MaxModelLen = 32, 1<<16, 8192
	random := rand.New(rand.NewPCG(1, 2))
	for _, want := range [][unknown]float64{{4000, 1000, 15, 60, 0.05, 1.5, 400, 0.01},
		{0, 9443, 34.66, 11.25, 0.1296, 0, 0, 0}, {300, 14286, 65.99, 0, 0, 0.1, 90, 0.002}} {
		for _, noise := range []float64{0, 0.02} {
			var points []Point
			for _, x := range loads(s, sizes) {
				us := 0.0
				for i, n := range x.row(sizes) {
					us += n * want[i]
				}
				us *= math.Exp(noise * random.NormFloat64())
				own := time.Duration(1+x.Beside) * 300 * time.Microsecond
				points = append(points, Point{Load: x, Took: time.Duration(us*1000) + own, Own: own})
			}
			f, err := solve(points, sizes)
			if err != nil {
				t.Fatal(err)
			}
			got := [unknown]float64{float64(f.Entry) / 1000, f.Base, f.Prefill, f.Decode, f.Resident,
				f.PerByte, f.Beside, f.Attention}
			for i := range got {
				most := 1e-3 + 1e-6*want[i]
				if noise > 0 { // a part that hardly counts is hardly known
					most = 0.1*want[i] + want[1]*[]float64{0.1, 0.1, 5e-4, 0.01, 5e-5, 1e-4, 0.02, 5e-7}[i]
				}
				if math.Abs(got[i]-want[i]) > most {
					t.Errorf("noise %v: part %d is %v, want %v: %v of %v", noise, i, got[i], want[i], got, want)
				}
			}
			for _, p := range points {
				if off := math.Abs(float64(p.Fitted+p.Own)/float64(p.Took) - 1); off > 5*noise+1e-3 {
					t.Errorf("noise %v: %+v: %v", noise, p.Load, p.Fitted)
				}
			}
		}
	}
}

// started is a stand-in to be fitted to.
func started(t *testing.T) (*vllmsim.Server, *Server) {
	t.Helper()
	sim, err := vllmsim.New(vllmsim.Config{Model: "m", BlockSize: 32, NumGPUBlocks: 400, MaxModelLen: 4096,
		MaxNumSeqs: 8, Profile: vllmsim.Profile{Name: "m", Base: 200, Prefill: 1, Decode: 10,
			MaxNumBatchedTokens: 1024}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	if err := sim.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s, err := Find(t.Context(), sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	return sim, s
}

// A stand-in that is fitted to finds what its own stand-in finds, task by task, caches too small for all of
// it; and the page says so.
func TestAStandInOfAStandIn(t *testing.T) {
	sim, s := started(t)
	f, err := Fit(t.Context(), s, sizes)
	if err != nil {
		t.Fatal(err)
	}
	plan := Plan{Callers: 3, Turns: 8, Pause: time.Millisecond, Rounds: 2, Seed: 1}
	rounds, err := f.Play(t.Context(), s, plan)
	if err != nil {
		t.Fatal(err)
	}
	a := Compare(rounds, s.Info.BlockSize)
	if a.Tasks != 48 || a.Beyond > 0 || a.Cached < a.Prompt/2 || a.First[1] <= 0 || a.Between[0] <= 0 {
		t.Errorf("%+v", a)
	}
	_ = sim.Close()
	more, gone := f.Play(t.Context(), s, plan)
	if gone == nil || len(more) > 0 {
		t.Errorf("%d rounds at a server that is gone, %v", len(more), gone)
	}
	text := Page("lab fit", When(time.Unix(1_800_000_000, 0)), sizes, plan, []Made{
		{URL: s.URL, Server: s, Fitted: f, Rounds: rounds}, {URL: s.URL, Server: s, Fitted: f, Err: gone},
		{URL: "http://none", Err: gone}}).Markdown()
	for _, want := range []string{"on 15 January 2027", "| 48 | 0.", "## What m at 127.0.0.1",
		"## What was left out", "* http://none, after 0 of 2 rounds"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
}

// Other tokens than were asked for, a cache that is not reported, and nobody at the address are errors.
func TestServersThatCannotBeFitted(t *testing.T) {
	sim, err := vllmsim.New(vllmsim.Config{NoPromptDetails: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	if err := sim.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s, err := Find(t.Context(), sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Fit(t.Context(), s, sizes)
	if err == nil || !strings.Contains(err.Error(), "prompt-tokens-details") {
		t.Errorf("a server that says nothing of its cache: %v", err)
	}
	if !s.Reset(t.Context()) {
		t.Error("an idle stand-in does not empty its cache")
	}
	if _, err := Find(t.Context(), "http://127.0.0.1:1"); err == nil {
		t.Error("nobody is found")
	}
	if _, err := solve(nil, sizes); err == nil {
		t.Error("nothing is fitted to")
	}
}
