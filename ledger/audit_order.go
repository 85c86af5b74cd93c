package ledger

import (
	"fmt"
	"slices"

	"souk/bus/tip"
)

// Claimed is a refund, in the frame Seq of a hub's journal, whose word on the payment is to be compared with
// the two frames that it names.
type Claimed struct {
	Seq uint64
	ID  string
	Transfer
}

// Claims returns the refunds whose payments are to be read, and the frames that they name, sorted.
func (a *Audit) Claims() (all []Claimed, frames []uint64) {
	for _, c := range a.claims {
		frames = append(frames, c.Order.Capture.Held, c.Order.Capture.Seq)
	}
	slices.Sort(frames)
	return a.claims, slices.Compact(frames)
}

// Judge compares a refund with the payment that its journal has (level 2). Frames that the journal does not
// have are nil.
func (a *Audit) Judge(c *Claimed, held, end *Frame) {
	o := c.Order
	is := "no payment for that hold in these frames"
	if captured, ok := CapturedIn(o.Receipt, held, end); ok {
		if captured.Client == c.Client && captured.Order.Agent == o.Agent &&
			*captured.Order.Capture == *o.Capture {
			return
		}
		is = said(&captured)
	}
	a.wrong(LevelState, c.Seq, "I4", c.ID, "the payment as frames "+
		fmt.Sprintf("%d and %d have it: ", o.Capture.Held, o.Capture.Seq)+is, "%s",
		said(&tip.Ordered{Client: c.Client, Order: o}))
}

func said(o *tip.Ordered) string {
	c := o.Order.Capture
	return fmt.Sprintf("%s of %s to %s for %s at %s, key %q, tags %q", c.Paid, clip(o.Client),
		clip(o.Order.Agent),
		clip(c.Model), MonthOf(c.Time), clip(c.APIKey), clip(c.Tags))
}

// CapturedIn reads from the frames of a hold and of its end what was paid: by Client, to Order.Agent, as
// Order.Capture says. ok is false where nothing was.
func CapturedIn(receipt string, held, end *Frame) (o tip.Ordered, ok bool) {
	if held == nil || end == nil {
		return o, false
	}
	var hold, last *Record
	for i := range held.Records {
		if r := &held.Records[i]; r.Kind == KindHold && r.ID == receipt {
			hold = r
		}
	}
	for i := range end.Records {
		if r := &end.Records[i]; r.Kind == KindCapture && r.Capture.Hold == receipt {
			last = r
		}
	}
	if hold == nil || last == nil {
		return o, false
	}
	h := hold.Hold
	c := tip.Captured{Held: held.Seq, Seq: end.Seq, Time: end.Time, Paid: last.Capture.Cost +
		h.Due(last.Capture),
		Model: h.Model, APIKey: h.Key, Tags: h.Tags}
	return tip.Ordered{Client: h.Client, Order: &tip.Order{Agent: h.Agent, Receipt: receipt,
		Month:   MonthOf(end.Time),
		Capture: &c}}, c.Paid > 0
}
