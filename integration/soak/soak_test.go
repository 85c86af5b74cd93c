package soak

import (
	"testing"
	"time"
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
