package zmtp

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// Heard is a message, or the beginning or end of a connection.
type Heard struct {
	Peer   uint64   // who says it: connections are numbered from 1
	Frames [][]byte // nil: nothing, the connection is new, or has ended
	Err    error    // why it has ended; of Peer 0, why one could not be made
}

// Sub hears all that publishers say, of any topic. It comes back to a publisher that is away, and waits for
// those that come to it. It has to be read or closed: whoever does not read keeps publishers waiting.
type Sub struct {
	C    <-chan Heard
	Addr net.Addr // where it listens, if it does

	ctx   context.Context
	close context.CancelFunc
	out   chan Heard
	done  sync.WaitGroup

	mu   sync.Mutex
	last uint64     // peer
	open []net.Conn // whoever was heard of last is last
}

// maxPeers bounds the connections of a listening Sub: beyond it, the one silent for longest is closed.
const maxPeers = 8

// Subscribe hears the publishers that connect to an endpoint, if it listens there, or else the one that
// listens there itself.
func Subscribe(endpoint string, listen bool) (*Sub, error) {
	s := newSub()
	var err error
	s.Addr, err = Connections(s.ctx, &s.done, endpoint, listen,
		func(err error) { s.tell(Heard{Err: err}) }, s.hear)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func newSub() *Sub {
	s := &Sub{out: make(chan Heard)}
	s.C = s.out
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends all connections, and waits until they have ended.
func (s *Sub) Close() {
	s.close()
	s.done.Wait()
}

// hear passes on a connection's messages until it ends, and reports whether the handshake succeeded.
func (s *Sub) hear(nc net.Conn) bool {
	s.enter(nc)
	defer s.gone(nc)
	defer nc.Close()
	defer context.AfterFunc(s.ctx, func() { _ = nc.Close() })()
	c, err := Meet(nc, "SUB")
	if err == nil {
		err = c.subscribe()
	}
	if err != nil {
		s.tell(Heard{Err: err})
		return false
	}
	s.mu.Lock()
	s.last++
	peer := s.last
	s.mu.Unlock()
	s.tell(Heard{Peer: peer})
	for {
		m, err := c.Read()
		if err != nil {
			s.tell(Heard{Peer: peer, Err: err})
			return true
		}
		if m.Command == "" {
			s.moved(nc)
			s.tell(Heard{Peer: peer, Frames: m.Frames})
		}
	}
}

// enter makes room for a new connection.
func (s *Sub) enter(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == maxPeers {
		_ = s.open[0].Close()
		s.open = slices.Delete(s.open, 0, 1)
	}
	s.open = append(s.open, nc)
}

// moved notes that a connection was heard of.
func (s *Sub) moved(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.open, nc); i >= 0 && i < len(s.open)-1 {
		s.open = append(slices.Delete(s.open, i, i+1), nc)
	}
}

func (s *Sub) gone(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.open, nc); i >= 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// tell hands on what was heard, unless nobody listens any more.
func (s *Sub) tell(h Heard) {
	select {
	case s.out <- h:
	case <-s.ctx.Done():
	}
}

// Request asks whoever routes at an endpoint: it sends one message and gives each what comes back, until each
// wants no more. It fails where quiet passes without a word.
func Request(ctx context.Context, endpoint string, quiet time.Duration, message [][]byte,
	each func(frames [][]byte) (more bool)) error {
	nc, err := Dial(ctx, endpoint)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
	c, err := Meet(nc, "DEALER")
	if err != nil {
		return err
	}
	c.Quiet = quiet
	if err := c.Write(message...); err != nil {
		return err
	}
	for {
		switch m, err := c.Read(); {
		case err != nil:
			return err
		case m.Command == "" && !each(m.Frames):
			return nil
		}
	}
}
