package embedded

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/natsauth"
)

// guard keeps members within [EtcdLimits], each by its name.
type guard struct {
	limits EtcdLimits
	etcd   *etcdserver.EtcdServer
	named  bool // members show certificates; else all share one name
	log    *slog.Logger

	mu       sync.Mutex
	members  map[string]*member // no more than the CA has made certificates for
	refusals seldom             // by who was refused

	byAddress sync.Map // connections of members
}

// member counts what one name holds of the server.
type member struct {
	name  string
	slots chan struct{} // of requests at work
	many  chan struct{} // of those for many keys: one

	mu                              sync.Mutex
	connections                     int
	begun                           int // requests that come, wait or are at work
	unread                          int // bytes that wait to be sent to it
	streams, watches                int
	requests, writes, written, read bus.Bucket
	leases                          map[int64]bool
	counted                         time.Time // when it was last seen which of the leases are over
}

func (g *guard) member(name string) *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[name]
	if m == nil {
		m = &member{name: name, slots: make(chan struct{}, g.limits.InFlight), many: make(chan struct{}, 1),
			leases: map[int64]bool{}}
		g.members[name] = m
	}
	return m
}

// of finds the member who asks; nil if no limit binds it.
func (g *guard) of(ctx context.Context) *member {
	if !g.named {
		return nil
	}
	name := ""
	if p, ok := peer.FromContext(ctx); ok {
		name = nameOf(p.AuthInfo)
	}
	if name == natsauth.Root {
		return nil
	}
	return g.member(name)
}

// nameOf is the name in a certificate that was verified.
func nameOf(auth credentials.AuthInfo) string {
	info, ok := auth.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return ""
	}
	return info.State.VerifiedChains[0][0].Subject.CommonName
}

// refuse makes the error for a member beyond a bound, and logs it, once a minute.
func (g *guard) refuse(code codes.Code, m *member, format string, args ...any) error {
	says := fmt.Sprintf(format, args...)
	who := ""
	if m != nil {
		who = m.name
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if times := g.refusals.count(time.Now(), who); times > 0 && g.log != nil {
		g.log.Warn("a member asks for more than it may have of etcd", "name", who, "times", times, "last", says)
	}
	return status.Error(code, "souk: "+says)
}

// allowed reports whether members may call a method; all others are root's alone.
func allowed(method string, request any) bool {
	switch method {
	case "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put", "/etcdserverpb.KV/DeleteRange",
		"/etcdserverpb.KV/Txn", "/etcdserverpb.Maintenance/Status", "/etcdserverpb.Auth/AuthStatus":
		return true
	case "/etcdserverpb.Maintenance/Alarm":
		r, ok := request.(*pb.AlarmRequest)
		return ok && r.Action == pb.AlarmRequest_GET
	}
	return strings.HasPrefix(method, "/etcdserverpb.Lease/") && method != "/etcdserverpb.Lease/LeaseLeases" ||
		method == watchMethod
}

// The streams that members may have.
const (
	watchMethod     = "/etcdserverpb.Watch/Watch"
	keepAliveMethod = "/etcdserverpb.Lease/LeaseKeepAlive"
)

// number gives a lease a number that nobody guesses. Those of etcd count up, and under a lease that has no
// key yet, as that of a hub that waits to lead, whoever knows its number puts a key of his own: then its
// holder, who may not write that key, can neither use it nor keep it alive.
func number(r *pb.LeaseGrantRequest) {
	var b [8]byte
	rand.Read(b[:]) // never fails
	r.ID = int64(binary.BigEndian.Uint64(b[:])>>1 | 1)
}

// cost weighs a request by the load that it puts on etcd.
type cost struct{ writes, bytes int }

// judge says what a request costs, and refuses a value or a key that is too large.
func (g *guard) judge(m *member, request any) (c cost, err error) {
	switch r := request.(type) {
	case *pb.PutRequest:
		c = cost{1, len(r.Key) + len(r.Value)}
		if len(r.Value) > bus.MaxEntry {
			err = g.refuse(codes.InvalidArgument, m, "a value of %d bytes: at most %d are taken", len(r.Value),
				bus.MaxEntry)
		} else if len(r.Key) > maxEtcdKey {
			err = g.refuse(codes.InvalidArgument, m, "a key of %d bytes: at most %d are taken", len(r.Key),
				maxEtcdKey)
		}
	case *pb.DeleteRangeRequest:
		c = cost{writes: 1}
	case *pb.LeaseGrantRequest:
		c = cost{writes: 1}
		if most := int64(g.limits.LeaseTTL.Seconds()); r.ID != 0 {
			err = g.refuse(codes.InvalidArgument, m, "lease %x: numbers are given here: leave it out", r.ID)
		} else if r.TTL > most {
			err = g.refuse(codes.InvalidArgument, m, "a lease of %d seconds: at most %d are granted", r.TTL, most)
		}
	case *pb.LeaseRevokeRequest:
		c = cost{writes: 1}
	case *pb.TxnRequest:
		for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
			for _, op := range ops {
				part, wrong := g.judgeOp(m, op)
				c.writes, c.bytes = c.writes+part.writes, c.bytes+part.bytes
				if wrong != nil {
					return c, wrong
				}
			}
		}
	}
	return c, err
}

func (g *guard) judgeOp(m *member, op *pb.RequestOp) (cost, error) {
	switch {
	case op.GetRequestPut() != nil:
		return g.judge(m, op.GetRequestPut())
	case op.GetRequestDeleteRange() != nil:
		return g.judge(m, op.GetRequestDeleteRange())
	case op.GetRequestTxn() != nil:
		return g.judge(m, op.GetRequestTxn())
	case many(op.GetRequestRange()):
		return cost{}, g.refuse(codes.InvalidArgument, m, "many keys within a transaction: ask for them alone")
	}
	return cost{}, nil
}

// many reports whether a request may be answered with much of the database.
func many(r *pb.RangeRequest) bool { return len(r.GetRangeEnd()) > 0 && !r.CountOnly }

// unary admits or refuses each request before etcd sees it.
func (g *guard) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	m := g.of(ctx)
	c, err := g.judge(m, request)
	if err != nil {
		return nil, err
	}
	if r, ok := request.(*pb.LeaseGrantRequest); ok {
		number(r)
	}
	if m == nil {
		return handle(ctx, request)
	}
	if !allowed(info.FullMethod, request) {
		return nil, rpctypes.ErrGRPCPermissionDenied
	}
	if err := g.pace(ctx, m, c); err != nil {
		return nil, err
	}
	slots := m.slots
	if r, ok := request.(*pb.RangeRequest); ok && many(r) {
		slots = m.many
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-slots }()
	if _, grants := request.(*pb.LeaseGrantRequest); grants {
		if err := g.mayLease(m); err != nil {
			return nil, err
		}
	}
	out, err := handle(ctx, request)
	if err != nil {
		return nil, err
	}
	g.after(m, request, out)
	return g.answers(ctx, m, out)
}

// pace has a member wait until its rates let a request through.
func (g *guard) pace(ctx context.Context, m *member, c cost) error {
	l, now := &g.limits, time.Now()
	m.mu.Lock()
	var wait time.Duration
	for _, r := range []struct {
		what string
		b    *bus.Bucket
		rate bus.Rate
		n    float64
	}{{"requests", &m.requests, l.Requests, 1}, {"writes", &m.writes, l.Writes, float64(c.writes)},
		{"bytes written", &m.written, l.Written, float64(c.bytes)}, {"bytes read", &m.read, l.Read, 0}} {
		w, ok := r.b.Take(now, r.rate, r.n, l.MaxDelay)
		if !ok {
			m.mu.Unlock()
			return g.refuse(codes.ResourceExhausted, m, "%s asks for more than %.0f %s a second: try again in %v",
				m.name, r.rate.Each, r.what, w.Round(time.Millisecond))
		}
		wait = max(wait, w)
	}
	m.mu.Unlock()
	if wait > 0 && !follow.Pause(ctx, wait) {
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

// mayLease reports whether a member may have one lease more.
func (g *guard) mayLease(m *member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); len(m.leases) >= g.limits.Leases && now.Sub(m.counted) >= time.Second {
		m.counted = now
		m.leases = g.living(m.leases)
	}
	if len(m.leases) >= g.limits.Leases {
		return g.refuse(codes.ResourceExhausted, m, "%s has %d leases: it may have no more", m.name, len(m.leases))
	}
	return nil
}

// living returns those of the given leases that are not over.
func (g *guard) living(of map[int64]bool) map[int64]bool {
	all, err := g.etcd.LeaseLeases(asRoot(context.Background()), &pb.LeaseLeasesRequest{})
	if err != nil {
		return of
	}
	out := map[int64]bool{}
	for _, l := range all.Leases {
		if of[l.ID] {
			out[l.ID] = true
		}
	}
	return out
}

// after counts what a request has brought.
func (g *guard) after(m *member, request, out any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch out := out.(type) {
	case *pb.LeaseGrantResponse:
		m.leases[out.ID] = true
	case *pb.LeaseRevokeResponse:
		delete(m.leases, request.(*pb.LeaseRevokeRequest).ID)
	case *pb.RangeResponse, *pb.TxnResponse:
		size := float64(proto.Size(out.(proto.Message)))
		m.read.Take(time.Now(), g.limits.Read, size, bus.Forever)
	}
}

// stream admits or refuses each stream before etcd sees it.
func (g *guard) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	m := g.of(s.Context())
	if m == nil {
		return handle(srv, s)
	}
	if !allowed(info.FullMethod, nil) {
		return rpctypes.ErrGRPCPermissionDenied
	}
	m.mu.Lock()
	if m.streams >= g.limits.Streams {
		m.mu.Unlock()
		return g.refuse(codes.ResourceExhausted, m, "%s has %d streams open: it may have no more", m.name,
			g.limits.Streams)
	}
	m.streams++
	m.mu.Unlock()
	c := &counted{ServerStream: s, g: g, m: m}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.streams--
		m.watches -= c.watches
	}()
	return handle(srv, c)
}

// counted is a stream whose requests are counted.
type counted struct {
	grpc.ServerStream
	g       *guard
	m       *member
	watches int // open on it, under the member's lock
}

func (c *counted) RecvMsg(v any) error {
	if err := c.ServerStream.RecvMsg(v); err != nil {
		return err
	}
	if err := c.g.pace(c.Context(), c.m, cost{}); err != nil {
		return err
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	w, ok := v.(*pb.WatchRequest)
	switch {
	case !ok:
	case w.GetCreateRequest() != nil:
		if c.m.watches >= c.g.limits.Watches {
			return c.g.refuse(codes.ResourceExhausted, c.m, "%s has %d watches: it may have no more", c.m.name,
				c.m.watches)
		}
		c.watches++
		c.m.watches++
	case w.GetCancelRequest() != nil && c.watches > 0:
		c.watches--
		c.m.watches--
	}
	return nil
}
