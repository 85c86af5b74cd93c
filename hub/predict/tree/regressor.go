package tree

import (
	"math"
)

// Regressor expects a number. A leaf expects its mean, or what a plane through what it saw says, whichever
// erred less of late.
type Regressor struct {
	Config   Config
	Features int
	Root     *node
	scratch  *scratch
	at       []float64 // scratch
}

// node is a leaf, or a split of what comes to it.
type node struct {
	Leaf        *leaf // nil: it is a split
	Feature     int
	At          float64
	Below, From *node   // where the feature is less than At, and where it is not
	Top         float64 // the most that any leaf behind it says anywhere
}

// leaf gathers observations.
type leaf struct {
	N, Sum    float64 // of y, with what its branch brought along
	Low, High float64 // of y, between which it was
	Since     float64 // weight since it was looked at
	Off       [2]float64
	Depth     int
	Line      line
	Watch     *observer // nil: it is never split
}

// NewRegressor has seen nothing, and expects 0.
func NewRegressor(cfg Config, features int) *Regressor {
	d := features + 1
	t := &Regressor{Config: cfg, Features: features,
		scratch: &scratch{make([]float64, d), make([]float64, d), make([]float64, d*d), make([]float64, d)}}
	t.Root = (&leaf{Line: newLine(features)}).node(&cfg)
	return t
}

// Predict returns the expected value at x: a finite number whatever x is.
func (t *Regressor) Predict(x []float64) float64 {
	if len(x) != t.Features {
		return 0
	}
	n := t.Root
	for n.Leaf == nil {
		n = n.next(x)
	}
	return n.Leaf.says(x, nil)
}

func (n *node) next(x []float64) *node {
	if x[n.Feature] < n.At {
		return n.Below
	}
	return n.From
}

// Rise returns a value such that its sum with a line of these slopes, each at least 0, falls in no feature.
// It is the greatest forecast at points that exceed x in no feature, less the line's rise from there; a
// leaf's plane falls no faster than the line rises.
func (t *Regressor) Rise(x, slopes []float64) float64 {
	if len(x) != t.Features || len(slopes) != t.Features || !sound(1, x...) {
		return 0
	}
	t.at = append(t.at[:0], x...)
	return t.Root.rise(x, slopes, t.at)
}

func (n *node) rise(x, slopes, at []float64) float64 {
	switch was := 0.0; {
	case n.Leaf != nil:
		return lowered(n.Leaf.says(at, slopes), x, slopes, at)
	case at[n.Feature] < n.At:
		return n.Below.rise(x, slopes, at)
	default:
		y := n.From.rise(x, slopes, at)
		was, at[n.Feature] = at[n.Feature], n.At
		if lowered(n.Below.Top, x, slopes, at) > y { // else no leaf there says more
			y = max(y, n.Below.rise(x, slopes, at))
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

// mean is the mean of y, and room how far beyond what was seen a plane is believed, on either side.
func (l *leaf) mean() (mean, room float64) {
	if l.N == 0 {
		return 0, 0
	}
	return min(max(l.Sum/l.N, l.Low), l.High), float64((l.High - l.Low) / 2)
}

// says is the mean, or what the plane says where that errs less: see [line.value].
func (l *leaf) says(x, slopes []float64) float64 {
	mean, plane := l.both(x, slopes)
	if l.Off[1] < l.Off[0] {
		return plane
	}
	return mean
}

// both are the mean and what the plane says, within what was seen and as much again on both sides together.
func (l *leaf) both(x, slopes []float64) (mean, plane float64) {
	mean, room := l.mean()
	if plane = l.Line.value(x, slopes); math.IsNaN(plane) {
		return mean, mean
	}
	return mean, min(max(plane, l.Low-room), l.High+room)
}

// Learn takes in an observation that counts as so many. What is no finite number is none.
func (t *Regressor) Learn(x []float64, y, weight float64) {
	if len(x) == t.Features && sound(weight, x...) && sound(weight, y) {
		t.Root.learn(t, x, y, weight)
	}
}

func (n *node) learn(t *Regressor, x []float64, y, weight float64) {
	if n.Leaf == nil {
		n.next(x).learn(t, x, y, weight)
		n.Top = max(n.Below.Top, n.From.Top)
		return
	}
	l := n.Leaf
	if mean, plane := l.both(x, nil); l.N > 0 {
		l.Off[0] = float64(fade*l.Off[0]) + float64((1-fade)*math.Abs(y-mean))
		l.Off[1] = float64(fade*l.Off[1]) + float64((1-fade)*math.Abs(y-plane))
		l.Low, l.High = min(l.Low, y), max(l.High, y)
	} else {
		l.Low, l.High = y, y
	}
	l.N += weight
	l.Sum += float64(weight * y)
	l.Line.add(t.scratch, x, y, weight)
	l.Since += weight
	_, room := l.mean()
	n.Top = l.High + room
	if l.Watch == nil {
		return
	}
	if l.Watch.add(x, y, weight); l.Since >= t.Config.Grace {
		l.Since = 0
		n.look(&t.Config)
	}
}

// look splits a leaf if it is clear how.
func (n *node) look(cfg *Config) {
	l := n.Leaf
	if l.Watch.Edges == nil {
		return
	}
	b := l.Watch.split(cfg.Least)
	bound := cfg.bound(l.Watch.All.N)
	if b.merit <= 0 || bound >= cfg.Tie && b.second >= b.merit*(1-bound) {
		return
	}
	*n = node{Feature: b.feature, At: b.at, Below: l.heir(b.left, cfg),
		From: l.heir(l.Watch.All.less(b.left), cfg), Top: n.Top}
}

// heir is a leaf behind a split, where so much came before.
func (l *leaf) heir(seen moments, cfg *Config) *node {
	return (&leaf{N: seen.N, Sum: seen.Sum + float64(seen.N*l.Watch.Center), Low: l.Low, High: l.High,
		Off: l.Off, Depth: l.Depth + 1, Line: l.Line.heir(cfg.Least)}).node(cfg)
}

// node has a leaf gather what it takes to split it, where one may be behind it.
func (l *leaf) node(cfg *Config) *node {
	if l.Depth < cfg.Depth {
		l.Watch = &observer{}
	}
	_, room := l.mean()
	return &node{Leaf: l, Top: l.High + room}
}
