package bus

import (
	"strings"
	"testing"
)

// An answer goes to an inbox of whoever the request's subject ends in, and nowhere else: who answers may
// publish where the asker may not.
func TestAnswersGoToTheAskersOwnInbox(t *testing.T) {
	task := TaskSubject("ada", "")
	for reply, want := range map[string]bool{
		InboxOf("ada") + ".x7":   true,
		InboxOf("ada") + ".x7.3": true,
		InboxOf("bob") + ".x7":   false, // another's
		InboxOf("adam") + ".x7":  false,
		InboxOf("ad") + ".a.x7":  false,
		InboxOf("ada"):           false, // nobody listens there
		InboxOf("ada") + ".":     false,
		InboxOf("ada") + ".*":    false,
		InboxOf("ada") + ".>":    false,
		InboxOf("ada") + ".x y":  false,
		InboxOf("ada") + "..x":   false, // no server lets anybody publish on these
		InboxOf("ada") + ".x.":   false,
		InboxOf("ada") + ".x..y": false,
		InboxOf("ada") + "." + strings.Repeat("x", MaxInbox-len("_INBOX.ada.")):   true,
		InboxOf("ada") + "." + strings.Repeat("x", MaxInbox-len("_INBOX.ada.")+1): false,
		"":                                    false,
		"_INBOX.x7":                           false,
		CompletionSubject("x", "a1"):          false,
		ReplySubject("ada", "t", "a1"):        false,
		DispatchSubject("a1", "math"):         false,
		"$JS.API.STREAM.DELETE.j":             false,
		strings.ToLower(InboxOf("ada")) + ".": false,
	} {
		if got := AnswersTo(task, reply); got != want {
			t.Errorf("a task of ada is answered to %q: %v, want %v", reply, got, want)
		}
	}
	by := TaskSubject("ada", "g1")
	if AnswersTo(by, InboxOf("ada")+".x") || !AnswersTo(by, InboxOf("g1")+".x") {
		t.Error("what a gateway asks is answered to the gateway")
	}
}

func TestSubjectsNameTheirSender(t *testing.T) {
	for subject, want := range map[string][2]string{
		TaskSubject("ada", ""):     {"ada", "ada"},
		TaskSubject("ada", "g1"):   {"ada", "g1"},
		TaskSubject("", "g1"):      {},
		TaskSubject("a", "b.c"):    {},
		"souk.v1.task.":            {},
		"souk.v1.task.ada.":        {},
		"souk.v1.task.*":           {},
		"souk.v1.cancel.ada":       {},
		DoorCancelSubject("a", ""): {},
	} {
		client, sender := Speaks(subject, TaskSubject("", ""))
		if want != [2]string{client, sender} {
			t.Errorf("%s is of %q by %q, want %q", subject, client, sender, want)
		}
	}
	place := TakenSubject("math", "7-0", "a1")
	for _, c := range []struct{ subject, domain, agent, want string }{
		{place, "math", "a1", "7-0"}, {place, "math", "a2", ""}, {place, "code", "a1", ""},
		{place + ".a1", "math", "a1", ""}, {"souk.v1.hub.math.taken.a1", "math", "a1", ""},
		{"souk.v1.hub.math.taken..a1", "math", "a1", ""}, {"", "math", "a1", ""},
		{CompletionSubject("math", "a1"), "math", "a1", ""}, {"_INBOX.a1", "math", "a1", ""},
	} {
		if got := Taken(c.subject, c.domain, c.agent); got != c.want {
			t.Errorf("%s of %s and %s has the place %q, want %q", c.subject, c.domain, c.agent, got, c.want)
		}
	}
	if token, sender := Replied(ReplySubject("g1", "t", "a1")); token != "t" || sender != "a1" {
		t.Errorf("%q by %q", token, sender)
	}
}

func FuzzSubjects(f *testing.F) {
	for _, s := range []string{TaskSubject("ada", "g1"), ReplyTo("g1", "t"), ReplySubject("g1", "t", "a1"),
		TakenSubject("math", "7-0", "a1"), InboxOf("g1") + ".x", "..", ""} {
		f.Add(s, "a1")
	}
	f.Fuzz(func(t *testing.T, subject, name string) {
		if client, sender := Speaks(subject, TaskSubject("", "")); client != "" {
			own := TaskSubject(client, sender)
			if own != subject && (client != sender || TaskSubject(client, "") != subject) {
				t.Errorf("%q is read as %q", subject, own)
			}
		}
		if reader, token, ok := ReaderOf(subject); ok && ReplyTo(reader, token) != subject {
			t.Errorf("%q is read as %q and %q", subject, reader, token)
		}
		if place := Taken(subject, name, name); place != "" && TakenSubject(name, place, name) != subject {
			t.Errorf("%q is read as place %q", subject, place)
		}
		if AnswersTo("x."+name, subject) && !strings.HasPrefix(subject, InboxOf(name)+".") &&
			!strings.Contains(name, ".") {
			t.Errorf("%q is an inbox of %q", subject, name)
		}
		if AnswersTo("x."+name, subject) && (!IsInbox(subject) || len(subject) > MaxInbox) {
			t.Errorf("%q is no inbox, and answered", subject)
		}
		_, _ = Replied(subject)
	})
}
