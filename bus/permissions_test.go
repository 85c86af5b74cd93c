package bus

import (
	"slices"
	"strings"
	"testing"
)

// The table of roles, as it is documented: what each may publish and hear, word for word.
func TestPermissionsOf(t *testing.T) {
	for _, c := range []struct {
		role      Role
		ids       IDs
		say, hear string
	}{
		{RoleClient, IDs{Name: "C"},
			`souk.v1.task.C souk.v1.quote.C souk.v1.cancel.C souk.v1.end.C souk.v1.hub.*.cancel.C
			souk.v1.hub.*.feedback.C souk.v1.agent.*.stream.C souk.v1.piece.*.*.C souk.v1.ledger.balance.C`,
			`souk.v1.reply.C.> souk.v1.body.C.> souk.v1.status.* _INBOX.C.>`},
		{RoleGateway, IDs{Name: "G"},
			`souk.v1.task.*.G souk.v1.quote.*.G souk.v1.cancel.*.G souk.v1.end.*.G souk.v1.hub.*.feedback.*.G
			souk.v1.agent.*.stream.G souk.v1.piece.*.*.G souk.v1.ledger.balance.*.G`,
			`souk.v1.reply.G.> souk.v1.body.G.> souk.v1.status.* _INBOX.G.>`},
		{RoleDoor, IDs{Name: "D"},
			`souk.v1.hub.*.task.D souk.v1.hub.*.quote.D souk.v1.hub.*.cancel.D souk.v1.hub.*.end.D
			souk.v1.agent.*.stream.D souk.v1.body.*.D _INBOX.*.>`,
			`souk.v1.task.> souk.v1.quote.> souk.v1.cancel.> souk.v1.end.> souk.v1.reply.D.> souk.v1.piece.D.>
			souk.v1.status.* _INBOX.D.>`},
		{RoleHub, IDs{Name: "J", Domain: "X"},
			`souk.v1.agent.*.dispatch.X souk.v1.agent.*.call.X souk.v1.agent.*.control.X souk.v1.reply.*.*.X
			souk.v1.status.X souk.v1.feed.X souk.v1.ledger.allot.J souk.v1.ledger.return.J
			souk.v1.ledger.allotted.J souk.v1.ledger.close.J _INBOX.*.>`,
			`souk.v1.hub.X.> _INBOX.J.>`},
		{RoleAgentd, IDs{Name: "N", Agents: []string{"A", "B"}},
			`souk.v1.hub.*.summary.A souk.v1.hub.*.completion.A souk.v1.hub.*.holdings.A souk.v1.hub.*.ask.A
			souk.v1.hub.*.taken.*.A souk.v1.reply.*.*.A souk.v1.body.*.A
			souk.v1.hub.*.summary.B souk.v1.hub.*.completion.B souk.v1.hub.*.holdings.B souk.v1.hub.*.ask.B
			souk.v1.hub.*.taken.*.B souk.v1.reply.*.*.B souk.v1.body.*.B`,
			`souk.v1.agent.A.> souk.v1.piece.A.> _INBOX.A.> souk.v1.agent.B.> souk.v1.piece.B.> _INBOX.B.> _INBOX.N.>`},
		{RoleTreasury, IDs{Name: "T"}, `souk.v1.hub.*.recall.T _INBOX.*.>`, `souk.v1.ledger.> _INBOX.T.>`},
		{RoleOperator, IDs{Name: "O"},
			`souk.v1.ledger.deposit.O souk.v1.ledger.payout.O souk.v1.ledger.move.O souk.v1.ledger.budget.O
			souk.v1.ledger.distribute.O souk.v1.ledger.remit.O souk.v1.ledger.refund.O souk.v1.ledger.month.O souk.v1.ledger.writeoff.O
			souk.v1.ledger.sums.O souk.v1.ledger.balance.*.O souk.v1.hub.*.watch.O`,
			`souk.v1.status.* souk.v1.feed.* _INBOX.O.>`},
		{RoleViewer, IDs{Name: "V"}, `souk.v1.hub.*.watch.V`,
			`souk.v1.status.* souk.v1.feed.* _INBOX.V.>`},
	} {
		got, err := PermissionsOf(c.role, c.ids)
		if err != nil {
			t.Fatalf("%s: %v", c.role, err)
		}
		if want := strings.Fields(c.say); !slices.Equal(got.Publish, want) {
			t.Errorf("%s publishes\n%q, want\n%q", c.role, got.Publish, want)
		}
		if want := strings.Fields(c.hear); !slices.Equal(got.Subscribe, want) {
			t.Errorf("%s hears\n%q, want\n%q", c.role, got.Subscribe, want)
		}
	}
}

// An id that is none, or that belongs to another role, makes no permissions: a wildcard in a name would be
// the right to speak for all.
func TestPermissionsWantIDs(t *testing.T) {
	many := make([]string, MaxUserAgents+1)
	for i := range many {
		many[i] = "a"
	}
	for _, c := range []struct {
		role Role
		ids  IDs
		says string
	}{
		{RoleClient, IDs{}, "name: "},
		{RoleClient, IDs{Name: "*"}, "name: "},
		{RoleClient, IDs{Name: ">"}, "name: "},
		{RoleClient, IDs{Name: "a.b"}, "name: "},
		{RoleClient, IDs{Name: "{task,cancel}"}, "name: "},
		{"banker", IDs{Name: "a"}, "role: "},
		{"", IDs{Name: "a"}, "role: "},
		{RoleHub, IDs{Name: "a"}, "domain: "},
		{RoleHub, IDs{Name: "a", Domain: "*"}, "domain: "},
		{RoleHub, IDs{Name: "a", Domain: "d", Journal: "b"}, "name: "},
		{RoleDoor, IDs{Name: "a", Domain: "d"}, "domain: "},
		{RoleViewer, IDs{Name: "a", Agents: []string{"b"}}, "agents: "},
		{RoleAgentd, IDs{Name: "a"}, "agents: 0"},
		{RoleAgentd, IDs{Name: "a", Agents: []string{"b", "*"}}, "agents[1]: "},
		{RoleAgentd, IDs{Name: "a", Agents: many}, "agents: 257"},
		{RoleAgentd, IDs{Name: "a", Agents: []string{"b", "c", "b"}}, "agents[2]: b stands there twice"},
	} {
		if p, err := PermissionsOf(c.role, c.ids); err == nil || !strings.HasPrefix(err.Error(), c.says) ||
			p.Publish != nil || p.Subscribe != nil {
			t.Errorf("%s %+v: %v, want an error that begins with %q", c.role, c.ids, err, c.says)
		}
	}
}
