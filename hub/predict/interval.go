package predict

import (
	"slices"
	"sort"
)

// spread says within what part of a forecast answers come: of the ratios of what was observed by what was
// forecast lately, the middle nine tenths. Where fewer or more come within what was said of them, the level
// is moved until they do.
type spread struct {
	Ring       []float64 // as they came, from Next on
	Next       int
	sorted     []float64
	Level      float64 // that is left out
	Beyond     float64 // the share of late that came beyond what was said; 0: nothing was seen
	Least, Top float64 // what is within it; 0: too few were seen
	middle     float64 // half of all are at most that; 0: too few were seen
}

const (
	outside = 0.1
	adapts  = 0.005
	// Each answer is so large a part of the share that came beyond of late (beyonds). What that share has
	// above outside is taken off the level, so many times (pulls): that follows a turn within tens of
	// answers, and the level itself within hundreds.
	beyonds, pulls = 0.015, 1.5
	ratiosOf       = 200
	// A few answers say little: until so many were seen, an answer may come in a third or three times of it.
	few, unsure = 20, 3
	// what may be left out
	leastLevel, mostLevel = 0.005, 0.3
)

// clone is a copy.
func (s *spread) clone() spread {
	c := *s
	c.Ring, c.sorted = slices.Clone(s.Ring), slices.Clone(s.sorted)
	return c
}

// within returns the factors of a forecast between which an answer is expected, and whether enough were seen.
func (s *spread) within() (least, top float64, known bool) {
	if s.Top == 0 {
		return 1.0 / unsure, unsure, false
	}
	return max(0, s.Least), max(0, s.Top), true
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
	switch {
	case s.Beyond == 0:
		s.Beyond, s.Level = outside, outside
	case a.High == 0:
	case a.outside():
		s.Beyond += float64((1 - s.Beyond) * beyonds)
		s.Level += float64(adapts * (outside - 1))
	default:
		s.Beyond -= float64(s.Beyond * beyonds)
		s.Level += float64(adapts * outside)
	}
	s.Level = min(max(s.Level, leastLevel), mostLevel)
	s.add(a.Observed / a.Forecast)
	if n := len(s.sorted); n >= few {
		level := min(max(s.Level-float64(pulls*(s.Beyond-outside)), leastLevel), mostLevel)
		out := int(float64(level * float64(n) / 2))
		s.Least, s.Top = s.sorted[out], s.sorted[n-1-out]
	}
}

// add takes in the ratio of an answer to its forecast.
func (s *spread) add(r float64) {
	r = min(max(r, -1e4), 1e4)
	if len(s.Ring) < ratiosOf {
		s.Ring = append(s.Ring, r)
	} else {
		i := sort.SearchFloat64s(s.sorted, s.Ring[s.Next])
		s.sorted = slices.Delete(s.sorted, i, i+1)
		s.Ring[s.Next] = r
		s.Next = (s.Next + 1) % ratiosOf
	}
	i := sort.SearchFloat64s(s.sorted, r)
	s.sorted = slices.Insert(s.sorted, i, r)
	s.half()
}

// most returns the factors by which one in a hundred observations, and one in a thousand, exceed their
// forecasts; seen tells of how many. The greatest of two hundred exceeds the hundredth in seven of eight
// cases. The thousandth is taken to be as far above the second as that is above the tenth, or, of fewer
// observations, above the middle one: the greatest alone may be an accident. Of very few nothing is known.
func (s *spread) most() (hundredth, thousandth float64, seen int) {
	seen = len(s.sorted)
	if seen < few {
		return 0, 0, 0
	}
	second, from := s.sorted[seen-2], s.middle
	if seen >= ratiosOf {
		from = s.sorted[seen-1-seen/10]
	}
	return s.sorted[seen-1], second * (second / from), seen
}

// half finds the middle one.
func (s *spread) half() {
	if n := len(s.sorted); n >= few {
		s.middle = s.sorted[(n-1)/2]
	}
}
