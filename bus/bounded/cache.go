// Package bounded remembers things up to a limit, and shares the limit fairly: nobody makes others' things be
// forgotten by adding many of its own.
package bounded

import (
	"cmp"
	"container/heap"
	"iter"
)

// Cache remembers values by key, each for an owner and of a weight, up to a weight of all together. Beyond
// that whoever has most makes room, what is added counted: by what it has used longest ago. So nobody who has
// no more than its share, the whole by the number of owners, loses anything by what others add; and what is
// added is not remembered if it alone would be more than any other owner has. Of owners that have as much the
// one that was used longest ago makes room: where each has one value that is the order of last use. The same
// calls always leave the same values. A nil Cache is empty, for whoever looks. Not for concurrent use.
type Cache[O, K comparable, V any] struct {
	// Gone, if not nil, is shown what is forgotten to make room, before it is.
	Gone func(key K, v *V)

	most, each int
	weight     int
	all        []entry[O, K, V]
	spare      int32 // the first place that is free; they are linked by place.Older
	by         map[K]int32
	owners     map[O]*owner[O]
	heaviest   Heap[*owner[O]]
	clock      uint64 // uses so far
}

type entry[O, K comparable, V any] struct {
	place  Place // by use, among its owner's
	weight int32 // 0: the place is free
	owner  *owner[O]
	key    K
	value  V
}

// owner counts what one owner has.
type owner[O comparable] struct {
	Order
	of     O
	weight int
	used   uint64 // by the clock
	place  int    // in the heap
}

// Before implements Heap: the heaviest comes first.
func (o *owner[O]) Before(p *owner[O]) bool {
	return o.weight > p.weight || o.weight == p.weight && o.used < p.used
}

func (o *owner[O]) Placed(at int) { o.place = at }

// New remembers up to a weight of all together, and of each owner's up to another; 0: of each up to that of
// all. Below 1 nothing is remembered.
func New[O, K comparable, V any](most, each int) *Cache[O, K, V] {
	each = cmp.Or(each, most)
	return &Cache[O, K, V]{most: most, each: min(most, each), spare: None, by: map[K]int32{},
		owners: map[O]*owner[O]{}}
}

// Len returns the number of values, and Weight their weight together.
func (c *Cache[O, K, V]) Len() int { return len(c.by) }

func (c *Cache[O, K, V]) Weight() int { return c.weight }

// Peek is the value of a key; nil if it is not remembered. It is valid until the next Add, Put or Drop.
func (c *Cache[O, K, V]) Peek(key K) *V {
	if c == nil {
		return nil
	}
	i, ok := c.by[key]
	if !ok {
		return nil
	}
	return &c.all[i].value
}

// Get is [Cache.Peek], and the key counts as used now.
func (c *Cache[O, K, V]) Get(key K) *V {
	if c == nil {
		return nil
	}
	i, ok := c.by[key]
	if !ok {
		return nil
	}
	o := c.all[i].owner
	if o.Newest != i {
		o.Remove(c.at, i)
		o.Push(c.at, i)
	}
	c.use(o, 0)
	return &c.all[i].value
}

// Add is the value of a key, which counts as used now. If it was not remembered it is made anew, of weight 1.
func (c *Cache[O, K, V]) Add(of O, key K) (v *V, made bool) {
	if v := c.Get(key); v != nil {
		return v, false
	}
	if v = c.make(of, key, 1); v == nil {
		v = new(V) // where nothing is remembered
	}
	return v, true
}

// Put remembers a value in place of the one that its key has, if it has one. It reports whether there is room
// for so much at all: otherwise the key has none.
func (c *Cache[O, K, V]) Put(of O, key K, value V, weight int) bool {
	c.Drop(key)
	v := c.make(of, key, weight)
	if v != nil {
		*v = value
	}
	return v != nil
}

// make adds a key that is not remembered.
func (c *Cache[O, K, V]) make(of O, key K, weight int) *V {
	if weight = max(1, weight); weight > c.each || weight > 1<<31-1 {
		return nil
	}
	o := c.owners[of]
	for o != nil && o.weight > c.each-weight {
		o = c.evict(o)
	}
	for c.weight > c.most-weight {
		switch most := c.heaviest[0]; {
		case o == nil && weight > most.weight:
			return nil
		case o == nil || o.weight+weight <= most.weight:
			c.evict(most)
		default:
			o = c.evict(o)
		}
	}
	i := c.spare
	if i != None {
		c.spare = c.all[i].place.Older
	} else {
		i = int32(len(c.all))
		if len(c.all) == cap(c.all) { // for no more than there can be
			c.all = append(make([]entry[O, K, V], 0, min(c.most, 2*len(c.all)+16)), c.all...)
		}
		c.all = append(c.all, entry[O, K, V]{})
	}
	c.by[key] = i
	if o == nil {
		o = &owner[O]{Order: Empty(), of: of}
		c.owners[of] = o
		heap.Push(&c.heaviest, o)
	}
	c.all[i] = entry[O, K, V]{weight: int32(weight), owner: o, key: key}
	o.Push(c.at, i)
	c.use(o, weight)
	return &c.all[i].value
}

// Drop forgets a key.
func (c *Cache[O, K, V]) Drop(key K) {
	if i, ok := c.by[key]; ok {
		c.remove(i)
	}
}

// DropOwner forgets all of an owner's.
func (c *Cache[O, K, V]) DropOwner(of O) {
	for o := c.owners[of]; o != nil && o.Oldest != None; {
		c.remove(o.Oldest)
	}
}

// Next names the entry that makes room first for an owner who has nothing yet; nil: there is none.
func (c *Cache[O, K, V]) Next() (key K, v *V) {
	if len(c.heaviest) == 0 {
		return key, nil
	}
	e := &c.all[c.heaviest[0].Oldest]
	return e.key, &e.value
}

// Shrink forgets as much as it takes for the rest to weigh no more than that.
func (c *Cache[O, K, V]) Shrink(weight int) {
	for len(c.heaviest) > 0 && c.weight > weight {
		c.evict(c.heaviest[0])
	}
}

// Of are an owner's keys and values, the one used last first. The one that is looked at may be dropped.
func (c *Cache[O, K, V]) Of(of O) iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		o := c.owners[of]
		if o == nil {
			return
		}
		for i := o.Newest; i != None; {
			e := &c.all[i]
			i = e.place.Older
			if !yield(e.key, &e.value) {
				return
			}
		}
	}
}

// All are all keys and values, in the order of their places: that of the calls that made them, but for places
// that were left. The one that is looked at may be dropped.
func (c *Cache[O, K, V]) All() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for i := range c.all {
			if key, v := c.At(i); v != nil && !yield(key, v) {
				return
			}
		}
	}
}

// Places returns the number of places, taken or free, and At the value in one; nil: it is free. A scan of a
// few places at a time comes past every value that stays.
func (c *Cache[O, K, V]) Places() int { return len(c.all) }

func (c *Cache[O, K, V]) At(place int) (key K, v *V) {
	if place >= len(c.all) || c.all[place].weight == 0 {
		return key, nil
	}
	return c.all[place].key, &c.all[place].value
}

// evict forgets what an owner has used longest ago. It returns the owner; nil: it has nothing left.
func (c *Cache[O, K, V]) evict(o *owner[O]) *owner[O] {
	i := o.Oldest
	if e := &c.all[i]; c.Gone != nil {
		c.Gone(e.key, &e.value)
	}
	if c.remove(i); o.weight == 0 {
		return nil
	}
	return o
}

func (c *Cache[O, K, V]) remove(i int32) {
	e := &c.all[i]
	delete(c.by, e.key)
	o := e.owner
	o.Remove(c.at, i)
	c.weight -= int(e.weight)
	if o.weight -= int(e.weight); o.weight == 0 {
		heap.Remove(&c.heaviest, o.place-1)
		delete(c.owners, o.of)
	} else {
		heap.Fix(&c.heaviest, o.place-1)
	}
	*e = entry[O, K, V]{place: Place{Older: c.spare}}
	c.spare = i
}

// use notes that an owner was used now, and has so much more.
func (c *Cache[O, K, V]) use(o *owner[O], more int) {
	c.clock++
	c.weight, o.weight, o.used = c.weight+more, o.weight+more, c.clock
	heap.Fix(&c.heaviest, o.place-1)
}

func (c *Cache[O, K, V]) at(i int32) *Place { return &c.all[i].place }
