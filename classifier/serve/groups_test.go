package serve_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"souk/bus"
)

// told returns what the door tells a hub of one client's task, and of its quote: the hash of the last prefix,
// session, role and salt.
func (w *world) told(h *hub, quotes func() []bus.Task, client, body string) (prefix uint64, session, role,
	salt string) {
	w.t.Helper()
	if out := w.ask(client, strings.Replace(body, "{", `{"stream":true,`, 1), nil); out["code"] != nil {
		w.t.Fatal(out)
	}
	w.quote(client, body)
	tasks, asked := h.seen(), quotes()
	task, quote := tasks[len(tasks)-1], asked[len(asked)-1]
	if !slices.Equal(task.Prompt.Prefixes, quote.Prompt.Prefixes) || task.Session != quote.Session ||
		quote.Salt != "" {
		w.t.Errorf("of a task of %s a hub is told %+v, of its quote %+v", client, task.Prompt, quote.Prompt)
	}
	return task.Prompt.Prefixes[len(task.Prompt.Prefixes)-1].Hash, task.Session, task.Role, task.Salt
}

// Of the same text that two clients send no hub is told anything that is the same, nor is an engine: neither
// in prefixes, nor in sessions and roles that are made of it, nor in the salt. Of two that the operator put
// into one group it is told the same, until he takes one out; and a group that is called as a client is is
// not that client's. A salt of a client's own is another one within its group alone, and one that somebody
// saw is no way in.
func TestCacheGroupsAreKeptApart(t *testing.T) {
	put := func(w *world, key, value string) {
		if err := w.reg.Put(w.t.Context(), key, []byte(value)); err != nil {
			w.t.Fatal(err)
		}
		synctest.Wait()
	}
	before := func(w *world) { put(w, bus.GroupKey("bob"), `{"client":"bob","group":"team"}`) }
	inWorldAfter(t, nil, before, func(t *testing.T, w *world) {
		h := w.hub("math", bus.Status{Labels: []string{"math"}, General: true})
		quotes := h.quotes(h.of("llama"))
		const text = `"messages":[{"role":"system","content":"Be brief, and very exact, and most polite.%s"},` +
			`{"role":"user","content":"My pin is 4711."}]`
		long := strings.Replace(text, "%s", strings.Repeat(" Count to three before you speak.", 20), 1)
		body := "{" + long + "}"
		type said struct {
			prefix              uint64
			session, role, salt string
		}
		tell := func(client, body string) (s said) {
			s.prefix, s.session, s.role, s.salt = w.told(h, quotes, client, body)
			if s.prefix == 0 || s.session == "" || s.role == "" || !bus.ValidID(s.salt) {
				t.Errorf("of %s a hub is told %+v", client, s)
			}
			return s
		}
		apart := func(why string, a, b said) {
			t.Helper()
			if a.prefix == b.prefix || a.session == b.session || a.role == b.role || a.salt == b.salt {
				t.Errorf("%s: %+v and %+v", why, a, b)
			}
		}
		ann := tell("ann", body)
		if again := tell("ann", body); again != ann {
			t.Errorf("of the same text of one client: %+v and %+v", ann, again)
		}
		apart("two clients", ann, tell("eve", body))
		apart("a group of its own, and one of the operator's", ann, tell("bob", body))
		put(w, bus.GroupKey("eve"), `{"client":"eve","group":"ann"}`)
		apart("a group that is called as a client is", ann, tell("eve", body))
		for _, wrong := range []string{`{"client":"eve"}`, `{"client":"ann","group":"team"}`, `{`} {
			put(w, bus.GroupKey("eve"), wrong)
			apart("a group that is not understood", tell("bob", body), tell("eve", body))
		}

		put(w, bus.GroupKey("ann"), `{"client":"ann","group":"team"}`)
		team := tell("bob", body)
		if joined := tell("ann", body); joined != team {
			t.Errorf("of one group: %+v and %+v", joined, team)
		}
		salted := "{" + long + `,"cache_salt":"pepper"}`
		own := tell("ann", salted)
		if own != tell("bob", salted) {
			t.Errorf("a salt of its own is another one in the same group: %+v", own)
		}
		apart("a salt of its own", own, team)
		apart("a salt of two groups", own, tell("eve", salted))
		stolen := tell("eve", "{"+long+`,"cache_salt":"`+team.salt+`"}`)
		apart("a salt that was seen", team, stolen)
		if err := w.reg.Delete(t.Context(), bus.GroupKey("ann")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if out := tell("ann", body); out != ann {
			t.Errorf("out of the group: %+v, and before it joined %+v", out, ann)
		}
		out := w.ask("ann", "{"+long+`,"cache_salt":"a/b"}`, nil)
		w.wantCode(out, bus.CodeBadRequest)
		m, _ := out["message"].(string)
		if !strings.Contains(m, "cache_salt") || !strings.Contains(m, "'/'") {
			t.Errorf("a salt with a slash: %v", out)
		}
	})
}

// A door that may not read who is in which group keeps all apart, and opens.
func TestADoorThatMayNotReadGroups(t *testing.T) {
	before := func(w *world) {
		w.forbidden = bus.GroupsPrefix
		for _, client := range []string{"ann", "bob"} {
			if err := w.reg.Put(w.t.Context(), bus.GroupKey(client),
				[]byte(`{"client":"`+client+`","group":"team"}`)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	inWorldAfter(t, nil, before, func(t *testing.T, w *world) {
		h := w.hub("math", bus.Status{Labels: []string{"math"}, General: true})
		quotes := h.quotes(h.of("llama"))
		prefix, _, _, salt := w.told(h, quotes, "ann", chat("hello", ""))
		if other, _, _, its := w.told(h, quotes, "bob", chat("hello", "")); other == prefix || its == salt {
			t.Error("it takes two clients for one group")
		}
	})
}
