package hub_test

import (
	"souk/bus"
	"souk/bus/tip"
	"souk/hub"
	"souk/ledger"
)

// mark adds to a request what who sends it does: the checksum of the frame that it speaks of.
func (h *house) mark(q *bus.FundsRequest) {
	if q.Mark != nil {
		m := *q.Mark
		m.Sum = h.sum(m.Seq)
		q.Mark = &m
	}
}

// sum is the checksum of a frame of the hub's journal; none, if there is no such frame.
func (h *house) sum(seq uint64) tip.Sum {
	if seq == 0 || seq > uint64(len(h.frames)) {
		return tip.Sum{}
	}
	return tip.SumOf(ledger.AppendFrame(nil, &h.frames[seq-1]))
}

// treasury answers as the design says: at least Least or nothing, at most half of what is left unless Least
// needs more.
func (h *house) treasury(f hub.Funds) *bus.FundsReply {
	q := f.Request
	r := &bus.FundsReply{ID: q.ID, Client: q.Client}
	if m := q.Mark; m != nil && (h.marked == nil || m.Seq > h.marked.Seq) {
		h.marked = m
	}
	if h.sure {
		r.Journal = tip.Sum{9}
		r.Mark = &tip.Mark{Journal: r.Journal, Seq: uint64(len(h.grants) + len(h.back) + 1),
			Sum: tip.Sum{8}}
	}
	switch f.Op {
	case bus.OpAllotted:
		if h.sure && h.marked != nil {
			r.Known, r.Here = h.marked, h.sum(h.marked.Seq)
		}
		r.Returned, r.Ended = h.taken, h.ended
		for _, g := range h.grants {
			if g.Number > q.After {
				r.Grants = append(r.Grants, g)
			}
		}
	case bus.OpReturn:
		if !h.back[q.ID] {
			h.prepaid[q.Client] += q.Amount
		}
		h.back[q.ID] = true
	case bus.OpClose:
		if h.unended {
			r.Code, r.Message = bus.CodeBadRequest, "another number"
		}
	case bus.OpAllot:
		have, known := h.prepaid[q.Client]
		amount := min(q.Amount, max(q.Least, have/2))
		g, repeated := h.granted[q.ID]
		switch {
		case repeated:
			r.Grants = append(r.Grants, g)
		case !known:
			r.Code = bus.CodeUnknownClient
		case amount > have:
			r.Code = bus.CodeInsufficientFunds
		default:
			h.prepaid[q.Client] -= amount
			g = bus.Grant{Number: uint64(len(h.grants) + 1), Client: q.Client, Hub: q.Hub, Amount: amount}
			h.grants, h.granted[q.ID] = append(h.grants, g), g
			r.Grants = append(r.Grants, g)
		}
		r.Prepaid = h.prepaid[q.Client]
	}
	return r
}
