package natsauth

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"souk/bus"
)

// user is the entry of a user.
func (n names) user(id string) (*name, error) {
	e := n.Names[id]
	switch {
	case e == nil:
		return nil, fmt.Errorf("%.80q: %w: `souk auth list` lists them", id, ErrNoName)
	case e.Of != "":
		return nil, fmt.Errorf("%s: %w of a user: it is an agent, of %s", id, ErrNoName, e.Of)
	}
	return e, nil
}

// has reports whether all names of a user are its own already.
func (n names) has(role bus.Role, ids bus.IDs) bool {
	e := n.Names[ids.Name]
	if e == nil || e.Role != role || e.Domain != ids.Domain || !slices.Equal(e.Agents, ids.Agents) {
		return false
	}
	for _, a := range ids.Agents {
		if x := n.Names[a]; x == nil || a != ids.Name && x.Of != ids.Name {
			return false
		}
	}
	return true
}

// claim writes down to whom the names of a user belong. One that belongs to another role, or to a user who is
// still let in, is refused; an agent of an agentd that was revoked, or does not name it any more, may move.
func (n names) claim(role bus.Role, ids bus.IDs) error {
	if _, err := bus.PermissionsOf(role, ids); err != nil {
		return err
	}
	if ids.Name == Root {
		return fmt.Errorf("%s: %w: in etcd it may do anything: choose another", Root, ErrTaken)
	}
	if e := n.Names[ids.Name]; e != nil && (e.Role != role || e.Of != "" && e.Of != ids.Name) {
		return fmt.Errorf("%s %s: %w: it belongs to %s for ever: choose another", role, ids.Name, ErrTaken,
			e.owner())
	}
	for _, a := range ids.Agents {
		e := n.Names[a]
		if e == nil || a == ids.Name || e.Of == ids.Name {
			continue
		}
		if e.Role != role || e.Of == "" {
			return fmt.Errorf("agent %s: %w: it belongs to %s for ever: choose another", a, ErrTaken,
				e.owner())
		}
		if other := n.Names[e.Of]; other != nil && !other.revoked() && slices.Contains(other.Agents, a) {
			return fmt.Errorf("agent %s: %w: it belongs to %s: choose another, or revoke that one first", a,
				ErrTaken, e.owner())
		}
	}
	// Who reads an answer hears a hub by its domain and an agent by its id, on subjects that end alike.
	if e := n.Names[ids.Domain]; role == bus.RoleHub && e != nil && e.Role == bus.RoleAgentd {
		return fmt.Errorf("domain %s: %w: it belongs to an agent, or an agentd: choose another", ids.Domain,
			ErrTaken)
	}
	for id, e := range n.Names {
		if e.Role == bus.RoleHub && role == bus.RoleAgentd && slices.Contains(ids.Agents, e.Domain) {
			return fmt.Errorf("agent %s: %w: it is the domain of hub %s: choose another", e.Domain, ErrTaken,
				id)
		}
	}
	e := n.Names[ids.Name]
	if e == nil {
		e = &name{Role: role}
		n.Names[ids.Name] = e
	}
	e.Domain, e.Agents = ids.Domain, ids.Agents
	for _, a := range ids.Agents {
		if a != ids.Name {
			n.Names[a] = &name{Role: role, Of: ids.Name}
		}
	}
	return nil
}

// Claims are names that belong to users, as those of a market's keys do.
type Claims struct{ n names }

// Claim writes down to whom the names of a user belong, unless they belong to another.
func (c *Claims) Claim(role bus.Role, ids bus.IDs) error {
	if c.n.Names == nil {
		c.n.Names = map[string]*name{}
	}
	return c.n.claim(role, ids)
}

func (e *name) owner() string {
	switch {
	case e.Of != "":
		return "the agentd " + e.Of
	case e.Role == bus.RoleOperator || e.Role == bus.RoleAgentd:
		return "an " + string(e.Role)
	}
	return "a " + string(e.Role)
}

// revoke voids all creds of a user.
func (e *name) revoke(now time.Time) {
	for i := range e.Keys {
		e.Keys[i].Revoked = cmp.Or(e.Keys[i].Revoked, now.Unix())
	}
}

func (e *name) ids(id string) bus.IDs {
	ids := bus.IDs{Name: id, Domain: e.Domain, Agents: e.Agents}
	if e.Role == bus.RoleHub {
		ids.Journal = id
	}
	return ids
}

// revoked reports whether a user has creds, and none of them are good.
func (e *name) revoked() bool {
	return len(e.Keys) > 0 && !slices.ContainsFunc(e.Keys, func(k userKey) bool { return k.Revoked == 0 })
}
