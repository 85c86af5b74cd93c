package reader

import "souk/bus"

// An agent may be heard before the market has named it. What comes from somebody whom nobody has named yet
// waits, within limits, and is none of the answer until somebody does.
const (
	maxWaiting = 64 << 10 // bytes of one answer
	maxSenders = 4        // whose chunks wait
)

// waiting are the chunks of senders that nobody has named.
type waiting struct {
	senders []sender
	bytes   int
	lost    bool // there was no room for a chunk: once its sender is named, it is asked for again
}

type sender struct {
	name   string
	chunks []bus.Chunk
}

func (w *waiting) keep(from string, c *bus.Chunk) {
	n := waitingSize(c)
	if w.bytes+n > maxWaiting {
		w.lost = true
		return
	}
	i := 0
	for i < len(w.senders) && w.senders[i].name != from {
		i++
	}
	switch {
	case i == maxSenders:
		w.lost = true
		return
	case i == len(w.senders):
		w.senders = append(w.senders, sender{name: from})
	}
	w.senders[i].chunks = append(w.senders[i].chunks, *c)
	w.bytes += n
}

// take returns what waits of a sender, which has been named.
func (w *waiting) take(from string) (chunks []bus.Chunk) {
	for i := range w.senders {
		if w.senders[i].name != from {
			continue
		}
		chunks = w.senders[i].chunks
		for j := range chunks {
			w.bytes -= waitingSize(&chunks[j])
		}
		w.senders = append(w.senders[:i], w.senders[i+1:]...)
		break
	}
	return chunks
}

// waitingSize is what a chunk takes up, its end frame too.
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
