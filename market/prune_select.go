package market

import (
	"math/bits"
	"slices"
)

// choose brings the first n items in rank, of more than that, to the front, in any order.
func choose(list []item, n int) {
	for tries := 2 * bits.Len(uint(len(list))); len(list) > 12; tries-- {
		if tries == 0 {
			break // whatever was bid, it takes no longer than to sort
		}
		a, b, c := &list[0], &list[len(list)/2], &list[len(list)-1]
		if b.before(a) {
			a, b = b, a
		}
		if c.before(b) {
			if b = c; b.before(a) {
				b = a
			}
		}
		pivot := *b
		i, j := 0, len(list)-1
		for i <= j {
			for list[i].before(&pivot) {
				i++
			}
			for pivot.before(&list[j]) {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i, j = i+1, j-1
			}
		}
		// all up to j rank no lower than the pivot, all from i on no higher, and between is the pivot
		switch {
		case n <= j:
			list = list[:j+1]
		case n > i:
			list, n = list[i:], n-i
		default:
			return
		}
	}
	slices.SortFunc(list, func(a, b item) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
}

// build makes a heap of items, the greatest weight on top.
func build(heap []item) {
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
}

func sink(heap []item, i int) {
	if i >= len(heap) {
		return
	}
	x := heap[i]
	for {
		c := 2*i + 1
		if c >= len(heap) {
			break
		}
		if c+1 < len(heap) && heap[c+1].before(&heap[c]) {
			c++
		}
		if !heap[c].before(&x) {
			break
		}
		heap[i] = heap[c]
		i = c
	}
	heap[i] = x
}
