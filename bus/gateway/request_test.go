package gateway

import (
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/membus"
)

// Whatever is asked, its answer has the name that its client gave the request, where that is plain, and else
// one of ours.
func TestEveryAnswerNamesItsRequest(t *testing.T) {
	world, c := membus.New(1), Default()
	c.ID = "gw"
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	s, err := New(c, Deps{Bus: world.Bus("gw"), Registry: world.Registry(), Listener: at,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	routes, seen := s.routes(), map[string]bool{}
	for _, asked := range []string{"GET /health", "GET /", "POST /v1/chat/completions", "PUT /v1/models",
		"GET /v1/balance"} {
		most := strings.Repeat("x", bus.MaxRequest)
		for said, ours := range map[string]bool{"": true, "req_7f-1.a:b/c=": false, "a b": true, "a\"b": true,
			"é": true, most: false, most + "x": true} {
			method, path, _ := strings.Cut(asked, " ")
			w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
			if said != "" {
				r.Header.Set(requestHeader, said)
			}
			routes.ServeHTTP(w, r)
			switch got := w.Header().Get(requestHeader); {
			case ours && (len(got) != 26 || seen[got]), !ours && got != said:
				t.Errorf("%s under %.200q: %d, named %q", asked, said, w.Code, got)
			default:
				seen[got] = true
			}
		}
	}
}

// Where its configuration says so, a journal has hashes of what a client says of itself: nothing can be read
// there, and two clients' users of one name are not told to be one.
func TestTagsAreHashedWhereTheGatewayIsToldTo(t *testing.T) {
	tags, kept := []bus.Tag{{Name: "user", Value: "ann"}}, map[string]string{}
	for _, hash := range []bool{false, true} {
		for _, client := range []string{"dev", "other"} {
			var task bus.Task
			s := &Server{c: Config{HashTags: hash}}
			s.label(&task, new(request), &bus.APIKey{ID: "k", Client: client}, tags)
			kept[fmt.Sprint(client, hash)] = task.Tags
		}
	}
	if kept["devfalse"] != "user=ann" || kept["otherfalse"] != "user=ann" ||
		!strings.HasPrefix(kept["devtrue"], "user=~") || kept["devtrue"] == kept["othertrue"] {
		t.Errorf("tags are kept as %q", kept)
	}
}
