package gateway

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"

	"souk/bus"
)

// requestHeader names a request in its answer, in the gateway's log and in journals.
const requestHeader = "X-Request-Id"

// request is the name of a request.
type request struct {
	id   string
	ours bool // its client gave it none, or none that is plain
}

// requestOf is the name that a request came with, or a new one.
func requestOf(r *http.Request) request {
	said := r.Header[requestHeader]
	if len(said) == 1 && said[0] != "" && bus.Plain(said[0], bus.MaxRequest) {
		return request{id: said[0]}
	}
	return request{rand.Text(), true}
}

// requestIn is the name of a request that a handler has.
func requestIn(r *http.Request) request {
	if b, ok := r.Body.(*toEnd); ok {
		return b.of
	}
	return request{}
}

// label says of a task which request it is of, unless its id does, with which key that came, and its tags.
func (s *Server) label(t *bus.Task, of request, k *bus.APIKey, tags []bus.Tag) {
	salt := ""
	if s.c.HashTags {
		salt = k.Client
	}
	t.Key, t.Tags = k.ID, bus.Tags(tags, salt)
	if t.ID != of.id && !(of.ours && strings.HasPrefix(t.ID, of.id)) {
		t.Request = of.id
	}
}

// tellRefused logs a request that was refused: as a warning where the gateway itself is at fault. What the
// client wrote is not in it.
func (s *Server) tellRefused(of request, key string, why *refusal) {
	level := slog.LevelDebug
	if why.code == bus.CodeInternal {
		level = slog.LevelWarn
	}
	s.d.Log.Log(context.Background(), level, "request refused", "request", of.id, "key", key,
		"task", why.task, "code", why.code)
}
