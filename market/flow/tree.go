package flow

// tree is the basis of the network simplex: the seats and one more node, the outside, which stands last. Of
// the basic arcs of a round's network, one per task and seat, all but one per seat belong to tasks that hang
// on a single seat, and no pivot needs to look at those.
//
// A seat is linked to its parent by a task that is indifferent between the two, or, at the outside only, by
// its slack: then its price is 0. The tree is strongly feasible (Cunningham 1976) if
//
//	a link task sits at the child's end, a seat linked by slack has a free slot, every other seat is full
//
// since then one more task can be pushed from any seat up to the outside. Every pivot keeps this, which rules
// out cycling under any order of pivots.
type tree struct {
	node  []node
	price []int64 // of every seat, and of the outside: 0
	hot   []int32
}

// node is 24 bytes; prices stand apart, as they are what pricing reads.
type node struct {
	parent            int32
	link              int32 // the task, or bySlack
	child, next, prev int32 // first child; siblings; -1 for none
	depth             int32
}

const bySlack = -1

// start links every seat to the outside by its slack and leaves every task out: always feasible.
func (t *tree) start(seats int) {
	t.node, t.price = grow(t.node, seats+1), grow(t.price, seats+1)
	root := int32(seats)
	t.node[root] = node{parent: -1, link: bySlack, child: -1, next: -1, prev: -1}
	t.price[root] = 0
	for a := range root {
		t.price[a] = 0
		t.hang(a, root, bySlack)
		t.node[a].child = -1
		t.node[a].depth = 1
	}
}

func (t *tree) cut(a int32) {
	n := &t.node[a]
	if n.prev >= 0 {
		t.node[n.prev].next = n.next
	} else {
		t.node[n.parent].child = n.next
	}
	if n.next >= 0 {
		t.node[n.next].prev = n.prev
	}
}

func (t *tree) hang(a, parent, link int32) {
	n, q := &t.node[a], &t.node[parent]
	n.parent, n.link, n.prev, n.next = parent, link, -1, q.child
	if q.child >= 0 {
		t.node[q.child].prev = a
	}
	q.child = a
}

// shift adds d to every price of a's subtree, corrects depths, and returns the seat of the least price.
func (t *tree) shift(a int32, d int64) (least int32) {
	least = a
	t.node[a].depth = t.node[t.node[a].parent].depth + 1
	for x := a; ; {
		t.price[x] += d
		if t.price[x] < t.price[least] {
			least = x
		}
		n := &t.node[x]
		if c := n.child; c >= 0 {
			t.node[c].depth = n.depth + 1
			x = c
			continue
		}
		for x != a && t.node[x].next < 0 {
			x = t.node[x].parent
		}
		if x == a {
			return least
		}
		next := t.node[x].next
		t.node[next].depth = t.node[x].depth
		x = next
	}
}

// below returns the child of a on the way down to b, or -1 if a is not above b.
func (t *tree) below(a, b int32) int32 {
	depth := t.node[a].depth
	if t.node[b].depth <= depth {
		return -1
	}
	for t.node[b].depth > depth+1 {
		b = t.node[b].parent
	}
	if t.node[b].parent != a {
		return -1
	}
	return b
}

// enter brings the edge (k, b) into the basis: task k would gain d > 0 by moving to b, or to the outside. w
// is the edge's weight there, 0 outside.
func (s *Solver) enter(k, b int32, w, d int64) {
	t := &s.tree
	s.Pivots++
	root := int32(len(t.node) - 1)
	a := s.Match[k]
	if a < 0 {
		a = root
	}
	slack := a == root || t.node[a].link == bySlack
	top := t.below(a, b) // a's child above b, if a is above b
	switch {
	case !slack && top < 0:
		// Nothing can leave a yet: every chain of moves from b would have to fill a's place through its own
		// link, which carries nothing that way. Degenerate: a's subtree is hung under b.
		t.cut(a)
		t.hang(a, b, k)
		if low := t.shift(a, -d); t.price[low] < 0 {
			s.relieve(low)
		}
	case a != root && t.node[a].link == k && top >= 0:
		// k links a to its parent and b hangs below a: k moves down to b and links b there instead.
		s.rehang(b, a, t.node[a].parent, k, w, d)
	case a != root && top >= 0:
		// Round trip below a: what is pushed out of top comes back to a.
		s.rehang(b, top, a, k, w, d)
	default:
		// a gives k away, or k comes from outside; what is pushed up from b ends outside.
		if a != root {
			s.free[a]++
		}
		if b == root {
			s.Match[k], s.weight[k] = -1, 0
			return
		}
		if cut := s.absorb(b); cut >= 0 {
			s.rehang(b, cut, a, k, w, d)
		} else {
			s.Match[k], s.weight[k] = b, w
		}
	}
}

// absorb finds where a task pushed up from b ends outside: in a free slot or by dropping a link task. It
// returns the seat below the link that leaves the basis for it, the one nearest the outside that is
// exhausted, or -1 if b itself has slots to spare.
func (s *Solver) absorb(b int32) int32 {
	t := &s.tree
	under := int32(-1)
	for t.node[b].depth > 1 {
		under, b = b, t.node[b].parent
	}
	if t.node[b].link != bySlack {
		return b
	}
	s.free[b]--
	if s.free[b] == 0 {
		return b
	}
	return under
}

// relieve lets the slack of a full seat whose price fell below 0 enter: a task leaves it.
func (s *Solver) relieve(b int32) {
	root := int32(len(s.tree.node) - 1)
	s.rehang(b, s.absorb(b), root, bySlack, 0, -s.tree.price[b])
	s.free[b] = 1
}

// rehang pushes one task up from b: k comes to b (nobody does if k is bySlack), each link task on the way to
// cut moves one seat up, cut's own to its parent. The subtree of cut is then turned over, so that b is its
// top, and hung under parent with link k; its prices rise by d.
func (s *Solver) rehang(b, cut, parent, k int32, w, d int64) {
	t := &s.tree
	root := int32(len(t.node) - 1)
	child, above, link := b, t.node[b].parent, t.node[b].link
	t.cut(b)
	for {
		// link, which sits at child, moves to above, unless it is k: k came to b.
		if link != bySlack && link != k {
			if above == root {
				s.Match[link], s.weight[link] = -1, 0
			} else {
				s.Match[link], s.weight[link] = above, s.weight[link]-t.price[child]+t.price[above]
			}
		}
		if child == cut {
			break
		}
		nextAbove, nextLink := t.node[above].parent, t.node[above].link
		t.cut(above)
		t.hang(above, child, link)
		child, above, link = above, nextAbove, nextLink
	}
	t.hang(b, parent, k)
	if k != bySlack {
		s.Match[k], s.weight[k] = b, w
	}
	t.shift(b, d)
}
