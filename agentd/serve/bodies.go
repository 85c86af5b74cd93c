package serve

import (
	"context"
	"sync"
	"time"

	"souk/agentd"
	"souk/bus"
)

// What a node has room for of bodies that come in pieces, for all its agents. Of what others leave of it a
// client has half at most, so that one whose bodies come slowly leaves room for those of the next.
const (
	mostFetches = 64        // that come at once: each is a subscription, of which a node has a hundred
	maxBodies   = 512 << 20 // bytes of those that come, and of those whose tasks run
	// for one to begin: with the time that it then has (follow.BodyWithin) that is less than hubs wait for a
	// first token
	beginWithin = 4 * time.Second
)

var errBodies = &agentd.EngineError{Code: bus.CodeNoSlot, Message: "the node has too many large bodies in hand"}

// bodies counts them.
type bodies struct {
	mu    sync.Mutex
	all   load
	of    map[string]load // by client
	freed chan struct{}   // closed when one has come; nil: nobody waits for that
}

type load struct{ coming, bytes int }

// takes reports whether a client may have so much more, and counts it. The lock is held.
func (b *bodies) takes(client string, more load) bool {
	own, all := b.of[client], b.all
	if more.coming > 0 && all.coming+own.coming+2*more.coming > mostFetches ||
		more.bytes > 0 && all.bytes+own.bytes+2*more.bytes > maxBodies {
		return false
	}
	b.count(client, more)
	return true
}

func (b *bodies) count(client string, more load) {
	own := b.of[client]
	own.coming, own.bytes = own.coming+more.coming, own.bytes+more.bytes
	b.all.coming, b.all.bytes = b.all.coming+more.coming, b.all.bytes+more.bytes
	if b.of[client] = own; own == (load{}) {
		delete(b.of, client)
	}
}

// hold reports whether there is room for the bytes of a client's body, until leave.
func (b *bodies) hold(client string, bytes int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.takes(client, load{bytes: bytes})
}

func (b *bodies) leave(client string, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(client, load{bytes: -bytes})
}

// begin waits until a client's body may come, not for long. The caller calls came once it has.
func (b *bodies) begin(ctx context.Context, client string) error {
	late := time.After(beginWithin)
	for {
		b.mu.Lock()
		if b.takes(client, load{coming: 1}) {
			b.mu.Unlock()
			return nil
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-late:
			return errBodies
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *bodies) came(client string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(client, load{coming: -1})
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}
