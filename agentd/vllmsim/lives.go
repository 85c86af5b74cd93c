package vllmsim

import (
	"math/rand/v2"
	"time"
)

// lives are the histograms of --kv-cache-metrics: of some of the blocks, drawn when they are taken, how long
// they lived when what they held is given up, since when nobody had asked for them, and the gaps between the
// last times when somebody did (vllm/v1/core/kv_cache_metrics.py). Who is found by a request is asked for;
// to be in use is not.
type lives struct {
	share  float64 // of blocks that are watched
	now    func() time.Time
	random *rand.Rand
	of     map[int32]*life

	lifetime, idle, gaps histogram
}

type life struct {
	born, last time.Time
	asked      []time.Time // the last four times
}

const lifeAsked = 4

// Bucket edges of vLLM 0.32.0.
var edgesResidency = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60,
	120, 300, 600, 1200, 1800}

func newLives(share float64, seed uint64, now func() time.Time) *lives {
	return &lives{share: share, now: now, random: rand.New(rand.NewPCG(seed, 3)), of: map[int32]*life{},
		lifetime: newHistogram(edgesResidency), idle: newHistogram(edgesResidency),
		gaps: newHistogram(edgesResidency)}
}

// Taken implements kv.Watch.
func (l *lives) Taken(b int32) {
	if delete(l.of, b); l.random.Float64() < l.share {
		l.of[b] = &life{born: l.now(), last: l.now()}
	}
}

// Found implements kv.Watch.
func (l *lives) Found(b int32) {
	x := l.of[b]
	if x == nil {
		return
	}
	x.last = l.now()
	if x.asked = append(x.asked, x.last); len(x.asked) > lifeAsked {
		x.asked = x.asked[1:]
	}
}

// Evicted implements kv.Watch.
func (l *lives) Evicted(b int32) {
	x := l.of[b]
	if x == nil {
		return
	}
	delete(l.of, b)
	l.lifetime.observe(l.now().Sub(x.born).Seconds())
	l.idle.observe(l.now().Sub(x.last).Seconds())
	for i := 1; i < len(x.asked); i++ {
		l.gaps.observe(x.asked[i].Sub(x.asked[i-1]).Seconds())
	}
}
