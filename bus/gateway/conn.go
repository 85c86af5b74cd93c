package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"souk/bus/rawconn"
)

// unsent bounds what a connection's kernel buffer holds that its client does not read.
const unsent = 64 << 10

// narrow gives connections such buffers, and cheaper system calls.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if t, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
		t.SetWriteBuffer(unsent)
	}
	if err != nil {
		return nil, err
	}
	return rawconn.Wrap(c), nil
}

// counting counts what comes of headers.
type counting struct {
	net.Listener
	memory *memory
	// of all connections
	traffic *measures

	each int      // what a connection takes beside connCost, from its start
	only networks // who else connects is told that he may not ask; nil: anybody may
}

func (l counting) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.each > 0 && !l.memory.take(l.each) {
			c.Close()
			continue
		}
		n := &conn{Conn: c, memory: l.memory, traffic: l.traffic}
		l.traffic.conns.Add(1)
		n.takes.Store(int64(l.each))
		if l.only != nil {
			n.stranger = !l.only.have(addressIn(c.RemoteAddr().String()))
		}
		return n, nil
	}
}

// conn is a connection. Before a request's handler runs, which counts its header, and then its body, it
// counts what has come, and hangs up where there is no room for that.
type conn struct {
	net.Conn
	memory  *memory
	traffic *measures
	closed  sync.Once
	serving atomic.Bool
	came    atomic.Int64 // of a header: what it takes
	takes   atomic.Int64 // beside connCost, until it is closed

	stranger bool                  // it comes without TLS, and of no proxy's
	shown    atomic.Pointer[shown] // by its last request whose key was well-formed
}

// Close gives back what it takes.
func (c *conn) Close() error {
	c.closed.Do(func() { c.traffic.conns.Add(-1) })
	c.memory.add(-int(c.takes.Swap(0)))
	return c.Conn.Close()
}

// freeHeader is the size of a header that is free: a connection has buffers that it does not need yet.
const freeHeader = 4 << 10

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.traffic.came.Add(int64(n))
	if n == 0 || c.serving.Load() {
		return n, err
	}
	before := max(freeHeader, c.came.Load())
	now := c.came.Add(int64(n + bytes.Count(p[:n], []byte{'\n'})*(fieldCost+16)))
	if more := max(freeHeader, now) - before; more > 0 && !c.memory.takeHeader(int(more)) {
		c.came.Add(-more)
		c.forget()
		c.Conn.Close() // an answer would wait for whoever only writes
		return 0, io.EOF
	}
	return n, err
}

// begin notes that a request's handler runs; end, that it has ended, or the connection has.
func (c *conn) begin() { c.serving.Store(true); c.forget() }
func (c *conn) end()   { c.serving.Store(false); c.forget() }

func (c *conn) forget() {
	if n := c.came.Swap(0) - freeHeader; n > 0 {
		c.memory.leaveHeader(int(n))
	}
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, beneath(c))
}

// beneath is the connection that TLS goes over, where it does.
func beneath(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

func changed(c net.Conn, state http.ConnState) {
	if c, ok := beneath(c).(*conn); ok && state != http.StateActive && state != http.StateNew {
		c.end()
	}
}
