package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// failing is a journal whose disk breaks.
type failing struct {
	ledger.Journal
	mu   sync.Mutex
	left int
}

var errDisk = errors.New("disk is gone")

func (f *failing) Append(frames ...ledger.Frame) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left < 0 {
		return errDisk
	}
	return f.Journal.Append(frames...)
}

func TestNothingLeavesThatIsNotDurable(t *testing.T) {
	tn := newTown(t)
	handed := make(chan bus.Dispatch, 10)
	tn.agent("a-1", 4, func(d bus.Dispatch) bool { handed <- d; return true })
	j, err := journal.Open(tn.dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	disk := &failing{Journal: j, left: 1 << 30}
	s, stop := tn.run(tn.world.Registry(), disk, nil)
	if got := tn.ask(request("good")); got != "accepted by a-1" {
		t.Fatal(got)
	}
	bustest.Eventually(t, "the capture of the first task", func() bool { return s.Stats().Captured == 1 })
	<-handed
	disk.mu.Lock()
	disk.left = 0
	disk.mu.Unlock()
	tn.publish(bus.HubTaskSubject("math", "door"), bus.InboxOf("door")+".nowhere", request("lost"))
	err = stop.wait()
	if !errors.Is(err, errDisk) {
		t.Errorf("the hub ended with %v, want the disk's error", err)
	}
	select {
	case d := <-handed:
		t.Errorf("%s was dispatched although its hold was not durable", d.Task.ID)
	default:
	}
}

// full is a journal whose disk is nearly full.
type full struct {
	ledger.Journal
	mu  sync.Mutex
	yes bool
}

func (f *full) HasRoom() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.yes
}

// Append refuses new money, as the journal does.
func (f *full) Append(frames ...ledger.Frame) error {
	if !f.HasRoom() {
		for _, fr := range frames {
			for _, r := range fr.Records {
				if r.Kind != ledger.KindCapture && r.Kind != ledger.KindVoid && r.Kind != ledger.KindReturn {
					return ledger.ErrDiskFull
				}
			}
		}
	}
	return f.Journal.Append(frames...)
}

func (f *full) set(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.yes = yes
}

// With a nearly full disk no money is held, what runs is settled, and everything goes on when there is room.
func TestDiskNearlyFull(t *testing.T) {
	tn := newTown(t)
	held := make(chan bus.Dispatch, 1)
	tn.agent("a-1", 4, func(d bus.Dispatch) bool {
		if d.Task.ID == "long" {
			held <- d
			return false
		}
		return true
	})
	disk := &full{Journal: tn.journal("hub-math")}
	var said bustest.Buffer
	tn.log = slog.New(slog.NewTextHandler(&said, nil))
	s, _ := tn.run(tn.world.Registry(), disk, nil)
	tn.publish(bus.HubTaskSubject("math", "door"), bus.InboxOf("door")+".nowhere", request("long"))
	d := <-held
	if why := s.Refuses(); why != "" {
		t.Errorf("with room it is not ready: %s", why)
	}
	disk.set(true)
	if why := s.Refuses(); !strings.Contains(why, "nearly full") {
		t.Errorf("without room it is ready: %q", why)
	}
	tn.mu.Lock()
	tn.prepaid["bob"] = 1000 * market.Credit
	tn.mu.Unlock()
	// An allotment is new money too, and the first task of a client asks for one.
	first := request("first")
	first.Client = "bob"
	if got := tn.ask(first); got != "unavailable" && got != "allotment_pending" {
		t.Errorf("a new client's first task: %s", got)
	}
	bustest.Eventually(t, "tasks are refused", func() bool {
		return tn.ask(request(fmt.Sprint("t-", s.Stats().Arrived))) == "unavailable"
	})
	tn.publish(bus.CompletionSubject("math", "a-1"), "", served("a-1", d))
	bustest.Eventually(t, "the running task is settled", func() bool {
		return s.Stats().Tasks[""] >= 1 && s.Stats().Holds == 0
	})
	disk.set(false)
	bustest.Eventually(t, "tasks are taken again", func() bool {
		return tn.ask(request(fmt.Sprint("u-", s.Stats().Arrived))) == "accepted by a-1" && s.Refuses() == ""
	})
	for _, line := range []string{"level=WARN msg=\"the journal's disk is nearly full",
		"level=INFO msg=\"the journal's disk has room again"} {
		if n := strings.Count(said.String(), line); n != 1 {
			t.Errorf("%q is logged %d times", line, n)
		}
	}
}

// counting is a journal that says how many frames each sync made durable.
type counting struct {
	ledger.Journal
	mu    sync.Mutex
	syncs []int
}

func (c *counting) Append(frames ...ledger.Frame) error {
	c.mu.Lock()
	c.syncs = append(c.syncs, len(frames))
	c.mu.Unlock()
	return c.Journal.Append(frames...)
}

func (c *counting) HasRoom() bool { return true }

// Settlements wait a little for a sync to share, and no longer than that; an award does not wait at all.
func TestSettlementsShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		handed := make(chan bus.Dispatch, 1)
		tn.subscribe(bus.DispatchSubject("a-1", "*"), func(m bus.Msg) {
			var d bus.Dispatch
			if err := bus.Decode(m.Data, &d); err != nil {
				t.Error(err)
			}
			tn.publish(m.Reply, "", &bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold})
			handed <- d
		})
		tn.agent("a-1", 4, func(bus.Dispatch) bool { return false })
		j := &counting{Journal: tn.journal("hub-math")}
		s, stop := tn.run(tn.world.Registry(), j, nil)
		captured := func() int64 { return s.Stats().Captured }
		at := time.Now()
		for i := range 20 {
			if got := tn.ask(request(fmt.Sprintf("t-%d", i))); got != "accepted by a-1" {
				t.Fatal(got)
			}
			d := <-handed
			tn.publish(bus.CompletionSubject("math", "a-1"), "", served("a-1", d))
			synctest.Wait()
		}
		if took := time.Since(at); took > 10*time.Millisecond {
			t.Errorf("twenty awards took %v: they waited for a settlement", took)
		}
		j.mu.Lock()
		n := len(j.syncs)
		j.mu.Unlock()
		if n > 25 {
			t.Errorf("%d syncs for 20 rounds and 19 settlements", n)
		}
		time.Sleep(60 * time.Millisecond) // virtual: the last settlement has waited enough
		synctest.Wait()
		if j.mu.Lock(); len(j.syncs) != n+1 || captured() != 20 {
			t.Errorf("%d settlements, %d syncs after %d", captured(), len(j.syncs), n)
		}
		j.mu.Unlock()
		if err := stop.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
