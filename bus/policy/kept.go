package policy

// Kept remembers values by key, of at most so many keys in all, each for a client. Who adds beyond that makes
// room by what it has used longest ago of its own, if it has its share, and else whoever has most does. So
// nobody makes others be forgotten by adding many.
type Kept[V any] struct {
	// Gone, if not nil, is shown what is forgotten to make room, before it is.
	Gone func(v *V)

	limit   int
	all     []entry[V]
	spare   int32   // the first place that is free; they are linked by next
	buckets []int32 // a power of two, by key
	count   int
	clients map[ID]*owner
	levels  []*owner // of as many keys each, the one that came last
	most    int      // keys of whoever has most
}

type entry[V any] struct {
	key, client  ID
	next         int32 // in its bucket
	older, newer int32 // of its client's, by use
	value        V
}

// owner is a client that has keys.
type owner struct {
	keys           int
	oldest, newest int32
	came, comes    *owner // of as many keys: before it, and after it
}

// nowhere is no place in a list.
const nowhere int32 = -1

// NewKept has room for so many keys.
func NewKept[V any](limit int) Kept[V] {
	return Kept[V]{limit: max(1, limit), spare: nowhere, clients: map[ID]*owner{}}
}

// Len is how many keys are remembered.
func (k *Kept[V]) Len() int { return k.count }

// Mixed spreads the bits of an id (splitmix64).
func Mixed(x ID) ID {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// find is the place of a key of a client's; of client 0, of anybody's.
func (k *Kept[V]) find(client, key ID) int32 {
	if len(k.buckets) == 0 {
		return nowhere
	}
	i := k.buckets[Mixed(key)&ID(len(k.buckets)-1)]
	for i != nowhere && (k.all[i].key != key || client != 0 && k.all[i].client != client) {
		i = k.all[i].next
	}
	return i
}

// Get is the value of a key, whosever it is, which counts as used now if use is set; nil if it is not
// remembered. It is valid until the next Add or Drop.
func (k *Kept[V]) Get(key ID, use bool) *V { return k.Of(0, key, use) }

// Of is the value of a key of a client's, as [Kept.Get] has it. Together with [Kept.AddOf] it is for keys
// that others may choose: two clients may then have one of the same number, each its own.
func (k *Kept[V]) Of(client, key ID, use bool) *V {
	i := k.find(client, key)
	if i == nowhere {
		return nil
	}
	e := &k.all[i]
	if use {
		if o := k.clients[e.client]; o.newest != i {
			k.unlink(o, i)
			k.link(o, i)
		}
	}
	return &e.value
}

// Add is the value of a key, made anew for a client if it is not remembered. The key counts as used now.
func (k *Kept[V]) Add(client, key ID) (v *V, made bool) {
	if v := k.Get(key, true); v != nil {
		return v, false
	}
	return k.make(client, key), true
}

// AddOf is [Kept.Add] of a key that is this client's alone.
func (k *Kept[V]) AddOf(client, key ID) (v *V, made bool) {
	if v := k.Of(client, key, true); v != nil {
		return v, false
	}
	return k.make(client, key), true
}

// make adds a key that is not remembered.
func (k *Kept[V]) make(client, key ID) *V {
	if k.count >= k.limit {
		k.evict(client)
	}
	if k.count >= len(k.buckets) {
		k.grow()
	}
	i := k.spare
	if i != nowhere {
		k.spare = k.all[i].next
	} else {
		i = int32(len(k.all))
		if len(k.all) == cap(k.all) { // for no more than the limit
			k.all = append(make([]entry[V], 0, min(k.limit, 2*len(k.all)+16)), k.all...)
		}
		k.all = append(k.all, entry[V]{})
	}
	at := &k.buckets[Mixed(key)&ID(len(k.buckets)-1)]
	k.all[i] = entry[V]{key: key, client: client, next: *at}
	*at = i
	k.count++
	o := k.clients[client]
	if o == nil {
		o = &owner{oldest: nowhere, newest: nowhere}
		k.clients[client] = o
	}
	k.level(o, o.keys+1)
	k.link(o, i)
	return &k.all[i].value
}

// Drop forgets a key.
func (k *Kept[V]) Drop(key ID) {
	if i := k.find(0, key); i != nowhere {
		k.remove(i)
	}
}

// Each calls do with each key of a client, the one used last first, until it says false.
func (k *Kept[V]) Each(client ID, do func(key ID, v *V) bool) {
	o := k.clients[client]
	for i := nowhere; o != nil; {
		if i == nowhere {
			i = o.newest
		} else {
			i = k.all[i].older
		}
		if i == nowhere || !do(k.all[i].key, &k.all[i].value) {
			return
		}
	}
}

// All calls do with every key in the order of their places, which is that of the calls that made them.
func (k *Kept[V]) All(do func(client, key ID, v *V) bool) {
	for i := range k.all {
		if e := &k.all[i]; e.newer != free && !do(e.client, e.key, &e.value) {
			return
		}
	}
}

// Places is how many places there are, taken or free, and At is what is in one; nil: it is free.
func (k *Kept[V]) Places() int { return len(k.all) }

func (k *Kept[V]) At(place int) (key ID, v *V) {
	if place >= len(k.all) || k.all[place].newer == free {
		return 0, nil
	}
	return k.all[place].key, &k.all[place].value
}

// free in newer says that a place is.
const free int32 = -2

// evict forgets one key, for a client to add one.
func (k *Kept[V]) evict(client ID) {
	o := k.clients[client]
	if o == nil || o.keys*len(k.clients) < k.limit {
		o = k.levels[k.most]
	}
	if k.Gone != nil {
		k.Gone(&k.all[o.oldest].value)
	}
	k.remove(o.oldest)
}

func (k *Kept[V]) remove(i int32) {
	e := &k.all[i]
	at := &k.buckets[Mixed(e.key)&ID(len(k.buckets)-1)]
	for *at != i {
		at = &k.all[*at].next
	}
	*at = e.next
	k.count--
	o := k.clients[e.client]
	k.unlink(o, i)
	if k.level(o, o.keys-1); o.keys == 0 {
		delete(k.clients, e.client)
	}
	*e = entry[V]{next: k.spare, newer: free}
	k.spare = i
}

// level notes that a client has one key more or less. Who has most is found without a look at all.
func (k *Kept[V]) level(o *owner, keys int) {
	if o.keys > 0 {
		switch {
		case o.comes != nil:
			o.comes.came = o.came
		default:
			k.levels[o.keys] = o.came
		}
		if o.came != nil {
			o.came.comes = o.comes
		}
		if k.most == o.keys && k.levels[o.keys] == nil {
			k.most--
		}
	}
	o.keys, o.came, o.comes = keys, nil, nil
	if keys == 0 {
		return
	}
	for keys >= len(k.levels) {
		k.levels = append(k.levels, nil)
	}
	if o.came = k.levels[keys]; o.came != nil {
		o.came.comes = o
	}
	k.levels[keys], k.most = o, max(k.most, keys)
}

// link makes a key the one that its client used last.
func (k *Kept[V]) link(o *owner, i int32) {
	e := &k.all[i]
	e.older, e.newer = o.newest, nowhere
	if o.newest != nowhere {
		k.all[o.newest].newer = i
	} else {
		o.oldest = i
	}
	o.newest = i
}

func (k *Kept[V]) unlink(o *owner, i int32) {
	e := &k.all[i]
	if e.older != nowhere {
		k.all[e.older].newer = e.newer
	} else {
		o.oldest = e.newer
	}
	if e.newer != nowhere {
		k.all[e.newer].older = e.older
	} else {
		o.newest = e.older
	}
}

func (k *Kept[V]) grow() {
	n := max(16, 2*len(k.buckets))
	k.buckets = make([]int32, n)
	for i := range k.buckets {
		k.buckets[i] = nowhere
	}
	for i := range k.all {
		if e := &k.all[i]; e.newer != free {
			at := &k.buckets[Mixed(e.key)&ID(n-1)]
			e.next, *at = *at, int32(i)
		}
	}
}
