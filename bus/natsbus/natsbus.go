// Package natsbus carries the bus over core NATS.
package natsbus

import (
	"cmp"
	"context"
	crypto "crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/natsauth"
)

// Config says where the server is and who connects. Zero fields take their default.
type Config struct {
	// nats://host:port, several separated by commas; not used with InProcess
	URL       string
	InProcess nats.InProcessConnProvider // an embedded server, instead of URL
	// of connections by a socket, and then nothing else is spoken; a URL of tls:// has a default
	TLS *tls.Config
	// who this is, an id: it shows in the server's monitoring and its inboxes are its own
	Name string
	// who this is to a server that asks; it is read at each connect. nil: nobody in particular
	Creds natsauth.Source

	// 5 s, so that two missing answers give up a black hole in 10-15 s, not in minutes
	PingEvery time.Duration
	// 250 ms, and as much again at random, so that a thousand agents do not come back at once; see pause for
	// the first seconds
	ReconnectWait time.Duration
}

const (
	// of one attempt: a server on the same continent answers in a fraction of the first; one in process is
	// there, and late only where the machine stands still
	connectWithin, connectInProcess = 2 * time.Second, 30 * time.Second
	// and for its word once it is connected: who speaks for hundreds of agents has creds of a hundred
	// kilobytes, which a busy server takes a while to judge
	wordWithin = 8 * time.Second

	reconnectBuffer = 32 << 10        // bytes kept while disconnected: a second's news; more would be stale
	pendingMessages = 65536           // waiting for one slow handler before more are dropped
	pendingBytes    = 64 << 20        // the same in bytes
	drainWithin     = 2 * time.Second // for Close to deliver what is pending
)

func (c Config) withDefaults() (Config, error) {
	if !bus.ValidID(c.Name) {
		return c, fmt.Errorf("natsbus: Name %q is not an id: use 1 to %d letters, digits, '-' or '_'", c.Name,
			bus.MaxID)
	}
	if c.InProcess == nil && c.URL == "" {
		return c, fmt.Errorf("natsbus: %s: neither a URL nor a server in process is given", c.Name)
	}
	if c.TLS == nil && strings.Contains(c.URL, "tls://") {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	}
	if c.InProcess == nil {
		if err := c.reachable(); err != nil {
			return c, err
		}
	}
	c.PingEvery = cmp.Or(c.PingEvery, 5*time.Second)
	c.ReconnectWait = cmp.Or(c.ReconnectWait, 250*time.Millisecond)
	return c, nil
}

// reachable judges the URLs here, since the client's own complaint would quote what it could not read: a
// password. Other machines are reached by TLS alone.
func (c Config) reachable() error {
	for one := range strings.SplitSeq(c.URL, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		switch u, err := url.Parse(one); {
		case err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/":
			return fmt.Errorf("natsbus: %s: %s is not like nats://host:port (in a name or password, "+
				"write other characters than letters and digits as %%40 is for @)", c.Name, bus.Redact(c.URL))
		case c.TLS == nil && !bus.IsLoopback(u.Hostname()):
			return fmt.Errorf("natsbus: %s: %s is not on loopback, and may only be reached by TLS: write "+
				"tls://%s, and say in Config.TLS whose certificates are trusted (natsauth.TLSOf), or reach it "+
				"by a tunnel", c.Name, u.Host, u.Host)
		}
	}
	return nil
}

// hint says what to do about a server that could not be reached.
func (c Config) hint(err error) string {
	unknown := new(tls.CertificateVerificationError)
	switch secure := strings.Contains(c.URL, "tls://"); {
	case !errors.As(err, &unknown):
		return "is the NATS server up?"
	case secure:
		return "name the file of the CA that its certificate is from, as market.ca or in SOUK_MARKET_CA"
	}
	return "it speaks TLS: write tls:// in place of nats://"
}

// Bus is a connection to NATS. It implements bus.Bus.
type Bus struct {
	nc     *nats.Conn
	config Config
	online atomic.Pointer[time.Time] // since when; nil while the server is away
	brief  atomic.Bool               // it was there for less than briefly, the last time
	closed chan struct{}             // the connection is gone for good

	requests requests
	creds    creds

	mu      sync.Mutex
	health  chan bus.Health // nil once closed
	news    chan bus.Health // the same, for readers
	lost    map[*nats.Subscription]int
	dropped int64
}

var _ bus.Bus = (*Bus)(nil)

// Connect reaches the server once and from then on stays connected: it reconnects for ever, with
// jitter, and notices a silent server within three pings.
func Connect(config Config) (*Bus, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bus{
		config: config,
		closed: make(chan struct{}),
		news:   make(chan bus.Health, 64),
		lost:   map[*nats.Subscription]int{},
	}
	b.health = b.news
	nc, err := nats.Connect(config.URL, b.options()...)
	if refused := b.creds.explain(err); refused != nil {
		return nil, fmt.Errorf("natsbus: %s: connect %s: %w", config.Name, config.where(), refused)
	}
	if err != nil {
		return nil, fmt.Errorf("natsbus: %s: connect %s: %w (%s)", config.Name, config.where(),
			bus.RedactError(err), config.hint(err))
	}
	b.nc = nc
	b.requests.own = bus.LastToken(nc.NewInbox())
	b.requests.waiting, b.requests.inboxes = map[string]waiter{}, map[string]string{}
	b.reconnected()
	return b, nil
}

func (b *Bus) Connected() time.Time {
	if since := b.online.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

func (c Config) where() string {
	if c.InProcess != nil {
		return "in process"
	}
	return bus.Redact(c.URL)
}

func (b *Bus) options() []nats.Option {
	c := b.config
	options := []nats.Option{
		nats.Name(c.Name),
		nats.CustomInboxPrefix(bus.InboxOf(c.Name)),
		nats.Timeout(wordWithin),
		nats.PingInterval(c.PingEvery),
		nats.MaxPingsOutstanding(2),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(n int) time.Duration {
			if b.brief.Load() { // it is closed as soon as it is there: there is no hurry
				n += quickly
			}
			return pause(n, c.ReconnectWait, rand.Float64())
		}),
		nats.ReconnectBufSize(reconnectBuffer),
		nats.DrainTimeout(drainWithin),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.disconnected(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { b.reconnected() }),
		nats.ClosedHandler(func(*nats.Conn) { b.disconnected(nil); close(b.closed) }),
		nats.ErrorHandler(b.failed),
		// Who is turned away comes again: its creds may be renewed meanwhile.
		nats.IgnoreAuthErrorAbort(),
	}
	if c.Creds != nil {
		options = append(options, nats.UserJWT(b.present, b.creds.sign))
	}
	if c.InProcess != nil {
		return append(options, nats.InProcessServer(wholeInProcess{c.InProcess}),
			nats.Timeout(connectInProcess))
	}
	if c.TLS != nil {
		options = append(options, nats.Secure(c.TLS))
	}
	return append(options, nats.SetCustomDialer(wholeDialer{near: c.TLS == nil}))
}

// quickly is the number of attempts in quick succession: six seconds of them, at the default wait.
const quickly = 48

// briefly is how long a connection lives at most that a server closes because its name exceeds its share.
const briefly = time.Second

// pause is the time before the n-th attempt to reconnect, counted from 1, for a random number from 0 to 1: a
// fifth of the wait and up to three fifths more at first, since a server that was started again is up within
// seconds; the wait and up to as much again later. Everybody was cut off at one moment, so the random part is
// never the smaller one.
func pause(n int, wait time.Duration, random float64) time.Duration {
	least, spread := wait/5, wait*3/5
	if n > quickly {
		least, spread = wait, wait
	}
	return least + time.Duration(random*float64(spread))
}

func (b *Bus) disconnected(err error) {
	if refused := b.creds.explain(err); refused != nil {
		b.creds.news(refused)
		err = refused
	}
	since := b.online.Swap(nil)
	if since == nil {
		return
	}
	b.brief.Store(time.Since(*since) < briefly)
	if err == nil && !b.nc.IsClosed() { // to close is no outage
		err = bus.ErrDisconnected
	}
	b.requests.abandon()
	b.tell(bus.Health{Connected: false, Err: bus.RedactError(err)})
}

func (b *Bus) reconnected() {
	b.creds.accepted()
	now := time.Now()
	b.online.Store(&now)
	b.tell(bus.Health{Connected: true})
}

// failed hears of errors that no call returns: slow handlers and refused subjects.
func (b *Bus) failed(_ *nats.Conn, sub *nats.Subscription, err error) {
	if sub != nil && errors.Is(err, nats.ErrSlowConsumer) {
		n, _ := sub.Dropped() // fails only for a subscription that has just been stopped
		b.mu.Lock()
		b.dropped += int64(n - b.lost[sub])
		b.lost[sub] = n
		b.mu.Unlock()
		err = fmt.Errorf("subscription %s: handler too slow: %w", sub.Subject, err)
	}
	if refused := b.creds.explain(err); refused != nil && !b.creds.news(refused) {
		return // told already: it is tried several times a second
	} else if refused != nil {
		err = refused
	}
	b.tell(bus.Health{Connected: b.online.Load() != nil, Err: err})
}

// tell reports news; a reader that is not listening misses it.
func (b *Bus) tell(h bus.Health) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.Dropped = b.dropped
	select {
	case b.health <- h: // never on a nil channel
	default:
	}
}

func (b *Bus) Publish(m bus.Msg) error {
	if err := b.publish(m); err != nil {
		return fmt.Errorf("publish %s: %w", m.Subject, b.translate(err, len(m.Data)))
	}
	return nil
}

func (b *Bus) publish(m bus.Msg) error {
	switch {
	case len(m.Header) == 0 && m.Reply == "":
		return b.nc.Publish(m.Subject, m.Data)
	case len(m.Header) == 0:
		return b.nc.PublishRequest(m.Subject, m.Reply, m.Data) // refuses an empty reply
	}
	return b.nc.PublishMsg(&nats.Msg{Subject: m.Subject, Reply: m.Reply, Header: nats.Header(m.Header),
		Data: m.Data})
}

func (b *Bus) Subscribe(subject, queue string, h bus.Handler) (bus.Subscription, error) {
	sub, err := b.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) {
		h(bus.Msg{Subject: m.Subject, Reply: m.Reply, Header: bus.Header(m.Header), Data: m.Data})
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe %s: %w", subject, b.translate(err, 0))
	}
	if err := sub.SetPendingLimits(pendingMessages, pendingBytes); err != nil {
		sub.Unsubscribe()
		return nil, fmt.Errorf("subscribe %s: %w", subject, b.translate(err, 0))
	}
	return &subscription{b, sub}, nil
}

type subscription struct {
	bus *Bus
	sub *nats.Subscription
}

func (s *subscription) Stop() error {
	s.bus.mu.Lock()
	delete(s.bus.lost, s.sub)
	s.bus.mu.Unlock()
	err := s.sub.Unsubscribe()
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		return nil // it has ended already
	}
	return err
}

// Traffic counts what came and went over the connection, and how often it was lost and is back.
func (b *Bus) Traffic() nats.Statistics { return b.nc.Stats() }

// Dropped counts messages that came faster than their handlers took them.
func (b *Bus) Dropped() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

func (b *Bus) Name() string              { return b.config.Name }
func (b *Bus) Inbox() string             { return bus.InboxOf(b.config.Name) + "." + crypto.Text() }
func (b *Bus) MaxPayload() int           { return int(b.nc.MaxPayload()) }
func (b *Bus) Health() <-chan bus.Health { return b.news }

// flushLimit bounds a Flush whose context has no deadline of its own: a server that has not answered by
// then will be given up by the pings.
const flushLimit = 15 * time.Second

func (b *Bus) Flush(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flushLimit)
		defer cancel()
	}
	if b.online.Load() == nil && !b.nc.IsClosed() {
		return fmt.Errorf("flush: %w", bus.ErrDisconnected)
	}
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush: %w", b.translate(err, 0))
	}
	return nil
}

func (b *Bus) Close() error {
	err := b.nc.Drain()
	switch {
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting):
		err = nil // there is nobody to deliver to
	case err != nil:
		b.nc.Close()
	}
	<-b.closed
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.health != nil {
		b.health = nil
		close(b.news)
	}
	return err
}

// translate turns errors of NATS into those that callers of the bus decide by.
func (b *Bus) translate(err error, size int) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%d bytes, at most %d: %w", size, b.MaxPayload(), bus.ErrTooLarge)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining):
		return bus.ErrClosed
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return bus.ErrNotSent
	case errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrDisconnected):
		return bus.ErrDisconnected
	case errors.Is(err, nats.ErrNoResponders):
		return bus.ErrNoResponders
	}
	return err
}
