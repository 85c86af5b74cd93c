package embedded

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/natsauth"
)

// Bounds of a server, beside the share of each name.
const (
	// connections, as many as descriptors are there for anywhere
	maxConnections = 4096
	// of those, such as have not shown who they are, which each may hold half a message's worth
	maxStrangers = 256
	// bytes that wait to be read, of everybody together: with what the collector has not freed yet, and a
	// message that is half sent on each connection, the server stays below 512 MB
	maxPendingAll = 128 << 20

	maxSubTokens = 16 // of a pattern; ours have eight

	// who is gone without a word leaves its place within a minute and a half
	serverPing, serverPings = 20 * time.Second, 3
)

// How often connections are looked at: within a look's period a process can fill the server's buffers for
// each of its connections, and no more.
const (
	lookEvery = 100 * time.Millisecond
	lookBusy  = 25 * time.Millisecond  // where so much came meanwhile
	busyAt    = 1000                   // messages, from one name
	lookEach  = 200 * time.Microsecond // and later for each of them, which takes a microsecond or two
	most      = 2 * maxConnections     // of which a look hears
)

// Who has said or heard more than its share is kept away for a while: to cut it off does not help where it is
// there again at once.
const barredFor = time.Minute

// natsGuard keeps each name within its share. It says who may come, and how many connections of a name; and
// it looks at what they have said, heard and not read, and closes those that are beyond. NATS itself bounds
// connections by account, which is the whole market here, and what waits by connection.
type natsGuard struct {
	server *server.Server
	auth   *natsauth.Server
	log    *slog.Logger

	mu          sync.Mutex
	connections map[uint64]*connection // by connection
	names       map[string]*host       // by who it is
	shown       map[token]*host        // by what it showed, and was found good

	busy bool // by the last look
	now  func() time.Time
	shut func(connection uint64)

	stop    context.CancelFunc // of who looks
	done    sync.WaitGroup     // likewise
	closing chan struct{}      // nobody who is refused waits any more
	once    sync.Once
}

func newNATSGuard(auth *natsauth.Server, log *slog.Logger) *natsGuard {
	g := &natsGuard{auth: auth, log: log, connections: map[uint64]*connection{}, names: map[string]*host{},
		shown: map[token]*host{}, now: time.Now, closing: make(chan struct{})}
	g.shut = func(connection uint64) { g.server.DisconnectClientByID(connection) }
	return g
}

// connection counts what one connection uses.
type connection struct {
	of *host

	inMsgs, outMsgs, inBytes, outBytes int64
}

// host counts what all connections of one name use.
type host struct {
	name  string
	share bus.Share
	shown []token   // the last that were found good
	here  []uint64  // its connections, and some that have gone
	until time.Time // it is kept away

	conns   []*server.ConnInfo // of this look
	pending int
	came    int64 // messages from it since the last look

	says, saysBytes, hears, hearsBytes bus.Bucket

	closed int       // connections since it was told
	told   time.Time // in the log
}

// run looks until ctx ends.
func (g *natsGuard) run(ctx context.Context) {
	for every := lookEvery; follow.Pause(ctx, every); {
		g.look(time.Now())
		if every = lookEvery; g.busy {
			every = lookBusy
		}
		every += time.Duration(g.server.NumClients()) * lookEach
	}
}

// look counts once, and closes what is beyond.
func (g *natsGuard) look(now time.Time) {
	z, err := g.server.Connz(&server.ConnzOptions{Account: g.auth.Market, Limit: most})
	if err != nil {
		return
	}
	if g.server.NumClients()-len(z.Conns) > maxStrangers {
		g.dismiss()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.names {
		h.conns, h.pending, h.came = h.conns[:0], 0, 0
		h.here = slices.DeleteFunc(h.here, g.gone)
	}
	maps.DeleteFunc(g.connections, func(cid uint64, _ *connection) bool { return g.gone(cid) })
	for _, c := range z.Conns {
		if p := g.connections[c.Cid]; p != nil {
			p.of.count(p, c, now)
		}
	}
	g.busy = false
	for name, h := range g.names {
		g.busy = g.busy || h.came > busyAt && h.share.Says.Messages > 0
		g.bound(h, now)
		if len(h.here) == 0 && h.rested(now) {
			delete(g.names, name)
			for _, t := range h.shown {
				delete(g.shown, t)
			}
		}
	}
	g.relieve(now)
}

// dismiss closes connections that have not shown who they are and so are in no account, where there are too
// many: those that have waited longest.
func (g *natsGuard) dismiss() {
	z, err := g.server.Connz(&server.ConnzOptions{Username: true, Limit: most})
	if err != nil {
		return
	}
	strangers := slices.DeleteFunc(z.Conns, func(c *server.ConnInfo) bool { return c.Account != "" })
	more := len(strangers) - maxStrangers
	if more <= 0 {
		return
	}
	for _, c := range strangers[:more] {
		g.shut(c.Cid)
	}
	g.say("connections that show no creds are closed", "", more, "there are more than", maxStrangers)
}

// count adds a connection to what its name has.
func (h *host) count(p *connection, c *server.ConnInfo, now time.Time) {
	h.conns = append(h.conns, c)
	h.pending += c.Pending
	h.came += c.InMsgs - p.inMsgs
	for _, t := range []struct {
		b    *bus.Bucket
		most int
		now  int64
		last *int64
	}{{&h.says, h.share.Says.Messages, c.InMsgs, &p.inMsgs},
		{&h.saysBytes, h.share.Says.Bytes, c.InBytes, &p.inBytes},
		{&h.hears, h.share.Hears.Messages, c.OutMsgs, &p.outMsgs},
		{&h.hearsBytes, h.share.Hears.Bytes, c.OutBytes, &p.outBytes}} {
		if t.most > 0 {
			t.b.Take(now, rateOf(t.most), float64(t.now-*t.last), bus.Forever)
		}
		*t.last = t.now
	}
}

func rateOf(most int) bus.Rate {
	return bus.Rate{Each: float64(most), Burst: float64(most) * bus.TrafficOver}
}

// owes says of what a name has had more than its share.
func (h *host) owes(now time.Time) (what string, most int) {
	for _, t := range []struct {
		b    *bus.Bucket
		what string
		most int
	}{{&h.says, "messages a second", h.share.Says.Messages},
		{&h.saysBytes, "bytes a second", h.share.Says.Bytes},
		{&h.hears, "messages heard a second", h.share.Hears.Messages},
		{&h.hearsBytes, "bytes heard a second", h.share.Hears.Bytes}} {
		if t.most > 0 {
			if _, rests := t.b.Take(now, rateOf(t.most), 0, 0); !rests {
				return t.what, t.most
			}
		}
	}
	return "", 0
}

// rested reports whether nothing need be remembered of a name.
func (h *host) rested(now time.Time) bool {
	what, _ := h.owes(now)
	return what == "" && now.Sub(h.told) > bus.SayAgain && !now.Before(h.until)
}

// bound keeps a name away that owes, and closes of its connections those for which most waits.
func (g *natsGuard) bound(h *host, now time.Time) {
	if what, most := h.owes(now); what != "" && len(h.conns) > 0 {
		g.bar(h, now, what, most)
		return
	}
	for h.pending > h.share.Pending && len(h.conns) > 0 {
		g.close(h, h.slowest())
		g.tell(h, now, "bytes that it does not read", h.share.Pending)
	}
}

// slowest returns the index of the name's connection for which most waits.
func (h *host) slowest() int {
	at := 0
	for i, c := range h.conns {
		if c.Pending > h.conns[at].Pending {
			at = i
		}
	}
	return at
}

// close closes the i-th of a name's connections.
func (g *natsGuard) close(h *host, i int) {
	c := h.conns[i]
	h.conns = slices.Delete(h.conns, i, i+1)
	h.pending -= c.Pending
	h.closed++
	g.shut(c.Cid)
}

// bar closes all connections of a name, and keeps it away for a while. What it owes is forgotten then.
func (g *natsGuard) bar(h *host, now time.Time, what string, most int) {
	for _, cid := range h.here {
		g.shut(cid)
	}
	h.closed += len(h.here)
	h.here, h.conns, h.pending = nil, h.conns[:0], 0
	h.says, h.saysBytes, h.hears, h.hearsBytes = bus.Bucket{}, bus.Bucket{}, bus.Bucket{}, bus.Bucket{}
	h.until, h.told = now.Add(barredFor), time.Time{}
	g.tell(h, now, what, most, "barred", barredFor)
}

// relieve closes connections of those for whom most waits, until what waits on those that are left is no more
// than the server has room for.
func (g *natsGuard) relieve(now time.Time) {
	var by []*host
	all := 0
	for _, h := range g.names {
		by = append(by, h)
		all += h.pending
	}
	slices.SortFunc(by, func(a, b *host) int {
		return cmp.Or(cmp.Compare(b.pending, a.pending), cmp.Compare(a.name, b.name))
	})
	for _, h := range by {
		for all > maxPendingAll && len(h.conns) > 0 {
			i := h.slowest()
			all -= h.conns[i].Pending
			g.close(h, i)
			g.tell(h, now, "bytes that it does not read, of all that wait", maxPendingAll)
		}
	}
}

// tell says in the log, once a minute, that connections of a name are closed.
func (g *natsGuard) tell(h *host, now time.Time, what string, most int, more ...any) {
	if h.told.IsZero() || now.Sub(h.told) >= bus.SayAgain {
		g.say("connections are closed: it has more than its share", h.name, h.closed,
			append([]any{"of", what, "share", most}, more...)...)
		h.told, h.closed = now, 0
	}
}

func (g *natsGuard) say(what, name string, closed int, more ...any) {
	if g.log != nil {
		g.log.Warn(what, append([]any{"name", name, "closed", closed, "server", "nats"}, more...)...)
	}
}

// start has it look until end.
func (g *natsGuard) start() {
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.done.Go(func() { g.run(ctx) })
}

func (g *natsGuard) end() {
	g.once.Do(func() {
		g.stop()
		g.done.Wait()
		close(g.closing)
	})
}
