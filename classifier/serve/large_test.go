package serve_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"souk/bus"
	"souk/classifier"
)

// A body that stays with its sender is read at the door, and its hub gets what the door read and where it is.
// A sender that lies about it, or that has none, is told so; there is room for so many bytes at once.
func TestALargeBodyIsReadAtTheDoor(t *testing.T) {
	inWorld(t, func(c *classifier.Config) { c.MaxOpenBytes = 1 << 20 }, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		body := fmt.Appendf(nil, `{"messages":[{"role":"user","content":[{"type":"text","text":%q},{"type":`+
			`"image_url","image_url":{"url":"data:,%s"}}]}]}`, mathQuestion, strings.Repeat("A", bus.MaxBody))
		gives := func(at int) []byte { return body[at:min(len(body), at+bus.MaxBody)] }
		w.subscribe(bus.BodySubject("ada", "door"), func(m bus.Msg) {
			var ask bus.BodyAsk
			if err := bus.Decode(m.Data, &ask); err != nil {
				t.Error(err)
				return
			}
			w.send(bus.PieceSubject("door", ask.Token, "ada"),
				&bus.BodyPiece{At: ask.At, Data: gives(ask.At)})
		})
		n := 0
		ask := func(l *bus.Large, change func(*bus.Task)) *bus.Answer {
			t.Helper()
			n++
			task := &bus.Task{ID: fmt.Sprint("t", n), Large: l, Stream: true}
			change(task)
			data, err := bus.Encode(task)
			if err != nil {
				t.Fatal(err)
			}
			m, err := w.me.Request(t.Context(), bus.Msg{Subject: bus.TaskSubject("ada", ""), Data: data})
			if err != nil {
				t.Fatal(err)
			}
			a := new(bus.Answer)
			if err := bus.Decode(m.Data, a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		same := func(*bus.Task) {}
		refused := func(what string, a *bus.Answer, code bus.Code, words string) {
			t.Helper()
			if a.Result == nil || a.Result.Code != code || !strings.Contains(a.Result.Message, words) {
				t.Errorf("%s: %+v", what, a.Result)
			}
		}
		if a := ask(bus.LargeOf(body), same); a.Accepted == nil || a.Accepted.Hub != "math" {
			t.Fatalf("%+v", a.Result)
		}
		tasks := append(math.seen(), general.seen()...)
		if got := &tasks[0]; len(got.Body) > 0 || got.Large == nil || got.Prompt.Tokens < 1500 ||
			got.Prompt.Tokens > 2000 || got.Prompt.Loose != bus.LooseMedia {
			t.Errorf("the hub got %d bytes, %+v, %d tokens", len(got.Body), got.Large, got.Prompt.Tokens)
		}
		refused("with a body, too", ask(bus.LargeOf(body), func(m *bus.Task) { m.Body = []byte(`{}`) }),
			bus.CodeBadRequest, "large: ")
		refused("asked for whole", ask(bus.LargeOf(body), func(m *bus.Task) { m.Stream = false }),
			bus.CodeBadRequest, "answered by a stream")
		refused("a larger one", ask(&bus.Large{Bytes: bus.MaxLarge + 1, SHA256: make([]byte, 32)}, same),
			bus.CodeTooLarge, "at most 33554432 are taken")
		refused("no room", ask(&bus.Large{Bytes: 2 << 20, SHA256: make([]byte, 32)}, same), bus.CodeNoRoom,
			"large bodies")
		gives = func(at int) []byte { return bytes.ToLower(body[at:min(len(body), at+bus.MaxBody)]) }
		refused("another body", ask(bus.LargeOf(body), same), bus.CodeBadRequest, "another hash")
		gives = func(int) []byte { return nil }
		refused("none", ask(bus.LargeOf(body), same), bus.CodeBadRequest, "ada has it no more")
		body = []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("A", bus.MaxBody))
		gives = func(at int) []byte { return body[at:min(len(body), at+bus.MaxBody)] }
		refused("half a body", ask(bus.LargeOf(body), same), bus.CodeBadRequest, "")
		if got := len(math.seen()) + len(general.seen()); got != 1 {
			t.Errorf("hubs were sent %d tasks", got)
		}
		if st := w.door.Stats(); st.Open != 0 {
			t.Errorf("%d tasks are left in hand", st.Open)
		}
	})
}
