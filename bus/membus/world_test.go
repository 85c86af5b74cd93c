package membus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/membus"
)

func TestDropNext(t *testing.T) {
	w := membus.New(1)
	b := w.Bus("b")
	heard := ""
	if _, err := b.Subscribe(">", "",
		func(m bus.Msg) { heard += m.Subject + string(m.Data) + " " }); err != nil {
		t.Fatal(err)
	}
	w.DropNext(2, "a.*")
	for i := range 4 {
		for _, subject := range []string{"a.x", "b"} {
			if err := b.Publish(bus.Msg{Subject: subject, Data: []byte(fmt.Sprint(i))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.Close(); err != nil { // delivers what is pending
		t.Fatal(err)
	}
	if want := "b0 b1 a.x2 b2 a.x3 b3 "; heard != want {
		t.Errorf("heard %s, want %s", heard, want)
	}
}

func TestExpire(t *testing.T) {
	w, ctx := membus.New(1), context.Background()
	r := w.Registry()
	leader, err := r.Elect(ctx, "/hubs/math", nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leader.Claim(ctx, "/claims/1", nil); err != nil {
		t.Fatal(err)
	}
	if !w.Expire("/claims/1") || w.Expire("/claims/1") {
		t.Error("expiring a lease once, by a key under it, must succeed, and twice not")
	}
	<-leader.Lost()
	if _, err := leader.Claim(ctx, "/claims/2", nil); !errors.Is(err, bus.ErrLost) {
		t.Errorf("claim after the lease has expired: %v", err)
	}
	if kvs, err := r.Get(ctx, "/"); err != nil || len(kvs) != 0 {
		t.Errorf("left over: %v, %v", kvs, err)
	}
}

// A lease outlives an outage shorter than itself, to the nanosecond.
func TestLeasesRunOutInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := membus.New(1), t.Context()
		r := w.Registry()
		l, err := r.Register(ctx, "/agents/1", nil, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		r.Cut()
		time.Sleep(time.Second - time.Nanosecond) // virtual
		r.Heal()
		time.Sleep(time.Hour)
		select {
		case <-l.Lost():
			t.Fatal("lost in an outage that was too short")
		default:
		}
		r.Cut()
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case <-l.Lost():
		default:
			t.Fatal("still there after an outage as long as the lease")
		}
	})
}

// A reader who is too slow for every change gets the whole state instead, and nothing piles up.
func TestASlowWatcherIsSentTheStateAgain(t *testing.T) {
	w := membus.New(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := w.Registry()
	events, err := r.Watch(ctx, "/w/")
	if err != nil {
		t.Fatal(err)
	}
	const changes = 20_000
	for i := range changes {
		if err := r.Put(ctx, "/w/n", []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	last, seen := "", 0
	for last != fmt.Sprint(changes-1) {
		ev := <-events
		seen++
		if !ev.Synced {
			last = string(ev.Value)
		}
	}
	if seen >= changes {
		t.Errorf("%d events were kept for a reader that did not read", seen)
	}
	cancel()
	for range events { // ends
	}
}
