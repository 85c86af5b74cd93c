package natsbus

import (
	"net"
	"runtime"
	"sync"
	"time"

	"souk/bus/rawconn"
)

// gathered is a connection whose writes go out together. nats.go writes what was published as soon as its
// flusher runs, and Go lets that run before anybody else who has something to publish: a system call for each
// message of many streams. Here the writer lets all others that can run go first, then writes what they left.
// Where nobody else can run it writes at once.
type gathered struct {
	net.Conn

	mu sync.Mutex
	// for the writer: there is something to write, or it is over; for a Write: there is room
	news    sync.Cond
	pending []byte
	spare   []byte // takes turns with pending
	err     error  // what a write said; every later one says it too
	closed  bool
	done    chan struct{} // the writer has ended
}

const (
	maxGathered = 1 << 20                // bytes that are not written yet: from there on, Write waits
	writeWithin = time.Minute            // as nats.go has it
	closeWithin = 100 * time.Millisecond // for what is pending then
)

func newGathered(c net.Conn) *gathered {
	g := &gathered{Conn: c, done: make(chan struct{})}
	g.news.L = &g.mu
	go g.write()
	return g
}

// Write takes p; an error is of an earlier one. What a connection that breaks has not written is lost, as
// with what the kernel has not sent.
func (g *gathered) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.pending) >= maxGathered && g.err == nil && !g.closed {
		g.news.Wait()
	}
	switch {
	case g.err != nil:
		return 0, g.err
	case g.closed:
		return 0, net.ErrClosed
	}
	if len(g.pending) == 0 {
		g.news.Broadcast()
	}
	g.pending = append(g.pending, p...)
	return len(p), nil
}

func (g *gathered) write() {
	defer close(g.done)
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		for len(g.pending) == 0 && !g.closed {
			g.news.Wait()
		}
		if len(g.pending) == 0 {
			return
		}
		if !g.closed {
			g.mu.Unlock()
			runtime.Gosched()
			g.mu.Lock()
		}
		within := writeWithin
		if g.closed {
			within = closeWithin
		}
		g.Conn.SetWriteDeadline(time.Now().Add(within)) // under the lock: Close shortens it
		out := g.pending
		g.pending = g.spare[:0]
		g.mu.Unlock()
		_, err := g.Conn.Write(out)
		g.mu.Lock()
		g.spare = out
		g.news.Broadcast()
		if err != nil {
			g.err = err
			return
		}
	}
}

// SetDeadline and SetWriteDeadline leave the writer's own limit alone.
func (g *gathered) SetDeadline(t time.Time) error    { return g.Conn.SetReadDeadline(t) }
func (g *gathered) SetWriteDeadline(time.Time) error { return nil }

// Close writes what is pending first, if that can be done at once.
func (g *gathered) Close() error {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		g.news.Broadcast()
		g.Conn.SetWriteDeadline(time.Now().Add(closeWithin))
	}
	g.mu.Unlock()
	<-g.done
	return g.Conn.Close()
}

// gatherer dials gathered connections.
type gatherer struct{ rawconn.Dialer }

func (d gatherer) Dial(network, address string) (net.Conn, error) {
	c, err := d.Dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return newGathered(c), nil
}
