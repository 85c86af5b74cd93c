package virtual

import "time"

// occasion is an event and its time. Of two at the same time the one that was planned first comes first.
type occasion struct {
	at    time.Duration
	order uint64
	do    func(now time.Duration)
}

// before is the order in which occasions come.
func (o occasion) before(p occasion) bool { return o.at < p.at || o.at == p.at && o.order < p.order }

// queue is a heap; its first item comes before all others. container/heap would allocate for everything that
// comes and goes, some sixty times for each task of a run.
type queue[T interface{ before(T) bool }] []T

func (q *queue[T]) push(x T) {
	*q = append(*q, x)
	h := *q
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(h[up]) {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = x
}

// pop takes out what comes first.
func (q *queue[T]) pop() T {
	h := *q
	last := len(h) - 1
	first, x := h[0], h[last]
	clear(h[last:])
	*q = h[:last]
	i := 0
	for down := 1; down < last; down = 2*i + 1 {
		if down+1 < last && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(x) {
			break
		}
		h[i], i = h[down], down
	}
	if last > 0 {
		h[i] = x
	}
	return first
}

// plan is the occasions to come. Each gets a number when it is planned.
type plan struct {
	agenda queue[occasion]
	order  uint64
}

func (p *plan) add(at time.Duration, do func(now time.Duration)) {
	p.order++
	p.agenda.push(occasion{at, p.order, do})
}

// next takes out what comes first.
func (p *plan) next() occasion { return p.agenda.pop() }
