package soak

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

// A process grows where what it takes in the end is well above what it took when warm, whatever it took at
// its start.
func TestGrowth(t *testing.T) {
	line := func(n int, at func(i int) float64) (out []float64) {
		for i := range n {
			out = append(out, at(i))
		}
		return out
	}
	for name, c := range map[string]struct {
		samples []float64
		grew    bool
	}{
		"warms up, then stays": {line(300, func(i int) float64 { return min(80, float64(10+2*i)) }),
			false},
		"a saw":                      {line(300, func(i int) float64 { return 60 + float64(i%20) }), false},
		"a leak":                     {line(300, func(i int) float64 { return 40 + float64(i)/3 }), true},
		"a slow leak, for ever":      {line(6000, func(i int) float64 { return 40 + float64(i)/100 }), true},
		"a collection at the end":    {append(line(300, func(int) float64 { return 90 }), 30), false},
		"one sample":                 {[]float64{40}, false},
		"one high sample at the end": {append(line(300, func(int) float64 { return 40 }), 200), false},
	} {
		l := lifeOf(c.samples)
		if l.grew() != c.grew || l.Lasted != time.Duration(len(c.samples))*time.Second {
			t.Errorf("%s: %+v, want growth %t", name, l, c.grew)
		}
	}
}

// Of several lives the one that grew most speaks for its process, if it lasted.
func TestLives(t *testing.T) {
	r := Report{Processes: []Process{
		{Name: "calm", Told: true, Life: Life{Lasted: time.Minute, Warm: 50, Last: 55}},
		{Name: "leaky", Told: true, Life: Life{Lasted: time.Minute, Warm: 50, Last: 150}},
		{Name: "young"},
	}}
	err := r.growth()
	if err == nil || err.Error() != "leaky grew from 50.0 MB to 150.0 MB in 1m0s" {
		t.Error(err)
	}
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median %g", got)
	}
}

// Clients that hint name sessions that there are, so that these are used again at their expense, and at times
// ones that there are not.
func TestWhatIsSaidToBeNext(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	there, others := 0, 0
	for range 1000 {
		task := bus.Task{Session: sessionOf(random)}
		hint(&task, random)
		if n, err := strconv.Atoi(strings.TrimPrefix(task.Next, "s-")); err == nil && n < sessions {
			there++
		} else {
			others++
		}
	}
	if there < 600 || others < 100 {
		t.Errorf("of a thousand sessions that are said to be next %d may be there, %d are not", there, others)
	}
}

// Belief is judged in each part of a run: one part in which it has drifted speaks for the run.
func TestDriftIsFound(t *testing.T) {
	window := func(tasks, off, over, events int) (w Window) {
		for i := range tasks {
			believed := 160 + off
			if i < over {
				believed = 160 + beliefBlock + 1
			}
			w.add(160, believed, i < events)
		}
		return w
	}
	for name, c := range map[string]struct {
		windows []Window
		alone   Window
		want    string
	}{
		"as it should be": {[]Window{window(100, 8, 2, 100), window(100, -8, 0, 100)},
			window(40, 0, 3, 0), ""},
		"a block is a block": {[]Window{window(100, 16, 0, 100)}, Window{}, ""},
		"drifts up": {[]Window{window(100, 0, 0, 100), window(100, 17, 0, 100)}, Window{},
			"of window 2, of 100 tasks"},
		"drifts down": {[]Window{window(100, 0, 0, 100), window(100, -17, 0, 100)}, Window{},
			"of window 2, of 100 tasks"},
		"few, too high": {[]Window{window(50, 17, 0, 50)}, window(50, 17, 0, 50),
			"850 tokens were believed to be cached and were not"},
		"few, too high beside others": {[]Window{window(50, 17, 50, 50)}, window(20, 0, 0, 20), ""},
		"few, too low": {[]Window{window(50, -41, 0, 50)}, Window{},
			"of 8000 tokens that were found only 5950"},
		"few, and far too much": {[]Window{window(100, 0, 7, 100)}, window(100, 0, 7, 100),
			"7 were believed to find"},
		"far too much, but not so few": {[]Window{window(100, 0, 5, 100)}, window(100, 0, 5, 100), ""},
		"without events":               {[]Window{window(100, 0, 0, 49)}, Window{}, "only 49"},
		"nothing was tried":            {[]Window{{}}, Window{}, "nothing was tried"},
	} {
		err := (&BeliefReport{Windows: c.windows, Alone: c.alone}).verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
