package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"reflect"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/follow"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// Market says where the market's NATS and etcd are.
type Market struct {
	NATS string   `yaml:"nats"` // nats://host:port, several separated by commas
	Etcd []string `yaml:"etcd"` // host:port of each member
	// how long the start waits for each of them; afterwards outages are waited out
	ConnectWithin time.Duration `yaml:"connect_within"`
	// file of creds, by which NATS knows this process; it is read again at each connect
	Creds string `yaml:"creds"`
	// files in PEM, for connections by TLS; they are read again at each
	CA   string `yaml:"ca"`   // who vouches for the servers; empty: whom the system believes
	Cert string `yaml:"cert"` // by which etcd knows this process
	Key  string `yaml:"key"`
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

// Validate judges the section.
func (m Market) Validate() error {
	var errs []error
	files := m.files()
	if err := files.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("market.%w", err))
	}
	reach := func(name, address string, secure bool, instead string) {
		switch err := CheckLoopback(address); {
		case err == nil, secure && errors.Is(err, ErrRemote):
		case errors.Is(err, ErrRemote):
			errs = append(errs, fmt.Errorf("market.%s: %w, and may only be reached by TLS: %s, or reach it "+
				"by a tunnel", name, err, instead))
		default:
			errs = append(errs, fmt.Errorf("market.%s: %w", name, err))
		}
	}
	for a := range strings.SplitSeq(m.NATS, ",") {
		u, err := url.Parse(strings.TrimSpace(a))
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Port() == "" {
			if clean := bus.Redact(m.NATS); clean != m.NATS { // a secret with a comma is in two of them
				a = clean
			}
			errs = append(errs, fmt.Errorf("market.nats: %q: write nats://host:port, or tls://host:port", a))
			continue
		}
		reach("nats", u.Host, u.Scheme == "tls", "write tls://"+u.Host+", and its CA's file as market.ca")
	}
	if len(m.Etcd) == 0 {
		errs = append(errs, errors.New("market.etcd: none: write host:port of each member"))
	}
	for _, a := range m.Etcd {
		reach("etcd", a, files.Cert != "", "write the files that `souk auth` makes as market.ca, market.cert "+
			"and market.key")
	}
	errs = append(errs, bus.CheckBounds("market.connect_within", m.ConnectWithin, time.Second, 24*time.Hour))
	return errors.Join(errs...)
}

// files names the TLS files: as written, or else those that souk auth made beside the creds.
func (m Market) files() natsauth.Files {
	if f := (natsauth.Files{CA: m.CA, Cert: m.Cert, Key: m.Key}); f != (natsauth.Files{}) {
		return f
	}
	return natsauth.Beside(m.Creds)
}

// ErrRemote marks an address that other machines can reach.
var ErrRemote = errors.New("not on loopback")

// CheckLoopback refuses an address that another machine could reach, or that is none.
func CheckLoopback(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("%q: write host:port, as 127.0.0.1:4222", bus.Redact(address))
	}
	if bus.IsLoopback(host) {
		return nil
	}
	return fmt.Errorf("%q is %w", bus.Redact(address), ErrRemote)
}

// Link is a process's connections to the market.
type Link struct {
	Bus       *natsbus.Bus
	Registry  *etcdreg.Registry
	Speaks    func(agent string) bool // the creds of an agentd name an agent
	stop      context.CancelFunc
	creds     natsauth.Source
	files     natsauth.Files
	credsFile string
}

// Operator reads the JWT of an operator of the same market: its name and public key. Revoked creds are none
// where souk auth's keys lie beside the process's own.
func (l *Link) Operator(token string) (name, key string, err error) {
	return l.creds.Operator(token, time.Now(), natsauth.AccountFile(l.credsFile))
}

// Connect connects to NATS and etcd, waiting for each as long as the configuration says, and has the health
// endpoint watch them. role and ids name the process, and its creds must be theirs; an agentd's may bear any
// name.
func (p *Process) Connect(ctx context.Context, m Market, role bus.Role, ids bus.IDs) (*Link, error) {
	l := &Link{Speaks: func(string) bool { return true }}
	name, creds, err := m.creds(role, ids)
	if err != nil {
		return nil, err
	}
	l.creds, l.credsFile = creds, m.Creds
	if creds != nil {
		l.Speaks = func(agent string) bool { i, err := creds(); return err == nil && i.Speaks(agent) }
	}
	files := m.files()
	l.files = files
	secure, err := natsauth.TLSOf(files)
	if err != nil {
		return nil, fmt.Errorf("market.%w", err)
	}
	if err := m.sameName(name); creds != nil && err != nil {
		return nil, err
	}
	probe := bus.ClaimsPrefix // of an agentd, which may know of no agents yet
	if access, err := bus.AccessOf(role, ids); err == nil {
		probe = access.Probe()
	}
	natsAt, etcdAt := bus.Redact(m.NATS), bus.Redact(strings.Join(m.Etcd, ","))
	err = p.patiently(ctx, m.ConnectWithin, "NATS", natsAt, "market.nats or SOUK_MARKET_NATS",
		func() (err error) {
			c := natsbus.Config{URL: m.NATS, Name: name, Creds: creds}
			if strings.Contains(m.NATS, "tls://") {
				c.TLS = secure
			}
			l.Bus, err = natsbus.Connect(c)
			return err
		})
	if err != nil {
		return nil, err
	}
	err = p.patiently(ctx, m.ConnectWithin, "etcd", etcdAt, "market.etcd or SOUK_MARKET_ETCD",
		func() (err error) {
			c := etcdreg.Config{Endpoints: m.Etcd, Probe: probe,
				DialTimeout: min(5*time.Second, m.ConnectWithin)}
			if files.Cert != "" {
				c.TLS = secure
			}
			l.Registry, err = etcdreg.Dial(ctx, c)
			return err
		})
	if err != nil {
		return nil, errors.Join(err, l.Bus.Close())
	}
	life, stop := context.WithCancel(context.Background())
	l.stop = stop
	go p.watchEnds(life, l, name)
	for _, c := range []struct {
		what, where string
		up          func() bool
		refused     func() error
	}{{"NATS", natsAt, func() bool { return !l.Bus.Connected().IsZero() }, l.Bus.Refused},
		{"etcd", etcdAt, l.Registry.Connected, func() error { return nil }}} {
		p.Lacks(func() string {
			if c.up() {
				return ""
			}
			if err := c.refused(); err != nil {
				return c.what + " is not connected: " + err.Error()
			}
			return c.what + " is not connected"
		})
		go p.watch(life, c.what, c.where, c.up, c.refused)
	}
	l.observe(p.Meter())
	if role != bus.RoleGateway { // which writes nothing that lasts: it serves on
		p.Lacks(func() string {
			if err := l.Registry.Trouble(); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	return l, nil
}

// Named is the name in the process's creds; "" where it has none that can be read.
func (m Market) Named() string {
	if m.Creds != "" {
		if i, err := natsauth.ReadFile(m.Creds); err == nil {
			return i.Name
		}
	}
	return ""
}

// creds opens the creds that the configuration names, and returns the name that the process has by them.
func (m Market) creds(role bus.Role, ids bus.IDs) (name string, creds natsauth.Source, err error) {
	if m.Creds == "" {
		return ids.Name, nil, nil // the server says whether it wants some
	}
	wanted := ids.Name
	if role == bus.RoleAgentd {
		wanted = ""
	}
	creds = natsauth.File(m.Creds).As(role, wanted)
	i, err := creds()
	if err == nil {
		err = i.Expired(time.Now())
	}
	for _, agent := range ids.Agents {
		if err == nil && !i.Speaks(agent) {
			err = fmt.Errorf("%s may not speak for agent %s: souk auth renew %s --agents %s,...", i.Name, agent,
				i.Name, agent)
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("market.creds: %w", m.named(err))
	}
	return i.Name, creds, nil
}

// sameName judges that the certificate is of who has the creds.
func (m Market) sameName(name string) error {
	files := m.files()
	if other := files.Named(); other != "" && other != name && other != natsauth.Root {
		return fmt.Errorf("market.creds: %s is of %s, and market.cert: %s of %s: one process has one name with "+
			"NATS and with etcd: give it the certificate of %s (souk auth add or renew makes both)", m.Creds, name,
			files.Cert, other, name)
	}
	return nil
}

// judgeFiles reads the files that the section names, as a start does. lacks lists those that are not there,
// or not for this user to see: they may be where the process runs. wrong is the error that a start would end
// with.
func (m Market) judgeFiles(role bus.Role, ids bus.IDs) (lacks []error, wrong error) {
	judge := func(field string, err error) {
		if err != nil {
			err = fmt.Errorf("%s%w", field, err)
		}
		switch {
		case err == nil:
		case errors.Is(err, natsauth.ErrNoCreds), errors.Is(err, fs.ErrNotExist),
			errors.Is(err, fs.ErrPermission):
			lacks = append(lacks, err)
		default:
			wrong = errors.Join(wrong, err)
		}
	}
	name, _, err := m.creds(role, ids)
	judge("", err)
	_, noCert := natsauth.TLSOf(m.files())
	judge("market.", noCert)
	if m.Creds != "" && err == nil && noCert == nil {
		judge("", m.sameName(name))
	}
	return lacks, wrong
}

// named has an error about the creds name their file; nil stays nil.
func (m Market) named(err error) error {
	if err == nil || strings.Contains(err.Error(), m.Creds) {
		return err
	}
	return fmt.Errorf("%s: %w", m.Creds, err)
}

// marketOf is the market's section of a configuration; ok is false where it has none.
func marketOf(cfg Config) (m Market, ok bool) {
	v := reflect.ValueOf(cfg).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Type() == reflect.TypeFor[Market]() {
			return f.Interface().(Market), true
		}
	}
	return m, false
}

// watchEvery is how soon an outage is logged; users of the connection know at once.
const watchEvery = 250 * time.Millisecond

// watch says when a connection is lost, once a minute that it is, and when it is back. It looks rather than
// listens, as a connection tells its news to one reader. A moment is no outage: who comes back between two
// looks is not missed.
func (p *Process) watch(ctx context.Context, what, where string, up func() bool, refused func() error) {
	t := time.Tick(watchEvery)
	var outage bus.Outage
	said := "" // by which it was refused last
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t:
			if up() {
				said = ""
				if lasted, over := outage.Works(now, what); over {
					p.Log.Info(what+" is back", "at", where, "after", lasted.Round(watchEvery))
				}
				continue
			}
			told, other, about := what+" is out of reach; trying again until it is back", false, []any{"at", where}
			if err := refused(); err != nil {
				told, other = what+" refuses this process; trying again until it does not", err.Error() != said
				said, about = err.Error(), append(about, "err", err)
			}
			if outage.Failed(now, what) || other {
				p.Log.Warn(told, about...)
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
		if errors.Is(err, natsbus.ErrRefused) { // it would be so in a minute, too
			return fmt.Errorf("%s at %s: %w", what, where, err)
		}
		left := time.Until(end)
		if left <= 0 {
			return fmt.Errorf("%s at %s did not answer within %v: %w. Start it (`souk infra` runs one for "+
				"this machine), or correct %s", what, where, within, err, set)
		}
		if outage.Failed(time.Now(), what) {
			p.Log.Warn("waiting for "+what, "at", where, "for", left.Round(time.Second), "err", err)
		}
		if !follow.Pause(ctx, min(left, follow.Jitter(pause))) {
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

// AgentAt is the id of the agent whose engine was found on a port of a node.
func AgentAt(node, port string) string {
	name, tail := Name(node), "-"+port
	return name[:min(len(name), bus.MaxID-len(tail))] + tail
}
