package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"souk/agentd"
	agentserve "souk/agentd/serve"
	"souk/agentd/vllm"
	"souk/bus"
	"souk/bus/embedded"
	"souk/bus/etcdreg"
	"souk/bus/gateway"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/classifier"
	door "souk/classifier/serve"
	"souk/cmd/daemon"
	hubserve "souk/hub/serve"
	"souk/ledger"
	"souk/ledger/journal"
	bank "souk/ledger/treasury/serve"
	keeper "souk/ledger/witness/serve"
)

// startServers runs NATS and etcd on loopback.
func (m *Market) startServers(ctx context.Context) (*embedded.NATS, *etcdreg.Registry, error) {
	var err error
	if m.Keys, err = natsauth.Init(natsauth.Dir(m.dir.Path)); err != nil {
		return nil, nil, err
	}
	auth, err := m.Keys.Server()
	if err != nil {
		return nil, nil, err
	}
	nats, err := embedded.StartNATS(embedded.NATSConfig{Listen: m.Config.Listen, OrAny: true, Auth: auth,
		Log: m.log})
	if err != nil {
		return nil, nil, err
	}
	m.opened = append(m.opened, func() error { nats.Close(); return nil })
	nats.Observe(m.health.Meter())
	host, port, err := net.SplitHostPort(m.Config.Listen)
	if err != nil {
		return nil, nil, err
	}
	listen := net.JoinHostPort(host, "2379")
	if port == "0" {
		listen = net.JoinHostPort(host, "0")
	}
	files, err := natsauth.ServerCert(m.Keys.Dir, nil, time.Now())
	if err != nil {
		return nil, nil, err
	}
	etcd, err := embedded.StartEtcd(embedded.EtcdConfig{Dir: m.dir.Path, Listen: listen, OrAny: true,
		TLS: files, Log: m.log})
	if err != nil {
		return nil, nil, err
	}
	m.opened = append(m.opened, etcd.Close)
	etcd.Observe(m.health.Meter())
	// of a market that was killed, or was of several processes: this directory is ours alone
	if err := errors.Join(etcd.Unlock(ctx), etcd.RevokeLeases(ctx)); err != nil {
		return nil, nil, err
	}
	m.opened = append(m.opened, Tend(m.Keys, nil, nil, m.log))
	registry, err := etcdreg.FromClient(etcd.Client)
	if err != nil {
		return nil, nil, err
	}
	m.State = State{PID: os.Getpid(), NATS: nats.URL, Etcd: "https://" + etcd.Endpoint(),
		Health:  m.health.Address(),
		Started: time.Now().UTC()}
	for _, d := range m.Config.Domains {
		m.State.Domains = append(m.State.Domains, d.Name)
	}
	for _, a := range m.Config.Agents {
		m.State.Agents = append(m.State.Agents, a.ID)
	}
	return nats, registry, nil
}

// joiner connects a part of the market, until the market ends.
type joiner func(role bus.Role, ids bus.IDs) (*natsbus.Bus, error)

func (m *Market) openJournal(name string) (*journal.Journal, error) {
	j, err := journal.Open(m.dir.Journal(name), m.ledger)
	if err == nil {
		m.opened = append(m.opened, j.Close)
	}
	return j, err
}

// signing signs a journal, and cosigns others', until the market ends.
func (m *Market) signing(j *journal.Journal, name string) (*keeper.Keeper, error) {
	files := daemon.Checkpoints{Key: m.Keys.NotePath(name), Policy: m.Keys.PolicyPath()}
	k, err := files.Keeper(j, name, "", m.dir.Witnessed(name), name != ledger.Treasury, m.log,
		m.health.Meter())
	if err == nil {
		m.opened = append(m.opened, k.Close)
		m.whys = append(m.whys, k.Unready)
	}
	return k, err
}

func (m *Market) startTreasury(ctx context.Context, join joiner, registry bus.Registry) error {
	j, err := m.openJournal(ledger.Treasury)
	if err != nil {
		return err
	}
	m.room = j.Room
	b, err := join(bus.RoleTreasury, bus.IDs{Name: ledger.Treasury})
	if err != nil {
		return err
	}
	c, err := m.Config.treasury()
	if err != nil {
		return err
	}
	signs, err := m.signing(j, ledger.Treasury)
	if err != nil {
		return err
	}
	creds, err := m.Keys.Member(bus.RoleTreasury, bus.IDs{Name: ledger.Treasury})
	if err != nil {
		return err
	}
	operator := func(token string) (string, string, error) {
		return creds.Operator(token, time.Now(), natsauth.AccountFile(m.Keys.CredsPath(ledger.Treasury)))
	}
	s, err := bank.New(c, bank.Deps{Bus: b, Registry: registry, Journal: j, Log: m.log, Signs: signs,
		Meter: m.health.Meter(), Operator: operator})
	if err != nil {
		return err
	}
	return m.run(ctx, "treasury", s)
}

func (m *Market) startDoor(ctx context.Context, join joiner, registry bus.Registry) error {
	b, err := join(bus.RoleDoor, bus.IDs{Name: "door"})
	if err != nil {
		return err
	}
	c := classifier.Default()
	c.ID, c.Drain = "door", m.within/2
	for _, d := range m.Config.Domains {
		if d.General {
			c.General = d.Labels[0]
			if slices.Contains(d.Labels, classifier.Default().General) {
				c.General = classifier.Default().General
			}
		}
	}
	if m.Door, err = door.New(c, door.Deps{Bus: b, Registry: registry, Log: m.log,
		Spans: m.spans, Meter: m.health.Meter()}); err != nil {
		return err
	}
	return m.run(ctx, "door", m.Door)
}

// startGateway opens the market to clients over HTTP, who are told that it is not ready until it sells.
func (m *Market) startGateway(ctx context.Context, join joiner, registry bus.Registry) error {
	if m.Config.HTTPAddress() == "" {
		return nil
	}
	b, err := join(bus.RoleGateway, bus.IDs{Name: "gateway"})
	if err != nil {
		return err
	}
	l, err := ListenOrAny("tcp", m.Config.HTTPAddress())
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	c, err := m.Config.gateway()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	c.Drain = m.within / HTTPShare
	stop, err := daemon.ServeProfiles(c.Pprof, m.log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	m.opened = append(m.opened, stop)
	secure, err := daemon.ServerTLS(c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return errors.Join(fmt.Errorf("gateway.%w", err), l.Close())
	}
	m.Gateway, err = gateway.New(c, gateway.Deps{Bus: b, Registry: registry, Listener: l, TLS: secure,
		Opens: m.sells, Log: m.log, Spans: m.spans, Meter: m.health.Meter()})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if m.State.HTTP = "http://" + l.Addr().String(); secure != nil {
		m.State.HTTP = "https://" + l.Addr().String()
	}
	return m.run(ctx, "gateway", m.Gateway)
}

// ListenOrAny listens on an address, or on any port where that is taken.
func ListenOrAny(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(address)
		return net.Listen(network, net.JoinHostPort(host, "0"))
	}
	return l, err
}

func (m *Market) startHubs(ctx context.Context, join joiner, registry bus.Registry) error {
	var servers []server
	for _, d := range m.Config.Domains {
		b, err := join(bus.RoleHub, bus.IDs{Name: d.Name, Domain: d.Name})
		if err != nil {
			return err
		}
		j, err := m.openJournal(d.Name)
		if err != nil {
			return err
		}
		c, err := m.Config.hub(d)
		if err != nil {
			return err
		}
		c.DrainTimeout = m.within / 4
		signs, err := m.signing(j, d.Name)
		if err != nil {
			return err
		}
		s, err := hubserve.New(c, hubserve.Deps{Bus: b, Registry: registry, Journal: j, Log: m.log,
			Learned: m.dir.Learned(d.Name), Signs: signs, Spans: m.spans, Meter: m.health.Meter()})
		if err != nil {
			return err
		}
		m.Hubs = append(m.Hubs, s)
		servers = append(servers, s)
	}
	return m.run(ctx, "hub", servers...)
}

func (m *Market) startAgents(ctx context.Context, join joiner, registry bus.Registry,
	agents []agentd.AgentConfig) error {
	ids := bus.IDs{Name: "agentd"}
	for _, a := range agents {
		ids.Agents = append(ids.Agents, a.ID)
	}
	b, err := join(bus.RoleAgentd, ids)
	if err != nil {
		return err
	}
	c, err := m.Config.node()
	if err != nil {
		return err
	}
	c.Agents, c.DrainTimeout, c.SettleTimeout = agents, m.within/2, m.within/4
	m.Node, err = agentserve.NewServer(c, agentserve.Deps{
		Bus: b, Registry: registry, Log: m.log, Spans: m.spans, Meter: m.health.Meter(),
		Engine: func(c agentd.EngineConfig) agentd.Engine {
			e := vllm.New(c)
			e.Spans = m.spans
			return e
		},
	})
	if err != nil {
		return err
	}
	return m.run(ctx, "agents", m.Node)
}
