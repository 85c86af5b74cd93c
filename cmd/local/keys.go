package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/cmd/daemon"
)

// Operator is the name under which commands pay in and out.
const Operator = "operator"

// Viewer is the name under which commands look on.
const Viewer = "viewer"

// Reach says which market is spoken to, and who vouches for whoever speaks.
type Reach struct {
	Data  string   // its data directory; keys there make whatever creds are needed
	NATS  string   // its server; "": that of the market that runs on Data
	Creds []string // files of creds that are taken instead, each for its role
	CA    string   // vouches for a server of tls://; "": that of the keys of Data, else the system's
}

// Dial connects to the market in a role. name is the client, gateway or operator that it speaks for. A client
// with creds of its own takes its name from these where name is "".
func (r Reach) Dial(role bus.Role, name string) (*Link, error) {
	state := State{NATS: r.NATS}
	if r.NATS == "" {
		var err error
		if state, err = ReadState(r.Data); err != nil {
			return nil, err
		}
	}
	l := newLink(func(role bus.Role, name string) (*natsbus.Bus, error) {
		return r.connect(state.NATS, role, name)
	}, role, state)
	if err := l.open(name); err != nil {
		return nil, err
	}
	return l, nil
}

// Push tells the market's servers what its keys say now, so that whoever was revoked is cut off: the server
// of NATS, else that of the market which runs on Data, else the one that began there last.
func (r Reach) Push(ctx context.Context, keys *natsauth.Store) error {
	url := r.NATS
	if url == "" {
		state, err := ReadState(r.Data)
		if url = state.NATS; err != nil {
			if url, _ = keys.ServedAt(); url == "" {
				return err
			}
		}
	}
	if err := private(url); err != nil {
		return err
	}
	c := natsbus.Config{URL: url}
	var err error
	if c.TLS, err = r.tls(url); err != nil {
		return err
	}
	return natsbus.PushAccount(ctx, c, keys)
}

func (r Reach) connect(url string, role bus.Role, name string) (*natsbus.Bus, error) {
	if err := private(url); err != nil {
		return nil, err
	}
	name, creds, err := r.creds(role, name)
	if err != nil {
		return nil, err
	}
	secure, err := r.tls(url)
	if err != nil {
		return nil, err
	}
	b, err := natsbus.Connect(natsbus.Config{URL: url, Name: name, Creds: creds, TLS: secure})
	if err != nil && r.NATS == "" && !errors.Is(err, natsbus.ErrRefused) {
		err = fmt.Errorf("the market of %s does not answer at %s; if it has ended, start it again with "+
			"`souk up --data %s` (%w)", r.Data, bus.Redact(url), r.Data, err)
	}
	return b, err
}

// private refuses servers on other machines that are not reached by TLS: whoever is between could read what
// is said, and come in the name of who says it.
func private(urls string) error {
	for a := range strings.SplitSeq(urls, ",") {
		scheme, host, ok := strings.Cut(strings.TrimSpace(a), "://")
		if !ok {
			scheme, host = "nats", scheme
		}
		host = strings.TrimSuffix(host[strings.LastIndexByte(host, '@')+1:], "/")
		if _, _, err := net.SplitHostPort(host); err != nil { // NATS's own port is understood
			host = net.JoinHostPort(strings.Trim(host, "[]"), "4222")
		}
		if scheme == "tls" || scheme == "wss" {
			continue
		}
		if err := daemon.CheckLoopback(host); errors.Is(err, daemon.ErrRemote) {
			return fmt.Errorf("NATS at %w, and may only be reached by TLS: write tls://%s, and name its "+
				"CA's file by SOUK_MARKET_CA where the data directory has none, or reach it by a tunnel", err,
				host)
		}
	}
	return nil
}

// tls says whom to believe where the server speaks TLS; nil where it does not.
func (r Reach) tls(url string) (*tls.Config, error) {
	if !strings.Contains(url, "tls://") {
		return nil, nil
	}
	files := natsauth.Files{CA: r.CA}
	if ours := natsauth.ServerFiles(natsauth.Dir(r.Data)).CA; r.CA == "" {
		if _, err := os.Stat(ours); err == nil {
			files.CA = ours
		}
	}
	return natsauth.TLSOf(files)
}

// creds finds creds of a role: those given, else those that the keys of the data directory have or make, else
// none, which a server without keys may take.
func (r Reach) creds(role bus.Role, name string) (string, natsauth.Source, error) {
	var others []string
	for _, path := range r.Creds {
		i, err := natsauth.ReadFile(path)
		if err != nil {
			return "", nil, fmt.Errorf("--creds (or SOUK_MARKET_CREDS): %w", err)
		}
		if i.Role != role || role == bus.RoleClient && name != "" && i.Name != name {
			others = append(others, fmt.Sprintf("%s is of %s %s", path, i.Role, i.Name))
			continue
		}
		return i.Name, natsauth.File(path).As(role, i.Name), nil
	}
	if len(others) > 0 {
		return "", nil,
			fmt.Errorf("%w: creds of %s are wanted, and %s: name a file of them, too (--creds)",
				natsauth.ErrRole, strings.TrimSpace(string(role)+" "+name), strings.Join(others, ", "))
	}
	name = cmp.Or(name, FirstClient)
	keys, err := natsauth.Open(natsauth.Dir(r.Data))
	if errors.Is(err, natsauth.ErrNoStore) && r.NATS != "" {
		return name, nil, nil // the server says whether it wants some
	}
	if err != nil {
		return "", nil, err
	}
	path, err := keys.Ensure(role, bus.IDs{Name: name}, time.Now())
	if err != nil {
		return "", nil, fmt.Errorf("%w (creds that are elsewhere are named by --creds)", err)
	}
	return name, natsauth.File(path), nil
}

// Identity returns who speaks in a role, for signing something in that name.
func (r Reach) Identity(role bus.Role, name string) (*natsauth.Identity, error) {
	_, creds, err := r.creds(role, name)
	if err == nil && creds == nil {
		err = fmt.Errorf("%w of %s %s: name a file of them by --creds", natsauth.ErrNoCreds, role, name)
	}
	if err != nil {
		return nil, err
	}
	return creds()
}

// MayBeClient refuses the name of a client that belongs to another role, where the keys of the data directory
// say so: its money could be spent by nobody.
func (r Reach) MayBeClient(name string) error {
	users, err := r.users()
	for _, u := range users {
		if u.Role != bus.RoleClient && (u.Name == name || slices.Contains(u.Agents, name)) {
			return fmt.Errorf("client %s: %w: it belongs to %s %s: choose another", name, natsauth.ErrTaken,
				u.Role, u.Name)
		}
	}
	return err
}

// users lists whom the keys of the data directory know; nobody where it has none: whoever needs them says it.
func (r Reach) users() ([]natsauth.User, error) {
	keys, err := natsauth.Open(natsauth.Dir(r.Data))
	if err != nil {
		return nil, nil
	}
	return keys.List()
}

// signs opens the keys of the data directory where these can make creds; else nil.
func (r Reach) signs() (*natsauth.Store, error) {
	keys, err := natsauth.Open(natsauth.Dir(r.Data))
	if errors.Is(err, natsauth.ErrNoStore) || err == nil && !keys.Signs() {
		return nil, nil
	}
	return keys, err
}

// NewClient reports whether the keys of the data directory would make creds of a client who has none.
func (r Reach) NewClient(name string) (bool, error) {
	if len(r.Creds) > 0 {
		return false, nil
	}
	keys, err := r.signs()
	if keys == nil || err != nil {
		return false, err
	}
	users, err := keys.List()
	known := slices.ContainsFunc(users, func(u natsauth.User) bool { return u.Name == name })
	return !known, err
}

// ClientCreds makes creds of a client where the keys of the data directory can, and returns the path of the
// file; "" where there are none.
func (r Reach) ClientCreds(client string) (string, error) {
	keys, err := r.signs()
	if keys == nil || err != nil {
		return "", err
	}
	return keys.Ensure(bus.RoleClient, bus.IDs{Name: client}, time.Now())
}

// Reach returns how others connect to this market.
func (m *Market) Reach() Reach { return Reach{Data: m.dir.Path} }

// firstCreds makes the first client's creds.
func (m *Market) firstCreds() error {
	path, err := m.Keys.Ensure(bus.RoleClient, bus.IDs{Name: FirstClient}, time.Now())
	if errors.Is(err, natsauth.ErrRevoked) {
		m.log.Warn("the first client's creds were revoked, and stay so", "client", FirstClient)
		return nil
	}
	m.CredsFile = path
	return err
}
