package bounded

// Heap has things in an order, the first of all at its beginning, for container/heap. Each is told its place
// whenever that changes, from 1; 0: it is in the heap no more.
type Heap[T interface {
	Before(T) bool
	Placed(int)
}] []T

func (h Heap[T]) Len() int           { return len(h) }
func (h Heap[T]) Less(i, j int) bool { return h[i].Before(h[j]) }

func (h Heap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].Placed(i + 1)
	h[j].Placed(j + 1)
}

func (h *Heap[T]) Push(x any) {
	*h = append(*h, x.(T))
	x.(T).Placed(len(*h))
}

func (h *Heap[T]) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	x.Placed(0)
	return x
}
