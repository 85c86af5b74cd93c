package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"souk/bus"
	"souk/bus/follow"
)

// Groups are the cache groups that clients were put into, by client. An entry that cannot be read is none.
func Groups(ctx context.Context, r bus.Registry) (map[string]string, error) {
	all, err := r.Get(ctx, bus.GroupsPrefix)
	of := make(map[string]string, len(all))
	for _, kv := range all {
		var g bus.CacheGroup
		if bus.DecodeEntry(kv.Value, &g) == nil && g.Client == bus.LastElement(kv.Key) {
			of[g.Client] = g.Group
		}
	}
	return of, err
}

// ErrNamed marks a name that a client has and a group was to have, or the other way.
var ErrNamed = errors.New("no client and cache group have one name")

// MayBeGroup refuses a cache group that is called as a client of the registry is. Its caches would be others
// than that client's, whatever its name; but whoever reads the name would take them for these.
func MayBeGroup(ctx context.Context, r bus.Registry, group string) error {
	if err := bus.CheckID("cache group", group); err != nil {
		return err
	}
	keys, err := Keys(ctx, r)
	if err != nil {
		return err
	}
	of, err := Groups(ctx, r)
	_, is := of[group]
	for _, k := range keys {
		is = is || k.Client == group || k.Budget != nil && k.Budget.Of == group
	}
	if is {
		return namedAsClient(group)
	}
	return err
}

func namedAsClient(group string) error {
	return fmt.Errorf("cache group %s: %w, and there is a client %s: choose another name for the group", group,
		ErrNamed, group)
}

// MayBeGroup likewise refuses one that is called as a client with creds is, where the keys of the data
// directory say so.
func (r Reach) MayBeGroup(group string) error {
	users, err := r.users()
	for _, u := range users {
		if u.Role == bus.RoleClient && u.Name == group {
			return namedAsClient(group)
		}
	}
	return err
}

// NewKeyIn is NewKey of a client that is in a cache group from the start; "": in none, or where it is. A key
// with a budget is a client of its own, which is new.
func NewKeyIn(ctx context.Context, r bus.Registry, bank Treasurer, k bus.APIKey, group string) (secret string,
	err error) {
	of, err := Groups(ctx, r)
	if err != nil {
		return "", err
	}
	if slices.Contains(slices.Collect(maps.Values(of)), k.Client) {
		return "", fmt.Errorf("client %s: %w, and there is a cache group %s: choose another name", k.Client,
			ErrNamed, k.Client)
	}
	if group == "" {
		return NewKey(ctx, r, bank, k)
	}
	if k.ID == "" {
		k.ID = newKeyID()
	}
	client := k.Client
	if k.Budget != nil {
		client = bus.BudgetClient(k.Budget.Of, k.ID)
	}
	was, err := JoinGroup(ctx, r, client, group, false)
	if err != nil {
		return "", err
	}
	if secret, err = NewKey(ctx, r, bank, k); err != nil && was == "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
		defer cancel()
		LeaveGroup(ctx, r, client) // where that fails it is in a group without a key, which does no harm
	}
	return secret, err
}

// JoinGroup puts a client into a cache group. One that is in another is moved if that is meant; else it is an
// error. was is the group that it was in before, if any.
func JoinGroup(ctx context.Context, r bus.Registry, client, group string, move bool) (was string, err error) {
	if err := errors.Join(bus.CheckID("client", client), MayBeGroup(ctx, r, group)); err != nil {
		return "", err
	}
	kv, err := follow.Get(ctx, r, bus.GroupKey(client))
	if err != nil {
		return "", err
	}
	var now bus.CacheGroup
	if bus.DecodeEntry(kv.Value, &now) == nil {
		was = now.Group
	}
	switch {
	case was == group:
		return was, nil
	case was != "" && !move:
		return was, fmt.Errorf("client %s is in cache group %s, and stays there: `souk key group %s %s` moves "+
			"it, whatever its keys", client, was, client, group)
	}
	value, err := bus.EncodeEntry(&bus.CacheGroup{Client: client, Group: group})
	if err == nil {
		err = r.Swap(ctx, bus.GroupKey(client), kv.Rev, value)
	}
	return was, groupChanged(client, err)
}

// LeaveGroup has a client's caches be its own again.
func LeaveGroup(ctx context.Context, r bus.Registry, client string) (was string, err error) {
	if err := bus.CheckID("client", client); err != nil {
		return "", err
	}
	kv, err := follow.Get(ctx, r, bus.GroupKey(client))
	if err != nil || kv.Value == nil {
		return "", err
	}
	var now bus.CacheGroup
	if bus.DecodeEntry(kv.Value, &now) == nil {
		was = now.Group
	}
	return was, groupChanged(client, r.Swap(ctx, kv.Key, kv.Rev, nil))
}

func groupChanged(client string, err error) error {
	if errors.Is(err, bus.ErrExists) {
		return fmt.Errorf("client %s: somebody changed its cache group just now, and nothing was done; look "+
			"with `souk key list` (%w)", client, err)
	}
	return err
}
