package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/life"
	"souk/bus/tip"
)

// held is a town with one hold open, whose agent serves it, and the hub's end.
func held(t *testing.T) (tn *town, d bus.Dispatch, stop func() error) {
	t.Helper()
	tn = newTown(t)
	dispatched := make(chan bus.Dispatch, 1)
	tn.agent("a-1", 4, func(d bus.Dispatch) bool {
		tn.publish(bus.TakenSubject("math", "x", "a-1"), "",
			&bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold})
		dispatched <- d
		return false
	})
	first, stop := tn.hub(nil)
	tn.publish(bus.HubTaskSubject("math", "door"), bus.InboxOf("door")+".nowhere", request("t"))
	d = <-dispatched
	bustest.Eventually(t, "the hold is durable", func() bool { return first.Stats().Holds == 1 })
	return tn, d, stop
}

// tell has the agent say once that it served the hold.
func (tn *town) tell(d bus.Dispatch) (ack bus.CompletionAck, err error) {
	tn.t.Helper()
	data, err := bus.Encode(served("a-1", d))
	if err != nil {
		tn.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tn.t.Context(), time.Second)
	defer cancel()
	m, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.CompletionSubject("math", "a-1"), Data: data})
	if err == nil {
		err = bus.Decode(m.Data, &ack)
	}
	return ack, err
}

// A hub that was away for longer than its holds had time hears first what agents served meanwhile, who repeat
// it every few seconds: whether it leads again, or stands by another.
func TestAHubThatWasAwayPastItsHolds(t *testing.T) {
	for _, leads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tn, d, stop := held(t)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if !leads {
				other := tn.world.Registry()
				entry := []byte(`{"hub":"x","journal":"x"}`)
				_, err := other.Elect(t.Context(), bus.HubKey("math"), entry, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
			}
			s, end, _ := tn.start(tn.world.Registry(), tn.journal(filepath.Base(tn.dir)), nil)
			defer end.stop()
			time.Sleep(5 * time.Second)
			if ack, err := tn.tell(d); err != nil || ack.Code != "" || s.Leading() != leads {
				t.Errorf("leading %v, it answers %q, %v", s.Leading(), ack.Code, err)
			}
		})
	}
}

// A hub whose directory is moved away ends, and says why, whether it has something to write or not.
func TestAHubWhoseDirectoryIsMovedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		_, run := tn.run(tn.world.Registry(), tn.journal("hub-math"), nil)
		if err := os.Rename(tn.dir, tn.dir+".away"); err != nil {
			t.Fatal(err)
		}
		err := run.wait()
		if !errors.Is(err, life.ErrReplaced) || !strings.Contains(err.Error(), tn.dir+": ") {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A hub that stands by while a copy of its journal leads settles nothing, though its own file is the first,
// and ends no hold by its time: an agent that it answered would not tell the copy, which the treasury
// believes as soon as it speaks. Nor does it beside one that worked and has gone. Where the copy goes without
// having worked, the first settles what there is.
func TestNothingIsSettledBesideACopy(t *testing.T) {
	for _, name := range []string{"the copy is believed", "the copy goes", "the copy has worked"} {
		synctest.Test(t, func(t *testing.T) {
			tn, d, stop := held(t)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(filepath.Dir(tn.dir), "copy")
			if err := os.CopyFS(to, os.DirFS(tn.dir)); err != nil {
				t.Fatal(err)
			}
			believe := func() {
				tn.mu.Lock()
				tn.mark = &tip.Mark{Journal: tip.Sum{1}, Seq: 1, Sum: tip.Sum{2}}
				tn.mu.Unlock()
			}
			twin, err := New(testConfig(), Deps{Bus: called{tn.world.Bus("twin"), "hub-math"},
				Registry: tn.world.Registry(), Journal: tn.journal("copy"),
				Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
			ended := make(chan error, 1)
			go func() { ended <- twin.Run(ctx) }()
			defer func() { end(); <-ended }()
			time.Sleep(2 * time.Second)
			if name == "the copy has worked" {
				believe()
				time.Sleep(10 * time.Second)
				end()
				ended <- <-ended
				other := tn.world.Registry()
				entry := []byte(`{"hub":"x","journal":"x"}`)
				_, err := other.Elect(t.Context(), bus.HubKey("math"), entry, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
			} else if !twin.Leading() {
				t.Fatal("the copy does not lead")
			}
			own, halt, _ := tn.start(tn.world.Registry(), tn.journal(filepath.Base(tn.dir)), nil)
			defer halt.stop()
			time.Sleep(5 * time.Second)
			if ack, err := tn.tell(d); err == nil {
				t.Errorf("%s: beside it is settled: %+v", name, ack)
			}
			if own.Stats().Holds != 1 {
				t.Errorf("%s: %d holds are open beside it", name, own.Stats().Holds)
			}
			switch name {
			case "the copy is believed":
				believe()
				time.Sleep(5 * time.Second)
				ack, err := tn.tell(d)
				if err != nil || ack.Code != "" || twin.Stats().Holds != 0 || own.Stats().Holds != 1 {
					t.Errorf("the copy settles it: %+v, %v; %d of its holds are open, and %d of the first's", ack, err,
						twin.Stats().Holds, own.Stats().Holds)
				}
			case "the copy goes":
				ack, err := tn.tell(d)
				for range 60 {
					if err == nil {
						break
					}
					time.Sleep(5 * time.Second)
					ack, err = tn.tell(d)
				}
				if err != nil || ack.Code != "" || !own.Leading() {
					t.Errorf("once it leads %v, the first settles it: %+v, %v", own.Leading(), ack, err)
				}
			}
		})
	}
}

// A copy has worked, and has gone. The first is started, and the registry does not answer it: it does not
// know whether a copy worked, and settles nothing.
func TestNothingIsSettledBeforeTheRegistrySpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn, d, stop := held(t)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(filepath.Dir(tn.dir), "copy")
		if err := os.CopyFS(to, os.DirFS(tn.dir)); err != nil {
			t.Fatal(err)
		}
		tn.mu.Lock()
		tn.mark = &tip.Mark{Journal: tip.Sum{1}, Seq: 1, Sum: tip.Sum{2}}
		tn.mu.Unlock()
		j := tn.journal("copy")
		twin, halt, _ := tn.start(tn.world.Registry(), j, nil)
		time.Sleep(10 * time.Second)
		if !twin.Leading() || twin.Refuses() != "" {
			t.Fatalf("the copy leads %v: %s", twin.Leading(), twin.Refuses())
		}
		halt.stop()
		j.Close()
		r := tn.world.Registry()
		r.Away(true)
		_, end, _ := tn.start(r, tn.journal(filepath.Base(tn.dir)), nil)
		defer end.stop()
		time.Sleep(2 * time.Second)
		if ack, err := tn.tell(d); err == nil {
			t.Errorf("a copy may have worked, and it settles %+v", ack)
		}
	})
}
