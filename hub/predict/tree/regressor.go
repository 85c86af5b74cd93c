package tree

import (
	"fmt"
	"math"
	"slices"
)

// Regressor expects a number. A leaf expects its mean, or what a plane through what it saw says, whichever
// erred less of late.
type Regressor struct {
	cfg      Config
	features int
	branches branches
	leaves   []*leaf
	scratch  *scratch
	rising
}

// rising caches what [Regressor.Rise] reads: it is called much more often than anything is learned.
type rising struct {
	said []said    // by leaf; empty: it is to be made anew
	tops []float64 // by node, the most that a leaf behind it says; empty: it is to be made anew
}

// said is a leaf's forecast for Rise.
type said struct {
	mean        float64
	least, most float64 // what its plane says is between these
	plane       bool    // else it says the mean
	height      float64 // of the plane, where the features are as at
	to          [mostRising]struct{ coef, at float64 }
}

// leaf gathers observations.
type leaf struct {
	N, Sum    float64 // of y, with what its branch brought along
	Low, High float64 // of y, between which it was
	Since     float64 // weight since it was looked at
	Off       [2]float64
	depth     int
	Line      line
	Watch     *observer // nil: it is never split
}

// NewRegressor has seen nothing, and expects 0.
func NewRegressor(cfg Config, features int) (*Regressor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tree: %w", err)
	}
	if features < 1 || features > MaxFeatures {
		return nil, fmt.Errorf("tree: %d features, want 1 to %d", features, MaxFeatures)
	}
	t := &Regressor{cfg: cfg, features: features, branches: trunk(), scratch: newScratch(features)}
	t.leaves = []*leaf{(&leaf{Line: newLine(features)}).watched(cfg)}
	return t, nil
}

// Predict returns the expected value at x: a finite number whatever x is.
func (t *Regressor) Predict(x []float64) float64 {
	if len(x) != t.features {
		return 0
	}
	_, i := t.branches.leaf(x)
	mean, plane := t.leaves[i].both(x)
	if t.leaves[i].Off[1] < t.leaves[i].Off[0] {
		return plane
	}
	return mean
}

// Rise returns a value such that its sum with a line of these slopes, each at least 0, falls in no feature.
// It is the greatest forecast at points that exceed x in no feature, less the line's rise from there; a
// leaf's plane falls no faster than the line rises.
func (t *Regressor) Rise(x, slopes []float64) float64 {
	if !t.rises(x, slopes) {
		return 0
	}
	t.prepare()
	var at [mostRising]float64
	copy(at[:], x)
	return t.rise(0, x, slopes, at[:len(x)])
}

func (t *Regressor) rises(x, slopes []float64) bool {
	return len(x) == t.features && len(slopes) == t.features && len(x) <= mostRising && sound(1, x...)
}

// prepare makes what rise reads. A node comes after the one that leads to it.
func (t *Regressor) prepare() {
	if len(t.tops) > 0 {
		return
	}
	if len(t.said) == 0 {
		for _, l := range t.leaves {
			t.said = append(t.said, l.says())
		}
	}
	t.tops = slices.Grow(t.tops[:0], len(t.branches))[:len(t.branches)]
	for i, n := range slices.Backward(t.branches) {
		if n.Feature < 0 {
			t.tops[i] = t.said[n.Left].top()
		} else {
			t.tops[i] = max(t.tops[n.Left], t.tops[n.Right])
		}
	}
}

// mostRising bounds the features of Rise.
const mostRising = 8

func (t *Regressor) rise(node int, x, slopes, at []float64) float64 {
	n := &t.branches[node]
	switch was := 0.0; {
	case n.Feature < 0:
		return lowered(t.said[n.Left].value(at, slopes), x, slopes, at)
	case at[n.Feature] < n.At:
		return t.rise(int(n.Left), x, slopes, at)
	default:
		y := t.rise(int(n.Right), x, slopes, at)
		was, at[n.Feature] = at[n.Feature], n.At
		if lowered(t.tops[n.Left], x, slopes, at) > y { // else no leaf there says more
			y = max(y, t.rise(int(n.Left), x, slopes, at))
		}
		at[n.Feature] = was
		return y
	}
}

// lowered is y less what a line rises from a point to another, where there is no less of any feature. It is
// the less, the less y is and the further the points are apart, to the last bit.
func lowered(y float64, x, slopes, at []float64) float64 {
	for i, s := range slopes {
		y -= float64(s * (x[i] - at[i]))
	}
	return y
}

// says returns the leaf's forecast for Rise.
func (l *leaf) says() (s said) {
	if l.N == 0 {
		return s
	}
	room := float64((l.High - l.Low) / 2)
	s = said{mean: min(max(l.Sum/l.N, l.Low), l.High), least: l.Low - room, most: l.High + room,
		plane: l.Off[1] < l.Off[0] && len(l.Line.Coef) <= mostRising}
	for i, c := range l.Line.Coef[:min(len(l.Line.Coef), mostRising)] {
		s.to[i].coef, s.to[i].at = c, l.Line.Mean[i]
	}
	s.height = l.Line.Mean[len(l.Line.Coef)]
	return s
}

// top is the most that it says anywhere.
func (s *said) top() float64 { return max(s.mean, s.most) }

// value is the mean, or what the plane says that falls no faster than so.
func (s *said) value(x, slopes []float64) float64 {
	if !s.plane {
		return s.mean
	}
	plane := s.height
	for i, slope := range slopes {
		to := &s.to[i]
		plane += float64(max(to.coef, -slope) * (x[i] - to.at))
	}
	if math.IsNaN(plane) {
		return s.mean
	}
	return min(max(plane, s.least), s.most)
}

// both are the mean, and what the plane says within what was seen, and as much again on both sides together.
func (l *leaf) both(x []float64) (mean, plane float64) {
	if l.N == 0 {
		return 0, 0
	}
	mean = min(max(l.Sum/l.N, l.Low), l.High)
	if plane = l.Line.value(x); math.IsNaN(plane) {
		return mean, mean
	}
	room := float64((l.High - l.Low) / 2)
	return mean, min(max(plane, l.Low-room), l.High+room)
}

// Learn takes in an observation that counts as so many. What is no finite number is none.
func (t *Regressor) Learn(x []float64, y, weight float64) {
	if len(x) != t.features || !sound(weight, x...) || !sound(weight, y) {
		return
	}
	at, i := t.branches.leaf(x)
	l := t.leaves[i]
	if mean, plane := l.both(x); l.N > 0 {
		l.Off[0] = float64(fade*l.Off[0]) + float64((1-fade)*math.Abs(y-mean))
		l.Off[1] = float64(fade*l.Off[1]) + float64((1-fade)*math.Abs(y-plane))
		l.Low, l.High = min(l.Low, y), max(l.High, y)
	} else {
		l.Low, l.High = y, y
	}
	l.N += weight
	l.Sum += float64(weight * y)
	l.Line.add(t.scratch, x, y, weight)
	if l.Watch != nil {
		l.Watch.add(x, y, weight)
	}
	if t.tops = t.tops[:0]; len(t.said) > 0 {
		t.said[i] = l.says()
	}
	if l.Since += weight; l.Since >= t.cfg.Grace && l.Watch != nil {
		l.Since = 0
		t.look(at, i)
	}
}

// look splits a leaf if it is clear how.
func (t *Regressor) look(at, i int) {
	l := t.leaves[i]
	if l.Watch.Edges == nil {
		return
	}
	b := l.Watch.split(t.cfg.Least)
	bound := t.cfg.bound(l.Watch.All.N)
	if b.merit <= 0 || bound >= t.cfg.Tie && b.second >= b.merit*(1-bound) {
		return
	}
	t.said = t.said[:0]
	left, right := l.Watch.sides(b.choice)
	t.leaves[i] = l.heir(left, t.cfg)
	t.leaves = append(t.leaves, l.heir(right, t.cfg))
	t.branches.split(at, b.feature, b.at, len(t.leaves)-1)
}

// heir is a leaf behind a split, where so much came before.
func (l *leaf) heir(seen moments, cfg Config) *leaf {
	h := &leaf{N: seen.N, Sum: seen.Sum + float64(seen.N*l.Watch.Center), Low: l.Low, High: l.High,
		Off: l.Off, depth: l.depth + 1, Line: l.Line.heir(cfg.Least)}
	return h.watched(cfg)
}

// watched has a leaf gather what it takes to split it, where one may be behind it.
func (l *leaf) watched(cfg Config) *leaf {
	if l.depth < cfg.Depth {
		l.Watch = &observer{}
	}
	return l
}
