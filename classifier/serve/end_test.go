package serve_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
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
