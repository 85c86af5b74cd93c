package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"souk/bus/bustest/golden"
)

func regressor(t testing.TB, cfg Config, features int) *Regressor {
	t.Helper()
	r := NewRegressor(cfg, features)
	return r
}

// quick is a configuration under which small tests see splits.
func quick() Config {
	c := Default()
	c.Grace, c.Least, c.Delta = 70, 5, 0.05
	return c
}

// What is one value here and another there is two leaves, on the feature that says which, soon.
func TestSplitsWhereItMatters(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := regressor(t, Default(), 3)
	for range 1200 {
		x := []float64{rng.Float64(), rng.Float64() * 1000, rng.Float64()}
		y := 1.0
		if x[1] > 600 {
			y = 5
		}
		r.Learn(x, y+rng.NormFloat64()*0.2, 1)
	}
	root := r.Root
	if root.Feature != 1 || math.Abs(root.At-600) > 60 {
		t.Errorf("the first split is of feature %d at %v, want 1 near 600", root.Feature, root.At)
	}
	for _, c := range []struct{ x, want float64 }{{100, 1}, {900, 5}} {
		if got := r.Predict([]float64{0.5, c.x, 0.5}); math.Abs(got-c.want) > 0.3 {
			t.Errorf("%v is expected at %v, want %v", got, c.x, c.want)
		}
	}
}

// Of two features that say the same none is much better: such a split waits until the bound is below the tie.
func TestEqualSplitsWait(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	cfg := Default()
	r := regressor(t, cfg, 2)
	for n := 1; n <= 2200; n++ {
		x := rng.Float64()
		y := math.Floor(2*x) + rng.NormFloat64()*0.1
		r.Learn([]float64{x, x}, y, 1)
		tie := cfg.bound(float64(n)) < cfg.Tie
		if len(r.Root.leaves()) > 1 && !tie {
			t.Fatalf("split after %d, where the bound is %v", n, cfg.bound(float64(n)))
		}
	}
	if len(r.Root.leaves()) < 2 {
		t.Error("not split at all")
	}
}

// A plane is found where there is one, whatever the scales, and forecasts stay near what was seen.
func TestPlane(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	r := regressor(t, Default(), 3)
	for range 150 {
		x := []float64{1e6 + rng.Float64(), rng.Float64() * 1e-3, 7}
		r.Learn(x, 3*(x[0]-1e6)+2000*x[1], 1)
	}
	if got := r.Predict([]float64{1e6 + 0.5, 0.5e-3, 7}); math.Abs(got-2.5) > 0.05 {
		t.Errorf("%v is expected in the middle, want 2.5", got)
	}
	if got := r.Predict([]float64{2e6, 1, 7}); got > 5+2.6 {
		t.Errorf("%v is expected far off, where at most 5 was seen", got)
	}
}

// The best split is the one that a count over all observations finds.
func TestSplitIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, d := rapid.IntRange(first, 300).Draw(t, "n"), rapid.IntRange(1, 3).Draw(t, "features")
		o := &observer{}
		var xs [][]float64
		var ys []float64
		for range n {
			var x []float64
			for range d {
				x = append(x, float64(rapid.IntRange(-5, 40).Draw(t, "x")))
			}
			y := float64(rapid.IntRange(-100, 100).Draw(t, "y"))
			xs, ys = append(xs, x), append(ys, y)
			o.add(x, y, 1)
		}
		variance := func(of []float64) float64 {
			mean, sum := 0.0, 0.0
			for _, y := range of {
				mean += y / float64(len(of))
			}
			for _, y := range of {
				sum += (y - mean) * (y - mean)
			}
			return sum
		}
		want := 0.0
		for f := range d {
			for _, at := range o.Edges[f] {
				var left, right []float64
				for i, x := range xs {
					if x[f] < at {
						left = append(left, ys[i])
					} else {
						right = append(right, ys[i])
					}
				}
				if len(left) >= 5 && len(right) >= 5 {
					want = max(want, (variance(ys)-variance(left)-variance(right))/float64(n))
				}
			}
		}
		got := o.split(5)
		if math.Abs(got.merit-want) > 1e-6*(1+want) || got.second > got.merit {
			t.Errorf("merit %v and %v, want %v", got.merit, got.second, want)
		}
		if got.merit > 0 {
			left, right := got.left, o.All.less(got.left)
			count := 0.0
			for _, x := range xs {
				if x[got.feature] < got.at {
					count++
				}
			}
			if left.N != count || left.N+right.N != float64(n) {
				t.Errorf("%v and %v on the two sides of %d, want %v on the left", left.N, right.N, n, count)
			}
		}
	})
}

// drawn are observations with structure: features of several kinds, and y that depends on some of them.
func drawn(rng *rand.Rand, features int) (x []float64, y float64) {
	for f := range features {
		switch f % 3 {
		case 0:
			x = append(x, rng.ExpFloat64()*1000)
		case 1:
			x = append(x, float64(rng.IntN(4)))
		default:
			x = append(x, max(0, rng.NormFloat64()))
		}
	}
	y = x[0] / 1000
	for f := range features {
		if x[f] > 1 {
			y += float64((f*7)%5) * x[f/2]
		}
	}
	return x, y + rng.NormFloat64()
}

// A tree never takes more than it may, and what it says it takes is at least what its numbers do.
func TestBounds(t *testing.T) {
	for _, features := range []int{1, 10, 12, 64} {
		cfg := quick()
		cfg.Grace, cfg.Least = 64, 1
		r := regressor(t, cfg, features)
		rng := rand.New(rand.NewPCG(uint64(features), 8))
		for n := range 20_000 {
			x, y := drawn(rng, features)
			r.Learn(x, y*float64(1+n/5000), 1)
			if n%100 > 0 {
				continue
			}
			watched, floats := 0, 0
			for _, l := range r.Root.leaves() {
				floats += cap(l.Line.Mean) + cap(l.Line.Off) + cap(l.Line.Coef) + 7
				if l.Depth > cfg.Depth || (l.Watch != nil) != (l.Depth < cfg.Depth) {
					t.Fatalf("a leaf is %d deep, and gathers more: %v", l.Depth, l.Watch != nil)
				}
				if l.Watch != nil {
					watched++
					floats += cap(l.Watch.Rows)
					for f := range l.Watch.Edges {
						floats += cap(l.Watch.Edges[f]) + 3*cap(l.Watch.Bins[f])
					}
				}
			}
			most := 64*(32+features+(features+1)*(features+2)) + 32*first*(features+2)*2
			if watched > 32 || len(r.Root.leaves()) > 64 || floats > most {
				t.Fatalf("%d features, %d seen: %d leaves, %d that may be split, %d numbers", features, n,
					len(r.Root.leaves()), watched, floats)
			}
		}
		t.Logf("%d features: %d leaves", features, len(r.Root.leaves()))
	}
}

// What is no number is no observation, nor is one with more or fewer features, or without weight.
func TestNoNumberIsNoObservation(t *testing.T) {
	r := regressor(t, quick(), 2)
	g := NewGate(quick(), 2)
	for i := range 200 {
		x := []float64{float64(i % 7), float64(i % 3)}
		r.Learn(x, float64(i), 1)
		g.Learn(x, nil, float64(i), 1)
	}
	before := append(written(t, &Gate{Tree: r}), written(t, g)...)
	nan, inf := math.NaN(), math.Inf(1)
	for _, bad := range []struct {
		x         []float64
		y, weight float64
	}{{[]float64{nan, 1}, 1, 1}, {[]float64{1, inf}, 1, 1}, {[]float64{1, -inf}, 1, 1},
		{[]float64{1, 1}, nan, 1}, {[]float64{1, 1}, inf, 1}, {[]float64{1, 1}, 1e200, 1},
		{[]float64{1e13, 1}, 1, 1}, {[]float64{1}, 1, 1},
		{[]float64{1, 2, 3}, 1, 1}, {nil, 1, 1}, {[]float64{1, 1}, 1, 0}, {[]float64{1, 1}, 1, -1},
		{[]float64{1, 1}, 1, nan}, {[]float64{1, 1}, 1, inf}} {
		r.Learn(bad.x, bad.y, bad.weight)
		g.Learn(bad.x, nil, bad.y, bad.weight)
		for _, p := range []float64{r.Predict(bad.x), g.Add(bad.x, nil), g.Add(bad.x, []float64{1, 1})} {
			if math.IsNaN(p) || math.IsInf(p, 0) {
				t.Errorf("%v is expected of %v", p, bad.x)
			}
		}
	}
	if !bytes.Equal(before, append(written(t, &Gate{Tree: r}), written(t, g)...)) {
		t.Error("something was learned")
	}
}

// written is a gate as it is written down.
func written(t testing.TB, g *Gate) []byte {
	t.Helper()
	data, err := g.Saved()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A tree that was written down and read again goes on as one that was not, bit by bit.
func TestRestoredGoesOn(t *testing.T) {
	data := func(g *Gate) []byte { return written(t, g) }
	rapid.Check(t, func(t *rapid.T) {
		cfg, features := quick(), rapid.IntRange(1, 5).Draw(t, "features")
		cfg.Depth = rapid.IntRange(0, 3).Draw(t, "depth")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var gates [2]*Gate
		for i := range gates {
			gates[i] = NewGate(cfg, features)
		}
		for n := range rapid.IntRange(1, 1500).Draw(t, "observations") {
			x, y := drawn(rng, features)
			for i := range gates {
				gates[i].Learn(x, nil, y, 1)
			}
			if rng.IntN(400) == 0 {
				gates[0].Mute()
				gates[1].Mute()
			}
			if n%97 > 0 {
				continue
			}
			gate := NewGate(cfg, features)
			if err := gate.Restore(data(gates[1])); err != nil {
				t.Fatal(err)
			}
			gates[1] = gate
			x, _ = drawn(rng, features)
			a, b := gates[0], gates[1]
			if a.Add(x, nil) != b.Add(x, nil) || a.Tree.Predict(x) != b.Tree.Predict(x) ||
				len(a.Tree.Root.leaves()) != len(b.Tree.Root.leaves()) || a.Open() != b.Open() {
				t.Fatalf("after %d: %v and %v", n, a.Tree.Predict(x), b.Tree.Predict(x))
			}
		}
	})
}

// What a gate adds to a line falls nowhere where there is more of a feature, beside what the line rises; and
// where what is left over rises, it says nearly what the tree does.
func TestRise(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 11))
	for range 40 {
		r := regressor(t, quick(), 3)
		slopes := []float64{3 * rng.Float64(), rng.Float64(), 0}
		along := func(x []float64) (y float64) {
			for i, s := range slopes {
				y += s * x[i]
			}
			return y
		}
		up, wave := rng.Float64()*4, rng.Float64()*20
		for range 3000 {
			x := []float64{10 * rng.Float64(), 10 * rng.Float64(), 10 * rng.Float64()}
			r.Learn(x, up*x[0]*x[2]+wave*math.Sin(x[1])-2*x[2]+rng.NormFloat64(), 1)
		}
		for range 3000 {
			x := []float64{12*rng.Float64() - 1, 12*rng.Float64() - 1, 12*rng.Float64() - 1}
			more := slices.Clone(x)
			more[rng.IntN(3)] += 3 * rng.Float64()
			less, y := along(x)+r.Rise(x, slopes), along(more)+r.Rise(more, slopes)
			if y < less-1e-9*math.Abs(less) {
				t.Fatalf("%v at %v, %v at %v, slopes %v", less, x, y, more, slopes)
			}
		}
	}
	rising := regressor(t, quick(), 1)
	for range 5000 {
		x := 10 * rng.Float64()
		rising.Learn([]float64{x}, x*x-x, 1)
	}
	for x := 0.5; x < 10; x += 0.5 {
		at, plain := rising.Rise([]float64{x}, []float64{1}), rising.Predict([]float64{x})
		if math.Abs(at-plain) > 3 {
			t.Errorf("at %v it says %v where the tree says %v", x, at, plain)
		}
	}
}

// What a tree says where it may not fall is, to the last bit, the most that any of its leaves says, though it
// looks at few of them; also while it learns, and once it was restored.
func TestRiseIsTheMostOfAllLeaves(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 13))
	for range 20 {
		r := regressor(t, quick(), 3)
		slopes := []float64{3 * rng.Float64(), rng.Float64(), 1}
		up, wave := rng.Float64()*8-4, rng.Float64()*20
		for i := range 4000 {
			x := []float64{10 * rng.Float64(), 10 * rng.Float64(), 10 * rng.Float64()}
			r.Learn(x, up*x[0]*x[2]+wave*math.Sin(x[1])+rng.NormFloat64(), 1)
			if i == 3000 {
				from, to := written(t, &Gate{Tree: r}), Gate{Tree: regressor(t, quick(), 3)}
				if err := to.Restore(from); err != nil {
					t.Fatal(err)
				}
				r = to.Tree
			}
			for range 3 {
				x := []float64{12 * rng.Float64(), 12 * rng.Float64(), 12*rng.Float64() - 1}
				if got, want := r.Rise(x, slopes), r.Root.slow(x, slopes, slices.Clone(x)); got != want {
					t.Fatalf("after %d, at %v: %v, and the most of all leaves is %v", i+1, x, got, want)
				}
			}
		}
		if len(r.Root.leaves()) < 5 {
			t.Errorf("%d leaves, too few to leave out any", len(r.Root.leaves()))
		}
	}
}

// slow is rise with a look at every leaf that may say more.
func (n *node) slow(x, slopes, at []float64) (y float64) {
	if n.Leaf != nil {
		return lowered(n.Leaf.says(at, slopes), x, slopes, at)
	}
	if at[n.Feature] < n.At {
		return n.Below.slow(x, slopes, at)
	}
	below := slices.Clone(at)
	below[n.Feature] = n.At
	return max(n.From.slow(x, slopes, at), n.Below.slow(x, slopes, below))
}

// leaves lists them from what is least to what is most.
func (n *node) leaves() []*leaf {
	if n.Leaf != nil {
		return []*leaf{n.Leaf}
	}
	return append(n.Below.leaves(), n.From.leaves()...)
}

// A tree made otherwise is not restored, and what is not restored changes nothing.
func TestOtherIsNotRestored(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	r := regressor(t, quick(), 3)
	for range 500 {
		x, y := drawn(rng, 3)
		r.Learn(x, y, 1)
	}
	from := Gate{Tree: r}
	other := quick()
	other.Depth++
	for name, to := range map[string]*Regressor{"features": regressor(t, quick(), 4),
		"settings": regressor(t, other, 3)} {
		g := &Gate{Tree: to}
		before := written(t, g)
		if err := g.Restore(written(t, &from)); err == nil || !bytes.Equal(before, written(t, g)) {
			t.Errorf("one of other %s is restored", name)
		}
	}
}

// The same observations give the same trees on machines that fuse a product into a sum and on those that do
// not.
func TestSameOnEveryMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 28))
	h := sha256.New()
	for range 6 {
		features := 1 + rng.IntN(8)
		g := NewGate(quick(), features)
		for range 2500 {
			// drawn without the functions of package math that differ between machines
			var x []float64
			y := 0.0
			for f := range features {
				x = append(x, float64(rng.IntN(4000))/8)
				if x[f] > 300 {
					y += x[f/2] / 16
				}
			}
			y += float64(rng.IntN(100)) / 8
			g.Learn(x, nil, y, 1+float64(rng.IntN(2)))
			for _, p := range []float64{g.Add(x, nil), g.Tree.Predict(x)} {
				if err := binary.Write(h, binary.LittleEndian, p); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	golden.Check(t, "trees", fmt.Sprintf("%x", h.Sum(nil)))
}

// A gate opens once its tree saves errors, adds nothing before, and shuts when that ends.
func TestGate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	g := NewGate(Default(), 2)
	play := func(n int, left func(x []float64) float64) (open int) {
		for range n {
			x := []float64{rng.Float64(), rng.Float64()}
			if !g.Open() && g.Add(x, nil) != 0 {
				t.Fatal("a shut gate adds something")
			}
			if g.Open() {
				open++
			}
			g.Learn(x, nil, left(x), 1)
		}
		return open
	}
	noise := func([]float64) float64 { return rng.NormFloat64() }
	if open := play(3000, noise); open > 600 {
		t.Errorf("open for %d of 3000 forecasts that left noise over", open)
	}
	g = NewGate(Default(), 2)
	step := func(x []float64) float64 { return math.Floor(2*x[0])*4 - 2 + rng.NormFloat64()*0.2 }
	play(patience, step)
	if g.Open() {
		t.Error("open before enough was judged")
	}
	if open := play(3000, step); open < 2500 {
		t.Errorf("open for %d of 3000 forecasts that left a step over", open)
	}
	if got := g.Add([]float64{0.9, 0.5}, nil); math.Abs(got-2) > 0.5 {
		t.Errorf("it adds %v, want 2", got)
	}
	// the forecast has learned the step
	play(300, func([]float64) float64 { return 0.01 * rng.NormFloat64() })
	if g.Open() {
		t.Error("open where the forecast is right by itself")
	}
	play(3000, step)
	if g.Mute(); g.Open() || g.Add([]float64{0.9, 0.5}, nil) != 0 {
		t.Error("a muted gate adds something")
	}
}

func BenchmarkLearn(b *testing.B) {
	r := regressor(b, Default(), 12)
	rng := rand.New(rand.NewPCG(1, 1))
	var xs [1024][]float64
	var ys [1024]float64
	for i := range xs {
		xs[i], ys[i] = drawn(rng, 12)
	}
	for n := 0; b.Loop(); n++ {
		r.Learn(xs[n%1024], ys[n%1024], 1)
	}
}

func BenchmarkPredict(b *testing.B) {
	r := regressor(b, Default(), 12)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		x, y := drawn(rng, 12)
		r.Learn(x, y, 1)
	}
	x, _ := drawn(rng, 12)
	for b.Loop() {
		r.Predict(x)
	}
}
