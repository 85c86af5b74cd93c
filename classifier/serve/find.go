package serve

import (
	"context"
	"fmt"
	"time"

	"souk/bus"
	"souk/classifier"
)

// findWithin bounds how long hubs may take to say whether they know a task.
const findWithin = time.Second

// How often a door asks its server for a sign of life; and while it knows a hub that it had not heard when it
// last had two, as in the first moments of either: that hub has the door ask all of them for every task.
const (
	pulseEvery = 500 * time.Millisecond
	pulseSoon  = 50 * time.Millisecond
	// a door that has had none for so long is not ready: from 3 s on it looks for every streamed task
	deafAfter = 10 * time.Second
)

// sign is a moment at which the server was asked for a sign of life, and what the door had heard by then.
type sign struct {
	at    time.Time
	heard *classifier.Table
}

// pulse keeps account of how old what this door hears can be. A door that was frozen, or whose connection
// stood still, hears what was said meanwhile as if it were said now; but not after the server's answer to a
// question that it asked since. What is heard when that answer comes may wait for its handler until the next.
func (s *Server) pulse(begun sign) {
	last, next := begun, time.NewTimer(pulseEvery)
	defer next.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-s.heardNew:
		case <-next.C:
		}
		asked := sign{time.Now(), s.table.Load()}
		if s.d.Bus.Flush(s.life) == nil {
			before := last
			s.since.Store(&before)
			last = asked
		}
		if s.since.Load().heard.HasHeard(s.table.Load()) {
			next.Reset(pulseEvery)
		} else {
			next.Reset(pulseSoon)
		}
	}
}

// Deaf says that what this door hears may be older than deafAfter; "": it is not.
func (s *Server) Deaf() string {
	since := s.since.Load()
	if since == nil {
		return ""
	}
	age := time.Since(since.at)
	if age < deafAfter {
		return ""
	}
	return fmt.Sprintf("NATS has not answered for %v: a streamed task may be with a hub already, so all are "+
		"asked before it is placed, and it is refused where one says nothing", age.Round(time.Second))
}

// find asks all hubs at once whether they know a task, until one does: hub. all reports that every hub has
// said that it does not. A hub that has left may have a task that another door has placed, and cannot be
// asked.
func (r *request) find() (hub string, all bool) {
	s := r.s
	r.heard = s.table.Load() // what they say is newer
	data, err := bus.Encode(classifier.OwnerLookup(r.task))
	if err != nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(s.life, findWithin)
	defer cancel()
	type word struct {
		hub         string
		known, sure bool
	}
	hubs := r.heard.Hubs
	words := make(chan word, len(hubs))
	for i := range hubs {
		go func(h *classifier.Hub) {
			w, a := word{hub: h.Entry.Domain}, new(bus.Answer)
			m, err := s.d.Bus.Request(ctx, bus.Msg{Subject: bus.HubTaskSubject(w.hub, s.c.ID), Data: data})
			if err == nil && bus.Decode(m.Data, a) == nil {
				w.known, w.sure = h.Knows(a)
			}
			words <- w
		}(&hubs[i])
	}
	now := time.Now()
	placed := r.again || classifier.MayBePlaced(r.task, r.since, now)
	all = len(hubs) > 0 && !(placed && r.heard.Misses(now, classifier.FirstSent(r.task, r.since)))
	for range hubs {
		w := <-words
		if w.known {
			return w.hub, true
		}
		all = all && w.sure
	}
	return "", all
}

// over reports whether the task's reader may have had the last word on it from another door.
func (r *request) over() bool { return classifier.MayBeOver(r.task, r.ownID, r.since, time.Now()) }
