package natsbus

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"souk/bus"
)

// requests matches answers with who waits for them. nats.go has such a thing, but it forgets to forget
// a request that could not be sent, and so grows while the server is away.
type requests struct {
	own string // the last part of reply subjects but for the number: of this connection alone

	mu      sync.Mutex
	next    uint64
	waiting map[string]chan answer // by the reply subject's last token
	inboxes map[string]string      // by who asks: what begins its reply subjects; made by its first request
}

type answer struct {
	msg bus.Msg
	err error
}

// channels are used again: each request would else allocate one.
var channels = sync.Pool{New: func() any { return make(chan answer, 1) }}

func (r *requests) init(own string) {
	r.own, r.waiting, r.inboxes = own, map[string]chan answer{}, map[string]string{}
}

// Request fails with ErrDisconnected if the connection is lost while it waits: whether the request has
// arrived is then unknown. Where the connection is known to be lost it fails with ErrNotSent.
func (b *Bus) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	out, err := b.request(ctx, m)
	if err != nil {
		return bus.Msg{}, fmt.Errorf("request %s: %w", m.Subject, b.translate(err, len(m.Data)))
	}
	return out, nil
}

func (b *Bus) request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	if err := ctx.Err(); err != nil {
		return bus.Msg{}, err
	}
	inbox, token, ch, err := b.await(bus.LastToken(m.Subject))
	if err != nil {
		return bus.Msg{}, err
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
	if err != nil {
		b.requests.forget(token, ch)
		return bus.Msg{}, err
	}
	select {
	case a := <-ch:
		channels.Put(ch) // whoever sent has taken it out of waiting
		return a.msg, a.err
	case <-ctx.Done():
		b.requests.forget(token, ch)
		return bus.Msg{}, ctx.Err()
	}
}

// await registers a new request of who asks.
func (b *Bus) await(who string) (inbox, token string, ch chan answer, err error) {
	r := &b.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	if inbox = r.inboxes[who]; inbox == "" {
		inbox = bus.InboxOf(who) + "." + r.own + "."
		if _, err = b.nc.Subscribe(inbox+"*", r.take); err != nil {
			return "", "", nil, err
		}
		r.inboxes[who] = inbox
	}
	r.next++
	token = strconv.FormatUint(r.next, 36)
	ch = channels.Get().(chan answer)
	r.waiting[token] = ch
	return inbox, token, ch, nil
}

// take hands an answer to its request; later answers, and those nobody waits for any more, are lost.
func (r *requests) take(m *nats.Msg) {
	a := answer{msg: bus.Msg{Subject: m.Subject, Reply: m.Reply, Header: bus.Header(m.Header), Data: m.Data}}
	if len(m.Data) == 0 && m.Header != nil && m.Header.Get("Status") == "503" {
		a = answer{err: bus.ErrNoResponders}
	}
	token := bus.LastToken(m.Subject)
	r.mu.Lock()
	ch := r.waiting[token]
	delete(r.waiting, token)
	r.mu.Unlock()
	if ch != nil {
		ch <- a // never blocks: one place, one answer
	}
}

// forget gives up a request, and keeps its channel for the next if no answer is under way.
func (r *requests) forget(token string, ch chan answer) {
	r.mu.Lock()
	_, mine := r.waiting[token]
	delete(r.waiting, token)
	r.mu.Unlock()
	if mine {
		channels.Put(ch)
	}
}

// abandon fails all requests that wait.
func (r *requests) abandon() {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = map[string]chan answer{}
	r.mu.Unlock()
	for _, ch := range waiting {
		ch <- answer{err: bus.ErrDisconnected}
	}
}
