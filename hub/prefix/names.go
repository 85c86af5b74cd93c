package prefix

// names finds nodes by their hashes. It has the numbers of nodes alone, from 1, as the hashes stand in them:
// a map would take several times as much. A node stands at the place of its hash, or as soon behind it as
// there was room.
type names struct {
	by     spread
	places []int32 // 0: free; a power of two
	n      int
}

func (x *names) begins(hash uint64) int { return x.by.place(hash, len(x.places)) }

// find is the node of a hash.
func (b *Cache) find(hash uint64) (int32, bool) {
	x := &b.byHash
	if x.n == 0 {
		return none, false
	}
	for at := x.begins(hash); x.places[at] != 0; at = (at + 1) & (len(x.places) - 1) {
		if k := x.places[at] - 1; b.nodes[k].hash == hash {
			return k, true
		}
	}
	return none, false
}

// name has a node found by its hash, which none is yet.
func (b *Cache) name(k int32) {
	x := &b.byHash
	if x.n++; 8*x.n > 7*len(x.places) {
		before := x.places
		x.places = make([]int32, max(16, 2*len(before)))
		for _, place := range before {
			if place != 0 {
				b.settleName(place)
			}
		}
	}
	b.settleName(k + 1)
}

// settleName puts a node, counted from 1, at the first free place.
func (b *Cache) settleName(place int32) {
	x := &b.byHash
	at := x.begins(b.nodes[place-1].hash)
	for x.places[at] != 0 {
		at = (at + 1) & (len(x.places) - 1)
	}
	x.places[at] = place
}

// unname removes a node, and moves up those behind it that may stand closer to their slots.
func (b *Cache) unname(k int32) {
	x := &b.byHash
	last := len(x.places) - 1
	at := x.begins(b.nodes[k].hash)
	for x.places[at] != k+1 {
		at = (at + 1) & last
	}
	x.n--
	x.places[at] = 0
	for next := (at + 1) & last; x.places[next] != 0; next = (next + 1) & last {
		from := x.begins(b.nodes[x.places[next]-1].hash)
		if (next-from)&last >= (next-at)&last { // its place is not behind the free one
			x.places[at], x.places[next] = x.places[next], 0
			at = next
		}
	}
}
