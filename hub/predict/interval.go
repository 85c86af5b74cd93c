package predict

import (
	"slices"
	"sort"
)

// spread says within what part of a forecast answers come: of the ratios of what was observed by what was
// forecast lately, in three groups by what was forecast, the middle nine tenths. Where fewer or more come
// within what was said of them, the level is moved until they do.
type spread struct {
	groups [3]ratios
	bounds [2]float64 // between the groups: thirds of what is forecast, in milliseconds
	// The share of late that came beyond what was said, over all groups: when engines turn to be otherwise
	// all forecasts are off at once. 0: nothing was seen.
	beyond float64
}

type ratios struct {
	ring       []float64 // as they came, from next on
	next       int
	sorted     []float64
	level      float64 // that is left out
	least, top float64 // what is within it; 0: too few were seen
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
	// A few answers say little: until so many were seen, an answer may come in a third of the time, or three
	// times that.
	few, unsure = 20, 3
	// what may be left out
	leastLevel, mostLevel = 0.005, 0.3
	// shift moves a bound of the groups by so much when an answer is on its one side, and by twice that on
	// the other.
	shift, twice = 1.01, 1.0201
)

// clone is a copy.
func (s *spread) clone() spread {
	c := *s
	for i := range c.groups {
		g := &c.groups[i]
		g.ring, g.sorted = slices.Clone(g.ring), slices.Clone(g.sorted)
	}
	return c
}

// group is that of a forecast in milliseconds.
func (s *spread) group(forecast float64) *ratios {
	switch {
	case forecast < s.bounds[0]:
		return &s.groups[0]
	case forecast < s.bounds[1]:
		return &s.groups[1]
	}
	return &s.groups[2]
}

// within is between what and what times a forecast an answer is expected, and whether enough were seen to
// say.
func (s *spread) within(forecast float64) (least, top float64, known bool) {
	g := s.group(forecast)
	if g.top == 0 {
		return 1.0 / unsure, unsure, false
	}
	return max(0, g.least), max(0, g.top), true
}

// said is an answer beside what was said of it when it was dispatched, in milliseconds.
type said struct {
	observed, forecast float64
	low, high          float64 // both 0: no width was known
}

// outside reports whether it is not within what was said.
func (a *said) outside() bool { return a.observed < a.low || a.observed > a.high }

// outlies reports whether it is so far off that its agent may not be as it was.
func (a *said) outlies() bool {
	return a.observed > unsure*a.forecast || unsure*a.observed < a.forecast
}

// beside is an answer beside what was forecast.
func (f *Forecast) beside(ttft float64) said {
	a := said{observed: ttft, forecast: max(ms(f.TTFT), 1e-3)}
	if !f.wide {
		a.low, a.high = ms(f.Low), ms(f.High)
	}
	return a
}

// count takes in an answer.
func (s *spread) count(a *said) {
	by := max(a.forecast, 1e-3)
	if s.bounds[0] == 0 {
		s.bounds = [2]float64{by, by}
	}
	switch {
	case s.beyond == 0:
		s.beyond = outside
	case a.high == 0:
	case a.outside():
		s.beyond += float64((1 - s.beyond) * beyonds)
	default:
		s.beyond -= float64(s.beyond * beyonds)
	}
	s.group(by).count(a)
	for i := range s.groups {
		s.groups[i].set(s.beyond)
	}
	lift := func(b *float64, up, down float64) {
		if by > *b {
			*b *= up
		} else {
			*b /= down
		}
		*b = min(max(*b, 1e-3), 1e7)
	}
	lift(&s.bounds[0], shift, twice)
	lift(&s.bounds[1], twice, shift)
	s.bounds[1] = max(s.bounds[0], s.bounds[1])
}

// count takes in an answer.
func (g *ratios) count(a *said) {
	switch {
	case g.top == 0:
		g.level = outside
	case a.high == 0:
	case a.outside():
		g.level += float64(adapts * (outside - 1))
	default:
		g.level += float64(adapts * outside)
	}
	g.level = min(max(g.level, leastLevel), mostLevel)
	g.add(a.observed / a.forecast)
}

// add takes in how many times what was forecast came.
func (g *ratios) add(r float64) {
	r = min(max(r, -1e4), 1e4)
	if len(g.ring) < ratiosOf {
		g.ring = append(g.ring, r)
	} else {
		i := sort.SearchFloat64s(g.sorted, g.ring[g.next])
		g.sorted = slices.Delete(g.sorted, i, i+1)
		g.ring[g.next] = r
		g.next = (g.next + 1) % ratiosOf
	}
	i := sort.SearchFloat64s(g.sorted, r)
	g.sorted = slices.Insert(g.sorted, i, r)
	g.half()
}

// most is how many times what was forecast one in a hundred comes to at most, and one in a thousand, where so
// many were seen. Of two hundred the greatest is above what one in a hundred comes to in seven of eight
// cases; one in a thousand is taken to be as far above that as that is above what one in ten comes to.
func (g *ratios) most() (hundredth, thousandth float64, known bool) {
	n := len(g.sorted)
	if n < ratiosOf {
		return 0, 0, false
	}
	top := g.sorted[n-1]
	return top, top * (top / g.sorted[n-1-n/10]), true
}

// rare is how many times what was forecast one in a thousand comes to, by as many as make an interval: the
// fewer, the further above the greatest.
func (g *ratios) rare() (thousandth float64, known bool) {
	if _, most, ok := g.most(); ok {
		return most, true
	}
	n := len(g.sorted)
	if n < few {
		return 0, false
	}
	top := g.sorted[n-1]
	return top * (top / g.middle), true
}

// set finds what is within the level, where of all groups such a share came beyond what was said.
func (g *ratios) set(beyond float64) {
	if n := len(g.sorted); n >= few {
		level := min(max(g.level-float64(pulls*(beyond-outside)), leastLevel), mostLevel)
		out := int(float64(level * float64(n) / 2))
		g.least, g.top = g.sorted[out], g.sorted[n-1-out]
	}
}

// half finds the middle one.
func (g *ratios) half() {
	if n := len(g.sorted); n >= few {
		g.middle = g.sorted[(n-1)/2]
	}
}
