package ledger

// room is memory for what a decoder reads, used again for the next frame: an audit is done with a frame's
// records by then, but for holds, which are given back one by one once they have ended, and for strings.
type room struct {
	records   []Record
	legs      []Leg
	captures  []Capture
	voids     []Void
	transfers []Transfer
	holds     []*Hold // that nobody keeps
}

// begin returns the memory for a frame's records, empty, and has the rest used again.
func (m *room) begin() []Record {
	m.legs, m.captures, m.voids, m.transfers = m.legs[:0], m.captures[:0], m.voids[:0], m.transfers[:0]
	return m.records[:0]
}

// again makes room for one more in a list whose memory is used again: what is there may be what was before.
func again[T any](list *[]T) *T {
	if at := len(*list); at < cap(*list) {
		*list = (*list)[:at+1]
	} else {
		*list = append(*list, *new(T))
	}
	return &(*list)[len(*list)-1]
}

// legs returns memory for so many legs. A list that grows leaves those made before where they are.
func (d *decoder) legs(n int) []Leg {
	if d.room == nil {
		return make([]Leg, n)
	}
	m := d.room
	at := len(m.legs)
	if cap(m.legs)-at < n {
		m.legs, at = make([]Leg, 0, 2*cap(m.legs)+n), 0
	}
	m.legs = m.legs[:at+n]
	return m.legs[at : at+n : at+n]
}

func (d *decoder) newHold() *Hold {
	if d.room == nil || len(d.room.holds) == 0 {
		return new(Hold)
	}
	last := len(d.room.holds) - 1
	h := d.room.holds[last]
	d.room.holds = d.room.holds[:last]
	return h
}

func (d *decoder) newCapture() *Capture {
	if d.room == nil {
		return new(Capture)
	}
	return again(&d.room.captures)
}

func (d *decoder) newVoid() *Void {
	if d.room == nil {
		return new(Void)
	}
	return again(&d.room.voids)
}

func (d *decoder) newTransfer() *Transfer {
	if d.room == nil {
		return new(Transfer)
	}
	return again(&d.room.transfers)
}
