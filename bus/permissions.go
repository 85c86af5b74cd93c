package bus

import (
	"fmt"
	"slices"
	"strings"
)

// Role is the part that a process has in the market, which gives its permissions on the bus.
type Role string

// The roles.
const (
	RoleClient   Role = "client"   // asks and pays
	RoleGateway  Role = "gateway"  // speaks for clients: over HTTP, or in a replay
	RoleDoor     Role = "door"     // sends tasks to hubs, in the name of whoever asked
	RoleHub      Role = "hub"      // sells the slots of one domain
	RoleAgentd   Role = "agentd"   // serves, as each of its agents
	RoleTreasury Role = "treasury" // keeps the money
	// pays in and out, pays agents, gives back, and says what becomes of surplus and of lost journals
	RoleOperator Role = "operator"
	RoleViewer   Role = "viewer" // looks on
)

// Roles lists every role.
var Roles = []Role{RoleClient, RoleGateway, RoleDoor, RoleHub, RoleAgentd, RoleTreasury, RoleOperator,
	RoleViewer}

// IDs name a process on the bus.
type IDs struct {
	Name    string   // the last part of what it asks, and the head of its inboxes; a hub's is its journal's
	Domain  string   // a hub's
	Journal string   // a hub's; "" is Name
	Agents  []string // an agentd's
}

// Permissions lists the patterns of subjects that one process may publish and subscribe to; all else is
// refused.
type Permissions struct {
	Publish, Subscribe []string
}

// Inboxes is the pattern under which those who answer may publish. They check themselves which inbox an
// answer may go to ([AnswersTo]): a server that did would keep the reply subject of each question for as long
// as its answer may take, and a client could fill it with these.
const Inboxes = inboxes + "*.>"

// MaxUserAgents bounds how many agents one user speaks for: its permissions travel in each connect.
const MaxUserAgents = 256

// PermissionsOf says what a process of a role may say and hear. It is the whole of what keeps one from
// speaking, reading or paying as another, so it names the sender, or the one who hears, in each pattern.
func PermissionsOf(role Role, ids IDs) (Permissions, error) {
	if err := ids.check(role); err != nil {
		return Permissions{}, err
	}
	me := ids.Name
	var p Permissions
	say := func(patterns ...string) { p.Publish = append(p.Publish, expand(patterns)...) }
	hear := func(patterns ...string) { p.Subscribe = append(p.Subscribe, expand(patterns)...) }
	switch role {
	case RoleClient:
		say("{task,quote,cancel,end}."+me, "hub.*.{cancel,feedback}."+me, "agent.*.stream."+me,
			"piece.*.*."+me, "ledger.balance."+me)
		hear("{reply,body}."+me+".>", "status.*")
	case RoleGateway:
		say("{task,quote,cancel,end}.*."+me, "hub.*.feedback.*."+me, "agent.*.stream."+me,
			"piece.*.*."+me, "ledger.balance.*."+me)
		hear("{reply,body}."+me+".>", "status.*")
	case RoleDoor:
		say("hub.*.{task,quote,cancel,end}."+me, "agent.*.stream."+me, "body.*."+me)
		hear("task.>", "quote.>", "cancel.>", "end.>", "{reply,piece}."+me+".>", "status.*")
		p.Publish = append(p.Publish, Inboxes)
	case RoleHub:
		say("agent.*.{dispatch,call,control}."+ids.Domain, "reply.*.*."+ids.Domain,
			"{status,feed}."+ids.Domain, "ledger.{allot,return,allotted,close}."+me)
		hear("hub." + ids.Domain + ".>")
		p.Publish = append(p.Publish, Inboxes)
	case RoleAgentd:
		for _, a := range ids.Agents {
			say("hub.*.{summary,completion,holdings,ask}."+a, "hub.*.taken.*."+a, "reply.*.*."+a,
				"body.*."+a)
			hear("{agent,piece}." + a + ".>")
			if a != me {
				p.Subscribe = append(p.Subscribe, "_INBOX."+a+".>")
			}
		}
	case RoleTreasury:
		say("hub.*.recall." + me)
		hear("ledger.>")
		p.Publish = append(p.Publish, Inboxes)
	case RoleOperator:
		say("ledger.{deposit,payout,move,budget,distribute,remit,refund,month,writeoff,sums}."+me,
			"ledger.balance.*."+me, "hub.*.watch."+me)
		hear("status.*", "feed.*")
	case RoleViewer:
		say("hub.*.watch." + me)
		hear("status.*", "feed.*")
	}
	p.Subscribe = append(p.Subscribe, "_INBOX."+me+".>")
	return p, nil
}

// expand writes patterns out, below Root: "a.{b,c}" is two.
func expand(patterns []string) (out []string) {
	for _, p := range patterns {
		before, rest, many := strings.Cut(p, "{")
		names, after, _ := strings.Cut(rest, "}")
		if !many {
			out = append(out, Root+p)
			continue
		}
		for name := range strings.SplitSeq(names, ",") {
			out = append(out, Root+before+name+after)
		}
	}
	return out
}

// check wants every id that a role's permissions are made of, and no other.
func (ids IDs) check(role Role) error {
	if err := CheckID("name", ids.Name); err != nil {
		return err
	}
	switch {
	case !role.Valid():
		return fmt.Errorf("role: %.80q is none: use one of %s", role, roleNames())
	case role == RoleHub:
		if err := CheckID("domain", ids.Domain); err != nil {
			return err
		}
		if ids.Journal != "" && ids.Journal != ids.Name {
			return fmt.Errorf("name: a hub's is that of its journal: %s, not %s", ids.Journal, ids.Name)
		}
	case ids.Domain != "" || ids.Journal != "":
		return fmt.Errorf("domain: a %s has none: only a hub does", role)
	}
	if role != RoleAgentd {
		if len(ids.Agents) > 0 {
			return fmt.Errorf("agents: a %s has none: only an agentd does", role)
		}
		return nil
	}
	if len(ids.Agents) == 0 || len(ids.Agents) > MaxUserAgents {
		return fmt.Errorf("agents: %d are named: an agentd speaks for 1 to %d", len(ids.Agents),
			MaxUserAgents)
	}
	for i, a := range ids.Agents {
		if err := CheckID(fmt.Sprintf("agents[%d]", i), a); err != nil {
			return err
		}
		if slices.Contains(ids.Agents[:i], a) {
			return fmt.Errorf("agents[%d]: %s stands there twice", i, a)
		}
	}
	return nil
}

// Valid reports whether r is one of Roles.
func (r Role) Valid() bool { return slices.Contains(Roles, r) }

func roleNames() string {
	var names []string
	for _, r := range Roles {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}
