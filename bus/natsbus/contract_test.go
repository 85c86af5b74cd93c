package natsbus_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
)

// network makes connections of one shared network, and cuts them.
type network interface {
	Connect(t *testing.T, name string) bus.Bus // closed by the test
	Cut(name string)
	Heal(name string)
}

// inMemory is a network without a server.
type inMemory struct{ *membus.World }

func (m inMemory) Connect(_ *testing.T, name string) bus.Bus { return m.Bus(name) }

func TestBusInMemory(t *testing.T) {
	carries(t, func(*testing.T) network { return inMemory{membus.New(1)} })
}

// carries says what every bus must do. Each subtest gets a network of its own.
func carries(t *testing.T, made func(t *testing.T) network) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, n network)
	}{
		{"messages arrive in the order they were sent", inOrder},
		{"wildcards", wildcards},
		{"a queue gives each message to one member", queues},
		{"requests are answered", answered},
		{"a request nobody hears fails at once", noResponders},
		{"a request waits no longer than its context", requestTimeout},
		{"many requests at once get their own answers", manyRequests},
		{"questions that nobody waits for", questions},
		{"a handler may ask", requestInHandler},
		{"headers", headers},
		{"too large", tooLarge},
		{"bad subjects", badSubjects},
		{"stop", stop},
		{"stop from within the handler", stopInHandler},
		{"inboxes", inboxes},
		{"a slow handler loses messages, and that is told", slowHandler},
		{"close delivers what is pending", closing},
		{"a cut connection comes back", reconnect},
		{"close while cut off", closeWhileCut},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, made(t)) })
	}
}

func join(t *testing.T, n network, name string) bus.Bus {
	t.Helper()
	b := n.Connect(t, name)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return b
}

func subscribe(t *testing.T, b bus.Bus, subject, queue string, h bus.Handler) bus.Subscription {
	t.Helper()
	s, err := b.Subscribe(subject, queue, h)
	if err != nil {
		t.Fatalf("subscribe %s: %v", subject, err)
	}
	flushed(t, b)
	return s
}

func publish(t *testing.T, b bus.Bus, subject, data string) {
	t.Helper()
	if err := b.Publish(bus.Msg{Subject: subject, Data: []byte(data)}); err != nil {
		t.Fatalf("publish %s: %v", subject, err)
	}
}

func flushed(t *testing.T, b bus.Bus) {
	t.Helper()
	if err := b.Flush(bustest.Within(t)); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// answer makes b reply to requests on subject.
func answer(t *testing.T, b bus.Bus, subject string, f func(string) string) {
	t.Helper()
	subscribe(t, b, subject, "", func(m bus.Msg) {
		if err := b.Publish(bus.Msg{Subject: m.Reply, Data: []byte(f(string(m.Data)))}); err != nil {
			t.Errorf("answer to %s: %v", m.Subject, err)
		}
	})
}

func echoed(s string) string { return "echo " + s }

func inOrder(t *testing.T, n network) {
	from, to := join(t, n, "from"), join(t, n, "to")
	const count = 2000
	got := make(chan string, count)
	subscribe(t, to, "numbers", "", func(m bus.Msg) { got <- string(m.Data) })
	for i := range count {
		publish(t, from, "numbers", strconv.Itoa(i))
	}
	for i := range count {
		if s := bustest.Receive(t, "number", got); s != strconv.Itoa(i) {
			t.Fatalf("message %d is %s", i, s)
		}
	}
}

func wildcards(t *testing.T, n network) {
	b := join(t, n, "b")
	var mu sync.Mutex
	got := map[string][]string{}
	for _, pattern := range []string{"a.b", "a.*", "*.b", "a.>", ">"} {
		subscribe(t, b, pattern, "", func(m bus.Msg) {
			mu.Lock()
			defer mu.Unlock()
			got[pattern] = append(got[pattern], m.Subject)
		})
	}
	for _, subject := range []string{"a", "a.b", "a.c", "a.b.c", "x.b"} {
		publish(t, b, subject, "")
	}
	want := map[string][]string{
		"a.b": {"a.b"},
		"a.*": {"a.b", "a.c"},
		"*.b": {"a.b", "x.b"},
		"a.>": {"a.b", "a.c", "a.b.c"},
		">":   {"a", "a.b", "a.c", "a.b.c", "x.b"},
	}
	for pattern, subjects := range want {
		bustest.Eventually(t, fmt.Sprintf("%s has heard %v", pattern, subjects), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Equal(got[pattern], subjects)
		})
	}
}

func queues(t *testing.T, n network) {
	from := join(t, n, "from")
	const count = 400
	var each [3]atomic.Int64
	var all, other atomic.Int64
	for i := range each {
		member := join(t, n, fmt.Sprintf("member%d", i))
		subscribe(t, member, "work", "q", func(bus.Msg) { each[i].Add(1) })
		if i == 0 {
			subscribe(t, member, "work", "", func(bus.Msg) { all.Add(1) })
			subscribe(t, member, "work", "other", func(bus.Msg) { other.Add(1) })
		}
	}
	for range count {
		publish(t, from, "work", "x")
	}
	bustest.Eventually(t, "all have what is theirs", func() bool {
		return each[0].Load()+each[1].Load()+each[2].Load() == count && all.Load() == count &&
			other.Load() == count
	})
	for i := range each {
		if each[i].Load() == 0 {
			t.Errorf("member %d got none of %d messages", i, count)
		}
	}
}

func headers(t *testing.T, n network) {
	from, to := join(t, n, "from"), join(t, n, "to")
	got := make(chan bus.Header, 2)
	subscribe(t, to, "s", "", func(m bus.Msg) { got <- m.Header })
	sent := bus.Header{"traceparent": {"00-1"}, "X-Souk-Role": {"critic"}, "two": {"a", "b"}}
	if err := from.Publish(bus.Msg{Subject: "s", Header: sent}); err != nil {
		t.Fatal(err)
	}
	publish(t, from, "s", "")
	h := bustest.Receive(t, "headers", got)
	if h.Get("Traceparent") != "00-1" || h.Get("x-souk-role") != "critic" ||
		!slices.Equal(h["two"], []string{"a", "b"}) || h.Get("none") != "" {
		t.Errorf("sent %v, got %v", sent, h)
	}
	if h := bustest.Receive(t, "no headers", got); h != nil {
		t.Errorf("a message without headers has %v", h)
	}
}

func tooLarge(t *testing.T, n network) {
	from, to := join(t, n, "from"), join(t, n, "to")
	got := make(chan int, 2)
	subscribe(t, to, "s", "", func(m bus.Msg) { got <- len(m.Data) })
	limit := from.MaxPayload()
	if limit < bus.MaxMessage {
		t.Errorf("the payload limit of %d bytes is below that of a message, %d", limit, bus.MaxMessage)
	}
	if err := from.Publish(bus.Msg{Subject: "s", Data: make([]byte, limit+1)}); !errors.Is(err,
		bus.ErrTooLarge) {
		t.Errorf("publish: got %v, want %v", err, bus.ErrTooLarge)
	}
	_, err := from.Request(bustest.Within(t), bus.Msg{Subject: "s", Data: make([]byte, limit+1)})
	if !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("request: got %v, want %v", err, bus.ErrTooLarge)
	}
	if err := from.Publish(bus.Msg{Subject: "s", Data: make([]byte, limit)}); err != nil {
		t.Fatal(err)
	}
	if size := bustest.Receive(t, "the largest message", got); size != limit {
		t.Errorf("a message of %d bytes arrived, not the one of %d", size, limit)
	}
}

func badSubjects(t *testing.T, n network) {
	b := join(t, n, "b")
	for _, subject := range []string{"", "a b", "a\r\nPUB x 0", "a\tb"} {
		if err := b.Publish(bus.Msg{Subject: subject}); err == nil {
			t.Errorf("publish %q: no error", subject)
		}
		if _, err := b.Subscribe(subject, "", func(bus.Msg) {}); err == nil {
			t.Errorf("subscribe %q: no error", subject)
		}
	}
	if _, err := b.Subscribe("a..b", "", func(bus.Msg) {}); err == nil {
		t.Error("subscribe a..b: no error")
	}
	flushed(t, b) // the connection has not suffered
}

func stop(t *testing.T, n network) {
	b := join(t, n, "b")
	var stopped atomic.Bool
	got := make(chan struct{}, 1000)
	s := subscribe(t, b, "s", "", func(bus.Msg) {
		if stopped.Load() {
			t.Error("a handler was called after Stop had returned")
		}
		got <- struct{}{}
	})
	publish(t, b, "s", "")
	bustest.Receive(t, "the message before", got)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	stopped.Store(true)
	publish(t, b, "s", "")
	flushed(t, b)
	if _, err := b.Request(bustest.Within(t), bus.Msg{Subject: "s"}); !errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("after Stop: got %v, want %v", err, bus.ErrNoResponders)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
}

func stopInHandler(t *testing.T, n network) {
	b := join(t, n, "b")
	var calls atomic.Int64
	done := make(chan error, 1)
	made := make(chan bus.Subscription, 1)
	s, err := b.Subscribe("s", "", func(bus.Msg) {
		if calls.Add(1) == 1 {
			done <- (<-made).Stop()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	made <- s
	for range 10 {
		publish(t, b, "s", "")
	}
	if err := bustest.Receive(t, "Stop", done); err != nil {
		t.Fatal(err)
	}
	flushed(t, b)
	if got := calls.Load(); got != 1 {
		t.Errorf("%d calls, want 1", got)
	}
}

func slowHandler(t *testing.T, n network) {
	from, to := join(t, n, "from"), join(t, n, "to")
	wait := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(wait) })
	defer goOn()
	var slow, quick atomic.Int64
	subscribe(t, to, "s", "", func(bus.Msg) { slow.Add(1); <-wait })
	subscribe(t, to, "s", "", func(bus.Msg) { quick.Add(1) })
	const count = 70_000 // more than any bus keeps for one handler
	for i := range count {
		publish(t, from, "s", "x")
		// a handler that is slow must not make the network so; on a slow machine the quick one needs time,
		// too
		if i%1000 == 999 {
			flushed(t, from)
			bustest.Eventually(t, "the quick handler has all", func() bool {
				return quick.Load() == int64(i+1)
			})
		}
	}
	var h bus.Health
	for h.Dropped == 0 {
		h = bustest.Receive(t, "news of lost messages", to.Health())
	}
	if !h.Connected || h.Err == nil {
		t.Errorf("news of lost messages is %+v: want connected, with an error", h)
	}
	goOn()
	bustest.Eventually(t, "the slow handler has what was kept", func() bool { return slow.Load() > 1000 })
}

func closing(t *testing.T, n network) {
	from := join(t, n, "from")
	b := n.Connect(t, "closing")
	const count = 100
	var got atomic.Int64
	first := make(chan struct{})
	var once sync.Once
	subscribe(t, b, "s", "", func(bus.Msg) { once.Do(func() { <-first }); got.Add(1) })
	for range count {
		publish(t, from, "s", "")
	}
	flushed(t, from)
	flushed(t, b) // all have arrived, and wait for the first
	ended := make(chan error, 1)
	go func() { ended <- b.Close() }()
	close(first)
	if err := bustest.Receive(t, "close", ended); err != nil {
		t.Fatal(err)
	}
	if got.Load() != count {
		t.Errorf("%d of %d messages were delivered before Close returned", got.Load(), count)
	}
	if err := b.Publish(bus.Msg{Subject: "s"}); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("publish after Close: got %v, want %v", err, bus.ErrClosed)
	}
	if _, err := b.Request(bustest.Within(t), bus.Msg{Subject: "s"}); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("request after Close: got %v, want %v", err, bus.ErrClosed)
	}
	if _, err := b.Subscribe("s", "", func(bus.Msg) {}); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("subscribe after Close: got %v, want %v", err, bus.ErrClosed)
	}
	for h := range b.Health() { // ends
		if h.Err != nil {
			t.Errorf("who closes is told of %v: that is no outage", h.Err)
		}
	}
	if err := b.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func reconnect(t *testing.T, n network) {
	a, b := join(t, n, "a"), join(t, n, "b")
	answer(t, a, "echo", echoed)
	if h := bustest.Receive(t, "first news", a.Health()); !h.Connected {
		t.Fatalf("first news is %+v", h)
	}
	first := a.Connected()
	if first.IsZero() {
		t.Error("it does not say since when it is connected")
	}
	asked, lost := make(chan bus.Msg, 1), make(chan error, 1)
	subscribe(t, b, "silent", "", func(m bus.Msg) { asked <- m })
	flushed(t, b)
	go func() {
		_, err := a.Request(bustest.Within(t), bus.Msg{Subject: "silent"})
		lost <- err
	}()
	bustest.Receive(t, "a request without an answer", asked)
	n.Cut("a")
	if err := bustest.Receive(t, "what becomes of it", lost); !errors.Is(err, bus.ErrDisconnected) ||
		errors.Is(err, bus.ErrNotSent) {
		t.Errorf("a request that was sent before the cut: got %v, want %v", err, bus.ErrDisconnected)
	}
	if h := bustest.Receive(t, "news of the cut", a.Health()); h.Connected || h.Err == nil {
		t.Fatalf("news of the cut is %+v", h)
	}
	if since := a.Connected(); !since.IsZero() {
		t.Errorf("connected since %v while cut off", since)
	}
	if _, err := a.Request(bustest.Within(t), bus.Msg{Subject: "echo"}); !errors.Is(err, bus.ErrNotSent) ||
		!errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("request while cut off: got %v, want %v", err, bus.ErrNotSent)
	}
	bustest.Eventually(t, "publishing ends in an error", func() bool {
		return errors.Is(a.Publish(bus.Msg{Subject: "s", Data: make([]byte, 1<<10)}), bus.ErrDisconnected)
	})
	bustest.Eventually(t, "nobody answers", func() bool {
		_, err := b.Request(bustest.Within(t), bus.Msg{Subject: "echo"})
		return errors.Is(err, bus.ErrNoResponders)
	})
	n.Heal("a")
	if h := bustest.Receive(t, "news of the return", a.Health()); !h.Connected {
		t.Fatalf("news of the return is %+v", h)
	}
	if again := a.Connected(); again.IsZero() || again.Before(first) {
		t.Errorf("connected since %v, first since %v", again, first)
	}
	bustest.Eventually(t, "its subscription is back", func() bool {
		m, err := b.Request(bustest.Within(t), bus.Msg{Subject: "echo", Data: []byte("again")})
		return err == nil && string(m.Data) == "echo again"
	})
}

func closeWhileCut(t *testing.T, n network) {
	b := n.Connect(t, "b")
	subscribe(t, b, "s", "", func(bus.Msg) {})
	bustest.Receive(t, "first news", b.Health())
	n.Cut("b")
	bustest.Receive(t, "news of the cut", b.Health())
	ended := make(chan error, 1)
	go func() { ended <- b.Close() }()
	if err := bustest.Receive(t, "close", ended); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Request(bustest.Within(t), bus.Msg{Subject: "s"}); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("request after Close: got %v, want %v", err, bus.ErrClosed)
	}
}
