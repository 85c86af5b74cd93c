package serve

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/membus"
	"souk/classifier"
)

// What a door vouches for can be proved at once and for a turn of its keys at least, also after the door
// has died, or another life of it has begun; and half an hour later it is worth nothing. No life's lines
// are those of another, and nothing of a key is in a log.
func TestVouchersAreProvedAndFade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := membus.New(1), new(said)
		text := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		reader := w.Registry()
		proves := func(v bus.Voucher) bool {
			t.Helper()
			kvs, err := reader.Get(t.Context(), bus.VouchKey("door"))
			if err != nil {
				t.Fatal(err)
			}
			for _, kv := range kvs {
				keys := new(bus.VouchKeys)
				if err := bus.DecodeEntry(kv.Value, keys); err != nil {
					t.Fatal(err)
				}
				for _, key := range keys.Keys {
					if v.Proves(key, "door", "ann", "j") {
						return true
					}
				}
			}
			return false
		}
		type given struct {
			v  bus.Voucher
			at time.Time
		}
		var all []given
		lines := map[uint64]int{} // by life
		for life := range 5 {
			c := classifier.Default()
			c.ID = "door"
			b := w.Bus("door")
			s, err := New(c, Deps{Bus: b, Registry: w.Registry(), Log: text})
			if err != nil {
				t.Fatal(err)
			}
			ctx, kill := context.WithCancel(t.Context())
			go s.vouch.keep(ctx)
			<-s.vouch.said
			for minute := range 45 {
				s.mu.Lock()
				said := s.desk.Vouch(time.Now(), "ann", "j", 1)
				s.mu.Unlock()
				v := s.vouch.voucher("ann", &said)
				if of, known := lines[v.Line()]; known && of != life {
					t.Fatalf("line %d is that of life %d and of %d", v.Line(), of, life)
				}
				lines[v.Line()] = life
				if all = append(all, given{v, time.Now()}); !proves(v) {
					t.Fatalf("life %d, minute %d: it cannot be proved", life, minute)
				}
				for _, g := range all {
					age, ok := time.Since(g.at), proves(g.v)
					if age < vouchTurn && life == 0 && !ok || age > 3*vouchTurn+bus.VouchFor && ok {
						t.Fatalf("life %d, minute %d: of %v ago it is proved: %v", life, minute, age, ok)
					}
				}
				if life == 3 && minute == 2 {
					break // it starts again at once
				}
				time.Sleep(time.Minute)
			}
			before := all[len(all)-1].v
			kill()
			synctest.Wait()
			b.Close()
			if !proves(before) {
				t.Errorf("life %d has died, and what it vouched for last cannot be proved", life)
			}
			if life == 1 { // a long time passes
				time.Sleep(bus.VouchFor + time.Second)
				if proves(before) {
					t.Error("long after a door has died it is proved")
				}
			}
		}
		if len(lines) < 15 {
			t.Errorf("%d lines", len(lines))
		}
		if log.lines() > 0 {
			t.Errorf("it is said: %s", log.String())
		}
	})
}

// A door that cannot say its key names that, and says it as soon as it can.
func TestADoorThatCannotSayItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(said)
		registry := membus.New(1).Registry()
		registry.Away(true)
		c := classifier.Default()
		c.ID = "door"
		b := membus.New(1).Bus("door")
		defer b.Close()
		s, err := New(c, Deps{Bus: b, Registry: registry, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.vouch.keep(ctx)
		time.Sleep(10*time.Minute + time.Second)
		if n := log.lines(); n < 10 || n > 11 {
			t.Errorf("in ten minutes it said %d lines: %s", n, log.String())
		}
		registry.Away(false)
		time.Sleep(2 * time.Second)
		select {
		case <-s.vouch.said:
		default:
			t.Error("it has not said its key")
		}
	})
}
