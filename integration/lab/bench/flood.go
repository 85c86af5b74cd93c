package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	process "souk/cmd/parts"
	"souk/integration/lab/flood"
	"souk/integration/lab/load/proc"
)

// What others may notice of a flood, and what the servers may take for it.
const (
	floodTimes  = 2                // of the 99th percentile without it
	floodMemory = 512              // MB
	floodFor    = time.Minute      // as long as who floods NATS is kept away once
	floodCalm   = 10 * time.Second // before it, and beginning as long after it
)

// floodBars replays what one client's creds, and one agent's certificate, did to NATS and etcd. `souk infra`
// and whoever floods are processes; the others are in this one.
func floodBars(ctx context.Context, o Options) ([]Bar, error) {
	type attack struct {
		name string
		play func(*servers, context.Context) (played, error)
	}
	var bars []Bar
	for _, a := range []attack{
		{"NATS, by a client's 60 connections", (*servers).floodNATS},
		{"etcd, by an agent's 20", (*servers).floodEtcd},
	} {
		var said string
		x, err := repeat(o, "a flood of "+a.name, func() ([]float64, error) {
			s, err := startServers(ctx, o)
			if err != nil {
				return nil, err
			}
			defer s.close()
			most := s.watchMemory()
			p, err := a.play(s, ctx)
			memory := most()
			if err != nil {
				return nil, err
			}
			said = fmt.Sprintf("before: %v; during %v of it: %v (%v); after it: %v; who floods runs on "+
				"what processor time nobody else wants", p.before, floodFor, p.during, strings.TrimSpace(p.did), p.after)
			ms := func(o flood.Others) float64 { return o.Quantile(0.99).Seconds() * 1000 }
			return []float64{ms(p.during), ms(p.before), ms(p.after), memory,
				float64(p.during.Failed + p.after.Failed)}, nil
		})
		if err != nil {
			return bars, err
		}
		of := "flood of " + a.name + ": "
		bars = append(bars,
			ratio(of+"others' p99", floodTimes, "without it", "ms", x[0], x[1], said),
			ratio(of+"and 10 s after it", floodTimes, "without it", "ms", x[2], x[1], ""),
			Bar{Name: of + "others without an answer", Asked: "0", Measured: median(x[4]), Runs: x[4]},
			Bar{Name: of + "resident memory", Asked: fmt.Sprintf("under %d MB", floodMemory),
				Limit: floodMemory, Measured: median(x[3]), Unit: "MB", Runs: x[3]})
	}
	return bars, nil
}

// servers are NATS and etcd as a process, and who comes to them.
type servers struct {
	o          Options
	part       *process.Part
	keys       *natsauth.Store
	dir        string
	nats, etcd string
}

func startServers(ctx context.Context, o Options) (*servers, error) {
	dir, err := os.MkdirTemp("", "souk-flood-")
	if err != nil {
		return nil, err
	}
	s := &servers{o: o, dir: dir}
	if s.keys, err = natsauth.Init(natsauth.Dir(dir)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for _, n := range []struct {
		role bus.Role
		ids  bus.IDs
	}{{bus.RoleClient, bus.IDs{Name: "ada"}}, {bus.RoleClient, bus.IDs{Name: "mallory"}},
		{bus.RoleDoor, bus.IDs{Name: "door"}}, {bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}},
		{bus.RoleAgentd, bus.IDs{Name: "node-1", Agents: []string{"a1", "a2"}}}} {
		if _, err := s.keys.Ensure(n.role, n.ids, time.Now()); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	s.part = &process.Part{Name: "infra", Log: filepath.Join(dir, "infra.log"),
		Args: []string{filepath.Join(o.Bin, "souk"), "infra", "--data", dir},
		Env:  []string{"SOUK_INFRA_NATS=127.0.0.1:0", "SOUK_INFRA_ETCD=127.0.0.1:0"}}
	if err := s.part.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; {
		text, err := os.ReadFile(s.part.Log)
		if _, line, ok := strings.Cut(string(text), "ready "); ok && err == nil {
			if _, err := fmt.Sscanf(line, "%s etcd %s data", &s.nats, &s.etcd); err == nil {
				return s, nil
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.close()
	return nil, fmt.Errorf("souk infra is not ready: see what it says (%s)", s.part.Log)
}

func (s *servers) close() {
	if s.part.Alive() {
		s.part.Signal(syscall.SIGTERM)
		<-s.part.Ended()
	}
	os.RemoveAll(s.dir)
}

// watchMemory says, when it is called, how many MB the servers had at most.
func (s *servers) watchMemory() func() float64 {
	stop, most := make(chan struct{}), make(chan float64)
	go func() {
		var top int64
		t := time.NewTicker(50 * time.Millisecond)
		defer t.Stop()
		for {
			if n, err := proc.RSS(s.part.PID()); err == nil {
				top = max(top, n)
			}
			select {
			case <-t.C:
			case <-stop:
				most <- float64(top) / 1e6
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-most
	}
}

func (s *servers) join(name string) (*natsbus.Bus, error) {
	return natsbus.Connect(natsbus.Config{URL: s.nats, Name: name,
		Creds: natsauth.File(s.keys.CredsPath(name))})
}

// played holds what others noticed before, during and after a flood.
type played struct {
	before, during, after flood.Others
	did                   string
}

// around asks before, during and after a flood, which is a process of its own.
func (s *servers) around(ctx context.Context, who, what, at string, every time.Duration,
	ask func(context.Context) error) (p played, err error) {
	p.before = flood.Watch(ctx, every, floodCalm, floodFor, ask)
	c, _, err := s.o.startChild(ctx, "lab", "flood", what, at, "--creds", s.keys.CredsPath(who), "--for",
		floodFor.String())
	if err != nil {
		return p, err
	}
	p.during = flood.Watch(ctx, every, floodFor, floodFor, ask)
	p.did, err = c.out.ReadString('\n')
	if err = errors.Join(err, c.cmd.Wait()); err != nil {
		return p, err
	}
	flood.Watch(ctx, every, floodCalm, floodFor, ask)
	p.after = flood.Watch(ctx, every, floodCalm, floodFor, ask)
	return p, ctx.Err()
}

func (s *servers) floodNATS(ctx context.Context) (p played, err error) {
	door, err := s.join("door")
	if err != nil {
		return
	}
	defer door.Close()
	answer := make([]byte, 8<<10) // of a few hundred words, given whole
	_, err = door.Subscribe("souk.v1.task.>", "doors", func(m bus.Msg) {
		door.Publish(bus.Msg{Subject: m.Reply, Data: answer})
	})
	if err != nil {
		return
	}
	ada, err := s.join("ada")
	if err != nil {
		return
	}
	defer ada.Close()
	if err = errors.Join(door.Flush(ctx), ada.Flush(ctx)); err != nil {
		return
	}
	return s.around(ctx, "mallory", "--nats", s.nats, 2*time.Millisecond, func(ctx context.Context) error {
		_, err := ada.Request(ctx, bus.Msg{Subject: bus.TaskSubject("ada", "")})
		return err
	})
}

func (s *servers) floodEtcd(ctx context.Context) (p played, err error) {
	secure, err := natsauth.TLSOf(natsauth.ClientFiles(s.keys.Dir, "math"))
	if err != nil {
		return
	}
	hub, err := etcdreg.Dial(ctx, etcdreg.Config{Endpoints: []string{s.etcd}, TLS: secure})
	if err != nil {
		return
	}
	defer hub.Close()
	lead, err := hub.Elect(ctx, bus.HubKey("math"), []byte("h"), time.Minute)
	if err != nil {
		return
	}
	defer lead.Close(ctx)
	return s.around(ctx, "node-1", "--etcd", s.etcd, 10*time.Millisecond, func(ctx context.Context) error {
		return lead.Update(ctx, []byte("h"))
	})
}
