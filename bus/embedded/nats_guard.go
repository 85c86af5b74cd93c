package embedded

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"souk/bus"
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

// Look is how often connections are looked at. In that time somebody can fill what the server keeps for each
// of them, and no more.
const (
	lookEvery = 100 * time.Millisecond
	lookBusy  = 25 * time.Millisecond  // where so much came meanwhile
	busyAt    = 1000                   // messages, from one name
	lookEach  = 200 * time.Microsecond // and later for each of them, which takes a microsecond or two
	most      = 2 * maxConnections     // of which a look hears
	lookUp    = 256                    // that are new, of which is asked whose they are, in one look

	glanceEvery = 20 * time.Millisecond // whether there are more connections, or many more subscriptions
	glanceSubs  = 64
)

// Who has said or heard more than its share, or comes again so often within a look's share of a second after
// its connections were closed, is kept away for a while: to cut it off does not help where it is there again
// at once.
const (
	barredFor  = time.Minute
	comesAgain = 30.0 // times a second, on average of ten: a process of ours comes twice
)

// natsGuard keeps each name within its share: it counts what its connections have, and closes those that are
// beyond. NATS itself bounds connections by account, which is the whole market here, and what waits by
// connection.
type natsGuard struct {
	server *server.Server
	market string // the account whose users it counts
	log    *slog.Logger

	guests map[uint64]*guest // by connection
	names  map[string]*host  // by who it is
	bars   bars
	busy   bool // by the last look

	shut func(connection uint64)
}

func newNATSGuard(s *server.Server, market string, knock *slowly, log *slog.Logger) *natsGuard {
	return &natsGuard{server: s, market: market, log: log,
		guests: map[uint64]*guest{}, names: map[string]*host{},
		bars: bars{server: s, market: market, until: map[string]time.Time{}, knock: knock},
		shut: func(connection uint64) { s.DisconnectClientByID(connection) }}
}

// guest counts what one connection uses.
type guest struct {
	of   *host // nil: nobody who has a share
	seen bool  // by this look

	inMsgs, outMsgs, inBytes, outBytes int64
}

// host counts what all connections of one name use.
type host struct {
	name  string
	share bus.Share
	keys  map[string]bool // of its creds

	conns   []*server.ConnInfo // of this look, the oldest first
	pending int
	listens int
	came    int64 // messages from it since the last look

	says, saysBytes, hears, hearsBytes, closes bucket

	closed int       // connections since it was told
	told   time.Time // in the log
}

// run looks until ctx ends.
func (g *natsGuard) run(ctx context.Context) {
	t := time.NewTicker(glanceEvery)
	defer t.Stop()
	var last time.Time
	var conns, subs int
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		c, s := g.server.NumClients(), int(g.server.NumSubscriptions())
		every := lookEvery
		if g.busy {
			every = lookBusy
		}
		if c > conns || s > subs+glanceSubs || now.Sub(last) >= every+time.Duration(c)*lookEach {
			g.look(now)
			last = now
		}
		conns, subs = c, s
	}
}

// look counts once, and closes what is beyond.
func (g *natsGuard) look(now time.Time) {
	z, err := g.server.Connz(&server.ConnzOptions{Account: g.market, Limit: most})
	if err != nil {
		return
	}
	for _, h := range g.names {
		h.conns, h.pending, h.listens, h.came = h.conns[:0], 0, 0, 0
	}
	g.busy = false
	came := 0
	for _, c := range z.Conns { // by age
		p := g.guests[c.Cid]
		if p == nil {
			if came++; came > lookUp {
				break // the others with the next look
			}
			p = &guest{of: g.whose(c.Cid)}
			g.guests[c.Cid] = p
		}
		p.seen = true
		if p.of != nil {
			p.of.count(p, c, now)
		}
	}
	for cid, p := range g.guests {
		if !p.seen {
			delete(g.guests, cid)
		}
		p.seen = false
	}
	if g.server.NumClients()-len(z.Conns) > maxStrangers {
		g.dismiss()
	}
	for name, h := range g.names {
		g.busy = g.busy || h.came > busyAt && h.share.Says.Messages > 0
		g.bound(h, now)
		if len(h.conns) == 0 && h.rested(now) {
			delete(g.names, name)
		}
	}
	g.relieve(now)
	if err := g.bars.end(now); err != nil && g.log != nil {
		g.log.Error("whose time is over is not let in again", "err", err, "server", "nats")
	}
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

// whose says who a connection of the market's account is, whose creds the server has found good; nil for
// nobody who has a share. It takes a tenth of a millisecond.
func (g *natsGuard) whose(cid uint64) *host {
	z, err := g.server.Connz(&server.ConnzOptions{CID: cid, Username: true})
	if err != nil || len(z.Conns) == 0 {
		return nil // it has gone
	}
	c := z.Conns[0]
	i, err := natsauth.Shown(c.JWT)
	if err != nil {
		return nil
	}
	h := g.names[i.Name]
	if h == nil {
		h = &host{name: i.Name, keys: map[string]bool{}}
		g.names[i.Name] = h
	}
	h.keys[c.AuthorizedUser] = true
	h.share = i.Share()
	return h
}

// count adds a connection to what its name has.
func (h *host) count(p *guest, c *server.ConnInfo, now time.Time) {
	h.conns = append(h.conns, c)
	h.pending += c.Pending
	h.listens += int(c.NumSubs)
	h.came += c.InMsgs - p.inMsgs
	for _, t := range []struct {
		b    *bucket
		most int
		now  int64
		last *int64
	}{{&h.says, h.share.Says.Messages, c.InMsgs, &p.inMsgs},
		{&h.saysBytes, h.share.Says.Bytes, c.InBytes, &p.inBytes},
		{&h.hears, h.share.Hears.Messages, c.OutMsgs, &p.outMsgs},
		{&h.hearsBytes, h.share.Hears.Bytes, c.OutBytes, &p.outBytes}} {
		if t.most > 0 {
			t.b.fill(now, rateOf(t.most))
			t.b.left -= float64(t.now - *t.last)
		}
		*t.last = t.now
	}
}

func rateOf(most int) Rate { return Rate{float64(most), float64(most) * bus.TrafficOver} }

// owes says of what a name has had more than its share.
func (h *host) owes(now time.Time) (what string, most int) {
	for _, t := range []struct {
		b    *bucket
		what string
		most int
	}{{&h.says, "messages a second", h.share.Says.Messages},
		{&h.saysBytes, "bytes a second", h.share.Says.Bytes},
		{&h.hears, "messages heard a second", h.share.Hears.Messages},
		{&h.hearsBytes, "bytes heard a second", h.share.Hears.Bytes}} {
		if t.most > 0 {
			if t.b.fill(now, rateOf(t.most)); t.b.left < 0 {
				return t.what, t.most
			}
		}
	}
	return "", 0
}

// rested reports whether nothing need be remembered of a name.
func (h *host) rested(now time.Time) bool {
	what, _ := h.owes(now)
	return what == "" && now.Sub(h.told) > bus.SayAgain
}

// bound closes what of a name's connections is beyond its share: the last that came, of what there are too
// many, and those for which most waits.
func (g *natsGuard) bound(h *host, now time.Time) {
	if len(h.conns) == 0 {
		return
	}
	h.closes.fill(now, Rate{comesAgain, 10 * comesAgain})
	if what, most := h.owes(now); what != "" {
		g.bar(h, now, what, most)
		return
	}
	for len(h.conns) > h.share.Connections {
		g.close(h, len(h.conns)-1)
		g.tell(h, now, "connections", h.share.Connections)
	}
	for h.listens > h.share.Listens && len(h.conns) > 0 {
		g.close(h, len(h.conns)-1)
		g.tell(h, now, "subscriptions of all connections", h.share.Listens)
	}
	for h.pending > h.share.Pending && len(h.conns) > 0 {
		g.close(h, h.slowest())
		g.tell(h, now, "bytes that it does not read", h.share.Pending)
	}
	if h.closes.left < 0 {
		g.bar(h, now, "connections, which come again at once", h.share.Connections)
	}
}

// slowest is for which of a name's connections most waits.
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
	h.listens -= int(c.NumSubs)
	h.closed++
	h.closes.left--
	g.shut(c.Cid)
}

// bar closes all connections of a name, and keeps it away for a while. What it owes is forgotten then.
func (g *natsGuard) bar(h *host, now time.Time, what string, most int) {
	h.closed += len(h.conns)
	h.conns, h.pending, h.listens = h.conns[:0], 0, 0
	h.says, h.saysBytes, h.hears, h.hearsBytes, h.closes = bucket{}, bucket{}, bucket{}, bucket{}, bucket{}
	if err := g.bars.add(h.keys, now.Add(barredFor)); err != nil && g.log != nil {
		g.log.Error("a name cannot be kept away", "name", h.name, "err", err, "server", "nats")
	}
	h.told = time.Time{}
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

// guarding is a guard that runs.
type guarding struct {
	stop context.CancelFunc
	done sync.WaitGroup
}

func (g *natsGuard) start() *guarding {
	ctx, stop := context.WithCancel(context.Background())
	out := &guarding{stop: stop}
	out.done.Go(func() { g.run(ctx) })
	return out
}

func (g *guarding) end() {
	if g != nil {
		g.stop()
		g.done.Wait()
	}
}
