package natsauth

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"souk/bus"
)

// Errors of names, for whoever decides by them.
var (
	ErrTaken   = errors.New("the name is taken")
	ErrNoName  = errors.New("there is no such name")
	ErrRevoked = errors.New("the creds were revoked")
	// ErrOlderKeys: a server knows of revocations that the keys do not.
	ErrOlderKeys = errors.New("these keys are an older copy of the market's")
)

// maxValid bounds how long creds may be good.
const maxValid = 10 * 365 * 24 * time.Hour

// Add makes a user, and its creds: the path of the file is returned. Its name, and an agentd's agents, belong
// to its role from then on.
func (s *Store) Add(role bus.Role, ids bus.IDs, now time.Time, valid time.Duration) (path string, err error) {
	err = s.update(func(n names) error {
		if e := n.Names[ids.Name]; e != nil && e.Of == "" && e.Role == role {
			return fmt.Errorf("%s %s: %w by the same: souk auth renew %s makes new creds of it", role,
				ids.Name,
				ErrTaken, ids.Name)
		}
		return s.give(n, role, ids, now, valid)
	})
	return s.CredsPath(ids.Name), err
}

// Renew makes new creds of a user, also of one that was revoked; those before are good until they expire.
// With agents it speaks for these from now on. Where that leaves out some that it spoke for, dropped, all
// creds before are void, as by Revoke: they would speak for those still.
func (s *Store) Renew(id string, agents []string, now time.Time, valid time.Duration) (path string,
	dropped []string, err error) {
	err = s.update(func(n names) error {
		e, err := n.user(id)
		if err != nil {
			return err
		}
		ids := e.ids(id)
		if len(agents) > 0 {
			ids.Agents = agents
		}
		for _, a := range e.Agents {
			if !slices.Contains(ids.Agents, a) {
				dropped = append(dropped, a)
			}
		}
		if len(dropped) > 0 {
			if err := s.revokes(id); err != nil {
				return err
			}
			e.revoke(now)
		}
		return s.give(n, e.Role, ids, now, valid)
	})
	return s.CredsPath(id), dropped, err
}

// Ensure returns the file of a user's creds. It makes or renews them where there are none, less than a third
// of their time is left, or they do not match the role's permissions now. Without the signing key it returns
// them as they are.
func (s *Store) Ensure(role bus.Role, ids bus.IDs, now time.Time) (path string, err error) {
	path = s.CredsPath(ids.Name)
	i, wrong := ReadFile(path)
	if !s.Signs() {
		return path, wrong
	}
	if wrong == nil && s.good(i, role, ids, now) {
		return path, nil
	}
	if errors.Is(wrong, ErrOpen) {
		return "", wrong
	}
	err = s.update(func(n names) error {
		if e := n.Names[ids.Name]; e != nil && e.Of == "" && e.Role == role && e.revoked() {
			return fmt.Errorf("%s %s: %w: souk auth renew %s lets it in again", role, ids.Name, ErrRevoked,
				ids.Name)
		}
		return s.give(n, role, ids, now, Valid)
	})
	return path, err
}

// good reports whether creds match those that this store would make now, and last for long enough.
func (s *Store) good(i *Identity, role bus.Role, ids bus.IDs, now time.Time) bool {
	if i.Name != ids.Name || i.Role != role || i.Account != s.account ||
		!i.Expires.IsZero() && i.Expires.Sub(now) < Valid/3 || !s.certified(role, ids, now) {
		return false
	}
	have, err := jwt.DecodeUserClaims(i.jwt)
	if err != nil {
		return false
	}
	want := jwt.NewUserClaims(have.Subject)
	// creds that name more agents are left as they are: an agentd looks for engines on more ports than it
	// uses
	names := func(have, want []string) bool {
		if role == bus.RoleAgentd {
			return !slices.ContainsFunc(want, func(p string) bool { return !slices.Contains(have, p) })
		}
		return slices.Equal(have, want)
	}
	if permit(want, role, ids) != nil || !names(have.Pub.Allow, want.Pub.Allow) ||
		!names(have.Sub.Allow, want.Sub.Allow) || have.Resp != nil || !within(have, want) {
		return false
	}
	n, err := readNames(s.Dir)
	if err != nil {
		return false
	}
	e := n.Names[ids.Name]
	return e != nil && e.Role == role && noted(e) && slices.ContainsFunc(e.Keys, func(k userKey) bool {
		return k.Public == have.Subject && k.Revoked == 0
	})
}

// within reports whether creds have their bounds. Those that name more agents have more.
func within(have, want *jwt.UserClaims) bool {
	least, most := want.Limits.Subs, want.Limits.Subs
	if len(have.Pub.Allow) > len(want.Pub.Allow) {
		most = int64(bus.ShareOf(bus.RoleAgentd, bus.MaxUserAgents).Subscriptions)
	}
	return have.Limits.Subs >= least && have.Limits.Subs <= most && have.Limits.Payload == want.Limits.Payload
}

// Revoke voids all creds of a user. Servers are told by Account, and cut it at once; nothing is changed where
// it was revoked before.
func (s *Store) Revoke(id string, now time.Time) error {
	if err := s.revokes(id); err != nil {
		return err
	}
	return s.update(func(n names) error {
		e, err := n.user(id)
		if err != nil {
			return err
		}
		e.revoke(now)
		if len(e.Keys) == 0 {
			return fmt.Errorf("%s: %w: a part of the process that holds the keys, which makes its creds "+
				"itself: stop that process", id, ErrNoCreds)
		}
		return nil
	})
}

// revokes reports whether the key is here that voids a user's creds.
func (s *Store) revokes(id string) error {
	if _, err := s.key(operatorSeed); err != nil {
		return fmt.Errorf("revoke %s: %w: the operator's key signs that, so do it where it is kept", id, err)
	}
	return nil
}

// User is a name as `souk auth list` shows it.
type User struct {
	Name    string
	Role    bus.Role
	Domain  string
	Agents  []string
	Expires time.Time     // of the last creds; zero where a process makes them itself
	Earlier time.Time     // of earlier ones that are good for longer than these; zero: none are
	Brief   bool          // the last ones were made for less than Valid
	Warn    time.Duration // how long before their end it is said to come
	Revoked bool
}

// List is every user, by name.
func (s *Store) List() ([]User, error) {
	n, err := readNames(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var out []User
	for id, e := range n.Names {
		if e.Of != "" {
			continue // listed with the agentd that speaks for it
		}
		u := User{Name: id, Role: e.Role, Domain: e.Domain, Agents: e.Agents, Revoked: e.revoked()}
		for _, k := range e.Keys { // the last ones come last
			if u.Expires.After(u.Earlier) {
				u.Earlier = u.Expires
			}
			if u.Expires = time.Unix(k.Expires, 0); !u.Earlier.After(u.Expires) {
				u.Earlier = time.Time{}
			}
			u.Brief, u.Warn = k.brief(), k.warn()
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b User) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// Member is the identity of a part of the process that holds the keys. It is made anew at each connect, and
// kept nowhere; only the name is written down.
func (s *Store) Member(role bus.Role, ids bus.IDs) (Source, error) {
	if _, err := bus.PermissionsOf(role, ids); err != nil {
		return nil, err
	}
	n, err := readNames(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if !n.has(role, ids) || !noted(n.Names[ids.Name]) {
		if err := s.update(func(n names) error { return n.claim(role, ids) }); err != nil {
			return nil, err
		}
	}
	return func() (*Identity, error) {
		key, err := nkeys.CreateUser()
		if err != nil {
			return nil, err
		}
		return s.sign(key, role, ids, time.Now().Add(Valid))
	}, nil
}

// System is the identity that tells servers of accounts.
func (s *Store) System() (*Identity, error) {
	signer, err := s.key(systemSeed)
	if err != nil {
		return nil, fmt.Errorf("keys: %w: servers are told with it, so do it where it is kept", err)
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(public(key))
	claims.Name, claims.Expires = "souk-auth", time.Now().Add(time.Hour).Unix()
	token, err := claims.Encode(signer)
	if err != nil {
		return nil, err
	}
	return identity(claims, token, key), nil
}

// Account returns the message to servers after a revocation: the subject and the account's JWT.
func (s *Store) Account() (subject, token string, err error) {
	token, err = s.token(accountJWT)
	return "$SYS.REQ.ACCOUNT." + s.account + ".CLAIMS.UPDATE", token, err
}

// Revocations are the keys of creds that an account's JWT voids, each until its time.
func Revocations(token string) (map[string]int64, error) {
	a, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return nil, err
	}
	return a.Revocations, nil
}

// Newest returns ErrOlderKeys if a server knows of revocations that these keys do not, and that still keep
// somebody out: then these are an older copy of the market's keys.
func (s *Store) Newest(there map[string]int64, now time.Time) error {
	own, err := s.claims(accountJWT)
	if err != nil {
		return err
	}
	lacks := 0
	for key, until := range there {
		if until > now.Unix() && own.Revocations[key] < until {
			lacks++
		}
	}
	if lacks == 0 {
		return nil
	}
	return fmt.Errorf("%w: the server has %d revocations that they lack, and would let those in again: nothing "+
		"was told; do it where the newest keys are (%s here)", ErrOlderKeys, lacks, s.Dir)
}

// give makes a key and the creds of a user, to whom its names belong from then on.
func (s *Store) give(n names, role bus.Role, ids bus.IDs, now time.Time, valid time.Duration) error {
	if err := n.claim(role, ids); err != nil {
		return err
	}
	if valid < time.Second || valid > maxValid {
		return fmt.Errorf("valid: %v is not within 1s and ten years", valid)
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	i, err := s.sign(key, role, ids, now.Add(valid))
	if err != nil {
		return err
	}
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	creds, err := jwt.FormatUserConfig(i.jwt, seed)
	if err != nil {
		return err
	}
	e := n.Names[ids.Name]
	e.Keys = slices.DeleteFunc(e.Keys, func(k userKey) bool { return k.Expires <= now.Unix() })
	e.Keys = append(e.Keys, userKey{Public: public(key), Issued: now.Unix(), Expires: i.Expires.Unix()})
	// The name is written down before anybody can have the creds: else nobody could revoke them.
	if err := writeNames(s.Dir, n); err != nil {
		return err
	}
	if err := writeFile(s.CredsPath(ids.Name), creds); err != nil || !s.inEtcd(role, ids) {
		return err
	}
	return clientCert(s.Dir, ids.Name, now)
}

// inEtcd reports whether a user needs a certificate, and the CA that makes it is here.
func (s *Store) inEtcd(role bus.Role, ids bus.IDs) bool {
	access, err := bus.AccessOf(role, ids)
	return err == nil && access.Probe() != "" && !absent(pair(s.Dir, caFile).Key)
}

// certified reports whether a user's certificate is good for long enough.
func (s *Store) certified(role bus.Role, ids bus.IDs, now time.Time) bool {
	if !s.inEtcd(role, ids) {
		return true
	}
	root, wrong := readPair(pair(s.Dir, caFile))
	c, err := readPair(ClientFiles(s.Dir, ids.Name))
	return wrong == nil && err == nil && lasts(c.Leaf, root.Leaf, now)
}

// sign makes the JWT of a key.
func (s *Store) sign(key nkeys.KeyPair, role bus.Role, ids bus.IDs, expires time.Time) (*Identity, error) {
	signer, err := s.key(signingSeed)
	if err != nil {
		return nil, fmt.Errorf("creds of %s %s: %w: that key makes them, so do it where it is kept", role,
			ids.Name, err)
	}
	claims := jwt.NewUserClaims(public(key))
	claims.Name, claims.IssuerAccount, claims.Expires = ids.Name, s.account, expires.Unix()
	claims.Tags.Add(roleTag + string(role))
	if err := permit(claims, role, ids); err != nil {
		return nil, err
	}
	token, err := claims.Encode(signer)
	if err != nil {
		return nil, err
	}
	return identity(claims, token, key), nil
}

// permit writes a role's permissions into a JWT, and what of its share every server sees to. An empty list of
// permissions would permit everything.
func permit(claims *jwt.UserClaims, role bus.Role, ids bus.IDs) error {
	p, err := bus.PermissionsOf(role, ids)
	if err != nil {
		return err
	}
	if len(p.Publish) == 0 || len(p.Subscribe) == 0 {
		return fmt.Errorf("role %s may say or hear nothing", role)
	}
	claims.Pub.Allow, claims.Sub.Allow = p.Publish, p.Subscribe
	share := bus.ShareOf(role, len(ids.Agents))
	claims.Limits.Subs, claims.Limits.Payload = int64(share.Subscriptions), int64(share.Payload)
	return nil
}

// update changes names.json under the lock that all processes take, and then the account's JWT if something
// was revoked.
func (s *Store) update(change func(names) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return locked(s.Dir, func() error {
		n, err := readNames(s.Dir)
		if err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		if err := change(n); err != nil {
			return err
		}
		if err := s.notes(n); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		if err := writeNames(s.Dir, n); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		if err := s.writePolicy(n); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		return s.revocations(n)
	})
}

// revocations has the account's JWT name every key that was revoked, so that it also does after a crash
// between the two files.
func (s *Store) revocations(n names) error {
	a, err := s.claims(accountJWT)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	want := jwt.RevocationList{}
	for _, e := range n.Names {
		for _, k := range e.Keys {
			if k.Revoked != 0 { // it voids what is dated until then, perhaps by a clock ahead of ours
				want[k.Public] = max(k.Revoked, k.Expires)
			}
		}
	}
	if maps.Equal(want, a.Revocations) {
		return nil
	}
	operator, err := s.key(operatorSeed)
	if errors.Is(err, os.ErrNotExist) {
		return nil // what was revoked is done where that is kept; here only names changed
	}
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	a.Revocations = want
	token, err := a.Encode(operator)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(s.Dir, accountJWT), []byte(token+"\n"))
}
