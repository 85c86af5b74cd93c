package vllmsim

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// measured is one request of a measured run; times in seconds since the first was queued.
type measured struct {
	prompt, output                 int
	queued, scheduled, first, last float64
}

func readMeasured(t testing.TB, profile string) (out []measured) {
	t.Helper()
	for _, l := range rows(t, profile) {
		var m measured
		if _, err := fmt.Sscanf(l, "%d %d %f %f %f %f", &m.prompt, &m.output, &m.queued, &m.scheduled,
			&m.first, &m.last); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		out = append(out, m)
	}
	return out
}

// player runs requests through a step machine, in no time.
type player struct {
	e    *engine
	zero time.Time
	all  []*sequence
}

func newPlayer(p Profile, seed uint64) *player {
	cfg := engineConfig{profile: p, maxSeqs: p.MaxNumSeqs, maxBatched: p.MaxNumBatchedTokens}
	return &player{e: newEngine(cfg, p.NumGPUBlocks, 16, seed), zero: time.Unix(0, 0)}
}

func (p *player) send(prompt, output int, now time.Time) {
	q := &sequence{prompt: prompt, root: uint64(len(p.all)), ready: make(chan struct{}, 1)}
	for i := range prompt {
		q.tokens = append(q.tokens, uint32(i%5000)+300)
	}
	q.limits = limits{max: output, ignoreEOS: true, total: 1 << 17}
	q.script.prose = newProse(uint64(len(p.all)), 100)
	p.e.add(q, now)
	p.all = append(p.all, q)
}

func (p *player) did(q *sequence) measured {
	since := func(t time.Time) float64 { return t.Sub(p.zero).Seconds() }
	return measured{q.prompt, q.output(), since(q.arrived), since(q.scheduled), since(q.first), since(q.last)}
}

// play sends requests at the times at which they were measured.
func play(profile Profile, requests []measured, seed uint64) (out []measured) {
	p := newPlayer(profile, seed)
	var wake time.Time
	for next := 0; next < len(requests) || !wake.IsZero(); {
		now := wake
		if next < len(requests) {
			if at := p.zero.Add(time.Duration(requests[next].queued * 1e9)); wake.IsZero() ||
				!at.After(wake) {
				now = at
				p.send(requests[next].prompt, requests[next].output, now)
				next++
			}
		}
		wake, _ = p.e.step(now, nil)
	}
	for _, q := range p.all {
		out = append(out, p.did(q))
	}
	return out
}

// point is a measured load: callers that each send the next request when the last has ended, and mean times
// in ms.
type point struct {
	prompt, output, callers int
	ttft, tpot              float64
}

// load runs a point for three requests a caller. The first of each is left out: they come all at once.
// Lengths vary by a fifth, or callers would go on in step for ever.
func load(profile Profile, at point, seed uint64) point {
	p := newPlayer(profile, seed)
	random := rand.New(rand.NewPCG(seed, 2))
	vary := func(n int) int { return int(float64(n) * (0.8 + 0.4*random.Float64())) }
	now := p.zero
	for range at.callers {
		p.send(vary(at.prompt), vary(at.output), now)
	}
	var out []*sequence
	for {
		var wake time.Time
		wake, out = p.e.step(now, out[:0])
		for _, q := range out {
			if q.ended && len(p.all) < 3*at.callers {
				p.send(vary(at.prompt), vary(at.output), now)
				wake = now
			}
		}
		if wake.IsZero() {
			break
		}
		now = wake
	}
	got := at
	got.ttft, got.tpot = 0, 0
	n := float64(2 * at.callers)
	for _, q := range p.all[at.callers:] {
		m := p.did(q)
		got.ttft += 1000 * (m.first - m.queued) / n
		got.tpot += 1000 * (m.last - m.first) / float64(m.output-1) / n
	}
	return got
}

func readPoints(t testing.TB, profile string) (out []point) {
	t.Helper()
	for _, l := range rows(t, profile) {
		var p point
		if _, err := fmt.Sscanf(l, "%d %d %d %f %f", &p.prompt, &p.output, &p.callers, &p.ttft,
			&p.tpot); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		out = append(out, p)
	}
	return out
}

// rows are a file's lines without head and comments.
func rows(t testing.TB, profile string) (out []string) {
	t.Helper()
	b, err := os.ReadFile("testdata/perf/" + profile + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		if !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "prompt") {
			out = append(out, strings.ReplaceAll(l, ",", " "))
		}
	}
	return out
}

// apart is the distance of a replay from the measured run: medians over requests of |replayed/measured - 1|,
// in percent, and of the whole run's length. TTFT is split by whether the request found a slot at once or had
// to queue.
type apart struct{ prompt, queued, itl, latency, span float64 }

func compare(got, want []measured) (a apart) {
	var prompt, queued, itl, latency []float64
	gotEnd, wantEnd := 0.0, 0.0
	for i, g := range got {
		w := want[i]
		off := func(g, w float64) float64 { return 100 * math.Abs(g/w-1) }
		if ttft := off(g.first-g.queued, w.first-w.queued); w.scheduled-w.queued < 0.2 {
			prompt = append(prompt, ttft)
		} else {
			queued = append(queued, ttft)
		}
		itl = append(itl, off((g.last-g.first)/float64(g.output-1), (w.last-w.first)/float64(w.output-1)))
		latency = append(latency, off(g.last-g.queued, w.last-w.queued))
		gotEnd, wantEnd = max(gotEnd, g.last), max(wantEnd, w.last)
	}
	median := func(x []float64) float64 { slices.Sort(x); return x[len(x)/2] }
	return apart{median(prompt), median(queued), median(itl), median(latency),
		100 * math.Abs(gotEnd/wantEnd-1)}
}

// TestReplay holds the profiles against 300 requests that a real vLLM served under overload: each waits for
// minutes at times, so errors add up. The bounds are what PROFILES.md states.
func TestReplay(t *testing.T) {
	for name, most := range map[string]apart{
		"rtxpro6000-llama-3.1-8b": {30, 15, 10, 10, 10},
		"rtxpro6000x2-qwen3-32b":  {30, 15, 10, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ProfileNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			want := readMeasured(t, name)
			got := play(p, want, 1)
			a := compare(got, want)
			t.Logf("median error: TTFT %.1f %% (%.1f %% after a queue), ITL %.1f %%, latency %.1f %%; "+
				"length of the run %.1f %%", a.prompt, a.queued, a.itl, a.latency, a.span)
			if a.prompt > most.prompt || a.queued > most.queued || a.itl > most.itl ||
				a.latency > most.latency || a.span > most.span {
				t.Errorf("that is more than %+v", most)
			}
			if again := play(p, want, 1); !slices.Equal(again, got) {
				t.Error("the same seed gave another run")
			}
		})
	}
}

// TestLoad holds the other profiles against loads whose mean times were measured. See
// crowded for why TTFT fits worse.
func TestLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for name, most := range map[string][2]float64{
		"h100x2-qwen3-32b":     {65, 3},
		"h100x4-llama-3.1-70b": {35, 3},
		"b200x4-llama-3.1-70b": {70, 5},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ProfileNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			ttft, tpot := loadErrors(t, p, readPoints(t, name), true)
			t.Logf("median error: TTFT %.1f %%, time per token %.1f %%", ttft, tpot)
			if ttft > most[0] || tpot > most[1] {
				t.Errorf("that is more than %v", most)
			}
		})
	}
}

// crowded is the TTFT in ms beyond which callers wait for room in the cache, so that it measures throughput.
// Below it a measured TTFT seems to hold the burst with which its run began: the source does not say how much
// of that it left out, and its TTFT grows with the callers where its time per token leaves no room for that.
// So profiles are not fitted to it.
const crowded = 5000

func loadErrors(t *testing.T, p Profile, points []point, log bool) (float64, float64) {
	var ttft, tpot []float64
	for _, want := range points {
		got := load(p, want, 1)
		ttft = append(ttft, 100*math.Abs(got.ttft/want.ttft-1))
		tpot = append(tpot, 100*math.Abs(got.tpot/want.tpot-1))
		if log {
			t.Logf("%4d callers, %d + %d tokens: TTFT %.0f, measured %.0f ms; time per token %.1f, "+
				"measured %.1f ms",
				want.callers, want.prompt, want.output, got.ttft, want.ttft, got.tpot, want.tpot)
		}
	}
	slices.Sort(ttft)
	slices.Sort(tpot)
	return ttft[len(ttft)/2], tpot[len(tpot)/2]
}

// TestFit looks for coefficients nearer to what was measured than those in profiles.go, by changing one at a
// time. It prints what it finds; somebody then judges it and puts it there. Run it with -fit.
func TestFit(t *testing.T) {
	if !*fit {
		t.Skip("only with -fit")
	}
	for _, p := range fitted {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			p.Noise = 0
			search(t, p, lossOf(t, p.Name))
		})
	}
}

// lossOf sums a profile's errors, in percent.
func lossOf(t *testing.T, name string) func(Profile) float64 {
	if strings.HasPrefix(name, "h100") || strings.HasPrefix(name, "b200") {
		points := readPoints(t, name)
		return func(p Profile) (sum float64) {
			for _, want := range points {
				got := load(p, want, 1)
				sum += math.Abs(math.Log(got.tpot / want.tpot))
				if want.ttft > crowded {
					sum += math.Abs(math.Log(got.ttft / want.ttft))
				}
			}
			return 100 * sum / float64(len(points))
		}
	}
	want := readMeasured(t, name)
	return func(p Profile) float64 {
		a := compare(play(p, want, 1), want)
		return a.prompt + a.queued + a.itl + a.latency + a.span
	}
}

func search(t *testing.T, p Profile, loss func(Profile) float64) {
	best := loss(p)
	t.Logf("%.1f at first", best)
	for step := 0.2; step > 0.01; step /= 2 {
		for better := true; better; {
			better = false
			for _, c := range []*float64{&p.Base, &p.Prefill, &p.Decode, &p.Resident} {
				for _, f := range []float64{1 + step, 1 / (1 + step)} {
					old := *c
					*c *= f
					if l := loss(p); l < best-0.01 {
						best, better = l, true
					} else {
						*c = old
					}
				}
			}
		}
	}
	t.Logf("%.1f: Base: %.0f, Prefill: %.2f, Decode: %.2f, Resident: %.4f", best, p.Base, p.Prefill, p.Decode,
		p.Resident)
}

var fit = flag.Bool("fit", false, "look for better profiles")
