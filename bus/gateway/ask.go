package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"souk/bus"
	"souk/bus/openai"
	"souk/bus/sight"
)

// asking serves the endpoint of a kind of task.
func (s *Server) asking(kind string) func(http.ResponseWriter, *http.Request, *key) error {
	return func(w http.ResponseWriter, r *http.Request, k *key) error {
		return s.answering(w, r, k, 2, func(data []byte, room *share) (*answer, error) {
			return s.ask(r, data, data, kind, k, shaped{}, room)
		})
	}
}

// reading reads a body for use. While it is read as JSON it takes so many times its room.
func (s *Server) reading(w http.ResponseWriter, r *http.Request, k *key, times int,
	use func(data []byte, room *share) error) error {
	room := share{of: &s.memory, key: &k.coming}
	defer func() { room.set(0) }()
	data, err := s.readBody(w, r, &room)
	if err == nil {
		err = room.resize(times * cap(data))
	}
	if err != nil {
		return err
	}
	return use(data, &room)
}

// answering gives the answer that ask finds or begins for a body.
func (s *Server) answering(w http.ResponseWriter, r *http.Request, k *key, times int,
	ask func(data []byte, room *share) (*answer, error)) error {
	var a *answer
	err := s.reading(w, r, k, times, func(data []byte, room *share) (err error) {
		a, err = ask(data, room) // it has room of its own
		return err
	})
	if err != nil {
		return err
	}
	return s.give(w, r, a, -1)
}

// responding serves the endpoint of responses, without a store of them: parts of answers may be named for a
// while.
func (s *Server) responding(w http.ResponseWriter, r *http.Request, k *key) error {
	id := s.keys.about(k).ID
	return s.answering(w, r, k, 5, func(data []byte, room *share) (*answer, error) {
		asked, no := openai.ReadResponses(data, func(item string) ([]byte, bool) {
			return s.items.get(time.Now(), id, item)
		})
		if no != nil {
			return nil, no
		}
		chat := asked.Chat
		asked.Chat = nil // as long as the answer it would be kept
		as := shaped{tags: asked.Tags, form: func(shape openai.Shape, _ bool) form {
			e := response{Response: openai.NewResponse(shape, asked)}
			if asked.Store {
				e.keep = func(item string, data []byte) { s.items.put(time.Now(), id, item, data) }
			}
			return e
		}}
		return s.ask(r, data, chat, bus.KindChat, k, as, room)
	})
}

// messaging serves Anthropic's API.
func (s *Server) messaging(w http.ResponseWriter, r *http.Request, k *key) error {
	return s.answering(w, r, k, 5, func(data []byte, room *share) (*answer, error) {
		chat, no := openai.ReadMessages(data)
		if no != nil {
			return nil, no
		}
		as := shaped{form: func(shape openai.Shape, whole bool) form {
			return openai.NewMessage(shape, whole)
		}}
		return s.ask(r, data, chat, bus.KindChat, k, as, room)
	})
}

// countTokens estimates the prompt of what messaging serves, and counts as a request of the key.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request, k *key) (object []byte, err error) {
	err = s.reading(w, r, k, 5, func(data []byte, _ *share) error {
		if err := s.keys.begin(time.Now(), k); err != nil {
			return err
		}
		defer s.keys.end(k)
		if err := s.keys.counted(time.Now(), k, len(data)); err != nil {
			return err
		}
		n, no := openai.CountTokens(data)
		if no != nil {
			return no
		}
		object = fmt.Appendf(nil, `{"input_tokens":%d,"souk":{"estimate":true}}`, n)
		return nil
	})
	return object, err
}

// keptKey names an answer that can be read again: to its own key alone.
type keptKey struct{ key, answer string }

// idempotencyKey names a request that is served once however often it comes.
const idempotencyKey = "Idempotency-Key"

// ask starts an answer, or finds the one that an earlier request with the very same body started. came is the
// body as it came, data the body for the market.
func (s *Server) ask(r *http.Request, came, data []byte, kind string, k *key, as shaped,
	room *share) (*answer, error) {
	about := s.keys.about(k)
	header, resume, err := terms(r.Header)
	if err != nil {
		return nil, err
	}
	asked, no := openai.Ask(data, header, about.Client, kind)
	if no != nil {
		return nil, no
	}
	once := r.Header[idempotencyKey]
	var print [32]byte
	if len(once) > 0 {
		print = fingerprint(came, r.Pattern, asked.Tasks)
	}
	if err := limit(asked, about); err != nil {
		return nil, err
	}
	asked.Tags = append(asked.Tags, as.tags...)
	a := &answer{of: requestIn(r), key: admitted{k, bus.HashKey(secretOf(r))}, keyID: about.ID, asked: asked,
		kept: resume && asked.Stream, form: as.form,
		shape: openai.Shape{Kind: kind, Model: asked.Model, Created: time.Now().Unix(), Usage: asked.Usage,
			IDs: asked.IDs}}
	a.of.line.Model = asked.Model
	if a.of.span.Records() {
		a.of.span.Set(sight.Operation(kind, asked.Model)...)
		a.of.span.Set(attribute.Bool("souk.stream", asked.Stream))
	}
	switch {
	case len(once) > 1:
		return nil, twice(idempotencyKey, once)
	case len(once) == 1 && once[0] == "":
		return nil, refuse(bus.CodeBadRequest, "header %s: it is empty, and tells this request from no other: "+
			"give it a value, or leave it out", idempotencyKey)
	}
	if len(once) == 1 {
		sum := sha256.Sum256([]byte(about.ID + "\x00" + once[0]))
		a.again, a.kept, a.print = true, true, print
		a.shape.ID = "once-" + hex.EncodeToString(sum[:20])
	} else if a.shape.ID = asked.Tasks[0].ID; a.shape.ID == "" || len(asked.Tasks) > 1 {
		a.shape.ID = rand.Text()
		if a.of.ours {
			a.shape.ID = a.of.id
		}
	}
	a.named = a.again || asked.Tasks[0].ID != ""
	for i := range asked.Tasks {
		t := &asked.Tasks[i]
		t.Trace = a.of.trace
		switch {
		case len(asked.Tasks) > 1 && (a.again || t.ID == ""):
			t.ID = a.shape.ID + "-" + strconv.Itoa(i)
		case a.again || t.ID == "":
			t.ID = a.shape.ID
		}
		s.label(t, a.of, about, asked.Tags)
	}
	if err := s.awake.await(r.Context()); err != nil { // its body may have been long in coming
		return nil, err
	}
	return s.enter(a, room)
}

// fingerprint hashes a request that comes under an Idempotency-Key: its body, and the terms and names of its
// headers as they are read; not when it came, or how often, or by which of the key's secrets.
func fingerprint(body []byte, pattern string, tasks []bus.Task) (sum [32]byte) {
	h := sha256.New()
	h.Write(body)
	h.Write([]byte(pattern))
	for i := range tasks {
		t := &tasks[i]
		content := t.Content()
		h.Write(content[:])
		fmt.Fprintf(h, "%q %q %q %q %v %d", t.Failover, t.Source, t.Parent, t.Next, t.SessionEnd, t.BackMS)
	}
	h.Sum(sum[:0])
	return sum
}

// enter takes an answer in, if there is room, or returns the one that is known under its name.
func (s *Server) enter(a *answer, room *share) (*answer, error) {
	p, err := s.payer(a.asked.Tasks[0].Client)
	if err != nil {
		return nil, err
	}
	a.payer = p
	known, err := s.admitAnswer(a, room)
	if known == a {
		a.start()
	} else { // finished leaves it else
		p.leave()
	}
	return known, err
}

// admitAnswer is the part of it under the server's lock.
func (s *Server) admitAnswer(a *answer, room *share) (*answer, error) {
	id := keptKey{a.keyID, a.shape.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.kept[id]
	if known != nil && known.gaveNothing() { // it has just been refused: finished will forget it
		known = nil
	}
	switch {
	case !s.keys.good(time.Now(), a.key): // else revoked finds it among those that are open
		return nil, errRevoked()
	case a.again && known != nil && known.print == a.print:
		return known, nil
	case a.kept && !a.again && known != nil:
		return nil, refuse(bus.CodeIDConflict, "task %s was asked for already with this key, and its stream is "+
			"kept: it goes on at /v1/streams/%s (GET, Last-Event-ID); take another id for a new task, and an "+
			"Idempotency-Key where a request may be repeated as it was", a.shape.ID, a.shape.ID)
	case a.kept && known != nil:
		return nil, refuse(bus.CodeIDConflict, "this Idempotency-Key came before with another body or other "+
			"terms (X-Souk-* headers): repeat the request as it was, or take a new one")
	case s.draining:
		return nil, again(bus.CodeDraining, time.Second, "this gateway is shutting down: ask another one, "+
			"or again")
	case len(s.open) >= s.c.MaxOpen:
		return nil, again(bus.CodeTooManyTasks, time.Second, "%d answers are open, the limit of this "+
			"gateway: ask another one, or again", s.c.MaxOpen)
	}
	cost, sending := a.takes()
	if err := room.resize(cost + sending); err != nil {
		return nil, err
	}
	if err := s.keys.begin(time.Now(), a.key.key); err != nil {
		return nil, err
	}
	s.prepare(a)
	room.hand(cost)
	a.asking = cost
	a.held.Store(int64(cost))
	s.open[a], a.of.began = struct{}{}, true
	if a.kept {
		s.kept[id] = a
	}
	return a, nil
}
