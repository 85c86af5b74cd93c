// Package serve runs a door: it joins the desk, the table and each task's placing and reader to the bus, the
// registry and the clock, and decides nothing.
package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/metrics"
	"souk/bus/sight"
	"souk/classifier"
	"souk/classifier/model"
)

// Deps holds the ports of a Server.
type Deps struct {
	Bus      bus.Bus
	Registry bus.Registry
	Model    *model.Model  // nil: the shipped one
	Log      *slog.Logger  // nil: slog.Default
	Spans    *sight.Spans  // nil: none
	Meter    metrics.Meter // of what it counts and measures; nil: nobody collects that
}

// Server is one door. Any number of them share the work.
type Server struct {
	c          classifier.Config
	d          Deps
	boot       string // part of every reply subject: an answer to an earlier life of this id reaches nobody
	prefixKeys *prefixKeys
	groups     *groups
	vouch      *vouchKeys
	labels     *model.Renamed
	lines      *sight.Lines
	ready      chan struct{}

	table   atomic.Pointer[classifier.Table]
	writing sync.Mutex // whoever replaces the table

	mu      sync.Mutex
	desk    *classifier.Desk
	inHand  map[taskKey]*request  // tasks that can be cancelled here
	waiting map[*request]struct{} // those of them that await a hub's verdict
	reading map[string]*whole     // answers that are collected, by the last token of their reply subject

	pace     follow.Pace          // of pieces of bodies: it may hear as much as comes
	since    atomic.Pointer[sign] // whatever is heard now was said after it; see pulse
	heardNew chan struct{}        // something when a hub was heard for the first time

	placed  *metrics.Recorder // seconds until a hub has given a task to an agent
	crew    *follow.Crew
	numbers atomic.Uint64
	tasks   sync.WaitGroup
	scratch sync.Pool       // *model.Scratch
	life    context.Context // of the tasks in hand
}

// taskKey names a task within the market.
type taskKey struct{ client, task string }

// New checks its configuration and wires nothing yet.
func New(c classifier.Config, d Deps) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("classifier: %w", err)
	}
	if d.Bus == nil || d.Registry == nil {
		return nil, errors.New("classifier: a bus and a registry are needed")
	}
	if d.Model == nil {
		d.Model = model.Default()
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	s := &Server{
		c: c, d: d, boot: rand.Text()[:8],
		lines: sight.NewLines(d.Log, c.Requests),
		ready: make(chan struct{}), crew: follow.NewCrew(), heardNew: make(chan struct{}, 1),
		inHand: map[taskKey]*request{}, waiting: map[*request]struct{}{}, reading: map[string]*whole{},
	}
	s.prefixKeys, s.groups = newPrefixKeys(d.Registry, d.Log), newGroups(d.Registry, c.SessionKey, d.Log)
	s.vouch = s.newVouchKeys()
	s.desk = classifier.NewDesk(&s.c, maphash.MakeSeed())
	s.labels = d.Model.Rename(c.Labels)
	s.table.Store(&classifier.Table{})
	s.scratch.New = func() any { return new(model.Scratch) }
	s.observe()
	return s, nil
}

// Ready is closed once tasks are taken and the registry's hubs are known.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends, then lets the tasks in hand finish within Config.Drain and returns nil.
func (s *Server) Run(ctx context.Context) error {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.life = life
	defer s.crew.End()

	var subs []bus.Subscription
	defer func() {
		for _, sub := range subs {
			sub.Stop()
		}
	}()
	type listening struct {
		subject string
		h       bus.Handler
	}
	hear := func(queue string, all ...listening) error {
		for _, l := range all {
			sub, err := s.d.Bus.Subscribe(l.subject, queue, l.h)
			if err != nil {
				return fmt.Errorf("classifier: subscribe %s: %w", l.subject, err)
			}
			subs = append(subs, sub)
		}
		return nil
	}
	if err := hear("", listening{bus.StatusSubject("*"), s.onStatus},
		listening{bus.ReplySubject(s.c.ID, "*", "*"), s.onReply},
		listening{cancelKind + ">", s.onCancel}); err != nil {
		return err
	}
	begun := sign{time.Now(), s.table.Load()}
	s.since.Store(&begun)
	go s.pulse(begun)
	synced, known, grouped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go s.watch(life, sync.OnceFunc(func() { close(synced) }))
	go s.memory(life, sync.OnceFunc(func() { close(known) }))
	go s.groups.follow(life, sync.OnceFunc(func() { close(grouped) }))
	go s.prefixKeys.follow(life)
	go s.vouch.keep(life)
	for _, c := range []chan struct{}{synced, known, grouped} {
		select {
		case <-c:
		case <-ctx.Done():
			return nil
		}
	}
	within := time.After(prefixKeysWithin)
	for _, c := range []<-chan struct{}{s.prefixKeys.settled, s.vouch.said} {
		select {
		case <-c:
		case <-within:
		case <-ctx.Done():
			return nil
		}
	}
	shared := len(subs) // from here on: what one of the doors gets
	if err := hear("doors", listening{taskKind + ">", s.onTask}, listening{quoteKind + ">", s.onQuote},
		listening{endKind + ">", s.onEnd}); err != nil {
		return err
	}
	s.d.Log.Info("door open", "door", s.c.ID, "hubs", len(s.table.Load().Hubs))
	close(s.ready)
	<-ctx.Done()

	for _, sub := range subs[shared:] {
		sub.Stop()
	}
	s.mu.Lock()
	inHand := s.desk.Close()
	s.mu.Unlock()
	s.d.Log.Info("door closing", "door", s.c.ID, "tasks", inHand)
	done := make(chan struct{})
	go func() { s.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(s.c.Drain):
		stop() // the rest is told that its fate is not known here
		<-done
	}
	flush, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.d.Bus.Flush(flush)
	s.lines.Close(flush)
	return nil
}
