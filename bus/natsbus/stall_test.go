package natsbus_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"souk/bus/embedded"
	"souk/bus/natsbus"
)

// stalls is a server in process to which nothing can be written once, as where the process did not run for
// longer than a write may take.
type stalls struct {
	*embedded.NATS
	next atomic.Bool // the next write comes too late
}

func (s *stalls) InProcessConn() (net.Conn, error) {
	c, err := s.NATS.InProcessConn()
	return &stalled{c, s}, err
}

type stalled struct {
	net.Conn
	of *stalls
}

func (c *stalled) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() && c.of.next.Swap(false) {
		at = time.Now().Add(-time.Second)
	}
	return c.Conn.SetWriteDeadline(at)
}

// What could not be written is lost, and the client of NATS goes on without it: were that the question of a
// Flush, the answer to each later one would be taken for that of the one before, and each would wait for the
// next ping. So the connection ends, and another is made.
func TestAWriteThatIsLostEndsTheConnection(t *testing.T) {
	s := &stalls{NATS: server(t, "")}
	b := connect(t, natsbus.Config{InProcess: s, Name: "door", PingEvery: time.Minute})
	<-b.Health() // it is connected
	flush := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return b.Flush(ctx)
	}
	if err := flush(time.Minute); err != nil {
		t.Fatal(err)
	}
	s.next.Store(true)
	if err := flush(time.Second); err == nil {
		t.Fatal("a Flush whose question was lost is answered")
	}
	late := time.After(time.Minute)
	for up := false; !up; {
		select {
		case h := <-b.Health():
			up = h.Connected
		case <-late:
			t.Fatal("no other connection is made")
		}
	}
	if err := flush(time.Minute); err != nil {
		t.Errorf("on the next connection: %v", err)
	}
}
