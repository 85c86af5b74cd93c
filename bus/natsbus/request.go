package natsbus

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"souk/bus"
)

// requests matches answers with who waits for them. nats.go has such a thing, but it forgets to forget
// a request that could not be sent, and so grows while the server is away.
type requests struct {
	own string // what stands before a request's own part of its reply subject: of this connection alone

	mu      sync.Mutex
	waiting map[string]waiter // by the reply subject's last token
	inboxes map[string]string // by who asks: what begins its reply subjects; made by its first request
}

// waiter is given the one answer to a request, and does not wait.
type waiter func(bus.Msg, error)

// Request fails with ErrDisconnected if the connection is lost while it waits: whether the request has
// arrived is then unknown. Where the connection is known to be lost it fails with ErrNotSent.
func (b *Bus) Request(ctx context.Context, m bus.Msg) (answer bus.Msg, err error) {
	if err := ctx.Err(); err != nil {
		return bus.Msg{}, fmt.Errorf("request %s: %w", m.Subject, err)
	}
	said := make(chan bus.Msg, 1)
	cut := b.Ask(m, func(a bus.Msg, wrong error) { err = wrong; said <- a })
	select {
	case answer = <-said:
	case <-ctx.Done():
		cut(ctx.Err())
		answer = <-said
	}
	return answer, err
}

// Ask implements [bus.Asker].
func (b *Bus) Ask(m bus.Msg, answered func(bus.Msg, error)) (cut func(why error)) {
	subject, size := m.Subject, len(m.Data)
	said := func(a bus.Msg, err error) {
		if err != nil {
			err = fmt.Errorf("request %s: %w", subject, b.translate(err, size))
		}
		answered(a, err)
	}
	token, err := b.send(m, said)
	if err != nil {
		go said(bus.Msg{}, err)
		return func(error) {}
	}
	return func(why error) {
		if b.requests.forget(token) {
			go said(bus.Msg{}, why)
		}
	}
}

// send sends a request whose answer w is given, unless it is forgotten before.
func (b *Bus) send(m bus.Msg, w waiter) (token string, err error) {
	inbox, token, err := b.await(bus.LastToken(m.Subject), w)
	if err != nil {
		return "", err
	}
	m.Reply = inbox + token
	// A request is of use only to one who waits for it now, so none goes into the buffer of a lost
	// connection.
	if b.online.Load() == nil {
		err = bus.ErrNotSent
		if b.nc.IsClosed() {
			err = bus.ErrClosed
		}
	} else {
		err = b.publish(m)
	}
	if err != nil && !b.requests.forget(token) {
		err = nil // it was answered already: the connection is lost
	}
	return token, err
}

// await registers a new request of who asks.
func (b *Bus) await(who string, w waiter) (inbox, token string, err error) {
	r := &b.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	if inbox = r.inboxes[who]; inbox == "" {
		inbox = bus.InboxOf(who) + "." + r.own + "."
		if _, err = b.nc.Subscribe(inbox+"*", r.take); err != nil {
			return "", "", err
		}
		r.inboxes[who] = inbox
	}
	// Whoever may answer others, too, may write to any inbox: who was not asked must not guess this.
	token = rand.Text()
	r.waiting[token] = w
	return inbox, token, nil
}

// take hands an answer to its request; later answers, and those nobody waits for any more, are lost.
func (r *requests) take(m *nats.Msg) {
	token := bus.LastToken(m.Subject)
	r.mu.Lock()
	w := r.waiting[token]
	delete(r.waiting, token)
	r.mu.Unlock()
	switch {
	case w == nil:
	case len(m.Data) == 0 && m.Header != nil && m.Header.Get("Status") == "503":
		w(bus.Msg{}, bus.ErrNoResponders)
	default:
		w(bus.Msg{Subject: m.Subject, Reply: m.Reply, Header: bus.Header(m.Header), Data: m.Data}, nil)
	}
}

// forget gives up a request, and reports whether no answer to it is under way.
func (r *requests) forget(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, waits := r.waiting[token]
	delete(r.waiting, token)
	return waits
}

// abandon fails all requests that wait.
func (r *requests) abandon() {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = map[string]waiter{}
	r.mu.Unlock()
	for _, w := range waiting {
		w(bus.Msg{}, bus.ErrDisconnected)
	}
}
