package fleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/proxy"
	"souk/bus/follow"
	"souk/market"
)

// passing are last words that a client may get while something is down: refusals that say when to come again,
// and the truth where nobody knows.
func passing(t *testing.T, words []Word) {
	t.Helper()
	for _, w := range words {
		switch w.Code {
		case "", bus.CodeUnknown, bus.CodeUnavailable, bus.CodeNoHub, bus.CodeNoRoom,
			bus.CodeAllotmentPending:
		default:
			t.Errorf("%s", w)
		}
	}
}

// A hub dies when it has written an award down and before it has told anyone. Started again it finds the hold
// in its journal; the door asks it again, the agent says that it never had the task, and the task is served
// under a second hold, once.
func TestAHubDiesBetweenJournalAndDispatch(t *testing.T) {
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 2})
	hub := f.Part("hub-general")
	must(t, hub.Stop(StopWithin))
	dying := f.role("hub-dying", "hub-dies", f.fileOf("hub-general"))
	must(t, dying.Start())
	must(t, f.Sold(ctx, 1))
	c, err := f.Client("dev")
	must(t, err)
	words := make(chan Word, 1)
	go func() { words <- Ask(ctx, c, "dev", Task("dev", 20), func(bus.Chunk) {}) }()
	select {
	case <-dying.Ended():
	case <-ctx.Done():
		t.Fatalf("the hub does not die:\n%s", dying.Tail(10))
	}
	if a, err := f.Journals(); err != nil || a.Open != 1 {
		t.Fatalf("%+v, %v: want one hold that nobody was told of", a, err)
	}
	must(t, hub.Start())
	w := <-words
	served(t, []Word{w})
	if w.Result.Receipt == nil || !strings.HasSuffix(w.Result.Receipt.ID, "/2/0") {
		t.Errorf("the receipt is %+v, want that of the second hold", w.Result.Receipt)
	}
	end(t, ctx, f, []Word{w})
}

// outage is a time in which something is away.
type outage struct {
	what string
	long time.Duration
	away func() error
	back func() error
}

// away lets clients ask on through outages. What was accepted is served all the same, and once all is back
// the market goes on by itself.
func away(t *testing.T, outages func(nats, etcd *Part) []outage) {
	const readers = 8
	f, ctx := begin(t, Plan{Agents: 2, Slots: 8})
	crowd, err := f.Crowd(ctx, "dev", readers, 100)
	must(t, err)
	must(t, crowd.Served(ctx, 8))
	list := outages(f.Part(NATS), f.Part(Etcd))
	for _, o := range list {
		must(t, o.away())
		follow.Pause(ctx, o.long)
		must(t, o.back())
		begun := time.Now()
		first := crowd.Accepted(begun)
		must(t, crowd.Served(ctx, 20))
		t.Logf("%s for %v: first award %v after, 20 tasks served %v after", o.what, o.long,
			first().Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	}
	words := crowd.Stop()
	passing(t, words)
	unknown := 0
	for _, w := range words {
		if w.Code == bus.CodeUnknown {
			unknown++
		}
	}
	// what was under way at each moment of a loss; what is asked meanwhile never leaves
	if unknown > 3*readers*len(list) {
		t.Errorf("nobody knows of %d tasks", unknown)
	}
	end(t, ctx, f, words)
}

// NATS is away for five seconds: asleep, and dead.
func TestNATSIsAway(t *testing.T) {
	whole(t)
	t.Parallel()
	away(t, func(nats, _ *Part) []outage {
		return []outage{
			{"NATS asleep", 5 * time.Second, func() error { return pause(nats) },
				func() error { return resume(nats) }},
			{"NATS dead", 5 * time.Second, nats.Kill, nats.Start},
		}
	})
}

// etcd is away for longer than the hub's lease, and then both are.
func TestEtcdIsAway(t *testing.T) {
	whole(t)
	t.Parallel()
	longer := 7 * time.Second
	if soak {
		longer = 20 * time.Second
	}
	away(t, func(nats, etcd *Part) []outage {
		both := func(one, other func() error) func() error {
			return func() error { return errors.Join(one(), other()) }
		}
		return []outage{
			{"etcd dead", longer, etcd.Kill, etcd.Start},
			{"both dead", 5 * time.Second, both(nats.Kill, etcd.Kill), both(etcd.Start, nats.Start)},
		}
	})
}

// A client dies with answers under way. Its holds end, its slots are free again, and what was served is paid
// once.
func TestAClientVanishes(t *testing.T) {
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 4, Speedup: 4,
		Clients: map[string]market.Credits{"dev": 10 * market.Credit, "ghost": market.Credit}})
	file := filepath.Join(f.Dir, "conf", "ghost.yaml")
	must(t, os.WriteFile(file,
		[]byte(f.market("ghost", bus.RoleClient, bus.IDs{Name: "ghost"})+"client: ghost\n"), 0o600))
	ghost := f.role("ghost", "reader", file)
	must(t, ghost.Start())
	bustest.Eventually(t, "all four answers have begun",
		func() bool { return strings.Contains(ghost.Said(), "begun") })
	must(t, ghost.Kill())
	f.Vanished = map[string]bool{"ghost": true}
	c, err := f.Client("dev")
	must(t, err)
	// every slot is taken until an answer ends
	word := Ask(ctx, c, "dev", Task("dev", 20), func(bus.Chunk) {})
	served(t, []Word{word})
	end(t, ctx, f, []Word{word})
}

// A node comes back with a clock that is minutes behind: its start seems older than its last one. It is sold
// all the same, what its last life was serving is void at once, and what it serves now is paid.
func TestANodesClockIsOff(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 4, Agentd: "  lease_ttl: 2s\n"})
	done, _ := streams(t, ctx, f, 2, 300)
	must(t, f.Part("agentd-1").Kill())
	late := f.role("agentd-late", "agentd-clock", f.fileOf("agentd-1"))
	must(t, late.Start())
	words := done()
	for _, w := range words { // there is no other agent, and this one failed them
		if w.Code != bus.CodeAgentFailed {
			t.Errorf("%s", w)
		}
	}
	must(t, f.Sold(ctx, 1))
	crowd, err := f.Crowd(ctx, "dev", 4, 20)
	must(t, err)
	must(t, crowd.Served(ctx, 12))
	end(t, ctx, f, append(words, crowd.Stop()...))
}

// Links that are slow, cut and silent: of a node to NATS and to its engine, of the hub to NATS and to etcd.
func TestLinksFail(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 2, Slots: 8, Proxied: []string{"agentd-1", "hub-general"}})
	crowd, err := f.Crowd(ctx, "dev", 8, 60)
	must(t, err)
	must(t, crowd.Served(ctx, 8))
	node, hub := f.Links("agentd-1"), f.Links("hub-general")
	for _, fault := range []struct {
		what string
		fail func()
		long time.Duration
	}{
		{"slow links", func() {
			for _, l := range []*Links{node, hub} {
				l.Each(func(p *proxy.Proxy) { p.Delay(15 * time.Millisecond) })
			}
		}, time.Second},
		{"a node without NATS, for a moment", node.NATS.Cut, 50 * time.Millisecond},
		{"a node without NATS", node.NATS.Cut, 3 * time.Second},
		{"a node without its engine", node.Engine.Cut, time.Second},
		{"a node with a silent NATS", node.NATS.Freeze, 2 * time.Second},
		{"a hub without NATS", hub.NATS.Cut, 2 * time.Second},
		{"a hub without etcd", hub.Etcd.Cut, 2 * time.Second},
	} {
		fault.fail()
		follow.Pause(ctx, fault.long)
		for _, l := range []*Links{node, hub} {
			l.Each(func(p *proxy.Proxy) { p.Delay(0); p.Heal() })
		}
		begun := time.Now()
		must(t, crowd.Served(ctx, 12))
		t.Logf("%s for %v: 12 tasks served %v after", fault.what, fault.long,
			time.Since(begun).Round(time.Millisecond))
	}
	words := crowd.Stop()
	passing(t, words)
	end(t, ctx, f, words)
}

// smallDisk mounts a small file system under a journal. Its result fills it but for so little that nobody
// takes new money, and empties it again.
func smallDisk(t *testing.T, f *Fleet, journal string) (fill, empty func()) {
	t.Helper()
	disk := filepath.Join(f.Data, "journal", journal)
	must(t, os.MkdirAll(disk, 0o700))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=240m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	ballast := filepath.Join(disk, "ballast")
	return func() {
			var free syscall.Statfs_t
			must(t, syscall.Statfs(disk, &free))
			must(t, os.WriteFile(ballast, make([]byte, int64(free.Bavail)*free.Bsize-32<<20), 0o600))
		}, func() {
			must(t, os.Remove(ballast))
		}
}

// onSmallDisk is a fleet of one agent, with a journal on a small file system of its own.
func onSmallDisk(t *testing.T, journal string) (f *Fleet, ctx context.Context, fill, empty func()) {
	whole(t)
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a small file system of its own can be mounted by root alone")
	}
	f, ctx = beginWith(t, Plan{Agents: 1, Slots: 8},
		func(f *Fleet) { fill, empty = smallDisk(t, f, journal) })
	return f, ctx, fill, empty
}

// The disk under the treasury's journal fills up. It takes no deposit and gives no allotment, and says so;
// hubs sell on from what they have. Once there is room all goes on, and a deposit that was refused, made
// again under its id, counts once.
func TestTheTreasurysDiskIsFull(t *testing.T) {
	f, ctx, fill, empty := onSmallDisk(t, "treasury")
	crowd, err := f.Crowd(ctx, "dev", 2, 20)
	must(t, err)
	must(t, crowd.Served(ctx, 4))
	fill()
	other, err := f.Client("other") // whom no hub has any money of
	must(t, err)
	if _, err := f.Deposit(ctx, "other", market.Credit,
		"second"); bus.CodeOf(err) != bus.CodeUnavailable {
		t.Errorf("a deposit on a full disk: %v", err)
	}
	words := []Word{Ask(ctx, other, "other", Task("other", 10), func(bus.Chunk) {})}
	if w := words[0]; w.Code != bus.CodeUnavailable && w.Code != bus.CodeAllotmentPending {
		t.Errorf("a task without money at its hub: %s", w)
	}
	must(t, crowd.Served(ctx, 4))
	empty()
	for range 2 {
		if _, err := f.Deposit(ctx, "other", market.Credit, "second"); err != nil {
			t.Errorf("a deposit, made again: %v", err)
		}
	}
	f.Clients["other"] += market.Credit
	bustest.Eventually(t, "its client is served", func() bool {
		w := Ask(ctx, other, "other", Task("other", 10), func(bus.Chunk) {})
		words = append(words, w)
		return w.Code == ""
	})
	words = append(words, crowd.Stop()...)
	passing(t, words)
	end(t, ctx, f, words)
}

// The disk under a hub's journal fills up. It takes no new money, what runs is settled, and once there is
// room it sells on.
func TestAJournalsDiskIsFull(t *testing.T) {
	f, ctx, fill, empty := onSmallDisk(t, "hub-general")
	done, _ := streams(t, ctx, f, 4, 200)
	fill()
	c, err := f.Client("other")
	must(t, err)
	var refused []Word
	bustest.Eventually(t, "new tasks are refused", func() bool {
		w := Ask(ctx, c, "other", Task("other", 10), func(bus.Chunk) {})
		refused = append(refused, w)
		return w.Code == bus.CodeUnavailable
	})
	words := done() // captures still fit
	served(t, words)
	empty()
	bustest.Eventually(t, "tasks are served again", func() bool {
		w := Ask(ctx, c, "other", Task("other", 10), func(bus.Chunk) {})
		refused = append(refused, w)
		return w.Code == ""
	})
	passing(t, refused)
	end(t, ctx, f, append(words, refused...))
}
