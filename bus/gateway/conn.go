package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"

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
		n := &conn{Conn: c, memory: l.memory, traffic: l.traffic, takes: l.each}
		l.traffic.conns.Add(1)
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
	memory   *memory
	traffic  *measures
	stranger bool // it comes without TLS, and of no proxy's

	mu      sync.Mutex // with HTTP/2 it is read while requests begin and end
	serving bool
	closed  bool
	came    int // of a header: what it takes
	takes   int // beside connCost, until it is closed
}

// Close gives back what it takes.
func (c *conn) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.traffic.conns.Add(-1)
		c.memory.add(-c.takes)
		c.forget()
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// freeHeader is the size of a header that is free: a connection has buffers that it does not need yet.
const freeHeader = 4 << 10

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.traffic.came.Add(int64(n))
	if n > 0 && !c.count(n+bytes.Count(p[:n], []byte{'\n'})*(fieldCost+16)) {
		c.Conn.Close() // an answer would wait for whoever only writes
		return 0, io.EOF
	}
	return n, err
}

// count counts n more bytes of a header, if there is room for them.
func (c *conn) count(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving || c.closed {
		return true
	}
	if more := max(freeHeader, c.came+n) - max(freeHeader, c.came); more > 0 && !c.memory.takeHeader(more) {
		c.forget()
		return false
	}
	c.came += n
	return true
}

// serve notes whether a request's handler runs.
func (c *conn) serve(runs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = runs
	c.forget()
}

// forget gives back what came of a header. The lock is held.
func (c *conn) forget() {
	if c.came > freeHeader {
		c.memory.leaveHeader(c.came - freeHeader)
	}
	c.came = 0
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
		c.serve(false)
	}
}
