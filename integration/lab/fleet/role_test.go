package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"

	"souk/agentd"
	agentserve "souk/agentd/serve"
	"souk/agentd/vllm"
	"souk/bus"
	"souk/bus/client"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/cmd/choices"
	"souk/hub"
	hubserve "souk/hub/serve"
	"souk/ledger"
	"souk/ledger/journal"
)

// roleEnv makes the test binary a part of a fleet instead: the product's own server with one port wrapped, so
// that the product needs no switch for its tests. fileEnv names its configuration.
const (
	roleEnv = "SOUK_FLEET_ROLE"
	fileEnv = "SOUK_FLEET_FILE"
)

// roleFile holds the part of a daemon's file that roles read.
type roleFile struct {
	Market struct {
		NATS string   `yaml:"nats"`
		Etcd []string `yaml:"etcd"`
		// of the part whose file this is
		Creds string `yaml:"creds"`
	} `yaml:"market"`
	Data   string        `yaml:"data"`
	Hub    hub.Config    `yaml:"hub"`
	Agentd agentd.Config `yaml:"agentd"`
	Client string        `yaml:"client"`
}

func play(role string) int {
	roles := map[string]func(context.Context, roleFile, bus.Bus, bus.Registry) error{
		"hub-dies": hubThatDies, "agentd-clock": agentdWithAClockOff, "reader": readerThatVanishes,
	}
	f := roleFile{Hub: choices.Hub(), Agentd: agentd.Default()}
	err := func() error {
		text, err := os.ReadFile(os.Getenv(fileEnv))
		if err == nil {
			err = yaml.Unmarshal(text, &f)
		}
		if err != nil {
			return err
		}
		who, err := natsauth.ReadFile(f.Market.Creds)
		if err != nil {
			return err
		}
		b, err := natsbus.Connect(natsbus.Config{URL: f.Market.NATS, Name: who.Name,
			Creds: natsauth.File(f.Market.Creds)})
		if err != nil {
			return err
		}
		defer b.Close()
		var r *etcdreg.Registry
		if files := natsauth.Beside(f.Market.Creds); files.Cert != "" { // a client has none, and needs none
			secure, err := natsauth.TLSOf(files)
			if err != nil {
				return err
			}
			probe := map[bus.Role]string{bus.RoleHub: bus.AgentsPrefix, bus.RoleAgentd: bus.ClaimsPrefix}
			r, err = etcdreg.Dial(context.Background(),
				etcdreg.Config{Endpoints: f.Market.Etcd, TLS: secure, Probe: probe[who.Role]})
			if err != nil {
				return err
			}
			defer r.Close()
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		return roles[role](ctx, f, b, r)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		return 1
	}
	return 0
}

// role is a part that the test binary plays, with the file of another part.
func (f *Fleet) role(name, role, file string) *Part {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return f.AddPart(&Part{Name: name, Args: []string{self},
		Env: []string{roleEnv + "=" + role, fileEnv + "=" + file}})
}

func (f *Fleet) fileOf(part string) string { return filepath.Join(f.Dir, "conf", part+".yaml") }

// dyingJournal kills its process when the first hold is durable, before anyone can be told.
type dyingJournal struct{ *journal.Journal }

func (j dyingJournal) Append(frames ...ledger.Frame) error {
	if err := j.Journal.Append(frames...); err != nil {
		return err
	}
	for _, f := range frames {
		for _, r := range f.Records {
			if r.Kind == ledger.KindHold {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	return nil
}

func hubThatDies(ctx context.Context, f roleFile, b bus.Bus, r bus.Registry) error {
	j, err := journal.Open(filepath.Join(f.Data, "journal", f.Hub.Journal), journal.Config{})
	if err != nil {
		return err
	}
	defer j.Close()
	s, err := hubserve.New(f.Hub, hubserve.Deps{Bus: b, Registry: r, Journal: dyingJournal{j}})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// clockOff is how far the clock of agentdWithAClockOff is behind.
const clockOff = 7 * time.Minute

// agentdWithAClockOff is a node whose clock is behind: whatever of it leaves the process says so. That is the
// name of its start, in its registration, summaries and completions, and comes back in dispatches; all else
// that a node says of time is a duration.
func agentdWithAClockOff(ctx context.Context, f roleFile, b bus.Bus, r bus.Registry) error {
	s, err := agentserve.NewServer(f.Agentd, agentserve.Deps{Bus: lateBus{b}, Registry: lateRegistry{r},
		Engine: func(c agentd.EngineConfig) agentd.Engine { return vllm.New(c) }})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

type lateRegistry struct{ bus.Registry }

func late(value []byte) []byte {
	var r bus.Registration
	if json.Unmarshal(value, &r) == nil {
		r.Boot -= clockOff.Milliseconds()
		value, _ = json.Marshal(&r)
	}
	return value
}

func (r lateRegistry) Register(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Lease,
	error) {
	l, err := r.Registry.Register(ctx, key, late(value), ttl)
	return lateLease{l}, err
}

type lateLease struct{ bus.Lease }

func (l lateLease) Update(ctx context.Context, value []byte) error {
	return l.Lease.Update(ctx, late(value))
}

type lateBus struct{ bus.Bus }

func (b lateBus) said(m bus.Msg) bus.Msg {
	var s bus.Summary
	var c bus.Completion
	switch {
	case strings.Contains(m.Subject, ".summary.") && bus.Decode(m.Data, &s) == nil:
		s.Boot -= clockOff.Milliseconds()
		m.Data, _ = bus.Encode(&s)
	case strings.Contains(m.Subject, ".completion.") && bus.Decode(m.Data, &c) == nil:
		c.Boot -= clockOff.Milliseconds()
		m.Data, _ = bus.Encode(&c)
	}
	return m
}

// Subscribe gives dispatches, which name the start of the agent that they are for, the name that it knows
// itself by.
func (b lateBus) Subscribe(subject, queue string, h bus.Handler) (bus.Subscription, error) {
	return b.Bus.Subscribe(subject, queue, func(m bus.Msg) {
		var d bus.Dispatch
		if strings.Contains(m.Subject, ".dispatch.") && bus.Decode(m.Data, &d) == nil {
			d.Boot += clockOff.Milliseconds()
			m.Data, _ = bus.Encode(&d)
		}
		h(m)
	})
}

func (b lateBus) Publish(m bus.Msg) error { return b.Bus.Publish(b.said(m)) }
func (b lateBus) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	return b.Bus.Request(ctx, b.said(m))
}

// readerThatVanishes asks for four long answers, and says so once each has begun.
func readerThatVanishes(ctx context.Context, f roleFile, b bus.Bus, _ bus.Registry) error {
	c, err := client.New(client.Config{ID: f.Client}, b)
	if err != nil {
		return err
	}
	defer c.Close()
	begun := make(chan struct{}, 4)
	for range 4 {
		t := Task(f.Client, 400)
		go Ask(ctx, c, f.Client, t, func(c bus.Chunk) {
			if c.Seq == 2 {
				begun <- struct{}{}
			}
		})
	}
	for range 4 {
		<-begun
	}
	fmt.Println("begun")
	<-ctx.Done()
	return nil
}
