package gateway

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus/openai"
)

// readAs reads a stream as openai-python's decoder does, which never forgets an id: to it each blank line
// after one is the end of an event; what stands behind the last line feed is a line. It returns what the
// events say.
func readAs(stream string) (events []string) {
	data, id := []string(nil), ""
	for line := range strings.SplitSeq(stream, "\n") {
		switch {
		case line == "" && (len(data) > 0 || id != ""):
			events, data = append(events, strings.Join(data, "\n")), nil
		case strings.HasPrefix(line, "data: "):
			data = append(data, line[len("data: "):])
		case strings.HasPrefix(line, "id: "):
			id = line[len("id: "):]
		}
	}
	return events
}

// While an answer pauses, what shows that its stream is alive is no event to any client.
func TestACommentIsNoEvent(t *testing.T) {
	for _, numbered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{c: Default(), d: Deps{Log: slog.New(slog.DiscardHandler)}}
			a := &answer{s: s, asked: &openai.Asked{Stream: true}, kept: numbered, over: make(chan struct{}),
				running: 1, began: true}
			a.out = outbox{most: s.c.MaxUnread, numbered: numbered}
			reader, news, err := a.attach(-1)
			if err != nil {
				t.Fatal(err)
			}
			say := func(event string, last bool) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.out.put(a.taken, func(dst []byte) ([]byte, error) {
					return append(dst, "data: "+event+"\n\n"...), nil
				})
				if last {
					a.running = 0
				}
				a.tell()
			}
			w, ended := httptest.NewRecorder(), make(chan error)
			go func() { ended <- s.stream(w, httptest.NewRequest("POST", "/", nil), a, reader, news) }()
			say("one", false)
			time.Sleep(2*s.c.CommentEvery + time.Second) // of the bubble's time
			say("two", true)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			body := w.Body.String()
			got, comments := strings.Join(readAs(body), " "), strings.Count(body, ": wait\n")
			if got != "one two" || comments != 2 {
				t.Errorf("numbered %v: it reads %q of %q, want one, two and two comments", numbered, got, body)
			}
		})
	}
}
