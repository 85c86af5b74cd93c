package prefix

import "math/bits"

// hashed finds items by their hashes. It takes half the room and the time of a map, whose groups of eight an
// agent's thousands of prefixes would be spread over, and grows by a quarter.
type hashed[T comparable] struct {
	hash func(T) uint64 // of an item that is in it
	// whoever chooses hashes does not know it, so cannot have many of them at one place, where each search
	// would pass all of them
	seed uint64
	all  []T // eight at least: an item stands at its place, or as soon behind it as there was a zero T
	n    int
}

// at returns the place of the item of a hash, or of the zero T that would be it.
func (x *hashed[T]) at(hash uint64) int {
	const golden = 0x9e3779b97f4a7c15 // spreads hashes that differ in few bits
	key := hash ^ x.seed
	key = (key ^ key>>32) * golden
	key = (key ^ key>>29) * (x.seed | 1)
	place, _ := bits.Mul64(key^key>>32, uint64(len(x.all)))
	for none := *new(T); x.all[place] != none && x.hash(x.all[place]) != hash; {
		if place++; place == uint64(len(x.all)) {
			place = 0
		}
	}
	return int(place)
}

// put has an item stand for its hash.
func (x *hashed[T]) put(item T) {
	none := *new(T)
	if 10*x.n >= 8*len(x.all) {
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

// remove takes out the item of a hash, which is in it, and puts those anew that stand behind it.
func (x *hashed[T]) remove(hash uint64) {
	at, none := x.at(hash), *new(T)
	x.n--
	for x.all[at] = none; ; {
		if at++; at == len(x.all) {
			at = 0
		}
		item := x.all[at]
		if item == none {
			return
		}
		x.all[at] = none
		x.all[x.at(x.hash(item))] = item
	}
}
