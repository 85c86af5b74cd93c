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

type answer struct {
	msg bus.Msg
	err error
}

// waiter is given the one answer to a request, and does not wait.
type waiter interface{ take(answer) }

// channel is one with a place for it.
type channel chan answer

func (c channel) take(a answer) { c <- a }

// channels are used again: each request would else allocate one.
var channels = sync.Pool{New: func() any { return make(channel, 1) }}

// question is one that nobody waits for.
type question struct {
	bus     *Bus
	said    func(bus.Msg, error)
	subject string
	size    int
}

func (q *question) take(a answer) {
	if a.err != nil {
		a.err = q.bus.unanswered(q.subject, q.size, a.err)
	}
	q.said(a.msg, a.err)
}

func (r *requests) init(own string) {
	r.own, r.waiting, r.inboxes = own, map[string]waiter{}, map[string]string{}
}

// Request fails with ErrDisconnected if the connection is lost while it waits: whether the request has
// arrived is then unknown. Where the connection is known to be lost it fails with ErrNotSent.
func (b *Bus) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	out, err := b.request(ctx, m)
	if err != nil {
		return bus.Msg{}, b.unanswered(m.Subject, len(m.Data), err)
	}
	return out, nil
}

func (b *Bus) unanswered(subject string, size int, err error) error {
	return fmt.Errorf("request %s: %w", subject, b.translate(err, size))
}

// Ask implements [bus.Asker].
func (b *Bus) Ask(m bus.Msg, answered func(bus.Msg, error)) (cut func(why error)) {
	q := &question{bus: b, said: answered, subject: m.Subject, size: len(m.Data)}
	token, err := b.send(m, q)
	if err != nil {
		go q.take(answer{err: err})
		return func(error) {}
	}
	return func(why error) {
		if b.requests.forget(token) {
			go q.take(answer{err: why})
		}
	}
}

func (b *Bus) request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	if err := ctx.Err(); err != nil {
		return bus.Msg{}, err
	}
	ch := channels.Get().(channel)
	token, err := b.send(m, ch)
	if err != nil {
		channels.Put(ch)
		return bus.Msg{}, err
	}
	select {
	case a := <-ch:
		channels.Put(ch) // whoever sent has taken it out of waiting
		return a.msg, a.err
	case <-ctx.Done():
		if b.requests.forget(token) {
			channels.Put(ch)
		}
		return bus.Msg{}, ctx.Err()
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
	a := answer{msg: bus.Msg{Subject: m.Subject, Reply: m.Reply, Header: bus.Header(m.Header), Data: m.Data}}
	if len(m.Data) == 0 && m.Header != nil && m.Header.Get("Status") == "503" {
		a = answer{err: bus.ErrNoResponders}
	}
	token := bus.LastToken(m.Subject)
	r.mu.Lock()
	w := r.waiting[token]
	delete(r.waiting, token)
	r.mu.Unlock()
	if w != nil {
		w.take(a)
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
		w.take(answer{err: bus.ErrDisconnected})
	}
}
