package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"souk/agentd"
	agentserve "souk/agentd/serve"
	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
	"souk/market"
)

// An engine that runs and one that boots while the node looks on are sold, each by the name of its port; the
// one that the file names itself is not sold twice; and one that is upgraded to another model is sold for
// that.
func TestEnginesAreFound(t *testing.T) {
	var ports [3]int
	for i := range ports {
		ports[i] = int(netip.MustParseAddrPort(bustest.FreePort(t)).Port())
	}
	engine := func(port int, model string) *vllmsim.Server {
		t.Helper()
		e, err := vllmsim.New(vllmsim.Config{Model: model})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		if err := e.Start(fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			t.Fatal(err)
		}
		return e
	}
	engine(ports[0], "tiny")
	engine(ports[1], "tiny")

	sold := agentd.AgentConfig{Domains: []bus.DomainScore{{Domain: "math", Score: 0.5}}, Slots: 4,
		Price: market.Price{Miss: market.Credit, Hit: market.Credit, Out: market.Credit}}
	own := agentd.AgentConfig{ID: "own",
		Engine: agentd.EngineConfig{URL: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}, Domains: sold.Domains,
		Slots: 4, Price: sold.Price}
	c := newConfig()
	c.Agentd.Node, c.Agentd.Agents = "rack.3", []agentd.AgentConfig{own}
	c.Agentd.ScrapeEvery = 50 * time.Millisecond
	c.Discover = discover{Every: 100 * time.Millisecond, Agent: sold}
	for _, p := range ports {
		c.Discover.Ports = append(c.Discover.Ports, strconv.Itoa(p))
	}
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}

	world := membus.New(1)
	registry := world.Registry()
	log := slog.New(slog.DiscardHandler)
	server, err := agentserve.NewServer(c.Agentd, agentserve.Deps{Bus: world.Bus("agentd"),
		Registry: registry, Engine: newEngine, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	f := finder{discover: c.Discover, node: c.Agentd.Node, server: server, engine: newEngine, log: log}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	events, err := registry.Watch(ctx, bus.AgentsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	life, end := context.WithCancel(ctx)
	go func() { done <- f.run(life) }()

	registered := map[string]bool{}
	until := func(want int) {
		t.Helper()
		for len(registered) < want {
			select {
			case ev := <-events:
				if ev.Key != "" && !ev.Deleted {
					registered[bus.LastElement(ev.Key)] = true
				}
			case <-ctx.Done():
				t.Fatalf("registered are %v, want %d", registered, want)
			}
		}
	}
	until(2)
	late := engine(ports[2], "tiny")
	until(3)
	for _, id := range []string{"own", fmt.Sprintf("rack-3-%d", ports[1]),
		fmt.Sprintf("rack-3-%d", ports[2])} {
		if !registered[id] {
			t.Errorf("%s is not registered; those are: %v", id, registered)
		}
	}
	select {
	case <-server.Ready():
	case <-ctx.Done():
		t.Error("the node is not ready")
	}
	if s := server.Stats(); s.Node != "rack.3" || len(s.Agents) != 3 {
		t.Errorf("stats are %+v", s)
	}

	// The late one is upgraded: it goes, and another model answers on its port.
	upgraded := bus.AgentKey(fmt.Sprintf("rack-3-%d", ports[2]))
	becomes := func(what string, is func(bus.Registration) bool) {
		t.Helper()
		for {
			select {
			case ev := <-events:
				var r bus.Registration
				if ev.Key == upgraded && !ev.Deleted && bus.DecodeEntry(ev.Value, &r) == nil && is(r) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("the agent never became %s", what)
			}
		}
	}
	if err := late.Close(); err != nil {
		t.Fatal(err)
	}
	becomes("unhealthy", func(r bus.Registration) bool {
		return r.State == bus.StateUnhealthy &&
			r.Model == "tiny"
	})
	engine(ports[2], "large")
	becomes("one of the new model", func(r bus.Registration) bool {
		return r.State == bus.StateReady &&
			r.Model == "large"
	})

	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A node none of whose engines can be sold is not ready, and says why; one of several is enough.
func TestANodeThatSellsNothing(t *testing.T) {
	sick := agentd.AgentStats{Agent: "a1", State: bus.StateUnhealthy, Why: "connection refused"}
	other := agentd.AgentStats{Agent: "a2", State: bus.StateUnhealthy}
	well := agentd.AgentStats{Agent: "a3", State: bus.StateReady}
	for _, c := range []struct {
		agents []agentd.AgentStats
		want   string
	}{
		{nil, ""},
		{[]agentd.AgentStats{sick, well}, ""},
		{[]agentd.AgentStats{{Agent: "a4", State: "booting"}}, ""}, // which is waited for
		{[]agentd.AgentStats{{Agent: "a4", State: bus.StateDraining}}, ""},
		{[]agentd.AgentStats{sick, other}, "no engine of this node can be sold: a1 (connection refused), a2"},
	} {
		if got := unsold(agentd.Stats{Agents: c.agents}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
