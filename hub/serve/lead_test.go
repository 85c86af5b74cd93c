package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/hub"
	"souk/ledger/journal"
)

// A journal is one hub's: another domain, or another name, starts nothing on it and says whose it is.
func TestAJournalOfAnotherDomain(t *testing.T) {
	tn := newTown(t)
	_, stop := tn.hub(nil)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*hub.Config){
		func(c *hub.Config) { c.Domain = "code" },
		func(c *hub.Config) { c.Journal = "hub-code" },
	} {
		j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		_, run, failed := tn.start(tn.world.Registry(), j, change)
		if err := <-failed; err == nil || !strings.Contains(err.Error(),
			"it is the journal hub-math of domain math") {
			t.Errorf("%v", err)
		}
		run.wait()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if kvs, err := tn.world.Registry().Get(t.Context(), bus.HubsPrefix); err != nil || len(kvs) != 0 {
		t.Errorf("it was registered: %v, %v", kvs, err)
	}
}

// The registry remembers a hub from before it takes a task until some minutes after it has left, so that a
// door that begins then knows of it; where it is not let write that, it leads all the same.
func TestTheRegistryRemembersWhoHasLed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	tn := newTown(t)
	leads := func(r *remembers) {
		j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		_, run := tn.run(r, j, nil)
		if err := run.stop(); err != nil {
			t.Fatal(err)
		}
	}
	r := &remembers{Registry: tn.world.Registry(), fails: 2}
	leads(r)
	if r.away || r.times != 3 {
		t.Errorf("it led after it tried %d times, and is not remembered", r.times)
	}
	kvs, err := tn.world.Registry().Get(t.Context(), bus.LedPrefix)
	if err != nil {
		t.Fatal(err)
	}
	var e bus.HubEntry
	if len(kvs) != 1 || kvs[0].Key != bus.LedKey("hub-math") || bus.DecodeEntry(kvs[0].Value, &e) != nil ||
		e.Journal != "hub-math" || e.Domain != "math" || r.ttl != bus.LedFor {
		t.Errorf("it is remembered as %+v for %v", kvs, r.ttl)
	}

	leads(&remembers{Registry: tn.world.Registry(), fails: 1 << 30, why: bus.ErrForbidden})
}

// remembers is a registry that does not take the first keys that are to be there for some time.
type remembers struct {
	bus.Registry
	fails, times int
	why          error
	away         bool
	ttl          time.Duration
}

func (r *remembers) PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	r.times++
	r.ttl = ttl
	if r.away = r.times <= r.fails; r.away {
		return cmp.Or(r.why, errors.New("no leader"))
	}
	return r.Registry.PutFor(ctx, key, value, ttl)
}

// A hub that was killed and starts again does not wait for its own lease: the lock of its journal says that
// nobody else can hold it. Another hub's leadership is waited for.
func TestAFormerLifesLeadershipIsNotWaitedFor(t *testing.T) {
	tn := newTown(t)
	tn.agent("a-1", 4, nil)
	j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	leave := func(life string) bus.Leadership {
		entry, err := bus.EncodeEntry(&bus.HubEntry{Domain: "math", Hub: "hub-1", Journal: "hub-math",
			Life: life})
		if err != nil {
			t.Fatal(err)
		}
		l, err := tn.world.Registry().Elect(t.Context(), bus.HubKey("math"), entry, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Claim(t.Context(), bus.ClaimKey("a-1"),
			[]byte(`{"agent":"a-1","domain":"math","hub":"hub-1","epoch":1}`)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	dead := leave(j.Life())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	s, stop := tn.hub(nil)
	select {
	case <-dead.Lost():
	default:
		t.Error("the former life still leads")
	}
	if !s.Leading() {
		t.Error("a hub that is ready does not lead")
	}
	bustest.Eventually(t, "the agent is sold",
		func() bool { return tn.ask(request("t")) == "accepted by a-1" })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if s.Leading() {
		t.Error("a hub that has ended leads")
	}

	stranger := leave("another")
	j, err = journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	waits, end, _ := tn.start(tn.world.Registry(), j, nil)
	defer end.stop()
	if err := stranger.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-waits.Ready()
}

// called is a bus under another's name, as a copy of a hub has it.
type called struct {
	bus.Bus
	name string
}

func (c called) Name() string { return c.name }

// Twenty hubs are started on copies of the directory of one that lives. None ends its leadership: each stands
// by, and says once why; the first goes on.
func TestTwentyTwinsOfAHub(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	tn := newTown(t)
	tn.agent("a-1", 4, nil)
	first, _ := tn.hub(nil)
	if got := tn.ask(request("before")); got != "accepted by a-1" {
		t.Fatal(got)
	}
	before, err := tn.world.Registry().Get(t.Context(), bus.HubKey("math"))
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	for i := range 20 {
		to := filepath.Join(t.TempDir(), "twin")
		if out, err := exec.Command("cp", "-a", tn.dir, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := tn.ask(request(fmt.Sprint("t-", i))); got != "accepted by a-1" {
			t.Fatal(got)
		}
		j, err := journal.Open(to, journal.Config{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		var said bustest.Buffer
		s, err := New(testConfig(), Deps{Bus: called{tn.world.Bus(fmt.Sprint("twin-", i)), "hub-math"},
			Registry: tn.world.Registry(), Journal: j, Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		t.Cleanup(func() { stop(); <-ended })
		bustest.Eventually(t, "it stands by", func() bool { return s.Stats().Awaited == 1 })
		if got := said.String(); strings.Count(got, "standing by: another hub leads") != 1 || s.Leading() ||
			!strings.Contains(got, "this directory is a copy") || !strings.Contains(got, "within=") {
			t.Errorf("twin %d says\n%s", i, got)
		}
	}
	after, err := tn.world.Registry().Get(t.Context(), bus.HubKey("math"))
	if err != nil || len(after) != 1 || after[0].Create != before[0].Create || !first.Leading() {
		t.Errorf("the first leads: %v; its key was %+v and is %+v, %v", first.Leading(), before, after, err)
	}
	if got := tn.ask(request("after")); got != "accepted by a-1" {
		t.Error(got)
	}
}

// A copy of a journal settles nothing while it stands by: an agent that it answered would not tell the hub
// that has the newer one what it served.
func TestACopySettlesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	tn := newTown(t)
	held := make(chan bus.Dispatch, 1)
	tn.agent("a-1", 4, func(d bus.Dispatch) bool {
		tn.publish(bus.TakenSubject("math", "x", "a-1"), "",
			&bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold})
		held <- d
		return false
	})
	first, stop := tn.hub(nil)
	tn.publish(bus.HubTaskSubject("math", "door"), bus.InboxOf("door")+".nowhere", request("t"))
	d := <-held
	bustest.Eventually(t, "the hold is durable", func() bool { return first.Stats().Holds == 1 })
	to := filepath.Join(filepath.Dir(tn.dir), "copy")
	if out, err := exec.Command("cp", "-a", tn.dir, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	go stop()
	bustest.Eventually(t, "the first leads no more", func() bool {
		kvs, err := tn.world.Registry().Get(t.Context(), bus.HubKey("math"))
		return err == nil && len(kvs) == 0
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	other := tn.world.Registry()
	if _, err := other.Elect(t.Context(), bus.HubKey("math"), []byte("{}"), time.Hour); err != nil {
		t.Fatal(err)
	}
	s, end, _ := tn.start(tn.world.Registry(), tn.journal("copy"), nil)
	defer end.stop()
	bustest.Eventually(t, "it stands by", func() bool { return s.Stats().Awaited == 1 })
	data, err := bus.Encode(served("a-1", d))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	m, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.CompletionSubject("math", "a-1"), Data: data})
	if !errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("a copy hears what was served: %v, %q", err, m.Data)
	}
}

// A journal that is gone is not begun anew under its name: what it held would be spent twice.
func TestAJournalThatIsGone(t *testing.T) {
	tn := newTown(t)
	tn.agent("a-1", 2, nil)
	_, stop := tn.hub(nil)
	if got := tn.ask(request("t-1")); got != "accepted by a-1" {
		t.Fatal(got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(tn.dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"again", "again-2"} {
		j := tn.journal(filepath.Base(tn.dir))
		_, run, failed := tn.start(tn.world.Registry(), j, nil)
		if err := <-failed; err == nil || !strings.Contains(err.Error(),
			"journal hub-math is empty, but the treasury has allotted money to one of that name") {
			t.Errorf("%s: %v", name, err)
		}
		run.stop()
		j.Close()
	}
	_, stop = tn.hub(func(c *hub.Config) { c.Journal = "hub-new" })
	if got := tn.ask(request("t-2")); got != "accepted by a-1" {
		t.Error(got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A hub with a new journal waits for its treasury.
func TestANewJournalWaitsForTheTreasury(t *testing.T) {
	tn := newTown(t)
	tn.world.Cut("town")
	j := tn.journal(filepath.Base(tn.dir))
	s, stop, failed := tn.start(tn.world.Registry(), j, nil)
	select {
	case err := <-failed:
		t.Fatalf("it ended: %v", err)
	case <-s.Ready():
		t.Fatal("it is ready")
	case <-time.After(100 * time.Millisecond):
	}
	tn.world.Heal("town")
	select {
	case err := <-failed:
		t.Fatalf("it ended: %v", err)
	case <-s.Ready():
	}
	if err := stop.stop(); err != nil {
		t.Error(err)
	}
	j.Close()
}

// A hub that loses its lease stops awarding; its standby takes over the domain and the agents; what ran
// under the first is settled by it when it leads again, and by nobody else.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		kept := make(chan bus.Dispatch, 10)
		tn.agent("a-1", 8, func(d bus.Dispatch) bool {
			if d.Task.ID == "kept" {
				kept <- d
				tn.publish("keep."+d.Hold[:5], "",
					&bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold})
				return false
			}
			return true
		})
		one, two := tn.world.Registry(), tn.world.Registry()
		called := func(name string) func(*hub.Config) {
			return func(c *hub.Config) { c.Hub, c.Journal = name, name }
		}
		first, _ := tn.run(one, tn.journal("one"), called("one"))
		second, stopSecond, _ := tn.start(two, tn.journal("two"), called("two"))
		if got := tn.ask(request("t-1")); got != "accepted by a-1" {
			t.Fatal(got)
		}
		tn.publish(bus.HubTaskSubject("math", "door"), bus.InboxOf("door")+".nowhere", request("kept"))
		d := <-kept
		if second.Stats().Arrived != 0 {
			t.Error("the standby has seen a task")
		}

		one.Cut()
		<-second.Ready()
		bustest.Eventually(t, "the standby serves",
			func() bool { return tn.ask(request("t-2")) == "accepted by a-1" })
		if st := first.Stats(); st.Arrived != 2 || st.Open != 1 {
			t.Errorf("the first hub went on: %+v", st)
		}
		one.Heal()
		stopSecond.stop()
		bustest.Eventually(t, "the first leads again",
			func() bool { return tn.ask(request("t-3")) == "accepted by a-1" })
		tn.publish(bus.CompletionSubject("math", "a-1"), "", served("a-1", d))
		bustest.Eventually(t, "what ran under the first is paid",
			func() bool { return first.Stats().Captured == 3 })
		if first.Stats().Faults != 0 || second.Stats().Faults != 0 {
			t.Error("faults")
		}
	})
}

// A registry that answers with errors for ten minutes is named when it begins, once a minute, and when it is
// back; by all loops that ask it together, and by a hub that was deposed meanwhile.
func TestARegistryThatFailsIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		var log bustest.Buffer
		j := tn.journal("hub-math")
		registry := tn.world.Registry()
		tn.log = slog.New(slog.NewTextHandler(&log, nil))
		_, stop := tn.run(registry, j, nil)
		log.Take()
		lines := func() string {
			var out []string
			for line := range strings.Lines(log.Take()) {
				if strings.Contains(line, "level=WARN") || strings.Contains(line, "registry") ||
					strings.Contains(line, "msg=leading") {
					_, line, _ = strings.Cut(line, "msg=")
					out = append(out, strings.TrimSpace(line))
				}
			}
			return strings.Join(out, "\n")
		}
		registry.Away(true)
		time.Sleep(10*time.Minute + 30*time.Second)
		// The pauses between two calls differ, so a minute's line may come a little later than the minute.
		if got := strings.Count(lines(), "; trying on"); got < 10 || got > 11 || registry.Failed() < 1000 {
			t.Errorf("%d lines of %d calls that failed in ten minutes, want one a minute", got,
				registry.Failed())
		}
		registry.Away(false)
		time.Sleep(2 * time.Second)
		if got := lines(); strings.Count(got, "\n") != 0 || !strings.Contains(got,
			"the registry answers again") {
			t.Errorf("when it was back it said %q", got)
		}
		// Deposed in the outage: it asks for the leadership again and again.
		registry.Away(true)
		time.Sleep(2 * time.Second)
		tn.world.Expire(bus.HubKey("math"))
		time.Sleep(5 * time.Minute)
		got := lines()
		tries := strings.Count(got, "; trying on")
		if strings.Count(got, "not leading") != 1 || tries < 5 || tries > 6 ||
			strings.Count(got, "\n") != tries {
			t.Errorf("in five minutes without leadership it said\n%s", got)
		}
		registry.Away(false)
		time.Sleep(10 * time.Second)
		if got := lines(); strings.Count(got, "\n") != 1 || strings.Count(got, "leading") != 1 ||
			strings.Count(got, "answers again") != 1 {
			t.Errorf("back, it said\n%s", got)
		}
		if err := stop.stop(); err != nil {
			t.Error(err)
		}
	})
}
