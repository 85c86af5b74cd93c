package bounded

// None is no index.
const None int32 = -1

// Order is the order of last use of some of the things in a list. The list names them by their index there
// and has a place in the order in each of them, so nothing is allocated.
type Order struct{ Newest, Oldest int32 }

// Place is a thing's among its neighbours. It says something only while the thing is in the order.
type Place struct{ Newer, Older int32 }

// Empty has nothing in it.
func Empty() Order { return Order{None, None} }

// Push makes a thing that is not in the order its newest. at finds the places of things.
func (o *Order) Push(at func(int32) *Place, i int32) {
	*at(i) = Place{None, o.Newest}
	if o.Newest != None {
		at(o.Newest).Newer = i
	} else {
		o.Oldest = i
	}
	o.Newest = i
}

// Remove takes a thing out of the order.
func (o *Order) Remove(at func(int32) *Place, i int32) {
	p := at(i)
	if p.Newer != None {
		at(p.Newer).Older = p.Older
	} else {
		o.Newest = p.Older
	}
	if p.Older != None {
		at(p.Older).Newer = p.Newer
	} else {
		o.Oldest = p.Newer
	}
}
