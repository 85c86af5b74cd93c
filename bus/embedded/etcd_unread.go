package embedded

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
)

// leaving is a connection of a member, which counts until it is closed.
type leaving struct {
	net.Conn
	g *guard
	m *member
	// since when each waits to be sent, under the member's lock; nil: it is closed
	unread map[*answer]time.Time
}

func (c *leaving) Close() error {
	c.m.mu.Lock()
	if c.unread != nil {
		c.m.connections--
		for a := range c.unread {
			c.m.unread -= a.size
		}
		c.unread = nil
		c.g.byAddress.CompareAndDelete(c.RemoteAddr().String(), c)
	}
	c.m.mu.Unlock()
	return c.Conn.Close()
}

// begin admits a request before any of it has come, so that nobody has many of which the half has come.
// Streams are counted elsewhere.
func (g *guard) begin(ctx context.Context, info *tap.Info) (context.Context, error) {
	m := g.of(ctx)
	if m == nil || info.FullMethodName == watchMethod || info.FullMethodName == keepAliveMethod {
		return ctx, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun >= g.limits.InFlight+g.limits.Waiting {
		return ctx, g.refuse(codes.ResourceExhausted, m, "%d requests of %s wait: ask for less at once",
			g.limits.Waiting, m.name)
	}
	m.begun++
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.begun--
	})
	return ctx, nil
}

// answer counts as unread until it is sent.
type answer struct {
	proto.Message
	to   *leaving
	size int
}

// answerCost counts for all that an answer takes beside its bytes; grpc tells of no smaller buffer.
const answerCost = 4 << 10

// answers counts what is said to a member.
func (g *guard) answers(ctx context.Context, m *member, what any) (any, error) {
	p, _ := peer.FromContext(ctx)
	at, _ := g.byAddress.Load(p.Addr.String())
	c, there := at.(*leaving)
	if !there {
		return what, nil
	}
	a := &answer{what.(proto.Message), c, answerCost + proto.Size(what.(proto.Message))}
	m.mu.Lock()
	full := m.unread > g.limits.Unread
	if c.unread != nil && !full {
		m.unread += a.size
		c.unread[a] = time.Now()
	}
	m.mu.Unlock()
	if full {
		return nil, c.cut()
	}
	return a, nil
}

// Put takes back the bytes of an answer that is sent; with Get, grpc has answers for a pool of buffers.
func (a *answer) Put(*[]byte) {
	a.to.m.mu.Lock()
	defer a.to.m.mu.Unlock()
	if _, ok := a.to.unread[a]; ok {
		a.to.m.unread -= a.size
		delete(a.to.unread, a)
	}
}

func (a *answer) Get(n int) *[]byte { b := make([]byte, n); return &b }

// look closes connections on which an answer waits for too long: etcd keeps what is to follow it.
func (g *guard) look(now time.Time) {
	g.byAddress.Range(func(_, at any) bool {
		c, late := at.(*leaving), false
		c.m.mu.Lock()
		for _, since := range c.unread {
			late = late || now.Sub(since) > g.limits.ReadIn
		}
		c.m.mu.Unlock()
		if late {
			c.cut()
		}
		return true
	})
}

func (c *leaving) cut() error {
	defer c.Close()
	return c.g.refuse(codes.ResourceExhausted, c.m, "%s does not read what it asked for", c.m.name)
}

// codec writes and reads as grpc does, and has answers say when they are sent.
type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if a, ok := v.(*answer); ok {
		b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 0, a.size), a.Message)
		return mem.BufferSlice{mem.NewBuffer(&b, a)}, err
	}
	return c.CodecV2.Marshal(v)
}

// SendMsg says something on a stream.
func (c *counted) SendMsg(v any) error {
	a, err := c.g.answers(c.Context(), c.m, v)
	if err == nil {
		err = c.ServerStream.SendMsg(a)
	}
	return err
}
