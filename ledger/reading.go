package ledger

import (
	"souk/bus/tip"
	"souk/market"
)

// Reading reads a journal for sums over it, frame by frame from the first on. It judges nothing, decodes no
// round, and keeps what it has to know of open holds alone. Not for use by several goroutines at once.
type Reading struct {
	dec    decoder
	open   map[slotKey]*Hold
	rounds []raw
	fact   Fact
	frame  Frame
	role   string
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
	d := &x.dec
	d.Data, d.At, d.Fault = data, 0, ""
	x.rounds = x.rounds[:0]
	frame := &x.frame
	*frame = d.frame(&x.rounds)
	if err := d.end(); err != nil {
		return err
	}
	for i := range frame.Records {
		r := &frame.Records[i]
		fact := &x.fact
		*fact = Fact{Time: frame.Time, Frame: frame, Record: r}
		hold := ""
		switch {
		case r.Open != nil:
			x.role = r.Open.Role
		case r.Hold != nil:
			k, _ := keyOf(r.Hold.Round, r.Hold.Slot)
			x.open[k] = r.Hold
		case r.Capture != nil:
			hold = r.Capture.Hold
		case r.Void != nil:
			hold = r.Void.Hold
		}
		fact.Hub = x.role == RoleHub
		if hold == "" {
			if err := f(fact); err != nil {
				return err
			}
			continue
		}
		_, round, slot, _ := ParseHoldID(hold)
		k, _ := keyOf(round, slot)
		if fact.Hold = x.open[k]; fact.Hold == nil {
			return broken(ErrEnded, "I3", r.ID, "an open hold", "none, in frame %d", frame.Seq)
		}
		if err := f(fact); err != nil {
			return err
		}
		delete(x.open, k)
		d.room.holds = append(d.room.holds, fact.Hold)
	}
	return nil
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
