package bench

import (
	"cmp"
	"slices"
	"time"
)

// search is a second fixed piece of work, of the kind that giving away slots is made of. It finds the towns
// that are nearest to one: it follows the shortest way so far, which a heap says, to a town whose roads stand
// somewhere in half a megabyte, and sorts some of what it has not reached yet. So it waits for what it reads
// and for branches that nobody can foresee, and a machine that is quick at arithmetic need not be quick at
// it. It allocates nothing.
type search struct {
	roads  [towns * crossing]road // those of each town together
	far    [towns]int64           // the shortest way so far, of those seen in this search
	seen   [towns]uint32          // in which search
	heap   []visit                // the nearest first; also of longer ways than the shortest so far
	from   int32
	number uint32 // of searches
}

type road struct{ to, length int32 }

// visit is a town, and how far it is by some way.
type visit struct {
	way  int64
	town int32
}

const (
	towns    = 1 << 12
	crossing = 12  // roads that leave a town
	nearest  = 128 // towns that are found
	sorted   = 256 // ways that are sorted
)

func newSearch() *search {
	s := &search{heap: make([]visit, 0, nearest*crossing+1)}
	x := uint32(1)
	draw := func(below uint32) int32 { // a multiplier and increment of Numerical Recipes
		x = x*1664525 + 1013904223
		return int32(uint64(x) * uint64(below) >> 32)
	}
	for i := range s.roads {
		s.roads[i] = road{draw(towns), 1 + draw(1<<20)}
	}
	return s
}

// loop does the work once, from the next town, and returns how far the towns that it found are together.
func (s *search) loop() (sum int64) {
	s.number++
	s.from = (s.from + 1597) % towns // it comes to all of them
	s.far[s.from], s.seen[s.from] = 0, s.number
	s.heap = append(s.heap[:0], visit{0, s.from})
	for found := 0; found < nearest; {
		v := s.pop()
		if v.way > s.far[v.town] {
			continue // it was reached by a shorter way
		}
		found++
		sum += v.way
		for _, r := range s.roads[v.town*crossing : v.town*crossing+crossing] {
			if way := v.way + int64(r.length); s.seen[r.to] != s.number || way < s.far[r.to] {
				s.far[r.to], s.seen[r.to] = way, s.number
				s.push(visit{way, r.to})
			}
		}
	}
	slices.SortFunc(s.heap[:min(sorted, len(s.heap))], func(a, b visit) int {
		return cmp.Or(cmp.Compare(a.way, b.way), cmp.Compare(a.town, b.town))
	})
	return sum
}

func (s *search) push(v visit) {
	s.heap = append(s.heap, v)
	h := s.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].way <= v.way {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = v
}

func (s *search) pop() visit {
	h := s.heap
	top, v := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	s.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for down := 1; down < len(h); down = 2*i + 1 {
		if down+1 < len(h) && h[down+1].way < h[down].way {
			down++
		}
		if h[down].way >= v.way {
			break
		}
		h[i], i = h[down], down
	}
	h[i] = v
	return top
}

// solving holds both references for whatever is of the solver's kind.
type solving struct {
	*reference
	search *search
}

func newSolving() solving { return solving{newReference(), newSearch()} }

// beside measures one call of f, one loop and one search, in microseconds.
func (s solving) beside(least time.Duration, f func() error) ([]float64, error) {
	call, each, err := inTurns(least, f, s.loop, s.search.loop)
	return []float64{micros(call), micros(each[0]), micros(each[1])}, err
}

// ratio is a bar of figures that beside returned, run by run. Its limit is a multiple of the search.
func (s solving) ratio(name string, limit float64, x [][]float64, note string) Bar {
	b := ratio(name, limit, "search", "us", x[0], x[2], note)
	b.Also = &Other{Of: "loop", Base: median(x[1]), Multiple: multipleOf(x[0], x[1]), Bases: x[1]}
	return b
}
