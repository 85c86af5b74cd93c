package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/natsbus"
)

// Market says where the market's NATS and etcd are.
type Market struct {
	NATS string   `yaml:"nats"` // nats://host:port, several separated by commas
	Etcd []string `yaml:"etcd"` // host:port of each member
	// how long the start waits for each of them; afterwards outages are waited out
	ConnectWithin time.Duration `yaml:"connect_within"`
	AllowRemote   bool          `yaml:"allow_remote"` // take addresses beyond this machine
}

// DefaultMarket is a market on this machine.
func DefaultMarket() Market {
	return Market{NATS: "nats://127.0.0.1:4222", Etcd: []string{"127.0.0.1:2379"},
		ConnectWithin: 60 * time.Second}
}

// MarketExample is the section as --help shows it.
const MarketExample = `market:
  nats: nats://127.0.0.1:4222      # several servers of one cluster are separated by commas
  etcd: ["127.0.0.1:2379"]
  connect_within: 60s              # the start waits so long for each; later outages are waited out
`

const noAuthentication = "there is no authentication yet, so whoever reaches these servers can spend any " +
	"client's money"

// Validate judges the section.
func (m Market) Validate() error {
	var errs []error
	remote := func(name, address string, err error) {
		switch {
		case err == nil, m.AllowRemote && errors.Is(err, errRemote):
		case errors.Is(err, errRemote):
			errs = append(errs,
				fmt.Errorf("market.%s: %s: %w: %s. Use a tunnel, "+
					"or write market.allow_remote: true if the network is yours alone",
					name, bus.Redact(address), err, noAuthentication))
		default:
			errs = append(errs, fmt.Errorf("market.%s: %w", name, err))
		}
	}
	for a := range strings.SplitSeq(m.NATS, ",") {
		u, err := url.Parse(strings.TrimSpace(a))
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Port() == "" {
			errs = append(errs, fmt.Errorf("market.nats: %q: write nats://host:port",
				cmp.Or(redactedIn(m.NATS), a)))
			continue
		}
		remote("nats", u.Host, CheckLoopback(u.Host))
	}
	if len(m.Etcd) == 0 {
		errs = append(errs, errors.New("market.etcd: none: write host:port of each member"))
	}
	for _, a := range m.Etcd {
		remote("etcd", a, CheckLoopback(a))
	}
	if m.ConnectWithin < time.Second || m.ConnectWithin > 24*time.Hour {
		errs = append(errs, fmt.Errorf("market.connect_within: %v is not within 1s and 24h", m.ConnectWithin))
	}
	return errors.Join(errs...)
}

// redactedIn is a list of addresses as it may be shown where it holds a secret, and else nothing.
func redactedIn(list string) string {
	if clean := bus.Redact(list); clean != list {
		return clean
	}
	return ""
}

// remote reports whether an address is beyond this machine.
func (m Market) remote() (out []string) {
	for a := range strings.SplitSeq(m.NATS, ",") {
		if u, err := url.Parse(strings.TrimSpace(a)); err == nil &&
			errors.Is(CheckLoopback(u.Host), errRemote) {
			out = append(out, u.Host)
		}
	}
	for _, a := range m.Etcd {
		if errors.Is(CheckLoopback(a), errRemote) {
			out = append(out, bus.Redact(a))
		}
	}
	return out
}

var errRemote = errors.New("not on loopback")

// CheckLoopback refuses an address that another machine could reach, or that is none.
func CheckLoopback(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("%q: write host:port, as 127.0.0.1:4222", bus.Redact(address))
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%q is %w", bus.Redact(address), errRemote)
}

// Link is a process's connections to the market.
type Link struct {
	Bus      *natsbus.Bus
	Registry *etcdreg.Registry
	stop     context.CancelFunc
}

// Connect reaches NATS and etcd, waiting for each as long as the configuration says, and has the health
// endpoint watch them. name is an id; it shows in the server's monitoring.
func (p *Process) Connect(ctx context.Context, m Market, name string) (*Link, error) {
	if remote := m.remote(); len(remote) > 0 {
		p.Log.Warn("the market is reached over a network: "+noAuthentication, "addresses", remote)
	}
	natsAt, etcdAt := bus.Redact(m.NATS), bus.Redact(strings.Join(m.Etcd, ","))
	l := &Link{}
	err := p.patiently(ctx, m.ConnectWithin, "NATS", natsAt, "market.nats or SOUK_MARKET_NATS",
		func() (err error) {
			l.Bus, err = natsbus.Connect(natsbus.Config{URL: m.NATS, Name: name})
			return err
		})
	if err != nil {
		return nil, err
	}
	err = p.patiently(ctx, m.ConnectWithin, "etcd", etcdAt, "market.etcd or SOUK_MARKET_ETCD",
		func() (err error) {
			l.Registry, err = etcdreg.Dial(ctx,
				etcdreg.Config{Endpoints: m.Etcd, DialTimeout: min(5*time.Second, m.ConnectWithin)})
			return err
		})
	if err != nil {
		return nil, errors.Join(err, l.Bus.Close())
	}
	life, stop := context.WithCancel(context.Background())
	l.stop = stop
	for _, c := range []struct {
		what, where string
		up          func() bool
	}{{"NATS", natsAt, func() bool { return !l.Bus.Connected().IsZero() }}, {"etcd", etcdAt,
		l.Registry.Connected}} {
		p.Needs(c.what+" is not connected", c.up)
		go p.watch(life, c.what, c.where, c.up)
	}
	return l, nil
}

// watchEvery is how soon an outage is logged; those who use the connection know at once.
const watchEvery = 250 * time.Millisecond

// watch says when a connection is lost, once a minute that it is, and when it is back. It looks rather than
// listens, as a connection tells its news to one reader. A moment is no outage: who comes back between two
// looks is not missed.
func (p *Process) watch(ctx context.Context, what, where string, up func() bool) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	var outage bus.Outage
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			if !up() {
				if outage.Failed(now, what) {
					p.Log.Warn(what+" is out of reach; trying again until it is back", "at", where)
				}
			} else if lasted, over := outage.Works(now, what); over {
				p.Log.Info(what+" is back", "at", where, "after", lasted.Round(watchEvery))
			}
		}
	}
}

// Close ends both connections.
func (l *Link) Close() error {
	l.stop()
	return errors.Join(l.Registry.Close(), l.Bus.Close())
}

// patiently tries until it works, ctx ends, or the time is over; and says that it waits.
func (p *Process) patiently(ctx context.Context, within time.Duration, what, where, set string,
	try func() error) error {
	end := time.Now().Add(within)
	pause := 100 * time.Millisecond
	var outage bus.Outage
	for {
		p.health.waits(what, where)
		err := try()
		if err == nil {
			p.health.waits("", "")
			p.Log.Info("connected", "to", what, "at", where)
			return nil
		}
		left := time.Until(end)
		if left <= 0 {
			return fmt.Errorf("%s at %s did not answer within %v: %w. Start it (`souk infra` runs one for "+
				"this machine), or correct %s", what, where, within, err, set)
		}
		if outage.Failed(time.Now(), what) {
			p.Log.Warn("waiting for "+what, "at", where, "for", left.Round(time.Second), "err", err)
		}
		t := time.NewTimer(min(left, pause/2+rand.N(pause/2+1)))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// Name turns any name into an id of the market: a host name's dots become '-'.
func Name(s string) string {
	id := []byte(s)
	for i, c := range id {
		if !bus.ValidID(string(c)) {
			id[i] = '-'
		}
	}
	return string(id[:min(len(id), bus.MaxID)])
}
