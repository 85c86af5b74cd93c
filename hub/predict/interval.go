package predict

import (
	"slices"
	"sort"
)

// spread says within what part of a forecast answers come: of the ratios of what was observed by what was
// forecast lately, in three groups by what was forecast, the middle nine tenths. Where fewer or more come
// within what was said of them, the level is moved until they do.
type spread struct {
	Groups [3]ratios
	Bounds [2]float64 // between the groups: thirds of what is forecast, in milliseconds
	// The share of late that came beyond what was said, over all groups: when engines turn to be otherwise
	// all forecasts are off at once. 0: nothing was seen.
	Beyond float64
}

type ratios struct {
	Ring       []float64 // as they came, from next on
	Next       int
	sorted     []float64
	Level      float64 // that is left out
	Least, Top float64 // what is within it; 0: too few were seen
	middle     float64 // half of all are at most that; 0: too few were seen
}

const (
	outside = 0.1
	adapts  = 0.005
	// Each answer is so large a part of the share that came beyond of late (beyonds). What that share has
	// above outside is taken off the level of each group, so many times (pulls): that follows a turn within
	// tens of answers, and the level itself within hundreds.
	beyonds, pulls = 0.015, 1.5
	ratiosOf       = 200
	// A few answers say little: until so many were seen, an answer may come in a third or three times of it.
	few, unsure = 20, 3
	// what may be left out
	leastLevel, mostLevel = 0.005, 0.3
	// shift moves a bound of the groups by so much for an answer on its one side, by twice that on the other.
	shift, twice = 1.01, 1.0201
)

// clone is a copy.
func (s *spread) clone() spread {
	c := *s
	for i := range c.Groups {
		g := &c.Groups[i]
		g.Ring, g.sorted = slices.Clone(g.Ring), slices.Clone(g.sorted)
	}
	return c
}

// group returns the group of a forecast in milliseconds.
func (s *spread) group(forecast float64) *ratios {
	switch {
	case forecast < s.Bounds[0]:
		return &s.Groups[0]
	case forecast < s.Bounds[1]:
		return &s.Groups[1]
	}
	return &s.Groups[2]
}

// within returns the factors of a forecast between which an answer is expected, and whether enough were seen.
func (s *spread) within(forecast float64) (least, top float64, known bool) {
	g := s.group(forecast)
	if g.Top == 0 {
		return 1.0 / unsure, unsure, false
	}
	return max(0, g.Least), max(0, g.Top), true
}

// said is an answer with its forecast at the dispatch, in milliseconds.
type said struct {
	Observed, Forecast float64
	Low, High          float64 // both 0: no width was known
}

// outside reports whether it is outside its interval.
func (a *said) outside() bool { return a.Observed < a.Low || a.Observed > a.High }

// count takes in an answer.
func (s *spread) count(a *said) {
	by := max(a.Forecast, 1e-3)
	if s.Bounds[0] == 0 {
		s.Bounds = [2]float64{by, by}
	}
	switch {
	case s.Beyond == 0:
		s.Beyond = outside
	case a.High == 0:
	case a.outside():
		s.Beyond += float64((1 - s.Beyond) * beyonds)
	default:
		s.Beyond -= float64(s.Beyond * beyonds)
	}
	s.group(by).count(a)
	for i := range s.Groups {
		s.Groups[i].set(s.Beyond)
	}
	lift := func(b *float64, up, down float64) {
		if by > *b {
			*b *= up
		} else {
			*b /= down
		}
		*b = min(max(*b, 1e-3), 1e7)
	}
	lift(&s.Bounds[0], shift, twice)
	lift(&s.Bounds[1], twice, shift)
	s.Bounds[1] = max(s.Bounds[0], s.Bounds[1])
}

// count takes in an answer.
func (g *ratios) count(a *said) {
	switch {
	case g.Top == 0:
		g.Level = outside
	case a.High == 0:
	case a.outside():
		g.Level += float64(adapts * (outside - 1))
	default:
		g.Level += float64(adapts * outside)
	}
	g.Level = min(max(g.Level, leastLevel), mostLevel)
	g.add(a.Observed / a.Forecast)
}

// add takes in the ratio of an answer to its forecast.
func (g *ratios) add(r float64) {
	r = min(max(r, -1e4), 1e4)
	if len(g.Ring) < ratiosOf {
		g.Ring = append(g.Ring, r)
	} else {
		i := sort.SearchFloat64s(g.sorted, g.Ring[g.Next])
		g.sorted = slices.Delete(g.sorted, i, i+1)
		g.Ring[g.Next] = r
		g.Next = (g.Next + 1) % ratiosOf
	}
	i := sort.SearchFloat64s(g.sorted, r)
	g.sorted = slices.Insert(g.sorted, i, r)
	g.half()
}

// most returns the factors by which one in a hundred observations, and one in a thousand, exceed their
// forecasts; seen tells of how many. The greatest of two hundred exceeds the hundredth in seven of eight
// cases; the thousandth is taken to be as far above it as it is above the tenth, or, of fewer observations,
// above the middle one. Of very few nothing is known.
func (g *ratios) most() (hundredth, thousandth float64, seen int) {
	seen = len(g.sorted)
	if seen < few {
		return 0, 0, 0
	}
	top, from := g.sorted[seen-1], g.middle
	if seen >= ratiosOf {
		from = g.sorted[seen-1-seen/10]
	}
	return top, top * (top / from), seen
}

// set finds what is within the level, where of all groups such a share came beyond what was said.
func (g *ratios) set(beyond float64) {
	if n := len(g.sorted); n >= few {
		level := min(max(g.Level-float64(pulls*(beyond-outside)), leastLevel), mostLevel)
		out := int(float64(level * float64(n) / 2))
		g.Least, g.Top = g.sorted[out], g.sorted[n-1-out]
	}
}

// half finds the middle one.
func (g *ratios) half() {
	if n := len(g.sorted); n >= few {
		g.middle = g.sorted[(n-1)/2]
	}
}
