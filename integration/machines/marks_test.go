package machines

import (
	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
)

// What the shells of hub and treasury add to what these say of journals, by the frames that are durable.

// sumAt is the checksum of a frame; none, if there is no such frame.
func sumAt(frames [][]byte, seq uint64) tip.Sum {
	if seq == 0 || seq > uint64(len(frames)) {
		return tip.Sum{}
	}
	return tip.SumOf(frames[seq-1])
}

// marked adds to a hub's request how far its journal is.
func marked(q bus.FundsRequest, frames [][]byte) bus.FundsRequest {
	if q.Mark != nil {
		m := *q.Mark
		m.Sum = sumAt(frames, m.Seq)
		q.Mark = &m
	}
	return q
}

// markOf returns how far the treasury's journal is; nil where the treasury does not say.
func markOf(b *ledger.Book, closed string, frames [][]byte) *tip.Mark {
	m := tip.Mark{Journal: b.ID(), Seq: b.Said(), Sum: sumAt(frames, b.Said())}
	if closed != "" || !m.Valid() {
		return nil
	}
	return &m
}

// asHeard is a request as the treasury takes it in.
func asHeard(q bus.FundsRequest, frames [][]byte) bus.FundsRequest {
	if q.Known != nil {
		q.Here = sumAt(frames, q.Known.Seq)
	}
	return q
}

// asAnswered is a reply as a hub takes it in.
func asAnswered(m bus.FundsReply, frames [][]byte) *bus.FundsReply {
	if m.Known != nil {
		m.Here = sumAt(frames, m.Known.Seq)
	}
	return &m
}
