package natsbus_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
)

// held returns the memory in use of this process, and so of the server in it.
func held() uint64 {
	runtime.GC()
	runtime.GC() // what pools held is gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A server keeps nothing of a question but what is on its way: whoever asks with reply subjects as long as a
// server takes them, on every subject that its role may ask, and is answered nowhere, does not fill it.
func TestAFloodOfQuestionsIsNotKept(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	const questions, length, most = 160, 64 << 10, 4 << 20 // 10 MB of reply subjects
	s, keys := keyed(t, "127.0.0.1:0")
	for _, c := range []struct {
		asks    bus.Role
		subject string
		answers bus.Role
		ids     bus.IDs
	}{
		{bus.RoleClient, "souk.v1.task.client", bus.RoleDoor, bus.IDs{Name: "door"}},
		{bus.RoleClient, "souk.v1.ledger.balance.client", bus.RoleTreasury, bus.IDs{Name: "treasury"}},
		{bus.RoleClient, "souk.v1.hub.math.feedback.client", bus.RoleHub,
			bus.IDs{Name: "math", Domain: "math"}},
	} {
		role := func(role bus.Role, ids bus.IDs) *nats.Conn {
			path, err := keys.Ensure(role, ids, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return plain(t, s.URL, ids.Name, natsauth.File(path))
		}
		from, to := role(c.asks, bus.IDs{Name: string(c.asks)}), role(c.answers, c.ids)
		heard := 0
		if _, err := to.Subscribe(c.subject, func(*nats.Msg) { heard++ }); err != nil {
			t.Fatal(err)
		}
		for _, where := range []string{bus.InboxOf(string(c.asks)), "souk.v1.nobody"} {
			flush(t, to)
			before := held()
			for i := range questions {
				reply := fmt.Sprintf("%s.%d.%s", where, i, strings.Repeat("x", length))
				if err := from.PublishRequest(c.subject, reply, nil); err != nil {
					t.Fatal(err)
				}
			}
			flush(t, from, to)
			if grown := int64(held()) - int64(before); grown > most {
				t.Errorf("%d questions on %s, to be answered below %s, leave %d bytes, want at most %d",
					questions, c.subject, where, grown, most)
			}
		}
		from.Close()
		to.Close()
	}
}

func flush(t *testing.T, conns ...*nats.Conn) {
	t.Helper()
	for _, nc := range conns {
		if err := nc.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// Who was asked may write to any inbox, and knows where one question was to be answered; it finds no other
// question's place by that.
func TestAnAnswerIsOfWhoWasAsked(t *testing.T) {
	s, keys := keyed(t, "127.0.0.1:0")
	as := func(role bus.Role, ids bus.IDs) *natsbus.Bus {
		return connect(t, natsbus.Config{URL: s.URL, Name: ids.Name,
			Creds: creds(t)(keys.Ensure(role, ids, time.Now()))})
	}
	door := as(bus.RoleDoor, bus.IDs{Name: "door"})
	law := as(bus.RoleHub, bus.IDs{Name: "hub-law", Domain: "law"})
	maths := as(bus.RoleHub, bus.IDs{Name: "hub-maths", Domain: "maths"})
	asked := make(chan string, 9)
	hear := func(hub *natsbus.Bus, domain string, h bus.Handler) {
		if _, err := hub.Subscribe(bus.HubTaskSubject(domain, "*"), "", h); err != nil {
			t.Fatal(err)
		}
		if err := hub.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	hear(law, "law", func(m bus.Msg) {
		asked <- m.Reply
		law.Publish(bus.Msg{Subject: m.Reply, Data: []byte("law")})
	})
	var place string
	hear(maths, "maths", func(m bus.Msg) {
		// before it answers, the other tries what it knows, and what comes next
		head := strings.TrimSuffix(place, bus.LastToken(place))
		for i := range uint64(64) {
			law.Publish(bus.Msg{Subject: head + strconv.FormatUint(i, 36), Data: []byte("forged")})
		}
		law.Publish(bus.Msg{Subject: place, Data: []byte("twice")})
		if err := law.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		maths.Publish(bus.Msg{Subject: m.Reply, Data: []byte("maths")})
	})
	for range 8 {
		for _, domain := range []string{"law", "maths"} {
			m, err := door.Request(within(t), bus.Msg{Subject: bus.HubTaskSubject(domain, "door")})
			if err != nil || string(m.Data) != domain {
				t.Errorf("the hub of %s says %q, %v", domain, m.Data, err)
			}
			if domain == "law" {
				place = <-asked
			}
		}
	}
	places := map[string]bool{}
	for range 100 {
		places[bus.LastToken(door.Inbox())[:20]] = true // of no two the one is made of the other
	}
	if len(places) != 100 {
		t.Errorf("%d inboxes of 100 begin alike", 100-len(places))
	}
}

// A connection has so many subscriptions, as its role needs, and then no more.
func TestSubscriptionsAreBounded(t *testing.T) {
	const tried, most = 3000, 16
	s, keys := keyed(t, "127.0.0.1:0")
	path, err := keys.Ensure(bus.RoleClient, bus.IDs{Name: "dev"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	nc := plain(t, s.URL, "dev", natsauth.File(path))
	everyone := plain(t, s.URL, "everyone", anything(t, keys, "everyone"))
	heard := make(chan *nats.Msg, tried)
	for i := range tried {
		if _, err := nc.ChanSubscribe(fmt.Sprintf("souk.v1.reply.dev.%d", i), heard); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, nc)
	for i := range tried {
		if err := everyone.Publish(fmt.Sprintf("souk.v1.reply.dev.%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, everyone, nc)
	if n := len(heard); n != most {
		t.Errorf("%d of %d subscriptions hear something, want %d", n, tried, most)
	}
}
