package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/ledger/treasury"
	"souk/ledger/treasury/serve"
	"souk/market"
)

// one is a treasury of a market with a directory and a way to the registry of its own.
type one struct {
	*serve.Server
	reg  *membus.Registry
	said bustest.Buffer
	stop func()
	end  chan error
}

const ttl = 5 * time.Second

// town is a market; its treasuries have one name on its bus.
type town struct {
	*membus.World
	bus bus.Bus
}

func newTown(seed uint64) *town {
	w := membus.New(seed)
	return &town{w, w.Bus("treasury")}
}

func stand(t *testing.T, w *town, dir string, wrap func(ledger.Journal) ledger.Journal) *one {
	t.Helper()
	j, err := journal.Open(dir, journal.Config{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	lj := ledger.Journal(j)
	if wrap != nil {
		lj = wrap(j)
	}
	o := &one{reg: w.Registry(), end: make(chan error, 1)}
	o.Server, err = serve.New(treasury.Default(), serve.Deps{Bus: w.bus, Registry: o.reg, Journal: lj,
		LeaseTTL: ttl, Log: slog.New(slog.NewTextHandler(&o.said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.end <- o.Run(ctx)
	}()
	o.stop = func() {
		stop()
		<-done
		j.Close()
	}
	t.Cleanup(o.stop)
	return o
}

// pay makes a deposit, and says what came of it.
func pay(t *testing.T, w *town, id string) (r bus.FundsReply, err error) {
	t.Helper()
	data, err := bus.Encode(&bus.FundsRequest{ID: id, Client: "ann", Amount: market.Credit})
	if err != nil {
		t.Fatal(err)
	}
	b := w.Bus("op")
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	m, err := b.Request(ctx, bus.Msg{Subject: bus.LedgerSubject(bus.OpDeposit, "op"), Data: data})
	if err == nil {
		err = bus.Decode(m.Data, &r)
	}
	return r, err
}

// A treasury whose lease is lost answers nobody and writes nothing. Elected anew, it goes on under a higher
// epoch, which stands in its answers and frames.
func TestALostLeaseSilencesATreasury(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newTown(1), t.TempDir()
		o := stand(t, w, dir, nil)
		<-o.Ready()
		first, err := pay(t, w, "a")
		if err != nil || first.Epoch <= 0 || first.Prepaid != market.Credit {
			t.Fatalf("%+v, %v", first, err)
		}
		o.reg.Cut()
		if r, err := pay(t, w, "b"); err != nil || r.Epoch != first.Epoch {
			t.Errorf("while its lease lasts: %+v, %v", r, err)
		}
		time.Sleep(ttl)
		synctest.Wait()
		frames := o.Stats().Frames
		if r, err := pay(t, w, "c"); !errors.Is(err, bus.ErrNoResponders) {
			t.Errorf("after it: %+v, %v", r, err)
		}
		time.Sleep(time.Minute)
		if st := o.Stats(); st.Leading || st.Frames != frames || st.Requests != 2 {
			t.Errorf("one that does not lead: %+v", st)
		}
		o.reg.Heal()
		time.Sleep(2 * ttl)
		again, err := pay(t, w, "c")
		if err != nil || again.Epoch <= first.Epoch || again.Prepaid != 3*market.Credit {
			t.Errorf("elected anew: %+v, %v", again, err)
		}
		if got := o.said.String(); strings.Count(got, "level=WARN msg=\"silent: ") != 1 {
			t.Errorf("it says\n%s", got)
		}
		o.stop()
		last := int64(0)
		if err := journal.Read(dir, func(f ledger.Frame) error { last = f.Epoch; return nil }); err != nil ||
			last != again.Epoch {
			t.Errorf("its last frame is of epoch %d, %v; want %d", last, err, again.Epoch)
		}
	})
}

// One whose lease is lost while a frame is made durable keeps the answer to itself.
func TestNoAnswerAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(1)
		s := &slow{gate: make(chan struct{}, 9), frames: make(chan ledger.Frame, 9)}
		s.gate <- struct{}{} // the journal's first frame
		o := stand(t, w, t.TempDir(), func(j ledger.Journal) ledger.Journal { s.Journal = j; return s })
		<-o.Ready()
		<-s.frames
		answered := make(chan error, 1)
		go func() {
			_, err := pay(t, w, "a")
			answered <- err
		}()
		<-s.frames
		if err := o.reg.Delete(t.Context(), bus.TreasuryKey); err != nil { // its lease is lost
			t.Fatal(err)
		}
		synctest.Wait()
		s.gate <- struct{}{}
		if err := <-answered; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it answered: %v", err)
		}
	})
}

// A second treasury, of another machine and journal, stands by, and leads once the first has left.
func TestATreasuryStandsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(1)
		first := stand(t, w, t.TempDir(), nil)
		<-first.Ready()
		second := stand(t, w, t.TempDir(), nil)
		time.Sleep(10 * ttl)
		before, err := pay(t, w, "a")
		st := second.Stats()
		if err != nil || st.Leading || st.Requests > 0 || st.Frames > 0 || st.Awaited != 1 {
			t.Errorf("beside the first: %+v, %v; the deposit %v", st, second.said.String(), err)
		}
		first.stop()
		<-second.Ready()
		if after, err := pay(t, w, "b"); err != nil || after.Epoch <= before.Epoch {
			t.Errorf("after the first: %+v, %v", after, err)
		}
		if got := second.said.String(); strings.Count(got, "standing by") != 1 {
			t.Errorf("it says\n%s", got)
		}
	})
}

// Twenty treasuries are started on copies of the directory of one that lives. None ends it: each waits for
// the lease, and says so once, and why; the first goes on.
func TestTwentyTwinsOfATreasury(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	w := newTown(1)
	dir := filepath.Join(t.TempDir(), "treasury")
	first := stand(t, w, dir, nil)
	<-first.Ready()
	if _, err := pay(t, w, "a"); err != nil {
		t.Fatal(err)
	}
	var twins []*one
	for i := range 20 {
		to := filepath.Join(t.TempDir(), "twin")
		if out, err := exec.Command("cp", "-a", dir, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if r, err := pay(t, w, fmt.Sprint("late-", i)); err != nil || r.Code != "" {
			t.Fatalf("%+v, %v", r, err)
		}
		twins = append(twins, stand(t, w, to, nil))
	}
	for i, o := range twins {
		bustest.Eventually(t, "it stands by", func() bool { return o.Stats().Awaited == 1 })
		got := o.said.String()
		if strings.Count(got, "standing by: another treasury leads") != 1 || strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, "this directory is a copy") || !strings.Contains(got, "within=5s") ||
			o.Leading() {
			t.Errorf("twin %d says\n%s", i, got)
		}
	}
	r, err := pay(t, w, "last")
	if err != nil || r.Prepaid != 22*market.Credit || r.Epoch != first.Stats().Epoch ||
		strings.Contains(first.said.String(), "level=WARN") {
		t.Errorf("the first: %+v, %v; it says\n%s", r, err, &first.said)
	}
	// It is killed, and started again on its very directory: it is back at once, before any of them.
	first.reg.Cut()
	first.stop()
	again := stand(t, w, dir, nil)
	<-again.Ready()
	if r, err := pay(t, w, "again"); err != nil || r.Prepaid != 23*market.Credit ||
		!strings.Contains(again.said.String(), "the leadership of an earlier life of this treasury is ended") {
		t.Errorf("after a restart: %+v, %v; it says\n%s", r, err, &again.said)
	}
	for i, o := range twins {
		if o.Leading() {
			t.Errorf("twin %d leads", i)
		}
	}
}

// A journal whose frames are of a later epoch than the registry gives takes nothing: another has led since,
// or etcd was made anew. The error says which page tells what to do.
func TestATreasuryOfALaterEpoch(t *testing.T) {
	dir := t.TempDir()
	w := newTown(1)
	for range 9 { // etcd has a revision for each change
		if err := w.Registry().Put(t.Context(), "k", nil); err != nil {
			t.Fatal(err)
		}
	}
	o := stand(t, w, dir, nil)
	<-o.Ready()
	o.stop()
	o = stand(t, newTown(2), dir, nil)
	if err := <-o.end; err == nil || !strings.Contains(err.Error(), "the last in its journal") ||
		!strings.Contains(err.Error(), "deploy/runbook.md: etcd") {
		t.Errorf("it ended with %v", err)
	}
}
