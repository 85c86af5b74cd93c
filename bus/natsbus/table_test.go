package natsbus_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/natsauth"
)

// plain connects as any program would, with creds.
func plain(t *testing.T, url, name string, creds natsauth.Source) *nats.Conn {
	t.Helper()
	i, err := creds()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(url, nats.CustomInboxPrefix(bus.InboxOf(name)), nats.Timeout(bustest.Patience),
		nats.SyncQueueLen(4096), // each subscription has room for 65,536 otherwise, and there are thousands
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // of each refusal
		nats.UserJWT(func() (string, error) { return i.JWT(), nil }, i.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// matches reports whether a pattern covers a subject.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}

func covered(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, subject) })
}

// D1: every pair of role and subject is tried against real servers, that of souk up and souk infra and one
// with the file of souk auth init, with the creds as a market makes them: what is in the table passes, and
// nothing else does, neither said nor heard, nor as an answer.
func TestEveryPairOfRoleAndSubject(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	s, keys := keyed(t, "127.0.0.1:0")
	t.Run("embedded", func(t *testing.T) { everyPair(t, s.URL, keys) })
	keys = store(t)
	t.Run("from a file", func(t *testing.T) { everyPair(t, fromFile(t, keys), keys) })
}

func everyPair(t *testing.T, url string, keys *natsauth.Store) {
	now := time.Now()
	// two of each role: what is one's is the other's to try
	var who []struct {
		role bus.Role
		ids  bus.IDs
	}
	for _, role := range bus.Roles {
		for _, one := range []string{"1", "2"} {
			ids := bus.IDs{Name: string(role) + one}
			switch role {
			case bus.RoleHub:
				ids.Domain = "domain" + one
			case bus.RoleAgentd:
				ids.Agents = []string{"agent" + one, "agent" + one + "b"}
			}
			who = append(who, struct {
				role bus.Role
				ids  bus.IDs
			}{role, ids})
		}
	}
	// the subjects are those of all tables, for each id, and some of nobody's
	subjects := map[string]bool{"souk.v1.nobody": true, "souk.v1.task": true, "souk.v2.task.client1": true,
		"elsewhere": true, "_INBOX.nobody.x": true, "$SRV.STATS.other": true, "$SRV.PING.other.x": true,
		"$JS.API.INFO": true, "souk.v1.ledger.rob.operator1": true, "souk.v1.hub.domain1.task": true}
	for _, w := range who {
		p, err := bus.PermissionsOf(w.role, w.ids)
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range slices.Concat(p.Publish, p.Subscribe) {
			for _, other := range []string{"client2", "gateway2", "agent2", "domain2", "x"} {
				subject := strings.ReplaceAll(strings.ReplaceAll(pattern, "*", other), ">", other)
				subjects[subject] = true
			}
		}
	}
	all := slices.Sorted(func(yield func(string) bool) {
		for s := range subjects {
			if !yield(s) {
				return
			}
		}
	})
	t.Logf("%d users, %d subjects", len(who), len(all))
	everyone := plain(t, url, "everyone", anything(t, keys, "everyone"))
	ears, err := everyone.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	flushed := func(conns ...*nats.Conn) {
		t.Helper()
		for _, nc := range conns {
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	flushed(everyone)
	for _, w := range who {
		path, err := keys.Add(w.role, w.ids, now, natsauth.Valid)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := bus.PermissionsOf(w.role, w.ids)
		nc := plain(t, url, w.ids.Name, natsauth.File(path))

		for _, subject := range all {
			if err := nc.PublishMsg(&nats.Msg{Subject: subject, Data: []byte(w.ids.Name)}); err != nil {
				t.Fatal(err)
			}
		}
		flushed(nc, everyone)
		said := map[string]bool{}
		for n, _, _ := ears.Pending(); n > 0; n-- {
			m, err := ears.NextMsg(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			said[m.Subject] = true
		}
		for _, subject := range all {
			if want := covered(p.Publish, subject); said[subject] != want {
				t.Errorf("%s says %s: %v, want %v", w.ids.Name, subject, said[subject], want)
			}
		}

		heard := map[string]*nats.Subscription{}
		ncs := []*nats.Conn{nc} // one has few subscriptions
		for range 2 {
			ncs = append(ncs, plain(t, url, w.ids.Name, natsauth.File(path)))
		}
		for i, subject := range slices.Concat(all, []string{">", "souk.>", "souk.v1.>", "_INBOX.>",
			"_INBOX.*.*",
			"souk.v1.reply.>", "souk.v1.reply.*.x.x", "souk.v1.agent.*.dispatch.*", "souk.v1.*.*"}) {
			if heard[subject], err = ncs[i%len(ncs)].SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
		}
		flushed(ncs...)
		for _, subject := range all {
			if err := everyone.Publish(subject, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		flushed(everyone)
		flushed(ncs...)
		for subject, sub := range heard {
			n, _, _ := sub.Pending()
			want := covered(p.Subscribe, subject) // of patterns none is wider than what is allowed
			if n > 0 && !want || n == 0 && want && subjects[subject] {
				t.Errorf("%s hears %s: %d messages, want some: %v", w.ids.Name, subject, n, want)
			}
		}
		for n, _, _ := ears.Pending(); n > 0; n-- {
			if _, err := ears.NextMsg(time.Minute); err != nil {
				t.Fatal(err)
			}
		}

		// a reply subject is the asker's word: it lets nobody say anywhere what it may not say anyway
		mine := slices.IndexFunc(all, func(s string) bool {
			return covered(p.Subscribe, s) && strings.HasPrefix(s, bus.Root)
		})
		if mine < 0 {
			t.Fatalf("%s hears nothing", w.ids.Name)
		}
		for _, where := range slices.Concat(all, []string{"_INBOX.echo.once"}) {
			if err := everyone.PublishRequest(all[mine], where, nil); err != nil {
				t.Fatal(err)
			}
		}
		flushed(everyone, nc)
		for n, _, _ := ears.Pending(); n > 0; n-- {
			if _, err := ears.NextMsg(time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		said = map[string]bool{}
		for _, where := range slices.Concat(all, []string{"_INBOX.echo.once"}) {
			if err := nc.Publish(where, nil); err != nil {
				t.Fatal(err)
			}
		}
		flushed(nc, everyone)
		for n, _, _ := ears.Pending(); n > 0; n-- {
			m, err := ears.NextMsg(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			said[m.Subject] = true
		}
		for _, where := range slices.Concat(all, []string{"_INBOX.echo.once"}) {
			if want := covered(p.Publish, where); said[where] != want {
				t.Errorf("%s, asked to answer at %s, does: %v, want %v", w.ids.Name, where, said[where], want)
			}
		}
		nc.Close()
	}
}
