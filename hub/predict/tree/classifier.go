package tree

import (
	"fmt"
	"math"
	"unsafe"
)

// Classifier expects how likely each of some classes is. A leaf goes by how often each came, or by naive
// Bayes over what it saw of each feature, whichever was wrong less of late.
type Classifier struct {
	cfg               Config
	features, classes int
	branches          branches
	leaves            []*bed
}

// bed is where observations of classes end up.
type bed struct {
	counts  []float64 // of each class, with what its branch brought along
	since   float64
	off     [2]float64 // decayed share of wrong answers: by counts, by naive Bayes
	depth   int
	deepest bool
	watch   *spans // nil: it sleeps
	watched int    // what one takes
}

// spans is what a leaf gathers to be split: of each class and feature a normal distribution.
type spans struct {
	n         []float64 // of each class
	normal    []normal  // by class, then feature
	low, high []float64 // of each feature
}

// normal is a normal distribution as it was seen.
type normal struct{ n, mean, off float64 }

func (g *normal) add(x, weight float64) {
	g.n += weight
	d := x - g.mean
	g.mean += float64(d * (weight / g.n))
	g.off += float64(weight * d * (x - g.mean))
}

// slack is the least variance of a feature, beside what 1e-9 of its size makes.
const slack = 1e-9

func (g *normal) variance() float64 { return max(g.off/g.n, slack*(1+float64(g.mean*g.mean))) }

// below is how much of it lies below x.
func (g *normal) below(x float64) float64 {
	if g.n == 0 {
		return 0
	}
	return g.n * below((x-g.mean)/math.Sqrt(g.variance()))
}

func spansSize(features, classes int) int {
	return 4*24 + 8*(classes+2*features) + int(unsafe.Sizeof(normal{}))*features*classes
}

func newSpans(features, classes int) *spans {
	return &spans{make([]float64, classes), make([]normal, features*classes), make([]float64, features),
		make([]float64, features)}
}

// NewClassifier has seen nothing, and expects every class alike.
func NewClassifier(cfg Config, features, classes int) (*Classifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tree: %w", err)
	}
	if features < 1 || features > MaxFeatures || classes < 2 || classes > MaxClasses {
		return nil, fmt.Errorf("tree: %d features, want 1 to %d; %d classes, want 2 to %d", features,
			MaxFeatures, classes, MaxClasses)
	}
	t := &Classifier{cfg: cfg, features: features, classes: classes, branches: trunk()}
	t.leaves = []*bed{t.bed(0)}
	t.leaves[0].deepest = cfg.Depth == 0
	t.settle()
	return t, nil
}

func (t *Classifier) bed(depth int) *bed {
	return &bed{counts: make([]float64, t.classes), depth: depth, deepest: depth >= t.cfg.Depth,
		watched: t.features}
}

// Predict appends to out how likely each class is where the features are so; they add up to 1.
func (t *Classifier) Predict(out []float64, x []float64) []float64 {
	if len(x) != t.features {
		for range t.classes {
			out = append(out, 1/float64(t.classes))
		}
		return out
	}
	_, i := t.branches.leaf(x)
	l := t.leaves[i]
	if l.watch != nil && l.off[1] < l.off[0] {
		return l.bayes(out, x)
	}
	return l.majority(out)
}

// total is the weight of all classes.
func total(counts []float64) (n float64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// majority goes by counts, and one of each class beside them.
func (l *bed) majority(out []float64) []float64 {
	n := total(l.counts)
	for _, c := range l.counts {
		out = append(out, (c+1)/(n+float64(len(l.counts))))
	}
	return out
}

// bayes takes features for independent of each other.
func (l *bed) bayes(out []float64, x []float64) []float64 {
	from, highest := len(out), math.Inf(-1)
	for k, n := range l.watch.n {
		log := ln(n + 1)
		for f, v := range x {
			if g := &l.watch.normal[k*len(x)+f]; g.n > 0 && sound(1, v) {
				variance, d := g.variance(), v-g.mean
				log -= float64((ln(variance) + float64(d*d)/variance) / 2)
			}
		}
		out, highest = append(out, log), max(highest, log)
	}
	sum := 0.0
	for i := from; i < len(out); i++ {
		out[i] = exp(out[i] - highest)
		sum += out[i]
	}
	for i := from; i < len(out); i++ {
		out[i] /= sum
	}
	return out
}

// Learn takes in an observation that counts as so many: it was of class k. What has a feature that is no
// finite number is none.
func (t *Classifier) Learn(x []float64, k int, weight float64) {
	if len(x) != t.features || k < 0 || k >= t.classes || !sound(weight, x...) {
		return
	}
	at, i := t.branches.leaf(x)
	l := t.leaves[i]
	if l.watch != nil {
		var room [2 * MaxClasses]float64
		for j, likely := range [...][]float64{l.majority(room[:0]), l.bayes(room[MaxClasses:MaxClasses], x)} {
			wrong := 0.0
			if likeliest(likely) != k {
				wrong = 1
			}
			l.off[j] = float64(fade*l.off[j]) + float64((1-fade)*wrong)
		}
	}
	l.counts[k] += weight
	if l.watch != nil {
		l.watch.add(x, k, weight)
	}
	if l.since += weight; l.since >= t.cfg.Grace && !l.deepest {
		l.since = 0
		t.look(at, i)
		t.settle()
	}
}

// likeliest is the first of the likeliest classes.
func likeliest(likely []float64) (k int) {
	for i, p := range likely {
		if p > likely[k] {
			k = i
		}
	}
	return k
}

func (s *spans) add(x []float64, k int, weight float64) {
	fresh := total(s.n) == 0
	s.n[k] += weight
	for f, v := range x {
		s.normal[k*len(x)+f].add(v, weight)
		if fresh {
			s.low[f], s.high[f] = v, v
		}
		s.low[f], s.high[f] = min(s.low[f], v), max(s.high[f], v)
	}
}

// entropy is what is left to know of the class of one of so many, in bits.
func entropy(counts []float64) (bits, n float64) {
	n = total(counts)
	for _, c := range counts {
		if c > 0 {
			bits -= float64(c / n * ln(c/n))
		}
	}
	return bits / math.Ln2, n
}

// places is how many splits are tried of a feature.
const places = 10

// split is the split that says most of the class, with so much weight on either side.
func (s *spans) split(least float64) (b best) {
	whole, n := entropy(s.n)
	left, right := make([]float64, len(s.n)), make([]float64, len(s.n))
	for f := range s.low {
		c := choice{feature: f}
		for i := 1; i <= places; i++ {
			at := s.low[f] + float64((s.high[f]-s.low[f])*float64(i)/(places+1))
			s.sides(f, at, left, right)
			l, ln := entropy(left)
			r, rn := entropy(right)
			if ln < least || rn < least {
				continue
			}
			if gain := whole - (float64(l*ln)+float64(r*rn))/n; gain > c.merit {
				c.at, c.merit = at, gain
			}
		}
		b.offer(c)
	}
	return b
}

// sides are how many of each class should lie on the two sides of a split.
func (s *spans) sides(f int, at float64, left, right []float64) {
	for k, n := range s.n {
		left[k] = min(n, s.normal[k*len(s.low)+f].below(at))
		right[k] = n - left[k]
	}
}

func (t *Classifier) look(at, i int) {
	l := t.leaves[i]
	if l.watch == nil {
		return
	}
	b := l.watch.split(t.cfg.Least)
	bound := t.cfg.bound(ln(float64(t.classes))/math.Ln2, total(l.watch.n))
	if b.merit <= 0 || bound >= t.cfg.Tie && b.merit-b.second <= bound {
		return
	}
	if t.fixed()+(len(t.leaves)+1)*t.bedSize() > t.cfg.Bytes {
		l.deepest = true
		l.sleep()
		return
	}
	left, right := t.bed(l.depth+1), t.bed(l.depth+1)
	l.watch.sides(b.feature, b.at, left.counts, right.counts)
	for _, h := range []*bed{left, right} {
		h.off = l.off
		if !h.deepest {
			h.wake()
		}
	}
	t.leaves[i] = left
	t.leaves = append(t.leaves, right)
	t.branches.split(at, b.feature, b.at, len(t.leaves)-1)
}

func (l *bed) awake() bool    { return l.watch != nil }
func (l *bed) open() bool     { return !l.deepest }
func (l *bed) worth() float64 { return min(l.off[0], l.off[1]) * total(l.counts) }
func (l *bed) sleep()         { l.watch = nil }
func (l *bed) wake()          { l.watch = newSpans(l.watched, len(l.counts)) }

func (l *bed) size() int {
	n := int(unsafe.Sizeof(*l)) + 8 + 8*len(l.counts)
	if l.watch != nil {
		n += spansSize(l.watched, len(l.counts))
	}
	return n
}

func (t *Classifier) settle() {
	settle(&t.cfg, t.leaves, t.fixed(), spansSize(t.features, t.classes))
}

func (t *Classifier) fixed() int {
	return int(unsafe.Sizeof(*t)) + t.branches.size() + 8*len(t.leaves)
}

func (t *Classifier) bedSize() int {
	return int(unsafe.Sizeof(bed{})) + 8*t.classes + 2*8 + 4*int(unsafe.Sizeof(node{}))
}

// Size is how many bytes of memory it takes.
func (t *Classifier) Size() int {
	n := t.fixed()
	for _, l := range t.leaves {
		n += l.size()
	}
	return n
}

// Leaves is how many it has.
func (t *Classifier) Leaves() int { return len(t.leaves) }
