package etcdreg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"souk/bus"
)

// User is the common name of a certificate, and what it may do in etcd.
type User struct {
	Name string
	bus.Access
	Gone bool // it may do nothing any more
}

const (
	root = "root" // etcd's own word for who may do anything
	// ours begins the names of the roles that this package makes: one a user
	ours = "souk-"
)

// Admit gives etcd these users, with exactly what each may do, takes away those who are gone, and has it ask
// from then on. Users and roles of others' making stay, and so do users that are not named: they may be newer
// than who calls. That one shows a certificate of the name root, to which etcd gives all rights. What was
// begun is ended by the next call.
func Admit(ctx context.Context, config Config, users []User) error {
	within, cancel := context.WithTimeout(ctx, cmp.Or(config.DialTimeout, 5*time.Second))
	defer cancel()
	client, err := dial(within, config)
	if err != nil {
		return err
	}
	defer client.Close()
	status, err := client.AuthStatus(within)
	if err != nil {
		return config.failed("ask for its users", err)
	}
	a := admission{client}
	if err := a.roles(ctx, users); err != nil {
		return config.failed("make its users", err)
	}
	if status.Enabled {
		return nil
	}
	if err := a.user(ctx, root, root); err != nil {
		return config.failed("make the user root", err)
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return config.failed("turn authentication on", err)
	}
	return nil
}

type admission struct{ *clientv3.Client }

// roles makes users and their roles what they are to be.
func (a admission) roles(ctx context.Context, users []User) error {
	there, err := a.RoleList(ctx)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.Name == root {
			return fmt.Errorf("%s is the name of who may do anything: give another", root)
		}
		role := ours + u.Name
		switch is := slices.Contains(there.Roles, role); {
		case u.Gone && is:
			if _, err := a.UserDelete(ctx, u.Name); err != nil && !errors.Is(err, rpctypes.ErrUserNotFound) {
				return err
			}
			if _, err := a.RoleDelete(ctx, role); err != nil && !errors.Is(err, rpctypes.ErrRoleNotFound) {
				return err
			}
			continue
		case u.Gone:
			continue
		case !is:
			if _, err := a.RoleAdd(ctx, role); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
				return err
			}
		}
		if err := a.grant(ctx, role, u.Access); err != nil {
			return fmt.Errorf("%s: %w", u.Name, err)
		}
		if err := a.user(ctx, u.Name, role); err != nil {
			return fmt.Errorf("%s: %w", u.Name, err)
		}
	}
	return nil
}

// grant gives a role what it may do, and takes away what else it may.
func (a admission) grant(ctx context.Context, role string, access bus.Access) error {
	has, err := a.RoleGet(ctx, role)
	if err != nil {
		return err
	}
	type span struct {
		from, to string
		kind     authpb.Permission_Type
	}
	var want []span
	for kind, keys := range map[authpb.Permission_Type][]string{clientv3.PermReadWrite: access.Write,
		clientv3.PermRead: access.Read} {
		for _, key := range keys {
			s := span{from: key, kind: kind}
			if strings.HasSuffix(key, "/") {
				s.to = clientv3.GetPrefixRangeEnd(key)
			}
			want = append(want, s)
		}
	}
	for _, p := range has.Perm {
		s := span{string(p.Key), string(p.RangeEnd), p.PermType}
		if i := slices.Index(want, s); i >= 0 {
			want = slices.Delete(want, i, i+1)
		} else if _, err := a.RoleRevokePermission(ctx, role, s.from, s.to); err != nil {
			return err
		}
	}
	for _, s := range want {
		kind := clientv3.PermissionType(s.kind)
		if _, err := a.RoleGrantPermission(ctx, role, s.from, s.to, kind); err != nil {
			return err
		}
	}
	return nil
}

// user sees to it that there is a user, whose certificate alone is believed, with a role.
func (a admission) user(ctx context.Context, name, role string) error {
	has, err := a.UserGet(ctx, name)
	if errors.Is(err, rpctypes.ErrUserNotFound) {
		has = &clientv3.AuthUserGetResponse{}
		_, err = a.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
	}
	if err != nil || slices.Contains(has.Roles, role) {
		return err
	}
	_, err = a.UserGrantRole(ctx, name, role)
	return err
}
