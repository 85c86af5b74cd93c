package ledger

import (
	"maps"

	"souk/bus/tip"
	"souk/market"
)

// Reading reads a journal for sums over it, frame by frame from the first on, or from a later one. It judges
// nothing, decodes no round, and keeps what it has to know of open holds alone. Not for use by several
// goroutines at once.
type Reading struct {
	// Before is called for the end of a hold whose round was not read. It returns a Reading that has read the
	// round, by [Reading.Holds]. nil: everything is read.
	Before func(round uint64) (*Reading, error)
	Role   string // of the journal; known once its first frame was read

	dec    decoder
	open   map[slotKey]*Hold
	rounds []raw
	fact   Fact
	frame  Frame
}

// Fact is a record and what it speaks of.
type Fact struct {
	Time   int64   // of its frame, which counts for all of it: when a task was paid, not when it was asked
	Frame  *Frame  // good until the next one
	Record *Record // likewise; of a round its id alone
	Hold   *Hold   // that a capture or void ends; likewise
	Hub    bool    // the journal is a hub's
}

// NewReading begins before a journal's first frame.
func NewReading() *Reading {
	x := &Reading{dec: decoder{room: &room{}}, open: map[slotKey]*Hold{}}
	x.dec.Strings = &market.Strings{Pieces: true}
	return x
}

// Frame takes in the stored bytes of the next frame, and calls f with each of its records. Bytes that are no
// frame are ErrEncoding.
func (x *Reading) Frame(data []byte, f func(*Fact) error) error {
	if err := x.decode(data); err != nil {
		return err
	}
	frame := &x.frame
	for i := range frame.Records {
		r := &frame.Records[i]
		fact := &x.fact
		*fact = Fact{Time: frame.Time, Frame: frame, Record: r}
		if r.Open != nil {
			x.Role = r.Open.Role
		}
		fact.Hub = x.Role == RoleHub
		k, ends := x.hold(r)
		if ends {
			if fact.Hold = x.open[k]; fact.Hold == nil && x.Before != nil {
				before, err := x.Before(k.round())
				if err != nil {
					return err
				}
				maps.Copy(x.open, before.open)
				fact.Hold = x.open[k]
			}
			if fact.Hold == nil {
				return broken(ErrEnded, "I3", r.ID, "an open hold", "none, in frame %d", frame.Seq)
			}
		}
		if err := f(fact); err != nil {
			return err
		}
		if ends {
			x.end(k)
		}
	}
	return nil
}

// Holds takes in what the next frame says of holds alone, of which some may have begun before what is read.
func (x *Reading) Holds(data []byte) error {
	if err := x.decode(data); err != nil {
		return err
	}
	for i := range x.frame.Records {
		if k, ends := x.hold(&x.frame.Records[i]); ends && x.open[k] != nil {
			x.end(k)
		}
	}
	return nil
}

func (x *Reading) decode(data []byte) error {
	d := &x.dec
	d.Data, d.At, d.Fault = data, 0, ""
	x.rounds = x.rounds[:0]
	x.frame = d.frame(&x.rounds)
	return d.end()
}

// hold keeps a hold that a record begins, or says which one it ends.
func (x *Reading) hold(r *Record) (k slotKey, ends bool) {
	id := ""
	switch {
	case r.Hold != nil:
		k, _ = keyOf(r.Hold.Round, r.Hold.Slot)
		x.open[k] = r.Hold
		return k, false
	case r.Capture != nil:
		id = r.Capture.Hold
	case r.Void != nil:
		id = r.Void.Hold
	default:
		return k, false
	}
	_, round, slot, _ := ParseHoldID(id)
	k, _ = keyOf(round, slot)
	return k, true
}

func (x *Reading) end(k slotKey) {
	x.dec.room.holds = append(x.dec.room.holds, x.open[k])
	delete(x.open, k)
}

// Use returns what a fact adds to what a client has spent, and which agent served it: a capture, or a refund
// in the journal of the hub that makes it. ok is false where it adds nothing. A book counts by the same rule.
func (x *Fact) Use() (client, agent string, use tip.Use, ok bool) {
	switch r := x.Record; {
	case r.Capture != nil:
		u := useBy(x.Hold, r.Capture)
		return u.client, x.Hold.Agent, u.use, true
	case r.Kind == KindRefund && x.Hub && r.Transfer.Order != nil && r.Transfer.Order.Capture != nil:
		u := backBy(r.Transfer)
		return u.client, r.Transfer.Order.Agent, u.use, true
	}
	return "", "", tip.Use{}, false
}
