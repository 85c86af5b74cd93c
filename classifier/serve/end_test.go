package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/classifier"
)

// ends returns what a hub hears of sessions that have ended.
func (h *hub) ends() (heard func() []bus.SessionEnd) {
	var all []bus.SessionEnd
	h.w.subscribe(bus.HubEndSubject(h.domain, "*"), func(m bus.Msg) {
		var e bus.SessionEnd
		if err := bus.Decode(m.Data, &e); err != nil || bus.LastToken(m.Subject) != "door" {
			h.w.t.Errorf("hub %s hears on %s: %v", h.domain, m.Subject, err)
		}
		h.mu.Lock()
		all = append(all, e)
		h.mu.Unlock()
	})
	return func() []bus.SessionEnd {
		h.mu.Lock()
		defer h.mu.Unlock()
		return all
	}
}

// The end of a session goes to every hub, in the name of whose subject it came on, whatever it says itself.
// It is no task: it counts against nothing, and a client that wants no answer gets none.
func TestTheEndOfASessionIsPassedOn(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, general := twoHubs(w)
		heard := []func() []bus.SessionEnd{math.ends(), general.ends()}
		ask := func(client, gateway, body string) (out map[string]any) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			m, err := w.me.Request(ctx, bus.Msg{Subject: bus.EndSubject(client, gateway), Data: []byte(body)})
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(m.Data, &out); err != nil {
				t.Fatalf("%v: %q", err, m.Data)
			}
			return out
		}
		if said := ask("me", "", `{"session":"s-1","client":"bob"}`); said["hubs"] != 2.0 ||
			said["session"] != "s-1" || said["code"] != nil {
			t.Errorf("the door says %v", said)
		}
		for _, bad := range []string{``, `{}`, `{"session":"a b"}`, `{"session":7}`, `[]`, "\xc1"} {
			said := ask("me", "", bad)
			if said["code"] != string(bus.CodeBadRequest) || said["message"] == "" {
				t.Errorf("%q: %v", bad, said)
			}
		}
		w.me.Publish(bus.Msg{Subject: bus.EndSubject("me", ""), Data: []byte(`{"session":"s-2"}`)})
		w.me.Publish(bus.Msg{Subject: bus.EndSubject("me", ""), Reply: "_INBOX.eve.1",
			Data: []byte(`{"session":"s-3"}`)}) // whose answer would go to another
		synctest.Wait()
		for _, heard := range heard {
			all := heard()
			if len(all) != 2 || all[0] != (bus.SessionEnd{Client: "me", Session: "s-1"}) ||
				all[1] != (bus.SessionEnd{Client: "me", Session: "s-2"}) {
				t.Errorf("a hub heard %+v", all)
			}
		}
		if st := w.door.Stats(); st.Ended[""] != 2 || st.Ended[bus.CodeBadRequest] != 6 || st.Stray != 1 ||
			st.Received != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// endOf says the end of a session, and returns what the door answers.
func (w *world) endOf(client, session string) (said bus.SessionEnded) {
	w.t.Helper()
	data, err := bus.Encode(&bus.SessionEnd{Session: session})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	m, err := w.me.Request(ctx, bus.Msg{Subject: bus.EndSubject(client, ""), Data: data})
	if err == nil {
		err = bus.Decode(m.Data, &said)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return said
}

// Each end is told every hub. So a client has so many in a second, and all have so many; then they may say it
// again.
func TestEndsOfSessionsAreBounded(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		heard := math.ends()
		var told, refused int
		count := func(client string, code bus.Code) {
			t.Helper()
			switch said := w.endOf(client, "s"); said.Code {
			case "":
				told++
			case code:
				refused++
			default:
				t.Fatalf("%s is told %+v", client, said)
			}
		}
		for range classifier.EndsEach + 10 {
			count("ada", bus.CodeTooManyTasks)
		}
		if told != classifier.EndsEach || refused != 10 {
			t.Errorf("of one client %d were told and %d refused", told, refused)
		}
		for i := range classifier.EndsMost {
			count(fmt.Sprint("c", i), bus.CodeNoRoom)
		}
		if told != classifier.EndsMost {
			t.Errorf("of all clients %d were told", told)
		}
		time.Sleep(time.Second)
		count("ada", bus.CodeTooManyTasks)
		synctest.Wait()
		if told != classifier.EndsMost+1 || len(heard()) != told {
			t.Errorf("after a second %d were told, and a hub heard %d", told, len(heard()))
		}
	})
}

// A door that closes sends who comes to another one: it would not see to it that hubs hear of the end.
func TestAClosingDoorTakesNoEnds(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		math, _ := twoHubs(w)
		heard := math.ends()
		w.line.freeze() // what comes waits for its handler
		done := make(chan bus.SessionEnded, 1)
		go func() { done <- w.endOf("ada", "s") }()
		synctest.Wait()
		w.stop()
		synctest.Wait()
		w.line.thaw()
		if said := <-done; said.Code != bus.CodeDraining || said.Hubs != 0 {
			t.Errorf("it says %+v", said)
		}
		synctest.Wait()
		if all := heard(); len(all) != 0 {
			t.Errorf("a hub heard %+v", all)
		}
	})
}
