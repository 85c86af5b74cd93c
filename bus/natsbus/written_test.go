package natsbus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/natsauth"
)

// written is the table of subjects as it was designed, by hand: on each subject who may speak, and who hears.
// A name in angle brackets is any id. Of the one that is SELF only the one who bears it may speak, or hear;
// nothing here is made from PermissionsOf.
const written = `
task.SELF                      client
task.<c>.SELF                  gateway
quote.SELF                     client
quote.<c>.SELF                 gateway
cancel.SELF                    client
cancel.<c>.SELF                gateway
end.SELF                       client
end.<c>.SELF                   gateway
hub.<d>.task.SELF              door
hub.<d>.quote.SELF             door
hub.<d>.end.SELF               door
hub.<d>.cancel.SELF            door client
hub.<d>.feedback.SELF          client
hub.<d>.feedback.<c>.SELF      gateway
hub.<d>.summary.SELF           agent
hub.<d>.completion.SELF        agent
hub.<d>.holdings.SELF          agent
hub.<d>.ask.SELF               agent
hub.<d>.taken.<p>.SELF         agent
hub.<d>.recall.SELF            treasury
hub.<d>.watch.SELF             viewer operator
agent.<a>.dispatch.SELF        domain
agent.<a>.call.SELF            domain
agent.<a>.control.SELF         domain
agent.<a>.stream.SELF          client gateway door
reply.<r>.<t>.SELF             domain agent
status.SELF                    domain
feed.SELF                      domain
ledger.allot.SELF              hub
ledger.return.SELF             hub
ledger.allotted.SELF           hub
ledger.close.SELF              hub
ledger.deposit.SELF            operator
ledger.payout.SELF             operator
ledger.move.SELF               operator
ledger.budget.SELF             operator
ledger.distribute.SELF         operator
ledger.remit.SELF              operator
ledger.refund.SELF             operator
ledger.month.SELF              operator
ledger.writeoff.SELF           operator
ledger.sums.SELF               operator
ledger.balance.SELF            client
ledger.balance.<c>.SELF        gateway operator
`

// ears reports whether a member is to hear a subject.
func ears(subject string, m member) bool {
	part := strings.Split(strings.TrimPrefix(subject, "souk.v1."), ".")
	switch part[0] {
	case "task", "quote", "cancel", "end":
		return m.role == bus.RoleDoor && len(part) > 1
	case "hub":
		return m.role == bus.RoleHub && len(part) > 2 && part[1] == m.domain
	case "agent":
		return m.role == bus.RoleAgentd && len(part) > 2 && slices.Contains(m.agents, part[1])
	case "reply":
		return (m.role == bus.RoleClient || m.role == bus.RoleGateway || m.role == bus.RoleDoor) &&
			len(part) > 2 && part[1] == m.name
	// a server takes "status.>" where "status.*" is allowed; on what is longer nobody may speak
	case "status":
		return len(part) > 1 && (m.role == bus.RoleClient || m.role == bus.RoleGateway ||
			m.role == bus.RoleDoor || m.role == bus.RoleOperator || m.role == bus.RoleViewer)
	case "feed":
		return len(part) > 1 && (m.role == bus.RoleViewer || m.role == bus.RoleOperator)
	case "ledger":
		return m.role == bus.RoleTreasury && len(part) > 1
	}
	return false
}

type member struct {
	role         bus.Role
	name, domain string
	agents       []string
}

// answers reports whether who asks the member is answered by it, in an inbox.
func (m member) answers() bool {
	return m.role == bus.RoleDoor || m.role == bus.RoleHub || m.role == bus.RoleTreasury
}

// bears reports whether a word of the table is one of the member's own names.
func (m member) bears(word, id string) bool {
	switch word {
	case "agent":
		return slices.Contains(m.agents, id)
	case "domain":
		return m.role == bus.RoleHub && m.domain == id
	}
	return word == string(m.role) && m.name == id
}

// The table of subjects, as it was written by hand and not as the program has it, holds at a server with the
// file of souk auth init: who is named there is heard, with whatever ids in the other places, and nobody else
// is; what one hears nobody else does, by whatever pattern, alone or in a queue group.
func TestTheTableAsWritten(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	keys, err := natsauth.Init(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := keys.ServerConfig(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte("listen: \"127.0.0.1:-1\"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := natsserver.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	options.NoLog, options.NoSigs = true, true
	s, err := natsserver.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}

	members := []member{
		// a client may have such names
		{bus.RoleClient, "ann", "", nil}, {bus.RoleClient, "balance", "", nil},
		{bus.RoleClient, "deposit", "", nil}, {bus.RoleGateway, "gate", "", nil},
		{bus.RoleGateway, "task", "", nil}, {bus.RoleDoor, "door", "", nil}, {bus.RoleDoor, "hub", "", nil},
		{bus.RoleHub, "journal", "math", nil}, {bus.RoleHub, "law", "law", nil},
		{bus.RoleAgentd, "node", "", []string{"a1", "a2"}}, {bus.RoleAgentd, "solo", "", []string{"solo"}},
		{bus.RoleTreasury, "bank", "", nil}, {bus.RoleOperator, "op", "", nil},
		{bus.RoleViewer, "eye", "", nil},
	}
	var ids []string // in every place
	for _, m := range members {
		ids = append(ids, m.name)
		ids = append(ids, m.agents...)
	}
	ids = append(ids, "math", "stranger", "ünï", strings.Repeat("x", 1000), "$SYS", "_INBOX", "*", ">")
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))

	// subject -> words of who may speak there, and under which id
	type line struct{ words, id string }
	table := map[string][]line{}
	for _, l := range strings.Split(strings.TrimSpace(written), "\n") {
		subject, words, _ := strings.Cut(l, " ")
		for _, self := range ids {
			for _, other := range []string{"ann", "stranger", "math", "a1", "ünï", "*", ">", self} {
				var at []string
				for _, part := range strings.Split(subject, ".") {
					if strings.HasPrefix(part, "<") {
						part = other
					} else if part == "SELF" {
						part = self
					}
					at = append(at, part)
				}
				one := "souk.v1." + strings.Join(at, ".")
				table[one] = append(table[one], line{words, self})
				for _, odd := range []string{one + ".x", strings.Replace(one, "v1", "v2", 1),
					strings.ToUpper(one)} {
					table[odd] = append(table[odd], line{})
				}
			}
		}
	}
	for _, system := range []string{"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.x.CLAIMS.UPDATE",
		"$SYS.ACCOUNT.x",
		"$JS.API.INFO", "$JS.API.STREAM.CREATE.x", "$KV.x", "$O.x", "_INBOX.ann.x", "_INBOX.door.x", "_INBOX",
		"_INBOX.*.x", "_R_.x.y", "_GR_.x", "$SRV.PING", "$SRV.PING.souk", "$SRV", "souk.v1", "souk",
		"$MQTT.x", "$G.x", "$NRG.x", "souk.v1.nobody.ann", "souk.v1.ledger.witness.op", "souk.v1.ledger.op"} {
		table[system] = append(table[system], line{})
	}
	subjects := []string{}
	for one := range table {
		subjects = append(subjects, one)
	}
	slices.Sort(subjects)

	connect := func(file, name string) *nats.Conn {
		nc, err := nats.Connect(s.ClientURL(), nats.UserCredentials(file),
			nats.Name(name), nats.NoReconnect(), nats.Timeout(bustest.Patience),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	spy := connect(unbound(t, keys, "spy"), "spy")
	all, err := spy.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := all.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	flush := func(conns ...*nats.Conn) {
		t.Helper()
		for _, nc := range conns {
			if err := nc.FlushTimeout(time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
	flush(spy)
	drained := func(sub *nats.Subscription) map[string]bool {
		t.Helper()
		got := map[string]bool{}
		for n, _, _ := sub.Pending(); n > 0; n-- {
			m, err := sub.NextMsg(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			got[m.Subject] = true
		}
		return got
	}

	wrong := 0
	complain := func(format string, args ...any) {
		if wrong++; wrong < 30 {
			t.Errorf("%s", fmt.Sprintf(format, args...))
		}
	}
	for _, m := range members {
		given := bus.IDs{Name: m.name, Domain: m.domain, Agents: m.agents}
		file, err := keys.Add(m.role, given, time.Now(), natsauth.Valid)
		if err != nil {
			t.Fatal(err)
		}
		nc := connect(file, m.name)
		for _, one := range subjects {
			if err := nc.Publish(one, nil); err != nil {
				t.Fatal(err)
			}
		}
		flush(nc, spy)
		said, may := drained(all), 0
		for _, one := range subjects {
			want := slices.ContainsFunc(table[one], func(l line) bool {
				return slices.ContainsFunc(strings.Fields(l.words), func(w string) bool {
					return m.bears(w, l.id)
				})
			}) || m.answers() && strings.HasPrefix(one, "_INBOX.") && strings.Count(one, ".") > 1
			if want {
				may++
			}
			if said[one] != want {
				complain("%s %s speaks on %.120s: %v, want %v", m.role, m.name, one, said[one], want)
			}
		}
		if may == 0 {
			t.Errorf("%s %s may say nothing of %d subjects", m.role, m.name, len(subjects))
		}

		patterns := []string{">", "*", "*.*.>", "souk.>", "souk.v1.>", "souk.v1.*.>", "souk.*.reply.>",
			"souk.v1.reply.*.>", "souk.v1.reply.*.*.*", "souk.v1.reply.ann.>", "souk.v1.task.*",
			"souk.v1.*.ann",
			"souk.v1.hub.*.completion.>", "souk.v1.hub.*.>", "souk.v1.agent.*.stream.ann", "souk.v1.agent.>",
			"souk.v1.ledger.balance.ann", "souk.v1.ledger.>", "souk.v1.feed.>", "souk.v1.status.>",
			"_INBOX.>",
			"_INBOX.*.>", "_INBOX.ann.*", "_INBOX.door.>", "$SYS.>", "$SRV.>", "$JS.>", "_R_.>", "_GR_.>",
			"souk.v1.cancel.>", "souk.v1.end.>", "souk.v1.quote.>"}
		var subs []*nats.Subscription
		for _, p := range patterns {
			for _, queue := range []string{"", "doors", "q"} {
				sub, err := nc.QueueSubscribeSync(p, queue)
				if err != nil {
					t.Fatal(err)
				}
				if err := sub.SetPendingLimits(-1, -1); err != nil {
					t.Fatal(err)
				}
				subs = append(subs, sub)
			}
		}
		flush(nc)
		for _, one := range subjects {
			if err := spy.Publish(one, nil); err != nil {
				t.Fatal(err)
			}
		}
		flush(spy, nc)
		for _, sub := range subs {
			for one := range drained(sub) {
				mine := ears(one, m) || strings.HasPrefix(one, "_INBOX."+m.name+".")
				for _, a := range m.agents {
					mine = mine || strings.HasPrefix(one, "_INBOX."+a+".")
				}
				if !mine {
					complain("%s %s hears %.120s by %s", m.role, m.name, one, sub.Subject)
				}
			}
		}
		drained(all)
		nc.Close()
	}
	t.Logf("%d members, %d subjects", len(members), len(subjects))
}
