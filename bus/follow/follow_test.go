package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/membus"
)

// lines collects what a Follower is told.
type lines struct{ out []string }

func (l *lines) follower() follow.Follower {
	return follow.Follower{
		Set:    func(kv bus.KV) { l.out = append(l.out, "+"+kv.Key+"="+string(kv.Value)) },
		Gone:   func(key string) { l.out = append(l.out, "-"+key) },
		Synced: func() { l.out = append(l.out, ".") },
		Log:    slog.New(slog.DiscardHandler),
	}
}

func (l *lines) take() string {
	out := strings.Join(l.out, " ")
	l.out = nil
	return out
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What left during an outage is told as gone, what stayed is not told again, and a key that only begins
// like the one followed is nobody's news.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := membus.New(1)
		r, other := world.Registry(), world.Registry()
		ctx, stop := context.WithCancel(t.Context())
		ok(t, other.Put(ctx, "/w/a", []byte("1")))
		ok(t, other.Put(ctx, "/w/b", []byte("1")))
		var all, one lines
		ticks := 0
		f := all.follower()
		f.Every, f.Tick = time.Second, func() { ticks++ }
		done := make(chan bool, 2)
		go func() { follow.Run(ctx, r, "/w/", f); done <- true }()
		go func() { follow.Run(ctx, r, "/w/b", one.follower()); done <- true }()
		synctest.Wait()
		expect(t, all.take(), "+/w/a=1 +/w/b=1 .")
		expect(t, one.take(), "+/w/b=1 .")

		ok(t, other.Put(ctx, "/w/bb", []byte("1")))
		ok(t, other.Put(ctx, "/w/b", []byte("2")))
		synctest.Wait()
		expect(t, all.take(), "+/w/bb=1 +/w/b=2")
		expect(t, one.take(), "+/w/b=2")

		r.Cut()
		ok(t, other.Delete(ctx, "/w/b"))
		ok(t, other.Put(ctx, "/w/c", []byte("1")))
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		expect(t, all.take(), "")
		if ticks != 3 {
			t.Errorf("%d ticks in 3.5 s of an outage, want 3", ticks)
		}
		r.Heal()
		synctest.Wait()
		expect(t, all.take(), "-/w/b +/w/c=1 .")
		expect(t, one.take(), "-/w/b .")
		stop()
		<-done
		<-done
	})
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// Who asks for it has the state read anew, however little the watch tells, and is called once all of it has
// been told; while the registry is away, once it is back.
func TestRunReadsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := membus.New(1)
		r, other := world.Registry(), world.Registry()
		ctx, stop := context.WithCancel(t.Context())
		ok(t, other.Put(ctx, "/w/a", []byte("1")))
		ok(t, other.Put(ctx, "/w/b", []byte("1")))
		var all lines
		anew := make(chan func())
		f := all.follower()
		f.Anew = anew
		done := make(chan bool)
		deaf := &deaf{Registry: r}
		go func() { follow.Run(ctx, deaf, "/w/", f); close(done) }()
		synctest.Wait()
		expect(t, all.take(), "+/w/a=1 +/w/b=1 .")
		deaf.hears = true
		ok(t, other.Delete(ctx, "/w/b"))
		ok(t, other.Put(ctx, "/w/c", []byte("1")))
		synctest.Wait()
		expect(t, all.take(), "") // of a connection that stands still
		anew <- func() { all.out = append(all.out, "anew") }
		synctest.Wait()
		expect(t, all.take(), "+/w/c=1 -/w/b . anew")
		r.Cut()
		ok(t, other.Delete(ctx, "/w/c"))
		anew <- func() { all.out = append(all.out, "anew") }
		time.Sleep(time.Minute)
		synctest.Wait()
		expect(t, all.take(), "")
		r.Heal()
		synctest.Wait()
		expect(t, all.take(), "-/w/c . anew")
		stop()
		<-done
	})
}

// deaf is a registry whose watches tell nothing after the state with which they begin, until it hears.
type deaf struct {
	bus.Registry
	hears bool
}

func (d *deaf) Watch(ctx context.Context, prefix string) (<-chan bus.Event, error) {
	events, err := d.Registry.Watch(ctx, prefix)
	if err != nil || d.hears {
		return events, err
	}
	out := make(chan bus.Event)
	go func() {
		defer close(out)
		for synced := false; !synced; {
			e := <-events
			out <- e
			synced = e.Synced
		}
		for range events {
			// nobody is told
		}
	}()
	return out, nil
}

// flaky is a registry whose watches fail and end at any moment.
type flaky struct {
	bus.Registry
	rng *rand.Rand
}

func (f *flaky) Watch(ctx context.Context, prefix string) (<-chan bus.Event, error) {
	if f.rng.IntN(3) == 0 {
		return nil, errors.New("out of reach")
	}
	ctx, stop := context.WithCancel(ctx)
	time.AfterFunc(time.Duration(1+f.rng.IntN(2000))*time.Millisecond, stop)
	return f.Registry.Watch(ctx, prefix)
}

// Whatever fails, what a follower was told is in the end what is there.
func TestRunThroughAnything(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { anything(t, rand.New(rand.NewPCG(seed, round))) })
	}
}

func anything(t *testing.T, rng *rand.Rand) {
	world := membus.New(1)
	r, other := world.Registry(), world.Registry()
	ctx, stop := context.WithCancel(t.Context())
	state := map[string]string{}
	f := follow.Follower{
		Set: func(kv bus.KV) {
			if was, known := state[kv.Key]; known && was == string(kv.Value) {
				t.Errorf("%s=%s is told again", kv.Key, kv.Value)
			}
			state[kv.Key] = string(kv.Value)
		},
		Gone: func(key string) {
			if _, known := state[key]; !known {
				t.Errorf("%s is told as gone, and was not there", key)
			}
			delete(state, key)
		},
		Log: slog.New(slog.DiscardHandler),
	}
	shaky := &flaky{r, rand.New(rand.NewPCG(rng.Uint64(), 0))} // it fails on a goroutine of its own
	done := make(chan bool)
	go func() { follow.Run(ctx, shaky, "/w/", f); close(done) }()
	for i := range 200 {
		key := fmt.Sprintf("/w/%d", rng.IntN(5))
		switch rng.IntN(6) {
		case 0:
			r.Cut()
		case 1:
			r.Heal()
		case 2:
			ok(t, other.Delete(ctx, key))
		case 3:
			time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
			synctest.Wait()
		default:
			ok(t, other.Put(ctx, key, fmt.Append(nil, i)))
		}
	}
	r.Heal()
	time.Sleep(time.Minute)
	synctest.Wait()
	kvs, err := other.Get(ctx, "/w/")
	ok(t, err)
	if len(kvs) != len(state) {
		t.Errorf("%d keys are there, %d were told: %v", len(kvs), len(state), state)
	}
	for _, kv := range kvs {
		if state[kv.Key] != string(kv.Value) {
			t.Errorf("%s is %s, and was told as %q", kv.Key, kv.Value, state[kv.Key])
		}
	}
	stop()
	<-done
}

// An outage of ten minutes is a dozen lines at most, with a first and a last word; or what a follower says
// of it.
func TestOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		world := membus.New(1)
		r := world.Registry()
		ctx, stop := context.WithCancel(t.Context())
		failed, works := 0, 0
		done := make(chan bool, 2)
		quiet := follow.Follower{Log: slog.New(slog.NewTextHandler(&text, nil))}
		own := follow.Follower{Log: quiet.Log, Asked: func(err error) {
			if err != nil {
				failed++
			} else {
				works++
			}
		}}
		go func() { follow.Run(ctx, r, "/w/", quiet); done <- true }()
		go func() { follow.Run(ctx, r, "/w/", own); done <- true }()
		synctest.Wait()
		if text.Len() > 0 || works != 1 {
			t.Errorf("before any outage it said %q, and that it works %d times", text.String(), works)
		}
		r.Away(true)
		time.Sleep(10*time.Minute + time.Second)
		r.Away(false)
		time.Sleep(time.Second)
		synctest.Wait()
		got := strings.Split(strings.TrimSpace(text.String()), "\n")
		last := got[len(got)-1]
		if len(got) < 11 || len(got) > 12 { // a minute's line may come a little later than the minute
			t.Errorf("%d lines, want one a minute and a last word:\n%s", len(got), text.String())
		}
		if !strings.Contains(got[0], "out of reach") || !strings.Contains(got[0], "key=/w/") ||
			!strings.Contains(last, "after=10m") {
			t.Errorf("first and last word:\n%s\n%s", got[0], last)
		}
		if failed < 1000 || works != 2 {
			t.Errorf("the other was told of %d failures, and %d times that it works", failed, works)
		}
		stop()
		<-done
		<-done
	})
}

func TestEvict(t *testing.T) {
	world := membus.New(1)
	r, other := world.Registry(), world.Registry()
	ctx := t.Context()
	dead := func(kv bus.KV) bool { return string(kv.Value) == "former" }
	try := func(what string, want bool) {
		t.Helper()
		if got, err := follow.Evict(ctx, r, "/hubs/math", dead); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	try("nobody there", false)
	l, err := other.Register(ctx, "/hubs/math", []byte("former"), time.Minute)
	ok(t, err)
	_, err = other.Register(ctx, "/hubs/mathematics", []byte("former"), time.Minute)
	ok(t, err)
	try("a former life", true)
	if kv, err := follow.Get(ctx, other, "/hubs/mathematics"); err != nil || string(kv.Value) != "former" {
		t.Errorf("a key that begins alike is %q, %v", kv.Value, err)
	}
	<-l.Lost()
	_, err = other.Register(ctx, "/hubs/math", []byte("alive"), time.Minute)
	ok(t, err)
	try("a living one", false)
}
