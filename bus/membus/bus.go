package membus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"souk/bus"
)

// MaxPayload is the largest Data in bytes, that of the servers.
const MaxPayload = bus.MaxMessage

// Bus is one part's connection to a World. It implements bus.Bus.
type Bus struct {
	world  *World
	name   string
	health chan bus.Health

	// guarded by world.mu
	online  bool
	since   time.Time     // online
	cut     chan struct{} // closed by the next Cut
	closed  bool
	dropped int64
	subs    []*sub
}

var _ bus.Bus = (*Bus)(nil)

func (b *Bus) Publish(m bus.Msg) error {
	if err := checkMsg(m); err != nil {
		return err
	}
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	if err := b.usable(); err != nil {
		return err
	}
	b.world.publish(m)
	return nil
}

func (b *Bus) Subscribe(subject, queue string, h bus.Handler) (bus.Subscription, error) {
	if err := checkPattern(subject); err != nil {
		return nil, err
	}
	if strings.ContainsAny(queue, " \t\r\n") {
		return nil, fmt.Errorf("queue %q: white space", queue)
	}
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	if b.closed {
		return nil, bus.ErrClosed
	}
	s := &sub{bus: b, subject: subject, queueName: queue, queueKey: queue + " " + subject, handle: h,
		done: make(chan struct{})}
	s.wake.L = &b.world.mu
	b.subs = append(b.subs, s)
	b.world.add(s)
	go s.run()
	return s, nil
}

func (b *Bus) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	if err := checkMsg(m); err != nil {
		return bus.Msg{}, err
	}
	if err := ctx.Err(); err != nil {
		return bus.Msg{}, fmt.Errorf("request %s: %w", m.Subject, err)
	}
	answer := make(chan bus.Msg, 1)
	b.world.mu.Lock()
	m.Reply = b.world.nextInbox(bus.LastToken(m.Subject))
	b.world.mu.Unlock()
	s, err := b.Subscribe(m.Reply, "", func(m bus.Msg) {
		select {
		case answer <- m:
		default: // only the first answer counts
		}
	})
	if err != nil {
		return bus.Msg{}, err
	}
	defer s.Stop()

	b.world.mu.Lock()
	err = b.usable()
	cut := b.cut
	switch {
	case errors.Is(err, bus.ErrDisconnected):
		err = bus.ErrNotSent
	case err == nil && b.world.publish(m) == 0:
		err = bus.ErrNoResponders
	}
	b.world.mu.Unlock()
	if err != nil {
		return bus.Msg{}, fmt.Errorf("request %s: %w", m.Subject, err)
	}
	select {
	case a := <-answer:
		return a, nil
	case <-cut:
		return bus.Msg{}, fmt.Errorf("request %s: %w", m.Subject, bus.ErrDisconnected)
	case <-ctx.Done():
		return bus.Msg{}, fmt.Errorf("request %s: %w", m.Subject, ctx.Err())
	}
}

func (b *Bus) Inbox() string {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	return b.world.nextInbox(b.name)
}

// Flush has nothing to wait for: Publish returns when every queue has the message.
func (b *Bus) Flush(ctx context.Context) error {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	if err := b.usable(); err != nil {
		return err
	}
	return ctx.Err()
}

func (b *Bus) Connected() time.Time {
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	if b.usable() != nil {
		return time.Time{}
	}
	return b.since
}

func (b *Bus) Name() string              { return b.name }
func (b *Bus) MaxPayload() int           { return MaxPayload }
func (b *Bus) Health() <-chan bus.Health { return b.health }

// Close delivers what is pending and ends all subscriptions. A handler must not call it.
func (b *Bus) Close() error {
	w := b.world
	w.mu.Lock()
	if b.closed {
		w.mu.Unlock()
		return nil
	}
	b.closed = true
	subs := b.subs
	b.subs = nil
	for _, s := range subs {
		w.remove(s)
		s.draining = true
		s.wake.Broadcast()
	}
	delete(w.buses, b.name)
	w.mu.Unlock()
	for _, s := range subs {
		<-s.done
	}
	close(b.health)
	return nil
}

func (b *Bus) usable() error {
	switch {
	case b.closed:
		return bus.ErrClosed
	case !b.online:
		return bus.ErrDisconnected
	}
	return nil
}

// tell reports news; a reader that is not listening misses it.
func (b *Bus) tell(h bus.Health) {
	select {
	case b.health <- h:
	default:
	}
}

// sub is one subscription: a queue of messages and their handler.
type sub struct {
	bus       *Bus
	subject   string
	queueName string
	queueKey  string // members of a queue share name and subject
	handle    bus.Handler
	done      chan struct{} // closed when run has ended

	// guarded by world.mu
	wake     sync.Cond
	queue    []bus.Msg
	stopped  bool // call the handler no more
	draining bool // take nothing new, deliver the rest
}

func (s *sub) push(m bus.Msg) {
	if s.stopped || s.draining {
		return
	}
	if len(s.queue) >= PendingLimit {
		s.bus.dropped++
		s.bus.tell(bus.Health{Connected: s.bus.online, Dropped: s.bus.dropped,
			Err: fmt.Errorf("subscription %s: handler too slow", s.subject)})
		return
	}
	s.queue = append(s.queue, m)
	s.wake.Signal()
}

// run delivers until the subscription is stopped, or drained and empty.
func (s *sub) run() {
	defer close(s.done)
	w := s.bus.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(s.queue) == 0 && !s.stopped && !s.draining {
			s.wake.Wait()
		}
		if s.stopped || len(s.queue) == 0 {
			return
		}
		m := s.queue[0]
		s.queue[0] = bus.Msg{}
		s.queue = s.queue[1:]
		w.mu.Unlock()
		s.handle(m)
		w.mu.Lock()
	}
}

// Stop ends the subscription; what is pending is lost.
func (s *sub) Stop() error {
	w := s.bus.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	s.queue = nil
	w.remove(s)
	s.bus.subs = without(s.bus.subs, s)
	s.wake.Broadcast()
	return nil
}

func checkMsg(m bus.Msg) error {
	if len(m.Data) > MaxPayload {
		return fmt.Errorf("publish %s: %d bytes, at most %d: %w", m.Subject, len(m.Data), MaxPayload,
			bus.ErrTooLarge)
	}
	if m.Subject == "" || isWild(m.Subject) {
		return fmt.Errorf("publish: %q is no subject for a message", m.Subject)
	}
	return checkPattern(m.Subject)
}

func checkPattern(subject string) error {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || strings.ContainsAny(token, " \t\r\n") {
			return fmt.Errorf("subject %q: empty token or white space", subject)
		}
	}
	return nil
}
