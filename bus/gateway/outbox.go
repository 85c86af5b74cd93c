package gateway

import (
	"bytes"
	"strconv"
)

// outbox holds the part of a stream that its client has not read, or, where the client may come back, all of
// it as far as it is kept. It is part of an answer, under its lock.
type outbox struct {
	most     int
	numbered bool // events have ids, and are kept

	buf   []byte
	first int // offset in the stream of the first byte of buf
	spare []byte
	array int // bytes of the array that buf is in: where events are kept, buf begins ever later in it
	lent  int // and of the one before, which who reads may have still

	ids   []int // where events end that are numbered; the first of them is event number lost
	lost  int   // events of which no byte is kept any more
	event []byte
}

// put adds the whole events that write appends. It reports whether there was room. taken is how far the
// client has read.
func (o *outbox) put(taken int, write func(dst []byte) ([]byte, error)) (room bool, err error) {
	before := cap(o.buf)
	if !o.numbered {
		o.buf, err = write(o.buf)
		o.array = cap(o.buf)
		return o.end()-taken <= o.most, err
	}
	o.event, err = write(o.event[:0])
	for rest := o.event; len(rest) > 0; {
		n := len(rest)
		if i := bytes.Index(rest, []byte("\n\n")); i >= 0 {
			n = i + 2
		}
		o.buf = append(o.buf, "id: "...)
		o.buf = strconv.AppendInt(o.buf, int64(o.lost+len(o.ids)), 10)
		o.buf = append(append(o.buf, '\n'), rest[:n]...)
		o.ids = append(o.ids, o.end())
		rest = rest[n:]
	}
	if cap(o.buf) > before {
		if o.lent == 0 {
			o.lent = o.array
		}
		o.array = cap(o.buf)
	}
	o.forget()
	return o.first <= taken, err
}

func (o *outbox) size() int {
	return o.array + o.lent + cap(o.spare) + cap(o.event) + 8*cap(o.ids)
}

// drop lets all go that the client has not taken, or may come back for. Where events have no numbers, what is
// put next follows on what it has taken.
func (o *outbox) drop() {
	if o.numbered {
		o.first, o.lost = o.end(), o.lost+len(o.ids)
		o.lent = max(o.lent, o.array)
	}
	o.buf, o.ids, o.array = nil, nil, 0
}

// forget drops the oldest events beyond what is kept. The bytes stay where they are, for who writes them.
func (o *outbox) forget() {
	drop := 0
	for len(o.ids)-drop > 1 && o.end()-o.first > o.most {
		o.buf = o.buf[o.ids[drop]-o.first:]
		o.first = o.ids[drop]
		drop++
	}
	o.ids, o.lost = o.ids[drop:], o.lost+drop
}

func (o *outbox) end() int { return o.first + len(o.buf) }

// take returns what follows an offset; ok is false where that is kept no more. It is the caller's until the
// next take.
func (o *outbox) take(from int) (data []byte, ok bool) {
	if from < o.first {
		return nil, false
	}
	data, o.lent = o.buf[from-o.first:], 0
	if !o.numbered && len(data) > 0 {
		o.first = o.end()
		o.buf, o.spare = o.spare[:0], o.buf
		o.array = cap(o.buf)
	}
	return data, true
}

// after is the offset behind an event, or false where what follows it is kept no more, or it never was.
func (o *outbox) after(event int) (from int, ok bool) {
	i := event - o.lost
	switch {
	case i == -1:
		return o.first, true
	case i < 0 || i >= len(o.ids):
		return 0, false
	}
	return o.ids[i], true
}
