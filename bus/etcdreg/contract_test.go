package etcdreg_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
)

// network makes connections to one shared registry, and cuts them. They end with the test.
type network interface {
	Connect(t *testing.T, name string) bus.Registry
	Cut(name string)
	Heal(name string)
}

// inMemory is a network without a server.
type inMemory struct {
	world *membus.World
	made  map[string]*membus.Registry
}

func (m inMemory) Connect(_ *testing.T, name string) bus.Registry {
	m.made[name] = m.world.Registry()
	return m.made[name]
}
func (m inMemory) Cut(name string)  { m.made[name].Cut() }
func (m inMemory) Heal(name string) { m.made[name].Heal() }

func TestRegistryInMemory(t *testing.T) {
	keeps(t, func(*testing.T) network { return inMemory{membus.New(1), map[string]*membus.Registry{}} })
}

// ttl is the shortest that etcd grants.
const ttl = time.Second

// uncuttable is a network without a wire between its parts; the suite then skips the outages.
type uncuttable interface{ uncuttable() }

// keeps says what every registry must do. Each subtest gets one of its own.
func keeps(t *testing.T, made func(t *testing.T) network) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, n network)
	}{
		{"keys", keys},
		{"values have a longest", longest},
		{"a key is changed only as it is known", swapping},
		{"a key under a lease", registering},
		{"a key for some time", passing},
		{"a lease whose key is deleted is lost", deletedKey},
		{"a watch sends what is there, then what changes", watching},
		{"one leader at a time, with rising epochs", electing},
		{"waiting for an election can be given up", electingGivenUp},
		{"claims", claims},
		{"one that has died is evicted with all it held", evicting},
		{"a deposed leader can claim nothing", fencing},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, made(t)) })
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, n network)
	}{
		{"an outage longer than the lease", outage},
		{"an outage shorter than the lease", shortOutage},
		{"a candidate waits through an outage", electingThroughOutage},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // they mostly wait for leases to run out
			n := made(t)
			if _, whole := n.(uncuttable); whole {
				t.Skip("nothing to cut")
			}
			test.run(t, n)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// listing returns the keys below a prefix as text: "a=1 b=2".
func listing(t *testing.T, r bus.Registry, prefix string) string {
	t.Helper()
	kvs, err := r.Get(bustest.Within(t), prefix)
	must(t, err)
	s := ""
	for _, kv := range kvs {
		if s != "" {
			s += " "
		}
		s += kv.Key[len(prefix):] + "=" + string(kv.Value)
	}
	return s
}

func wantListing(t *testing.T, r bus.Registry, prefix, want string) {
	t.Helper()
	if got := listing(t, r, prefix); got != want {
		t.Errorf("under %s: %q, want %q", prefix, got, want)
	}
}

func keys(t *testing.T, n network) {
	ctx, r := bustest.Within(t), n.Connect(t, "r")
	for _, key := range []string{"/x/b", "/x/a", "/y/c", "/x/a/z"} {
		must(t, r.Put(ctx, key, []byte("1")))
	}
	must(t, r.Put(ctx, "/x/b", []byte("2")))
	wantListing(t, n.Connect(t, "other"), "/x/", "a=1 a/z=1 b=2")
	kvs, err := r.Get(ctx, "/x/b")
	must(t, err)
	if len(kvs) != 1 || kvs[0].Create <= 0 || kvs[0].Rev <= kvs[0].Create {
		t.Errorf("a key that was changed: %+v", kvs)
	}
	must(t, r.Delete(ctx, "/x/a"))
	must(t, r.Delete(ctx, "/x/a"))
	wantListing(t, r, "/x/", "a/z=1 b=2")
	wantListing(t, r, "/none/", "")
	// a key that another only begins like
	must(t, r.Put(ctx, "/x/bb", []byte("1")))
	wantListing(t, r, "/x/b", "=2")
	watch, stop := context.WithCancel(ctx)
	defer stop()
	events, err := r.Watch(watch, "/x/b")
	must(t, err)
	follow(t, events, "/x/", 2)
	must(t, r.Put(ctx, "/x/bbb", []byte("1")))
	must(t, r.Put(ctx, "/x/b", []byte("3")))
	if got := follow(t, events, "/x/", 1); got != "+b=3 " {
		t.Errorf("a watch of one key tells %q", got)
	}
}

func longest(t *testing.T, n network) {
	ctx, r := bustest.Within(t), n.Connect(t, "r")
	good, bad := make([]byte, bus.MaxEntry), make([]byte, bus.MaxEntry+1)
	must(t, r.Put(ctx, "/x/put", good))
	l, err := r.Elect(ctx, "/x/elected", good, time.Minute)
	must(t, err)
	must(t, claim(ctx, l, "/x/claimed", good))
	must(t, claim(ctx, l, "/x/claimed", good)) // once more, which is another way
	_, registered := r.Register(ctx, "/x/registered", bad, time.Minute)
	_, elected := r.Elect(ctx, "/x/second", bad, time.Minute)
	for what, err := range map[string]error{"put": r.Put(ctx, "/x/put", bad),
		"put for a time": r.PutFor(ctx, "/x/for", bad, time.Minute),
		"swap":           r.Swap(ctx, "/x/swapped", 0, bad),
		"register":       registered, "elect": elected, "update": l.Update(ctx, bad),
		"claim": claim(ctx, l, "/x/claimed", bad)} {
		wantErr(t, what, err, bus.ErrTooLarge)
	}
	kvs, err := r.Get(ctx, "/x/")
	must(t, err)
	if len(kvs) != 3 {
		t.Errorf("%d keys are there, want 3", len(kvs))
	}
	must(t, l.Close(ctx))
}

func swapping(t *testing.T, n network) {
	ctx, r, other := bustest.Within(t), n.Connect(t, "r"), n.Connect(t, "other")
	rev := func(key string) int64 {
		kvs, err := r.Get(ctx, key)
		must(t, err)
		if len(kvs) != 1 {
			t.Fatalf("%s: %+v", key, kvs)
		}
		return kvs[0].Rev
	}
	must(t, r.Swap(ctx, "/s/a", 0, []byte("1")))
	wantErr(t, "a key that is there", other.Swap(ctx, "/s/a", 0, []byte("x")), bus.ErrExists)
	was := rev("/s/a")
	must(t, other.Swap(ctx, "/s/a", was, []byte("2")))
	wantErr(t, "a key that was changed meanwhile", r.Swap(ctx, "/s/a", was, []byte("x")), bus.ErrExists)
	wantErr(t, "the same, to delete it", r.Swap(ctx, "/s/a", was, nil), bus.ErrExists)
	wantErr(t, "a key that is not there", r.Swap(ctx, "/s/b", was, []byte("x")), bus.ErrExists)
	wantListing(t, other, "/s/", "a=2")
	must(t, r.Swap(ctx, "/s/a", rev("/s/a"), nil))
	wantErr(t, "a key that was deleted meanwhile", r.Swap(ctx, "/s/a", was, []byte("x")), bus.ErrExists)
	wantListing(t, other, "/s/", "")

	l, err := r.Register(ctx, "/s/leased", []byte("mine"), ttl)
	must(t, err)
	wantErr(t, "a key under a lease", other.Swap(ctx, "/s/leased", rev("/s/leased"), []byte("x")),
		bus.ErrExists)
	must(t, l.Close(ctx))

	// Of many who change the same state at the same time one does.
	must(t, r.Put(ctx, "/s/a", []byte("0")))
	was = rev("/s/a")
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() { done <- other.Swap(ctx, "/s/a", was, fmt.Append(nil, i)) }()
	}
	won := 0
	for range cap(done) {
		if err := <-done; err == nil {
			won++
		} else if !errors.Is(err, bus.ErrExists) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d changed it", won, cap(done))
	}
}

func registering(t *testing.T, n network) {
	ctx, r, other := bustest.Within(t), n.Connect(t, "r"), n.Connect(t, "other")
	l, err := r.Register(ctx, "/a/1", []byte("one"), ttl)
	must(t, err)
	wantListing(t, other, "/a/", "1=one")

	_, err = other.Register(ctx, "/a/1", []byte("two"), ttl)
	wantErr(t, "register a key that another has", err, bus.ErrExists)
	wantErr(t, "put on a key under a lease", other.Put(ctx, "/a/1", []byte("two")), bus.ErrExists)
	must(t, l.Update(ctx, []byte("uno")))
	wantListing(t, other, "/a/", "1=uno")

	select {
	case <-l.Lost():
		t.Fatal("a live lease is lost")
	default:
	}
	must(t, l.Close(ctx))
	closes(t, "the end of the lease", l.Lost())
	wantListing(t, other, "/a/", "")
	wantErr(t, "update after Close", l.Update(ctx, []byte("x")), bus.ErrLost)
	must(t, l.Close(ctx))

	again, err := other.Register(ctx, "/a/1", []byte("two"), ttl)
	must(t, err)
	must(t, again.Close(ctx))
}

// closes waits until a channel is closed.
func closes(t testing.TB, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(bustest.Patience):
		t.Fatalf("%s: not in %v", what, bustest.Patience)
	}
}

// A key that nobody holds is there for its time after it was written last, whoever wrote it.
func passing(t *testing.T, n network) {
	ctx, r, other := bustest.Within(t), n.Connect(t, "r"), n.Connect(t, "other")
	must(t, r.PutFor(ctx, "/p/a", []byte("1"), ttl))
	must(t, r.PutFor(ctx, "/p/b", []byte("1"), ttl))
	must(t, other.PutFor(ctx, "/p/b", []byte("2"), time.Hour))
	wantListing(t, r, "/p/", "a=1 b=2")
	bustest.Eventually(t, "its time is over", func() bool { return listing(t, other, "/p/") == "b=2" })
	must(t, r.PutFor(ctx, "/p/a", []byte("3"), time.Hour))
	wantListing(t, other, "/p/", "a=3 b=2")
	must(t, other.Delete(ctx, "/p/a"))
	wantListing(t, r, "/p/", "b=2")
}

func deletedKey(t *testing.T, n network) {
	ctx, r, other := bustest.Within(t), n.Connect(t, "r"), n.Connect(t, "other")
	l, err := r.Register(ctx, "/a/1", []byte("one"), ttl)
	must(t, err)
	must(t, other.Delete(ctx, "/a/1"))
	closes(t, "the lease is lost", l.Lost())
	wantErr(t, "update", l.Update(ctx, []byte("x")), bus.ErrLost)
	wantListing(t, other, "/a/", "")
	must(t, l.Close(ctx))
}

func evicting(t *testing.T, n network) {
	ctx, r, other := bustest.Within(t), n.Connect(t, "r"), n.Connect(t, "other")
	dead, err := r.Elect(ctx, "/hubs/math", []byte("first life"), time.Minute)
	must(t, err)
	claimed(t, ctx, dead, "/claims/a", []byte("mine"))
	wantErr(t, "evict another", other.Evict(ctx, "/hubs/math", []byte("second life")), bus.ErrExists)
	wantListing(t, other, "/hubs/", "math=first life")
	must(t, other.Evict(ctx, "/hubs/math", []byte("first life")))
	wantListing(t, other, "/hubs/", "")
	wantListing(t, other, "/claims/", "")
	must(t, other.Evict(ctx, "/hubs/math", []byte("first life"))) // again
	next, err := other.Elect(ctx, "/hubs/math", []byte("second life"), time.Minute)
	must(t, err)
	if next.Epoch() <= dead.Epoch() {
		t.Errorf("epoch %d after %d", next.Epoch(), dead.Epoch())
	}
	closes(t, "the evicted leader learns of it", dead.Lost())
	must(t, r.Put(ctx, "/free", []byte("x")))
	wantErr(t, "evict a key without a lease", r.Evict(ctx, "/free", []byte("x")), bus.ErrExists)
	must(t, next.Close(ctx))
}

// follow reads events into text: "+a=1" for a key set, "-a" for one gone, "." for Synced.
func follow(t *testing.T, events <-chan bus.Event, prefix string, n int) string {
	t.Helper()
	s := ""
	for range n {
		ev := bustest.Receive(t, "event", events)
		switch {
		case ev.Synced:
			s += ". "
		case ev.Deleted:
			s += "-" + ev.Key[len(prefix):] + " "
		default:
			s += "+" + ev.Key[len(prefix):] + "=" + string(ev.Value) + " "
		}
	}
	return s
}

func watching(t *testing.T, n network) {
	ctx, r, other := bustest.Within(t), n.Connect(t, "r"), n.Connect(t, "other")
	must(t, r.Put(ctx, "/w/b", []byte("1")))
	must(t, r.Put(ctx, "/w/a", []byte("1")))
	watch, stop := context.WithCancel(ctx)
	events, err := r.Watch(watch, "/w/")
	must(t, err)
	if got, want := follow(t, events, "/w/", 3), "+a=1 +b=1 . "; got != want {
		t.Errorf("at first: %s, want %s", got, want)
	}
	must(t, other.Put(ctx, "/elsewhere", []byte("1")))
	must(t, other.Put(ctx, "/w/c", []byte("1")))
	must(t, other.Put(ctx, "/w/a", []byte("2")))
	must(t, other.Delete(ctx, "/w/b"))
	l, err := other.Register(ctx, "/w/d", []byte("1"), ttl)
	must(t, err)
	must(t, l.Close(ctx))
	if got, want := follow(t, events, "/w/", 5), "+c=1 +a=2 -b +d=1 -d "; got != want {
		t.Errorf("then: %s, want %s", got, want)
	}
	last := int64(0)
	for i := range 500 { // more than any channel holds
		must(t, other.Put(ctx, "/w/n", fmt.Append(nil, i)))
	}
	for i := range 500 {
		ev := bustest.Receive(t, "event", events)
		if string(ev.Value) != fmt.Sprint(i) || ev.Rev <= last || ev.Create > ev.Rev {
			t.Fatalf("change %d is %+v after revision %d", i, ev, last)
		}
		last = ev.Rev
	}
	stop()
	bustest.Eventually(t, "the watch has ended", func() bool {
		select {
		case _, open := <-events:
			return !open
		default:
			return false
		}
	})
}

func electing(t *testing.T, n network) {
	ctx := bustest.Within(t)
	type won struct {
		name string
		l    bus.Leadership
	}
	wins := make(chan won)
	for _, name := range []string{"a", "b", "c"} {
		r := n.Connect(t, name)
		go func() {
			l, err := r.Elect(ctx, "/hubs/math", []byte(name), ttl)
			if err != nil {
				t.Errorf("elect %s: %v", name, err)
				return
			}
			wins <- won{name, l}
		}()
	}
	look := n.Connect(t, "look")
	var names []string
	epoch := int64(0)
	for range 3 {
		w := bustest.Receive(t, "a leader", wins)
		names = append(names, w.name)
		if w.l.Epoch() <= epoch {
			t.Errorf("epoch %d after %d", w.l.Epoch(), epoch)
		}
		epoch = w.l.Epoch()
		kvs, err := look.Get(ctx, "/hubs/math")
		must(t, err)
		if len(kvs) != 1 || string(kvs[0].Value) != w.name || kvs[0].Create != epoch {
			t.Errorf("the leader is %s with epoch %d, the key says %+v", w.name, epoch, kvs)
		}
		must(t, w.l.Update(ctx, []byte(w.name+"!")))
		wantListing(t, look, "/hubs/", "math="+w.name+"!")
		select {
		case other := <-wins:
			t.Fatalf("%s leads beside %s", other.name, w.name)
		default:
		}
		must(t, w.l.Close(ctx))
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("leaders were %v", names)
	}
}

func electingGivenUp(t *testing.T, n network) {
	ctx, a, b := bustest.Within(t), n.Connect(t, "a"), n.Connect(t, "b")
	l, err := a.Elect(ctx, "/hubs/math", nil, ttl)
	must(t, err)
	wait, giveUp := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { _, err := b.Elect(wait, "/hubs/math", nil, ttl); ended <- err }()
	giveUp()
	wantErr(t, "a candidate who gave up", bustest.Receive(t, "the end", ended), context.Canceled)
	must(t, l.Close(ctx))
	wantListing(t, a, "/hubs/", "")
}

// claim is a claim of which only the error counts.
func claim(ctx context.Context, l bus.Leadership, key string, value []byte) error {
	_, err := l.Claim(ctx, key, value)
	return err
}

// claimed returns the fence of a claim that must succeed.
func claimed(t *testing.T, ctx context.Context, l bus.Leadership, key string, value []byte) int64 {
	t.Helper()
	fence, err := l.Claim(ctx, key, value)
	must(t, err)
	return fence
}

func claims(t *testing.T, n network) {
	ctx, a, b := bustest.Within(t), n.Connect(t, "a"), n.Connect(t, "b")
	math, err := a.Elect(ctx, "/hubs/math", nil, ttl)
	must(t, err)
	law, err := b.Elect(ctx, "/hubs/law", nil, ttl)
	must(t, err)
	fence := claimed(t, ctx, math, "/claims/1", []byte("math"))
	if again := claimed(t, ctx, math, "/claims/1", []byte("math again")); again != fence {
		t.Errorf("the same claim again has fence %d, and had %d", again, fence)
	}
	kvs, err := b.Get(ctx, "/claims/1")
	must(t, err)
	if len(kvs) != 1 || kvs[0].Create != fence {
		t.Errorf("the claim's fence is %d, and the registry has %+v", fence, kvs)
	}
	claimed(t, ctx, law, "/claims/2", []byte("law"))
	wantErr(t, "claim what another has", claim(ctx, law, "/claims/1", []byte("law")), bus.ErrExists)
	wantErr(t, "release what another has", law.Release(ctx, "/claims/1"), bus.ErrExists)
	wantErr(t, "release the leadership", law.Release(ctx, "/hubs/law"), bus.ErrExists)
	wantListing(t, a, "/claims/", "1=math again 2=law")

	must(t, math.Release(ctx, "/claims/1"))
	must(t, math.Release(ctx, "/claims/1"))
	if later := claimed(t, ctx, law, "/claims/1", []byte("law")); later <= fence {
		t.Errorf("a later claim has fence %d, after %d", later, fence)
	}
	wantListing(t, a, "/claims/", "1=law 2=law")

	must(t, law.Close(ctx))
	wantListing(t, a, "/claims/", "")
	wantErr(t, "claim after Close", claim(ctx, law, "/claims/1", nil), bus.ErrLost)
	must(t, math.Close(ctx))
}

func fencing(t *testing.T, n network) {
	ctx, a, b := bustest.Within(t), n.Connect(t, "a"), n.Connect(t, "b")
	old, err := a.Elect(ctx, "/hubs/math", []byte("old"), ttl)
	must(t, err)
	claimed(t, ctx, old, "/claims/1", []byte("old"))
	must(t, b.Delete(ctx, "/hubs/math")) // as an operator may
	late, err := b.Elect(ctx, "/hubs/math", []byte("late"), ttl)
	must(t, err)
	for range 6 {
		wantErr(t, "claim by the old leader", claim(ctx, old, "/claims/2", []byte("old")), bus.ErrLost)
		wantErr(t, "release by the old leader", old.Release(ctx, "/claims/1"), bus.ErrLost)
		wantErr(t, "update by the old leader", old.Update(ctx, []byte("old")), bus.ErrLost)
	}
	wantListing(t, b, "/hubs/", "math=late")
	closes(t, "the old leadership is lost", old.Lost())
	must(t, old.Close(ctx))
	wantListing(t, b, "/claims/", "")
	claimed(t, ctx, late, "/claims/2", []byte("late"))
	must(t, late.Close(ctx))
}

func outage(t *testing.T, n network) {
	ctx, r, other := bustest.Within(t), n.Connect(t, "r"), n.Connect(t, "other")
	must(t, other.Put(ctx, "/w/a", []byte("1")))
	must(t, other.Put(ctx, "/w/b", []byte("1")))
	events, err := r.Watch(ctx, "/w/")
	must(t, err)
	follow(t, events, "/w/", 3)
	must(t, other.Put(ctx, "/w/b", []byte("2"))) // told after the first Synced, as what is gone below
	follow(t, events, "/w/", 1)
	l, err := r.Register(ctx, "/agents/1", []byte("x"), ttl)
	must(t, err)

	n.Cut("r")
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := r.Get(short, "/w/"); err == nil {
		t.Error("a read while cut off: no error")
	}
	closes(t, "the lease is lost", l.Lost())
	wantErr(t, "update of a lost lease", l.Update(ctx, []byte("y")), bus.ErrLost)
	bustest.Eventually(t, "others see the key go", func() bool { return listing(t, other, "/agents/") == "" })
	must(t, other.Put(ctx, "/w/a", []byte("2")))
	must(t, other.Delete(ctx, "/w/b"))
	must(t, other.Put(ctx, "/w/c", []byte("1")))

	n.Heal("r")
	// Changes may come first if the connection resumed; the whole state ends in Synced either way.
	state := map[string]string{"/w/a": "1", "/w/b": "2"}
	for {
		ev := bustest.Receive(t, "event", events)
		if ev.Synced {
			break
		}
		if ev.Deleted {
			delete(state, ev.Key)
		} else {
			state[ev.Key] = string(ev.Value)
		}
	}
	if len(state) != 2 || state["/w/a"] != "2" || state["/w/c"] != "1" {
		t.Errorf("the state after the outage is %v", state)
	}
	must(t, other.Put(ctx, "/w/d", []byte("1")))
	bustest.Eventually(t, "later changes", func() bool {
		return bustest.Receive(t, "event", events).Key == "/w/d"
	})

	again, err := r.Register(ctx, "/agents/1", []byte("z"), ttl)
	must(t, err)
	wantListing(t, other, "/agents/", "1=z")
	must(t, again.Close(ctx))
	must(t, l.Close(ctx))
}

func shortOutage(t *testing.T, n network) {
	ctx, r, other := bustest.Within(t), n.Connect(t, "r"), n.Connect(t, "other")
	l, err := r.Elect(ctx, "/hubs/math", []byte("a"), 10*time.Second)
	must(t, err)
	n.Cut("r")
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := claim(short, l, "/claims/1", nil); err == nil || errors.Is(err, bus.ErrLost) ||
		errors.Is(err, bus.ErrExists) {
		t.Errorf("claim while cut off: %v, want an error that says neither lost nor taken", err)
	}
	n.Heal("r")
	bustest.Eventually(t, "the leader goes on", func() bool {
		return claim(ctx, l, "/claims/1", []byte("a")) == nil
	})
	wantListing(t, other, "/claims/", "1=a")
	select {
	case <-l.Lost():
		t.Error("the leadership was lost in an outage shorter than its lease")
	default:
	}
	must(t, l.Close(ctx))
}

// A standby whose own lease runs out while it cannot reach the registry stands again by itself.
func electingThroughOutage(t *testing.T, n network) {
	ctx, a, b := bustest.Within(t), n.Connect(t, "a"), n.Connect(t, "b")
	first, err := a.Elect(ctx, "/hubs/math", []byte("a"), 30*time.Second)
	must(t, err)
	wins := make(chan bus.Leadership, 1)
	go func() {
		l, err := b.Elect(ctx, "/hubs/math", []byte("b"), ttl)
		if err != nil {
			t.Errorf("elect b: %v", err)
			close(wins)
			return
		}
		wins <- l
	}()
	witness, err := b.Register(ctx, "/witness", nil, ttl) // of b's leases: it ends when they all have
	must(t, err)
	n.Cut("b")
	closes(t, "b's leases are lost", witness.Lost())
	n.Heal("b")
	must(t, first.Close(ctx))
	second := bustest.Receive(t, "b leads", wins)
	if second.Epoch() <= first.Epoch() {
		t.Errorf("epoch %d after %d", second.Epoch(), first.Epoch())
	}
	claimed(t, ctx, second, "/claims/1", []byte("b"))
	must(t, second.Close(ctx))
	must(t, witness.Close(ctx))
}
