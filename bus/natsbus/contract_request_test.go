package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"souk/bus"
	"souk/bus/bustest"
)

func answered(t *testing.T, n network) {
	asker, server := join(t, n, "asker"), join(t, n, "server")
	answer(t, server, "echo", echoed)
	got, err := asker.Request(bustest.Within(t), bus.Msg{Subject: "echo", Data: []byte("hi")})
	if err != nil || string(got.Data) != "echo hi" {
		t.Fatalf("got %q, %v", got.Data, err)
	}
	if got.Header != nil {
		t.Errorf("an answer without headers has %v", got.Header)
	}
}

func noResponders(t *testing.T, n network) {
	b := join(t, n, "b")
	_, err := b.Request(bustest.Within(t), bus.Msg{Subject: "nobody"})
	if !errors.Is(err, bus.ErrNoResponders) {
		t.Fatalf("got %v, want %v", err, bus.ErrNoResponders)
	}
}

func requestTimeout(t *testing.T, n network) {
	b := join(t, n, "b")
	asked := make(chan struct{}, 1)
	subscribe(t, b, "silent", "", func(bus.Msg) { asked <- struct{}{} })
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-asked; cancel() }()
	if _, err := b.Request(ctx, bus.Msg{Subject: "silent"}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if _, err := b.Request(ctx, bus.Msg{Subject: "silent"}); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a context that has ended: got %v, want %v", err, context.Canceled)
	}
}

func manyRequests(t *testing.T, n network) {
	asker, server := join(t, n, "asker"), join(t, n, "server")
	answer(t, server, "echo", echoed)
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			for j := range 20 {
				want := fmt.Sprintf("%d/%d", i, j)
				got, err := asker.Request(bustest.Within(t), bus.Msg{Subject: "echo", Data: []byte(want)})
				if err != nil || string(got.Data) != echoed(want) {
					t.Errorf("request %s: got %q, %v", want, got.Data, err)
				}
			}
		})
	}
	wait.Wait()
}

// questions are answered once each: by who is asked, by who gives them up, or by what keeps them from it.
func questions(t *testing.T, n network) {
	asker, server := join(t, n, "asker"), join(t, n, "server")
	who, ok := asker.(bus.Asker)
	if !ok {
		t.Skip("this bus has a request for each")
	}
	answer(t, server, "echo", echoed)
	asked := make(chan bus.Msg, 1)
	subscribe(t, server, "silent", "", func(m bus.Msg) { asked <- m })
	flushed(t, server)
	type said struct {
		data string
		err  error
	}
	ask := func(subject string, data []byte) (heard chan said, cut func(error)) {
		heard = make(chan said, 2)
		return heard, who.Ask(bus.Msg{Subject: subject, Data: data}, func(m bus.Msg, err error) {
			heard <- said{string(m.Data), err}
		})
	}
	var all []chan said
	for i := range 50 {
		heard, _ := ask("echo", []byte(fmt.Sprint(i)))
		all = append(all, heard)
	}
	for i, heard := range all {
		got, want := bustest.Receive(t, "an answer", heard), echoed(fmt.Sprint(i))
		if got.data != want || got.err != nil {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
	heard, cut := ask("silent", nil)
	m := bustest.Receive(t, "a question", asked)
	why := errors.New("enough")
	cut(why)
	cut(errors.New("twice"))
	publish(t, server, m.Reply, "too late")
	flushed(t, server)
	flushed(t, asker)
	if got := bustest.Receive(t, "what becomes of one that was given up", heard); !errors.Is(got.err, why) {
		t.Errorf("got %+v, want %v", got, why)
	}
	all = append(all, heard)
	for subject, want := range map[string]error{"nobody": bus.ErrNoResponders, "echo": bus.ErrTooLarge} {
		heard, cut := ask(subject, make([]byte, map[string]int{"echo": asker.MaxPayload() + 1}[subject]))
		if got := bustest.Receive(t, "a failure", heard); !errors.Is(got.err, want) {
			t.Errorf("%s: got %+v, want %v", subject, got, want)
		}
		cut(why)
		all = append(all, heard)
	}
	heard, _ = ask("silent", nil)
	bustest.Receive(t, "a question", asked)
	n.Cut("asker")
	if got := bustest.Receive(t, "what becomes of one when the connection is cut", heard); !errors.Is(got.err,
		bus.ErrDisconnected) || errors.Is(got.err, bus.ErrNotSent) {
		t.Errorf("got %+v, want %v", got, bus.ErrDisconnected)
	}
	bustest.Eventually(t, "it is known to be cut", func() bool { return asker.Connected().IsZero() })
	late, _ := ask("echo", nil)
	if got := bustest.Receive(t, "what becomes of one that is asked then", late); !errors.Is(got.err, bus.ErrNotSent) {
		t.Errorf("got %+v, want %v", got, bus.ErrNotSent)
	}
	n.Heal("asker")
	for _, heard := range append(all, heard, late) {
		select {
		case got := <-heard:
			t.Errorf("one is answered twice: %+v", got)
		default:
		}
	}
}

func requestInHandler(t *testing.T, n network) {
	asker, server := join(t, n, "asker"), join(t, n, "server")
	answer(t, server, "inner", echoed)
	subscribe(t, server, "outer", "", func(m bus.Msg) {
		inner, err := server.Request(bustest.Within(t), bus.Msg{Subject: "inner", Data: m.Data})
		if err != nil {
			t.Errorf("inner request: %v", err)
		}
		publish(t, server, m.Reply, string(inner.Data))
	})
	got, err := asker.Request(bustest.Within(t), bus.Msg{Subject: "outer", Data: []byte("hi")})
	if err != nil || string(got.Data) != "echo hi" {
		t.Fatalf("got %q, %v", got.Data, err)
	}
}

func inboxes(t *testing.T, n network) {
	a, b := join(t, n, "a"), join(t, n, "b")
	mine, other := a.Inbox(), b.Inbox()
	if mine == other || mine == a.Inbox() {
		t.Fatalf("inboxes are not unique: %s, %s", mine, other)
	}
	got := make(chan string, 2)
	subscribe(t, a, mine, "", func(m bus.Msg) { got <- string(m.Data) })
	subscribe(t, a, mine+".*", "", func(m bus.Msg) { got <- string(m.Data) })
	publish(t, b, mine, "to the inbox")
	if s := bustest.Receive(t, "message", got); s != "to the inbox" {
		t.Error(s)
	}
	publish(t, b, mine+".7", "below it")
	if s := bustest.Receive(t, "message", got); s != "below it" {
		t.Error(s)
	}
}
