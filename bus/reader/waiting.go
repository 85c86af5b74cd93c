package reader

import (
	"slices"

	"souk/bus"
)

// maxWaiting bounds the bytes of one answer that wait. An agent may be heard before the market has named it:
// chunks of an agent that is not yet named wait, and belong to the answer only once it is.
const maxWaiting = 64 << 10

// waiting are the chunks of senders that nobody has named, in their order.
type waiting struct {
	chunks []unnamed
	bytes  int
	lost   bool // there was no room for a chunk: once its sender is named, it is asked for again
}

type unnamed struct {
	from string
	bus.Chunk
}

func (w *waiting) keep(from string, c *bus.Chunk) {
	n := waitingSize(c)
	if w.bytes+n > maxWaiting {
		w.lost = true
		return
	}
	w.chunks = append(w.chunks, unnamed{from, *c})
	w.bytes += n
}

// take returns the waiting chunks of a sender that has been named.
func (w *waiting) take(from string) (chunks []bus.Chunk) {
	w.chunks = slices.DeleteFunc(w.chunks, func(u unnamed) bool {
		if u.from == from {
			chunks = append(chunks, u.Chunk)
			w.bytes -= waitingSize(&u.Chunk)
		}
		return u.from == from
	})
	return chunks
}

// waitingSize estimates the memory of a chunk, with its end frame.
func waitingSize(c *bus.Chunk) int {
	n := 96 + size(c)
	if r := c.Result; r != nil {
		n += 1024 + len(r.Text) + len(r.Message) + len(r.Stop)
		for i := range r.Extra {
			n += 32 + len(r.Extra[i].Choice)
		}
	}
	return n
}
