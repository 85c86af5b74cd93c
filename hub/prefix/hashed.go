package prefix

import "math/bits"

// hashed finds items by their hashes. It takes half the room and the time of a map, whose groups of eight an
// agent's thousands of prefixes would be spread over, and grows by a quarter.
type hashed[T comparable] struct {
	hash func(T) uint64 // of an item that is in it
	// seek is the first of some places, from one on, that has the item of a hash, or none; else their number
	seek func(all []T, from int, hash uint64) int
	// whoever chooses hashes does not know it, so cannot have many of them at one place, where each search
	// would pass all of them
	seed uint64
	all  []T // eight at least: an item stands at its place, or as soon behind it as there was a zero T
	n    int
	full int // tenths of the places that are taken when there is room for a quarter more
}

// begins is the place of a hash.
func (x *hashed[T]) begins(hash uint64) int {
	const golden = 0x9e3779b97f4a7c15 // spreads hashes that differ in few bits
	key := hash ^ x.seed
	key = (key ^ key>>32) * golden
	key = (key ^ key>>29) * (x.seed | 1)
	place, _ := bits.Mul64(key^key>>32, uint64(len(x.all)))
	return int(place)
}

// at returns where the item of a hash stands, or the zero T that would be it.
func (x *hashed[T]) at(hash uint64) int {
	at := x.seek(x.all, x.begins(hash), hash)
	if at == len(x.all) {
		at = x.seek(x.all, 0, hash)
	}
	return at
}

// put has an item stand for its hash.
func (x *hashed[T]) put(item T) {
	none := *new(T)
	if 10*x.n >= x.full*len(x.all) {
		before := x.all
		x.all = make([]T, len(before)+len(before)/4)
		for _, was := range before {
			if was != none {
				x.all[x.at(x.hash(was))] = was
			}
		}
	}
	at := &x.all[x.at(x.hash(item))]
	if *at == none {
		x.n++
	}
	*at = item
}

// remove takes out the item of a hash, which is in it. Those behind it that may stand there move up.
func (x *hashed[T]) remove(hash uint64) {
	none := *new(T)
	behind := func(a, b int) int { // how far a stands behind b
		if a < b {
			a += len(x.all)
		}
		return a - b
	}
	at := x.at(hash)
	x.n--
	for next := at; ; {
		if next++; next == len(x.all) {
			next = 0
		}
		item := x.all[next]
		if item == none {
			break
		}
		if behind(next, x.begins(x.hash(item))) >= behind(next, at) {
			x.all[at], at = item, next
		}
	}
	x.all[at] = none
}
