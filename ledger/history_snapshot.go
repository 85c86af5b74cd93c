package ledger

import (
	"encoding/binary"
	"maps"
	"slices"

	"souk/market"
)

// The layout of a history in a snapshot. One of another version is ignored, and its journal is read from the
// first frame.
//
//	version   1 byte
//	book      see appendBook
//	ends      list, the oldest first, of: length in bytes; held, ended; earlier, list of strings; length and
//	          bytes of the hold; kind 1 byte; capture or void, as in a frame
//	open      for each open hold of the book, in its order: held; earlier, list of strings; task, agent
//	          strings; tier ±, value ±, cost ±, slot price ±, toll ±, premium ±, congestion ±, and what of
//	          the toll is for load ±, age ±, running beside others ±
//	returns   list, the oldest first, of: number; client; amount ±
//	grants    list, by hub, of: hub; list, the oldest first, of: number; client; amount ±; note
const historyVersion = 1

// Snapshot implements [Replica].
func (h *History) Snapshot() ([]byte, error) {
	open, err := h.Open()
	if err != nil {
		return nil, err
	}
	size := 1<<16 + 64*h.book.past.len() + 64*h.book.opsQ.len() + 48*len(h.book.accounts) + 512*len(open) +
		32*len(h.returns)
	for _, p := range h.ends.items[h.ends.first:] {
		size += len(p.data) + 3
	}
	b := h.book.appendBook(append(make([]byte, 0, size), historyVersion))
	b = binary.AppendUvarint(b, uint64(h.ends.len()))
	for _, p := range h.ends.items[h.ends.first:] {
		b = append(binary.AppendUvarint(b, uint64(len(p.data))), p.data...)
	}
	for i := range open {
		p, a := &open[i], open[i].Award
		b = appendList(binary.AppendUvarint(b, uint64(p.Held)), p.Earlier)
		b = appendStrings(b, string(a.Task), string(a.Agent))
		b = appendInts(b, int64(a.Tier), int64(a.Value), int64(a.Cost), int64(a.SlotPrice), int64(a.Toll),
			int64(a.Premium), int64(p.Congestion), int64(p.Crowd.Load), int64(p.Crowd.Age),
			int64(p.Crowd.Beside))
	}
	b = binary.AppendUvarint(b, uint64(len(h.returns)))
	for _, r := range h.returns {
		b = appendString(binary.AppendUvarint(b, r.Number), r.Client)
		b = binary.AppendVarint(b, int64(r.Amount))
	}
	b = binary.AppendUvarint(b, uint64(len(h.grants)))
	for _, hub := range slices.Sorted(maps.Keys(h.grants)) {
		b = binary.AppendUvarint(appendString(b, hub), uint64(len(h.grants[hub])))
		for _, g := range h.grants[hub] {
			b = appendString(binary.AppendUvarint(b, g.Number), g.Client)
			b = appendString(binary.AppendVarint(b, int64(g.Amount)), g.Note)
		}
	}
	return b, nil
}

// Load implements [Replica]. From a snapshot made under other limits it keeps what its own allow. Errors are
// ErrEncoding. What is allocated is bounded by a small multiple of the snapshot.
func (h *History) Load(snapshot []byte) error {
	h.clear()
	if snapshot == nil {
		return nil
	}
	d := decode(snapshot)
	d.intern = h.dec.intern
	d.Version(historyVersion)
	*h.book = *d.book()
	h.load(d)
	err := d.end()
	if err != nil {
		h.clear()
	}
	return err
}

func (h *History) load(d *decoder) {
	head := &h.book.head
	before := int64(0)
	for n := d.Count(40); n > 0 && d.Fault == ""; n-- {
		data := d.Sized()
		in := decode(data)
		in.intern = d.intern
		full := in.past()
		if in.end() != nil {
			d.Fail("no hold that ended")
			return
		}
		k, ok := keyOf(full.Hold.Round, full.Hold.Slot)
		id := ""
		if full.Capture != nil {
			id = full.Capture.Hold
		} else {
			id = full.Void.Hold
		}
		if !ok || id != h.id(k) || full.Hold.valid("") != nil || h.book.open[k] != nil ||
			full.Hold.Round > head.round || full.Held > full.Ended || full.Ended < before ||
			full.Ended > head.time {
			d.Fail("a hold that cannot have ended then")
			return
		}
		before = full.Ended
		p := &past{task: taskOf{full.Hold.Client, full.Hold.Task}, key: k, held: full.Held,
			earlier: full.Earlier, over: max(full.Ended, full.Hold.Expires), data: data}
		h.last[p.task] = p
		h.keep(p)
	}
	for _, k := range slices.Sorted(maps.Keys(h.book.open)) {
		p := &past{key: k, hold: h.book.open[k], held: d.positive(), earlier: d.list(), award: &award{}}
		p.task = taskOf{p.hold.Client, p.hold.Task}
		p.award.award = market.Award{Task: market.TaskID(d.Text()), Agent: market.AgentID(d.Text()),
			Tier:  d.Int(),
			Value: d.Credits(), Cost: d.Credits(), SlotPrice: d.Credits(), Toll: d.Credits(),
			Premium: d.Credits()}
		p.award.congestion = d.Credits()
		p.award.crowd = market.Toll{Load: d.Credits(), Age: d.Credits(), Beside: d.Credits()}
		if p.held > head.time {
			d.Fail("a hold made later than the last frame")
		}
		if d.Fault != "" {
			return
		}
		h.open[k], h.last[p.task] = p, p
	}
	for n := d.Count(3); n > 0 && d.Fault == ""; n-- {
		h.returns = append(h.returns,
			Transfer{Hub: head.journal, Number: d.Uvarint(), Client: d.name(), Amount: d.Credits()})
	}
	name := ""
	for n := d.Count(6); n > 0 && d.Fault == ""; n-- {
		hub, list := d.Text(), []Transfer(nil)
		for n := d.Count(4); n > 0 && d.Fault == ""; n-- {
			list = append(list,
				Transfer{Hub: hub, Number: d.Uvarint(), Client: d.name(), Amount: d.Credits(),
					Note: d.Text()})
		}
		if hub <= name || len(list) == 0 || list[len(list)-1].Number != h.book.counters(hub).grant {
			d.Fail("no grants, or out of order")
		}
		h.grants[hub], name = list, hub
	}
	h.forget(head.time)
}

// past reads a hold that ended.
func (d *decoder) past() (p Past) {
	p.Held, p.Ended, p.Earlier = d.positive(), d.positive(), d.list()
	d.within(func() { d.hold(&p.Hold) })
	r := Record{Kind: Kind(d.Byte())}
	if r.Kind != KindCapture && r.Kind != KindVoid {
		d.Fail("neither a capture nor a void")
		return p
	}
	d.part(&r, nil, nil, nil)
	p.Capture, p.Void = r.Capture, r.Void
	return p
}

func appendList(b []byte, list []string) []byte {
	return appendStrings(binary.AppendUvarint(b, uint64(len(list))), list...)
}

func (d *decoder) list() (list []string) {
	for n := d.Count(1); n > 0 && d.Fault == ""; n-- {
		list = append(list, d.Text())
	}
	return list
}
