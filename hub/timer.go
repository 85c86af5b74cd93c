package hub

import (
	"container/heap"
	"time"
)

// timer is when its owner wants to be looked at again; at most one is set for each owner.
type timer struct {
	at    time.Time
	order uint64 // of setting, so that equal times fire in a fixed order
	place int    // in the heap, from 1; 0: not set
	owner timed
}

// timed is what a timer belongs to. due is called once at or after the time set, with the timer cleared.
type timed interface{ due(n *Node) }

// timers is a heap of set timers.
type timers struct {
	heap  timerHeap
	order uint64
}

// set moves t to a time, or clears it for the zero time.
func (ts *timers) set(t *timer, at time.Time) {
	switch {
	case at.IsZero():
		if t.place > 0 {
			heap.Remove(&ts.heap, t.place-1)
		}
		return
	case t.place > 0 && t.at.Equal(at):
		return
	}
	ts.order++
	t.at, t.order = at, ts.order
	if t.place > 0 {
		heap.Fix(&ts.heap, t.place-1)
		return
	}
	heap.Push(&ts.heap, t)
}

// next is the earliest time set, or zero.
func (ts *timers) next() time.Time {
	if len(ts.heap) == 0 {
		return time.Time{}
	}
	return ts.heap[0].at
}

// pop clears and returns one timer that is due, or nil.
func (ts *timers) pop(now time.Time) *timer {
	if len(ts.heap) == 0 || ts.heap[0].at.After(now) {
		return nil
	}
	return heap.Pop(&ts.heap).(*timer)
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.place = len(*h)
}
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.place = 0
	return t
}
