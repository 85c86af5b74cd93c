// Package natsauth keeps the keys of a market: who may come to its NATS servers, in which role, and until
// when.
//
// An operator's key signs one account, the market's; the account's signing key signs a JWT for each user, and
// in it stands what that one may publish and hear (bus.PermissionsOf). Servers know the operator and the
// account, so a new user changes no server; a revocation changes the account's JWT, and cuts its user at
// once.
package natsauth

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"souk/bus"
	"souk/bus/regular"
)

// Identity names a process on the bus. Printed, it shows no secret.
type Identity struct {
	Name    string
	Role    bus.Role
	Account string    // the market's account, which vouches for it
	Expires time.Time // zero: never

	jwt string
	key nkeys.KeyPair
	say []string // what it may publish
}

func (i *Identity) String() string {
	return fmt.Sprintf("%s %s, until %s", i.Role, i.Name, day(i.Expires))
}

// GoString keeps %#v from showing what String does not.
func (i *Identity) GoString() string { return i.String() }

// JWT returns the token shown to a server: signed, and no secret without the key.
func (i *Identity) JWT() string { return i.jwt }

// Sign proves to a server that the key is here.
func (i *Identity) Sign(nonce []byte) ([]byte, error) { return i.key.Sign(nonce) }

// Expired says that it is over, and what to do, in an error; nil while it is good.
func (i *Identity) Expired(now time.Time) error {
	if i.Expires.IsZero() || now.Before(i.Expires) {
		return nil
	}
	return fmt.Errorf("%w: of %s %s, on %s: renew them (souk auth renew %s)", ErrExpired, i.Role, i.Name,
		day(i.Expires), i.Name)
}

// Speaks reports whether an agentd may speak for an agent.
func (i *Identity) Speaks(agent string) bool {
	return slices.Contains(i.say, bus.SummarySubject("*", agent))
}

// Agents lists the agents that an agentd may speak for.
func (i *Identity) Agents() (agents []string) {
	for _, p := range i.say {
		if a, ok := strings.CutPrefix(p, bus.SummarySubject("*", "")); ok {
			agents = append(agents, a)
		}
	}
	return agents
}

// Share returns how much of a server the process may use.
func (i *Identity) Share() bus.Share { return bus.ShareOf(i.Role, len(i.Agents())) }

func day(t time.Time) string {
	if t.IsZero() {
		return "ever"
	}
	return t.UTC().Format("2006-01-02 15:04 MST")
}

// Source gives an identity; it is asked at each connect, so that renewed creds are taken.
type Source func() (*Identity, error)

// Errors of creds, for whoever decides by them.
var (
	ErrNoCreds = errors.New("there are no creds")
	ErrExpired = errors.New("the creds have expired")
	ErrOpen    = errors.New("others on this machine can read it")
)

// maxCreds bounds a creds file: MaxUserAgents agents need a quarter of it.
const maxCreds = 1 << 20

// File is the identity in a file of creds, as `souk auth` and nsc write them. It is read each time.
func File(path string) Source {
	return func() (*Identity, error) { return ReadFile(path) }
}

// ReadFile reads a file of creds. One that others can read is refused, since they could have taken it. No
// error shows what is in the file.
func ReadFile(path string) (*Identity, error) {
	text, err := readSecret(path, maxCreds)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("creds %s: %w: make them (souk auth add), or name another file", path, ErrNoCreds)
	}
	if err != nil {
		return nil, fmt.Errorf("creds %w", err)
	}
	i, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("creds %s: %w: it is damaged, or something else: make them anew (souk auth "+
			"renew NAME)", path, err)
	}
	return i, nil
}

// parse reads the text of a creds file. It says of a slip where it is, and never what stands there.
func parse(text []byte) (*Identity, error) {
	token, err := jwt.ParseDecoratedJWT(text)
	if err != nil || !strings.Contains(string(text), "BEGIN NATS USER JWT") {
		return nil, errors.New("it has no user JWT")
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil, errors.New("its user JWT cannot be read")
	}
	key, err := jwt.ParseDecoratedUserNKey(text)
	if err != nil {
		return nil, errors.New("it has no user key")
	}
	if public, err := key.PublicKey(); err != nil || public != claims.Subject {
		return nil, errors.New("its key is not that of its JWT")
	}
	return identity(claims, token, key), nil
}

const roleTag = "role:"

func identity(claims *jwt.UserClaims, token string, key nkeys.KeyPair) *Identity {
	i := &Identity{Name: claims.Name, Account: claims.IssuerAccount, jwt: token, key: key,
		say: claims.Pub.Allow}
	for _, tag := range claims.Tags {
		if role, ok := strings.CutPrefix(tag, roleTag); ok {
			i.Role = bus.Role(role)
		}
	}
	if claims.Expires != 0 {
		i.Expires = time.Unix(claims.Expires, 0)
	}
	return i
}

// As is a source whose identity must be of a role, and bear a name where one is given: who comes with
// another's creds hears it here, and not from a server that refuses each of its subjects.
func (s Source) As(role bus.Role, name string) Source {
	return func() (*Identity, error) {
		i, err := s()
		switch {
		case err != nil:
			return nil, err
		case i.Role != role:
			return nil, fmt.Errorf("%w: these are of %s %s: take those of a %s (souk auth add %s)", ErrRole,
				i.Role, i.Name, role, role)
		case name != "" && i.Name != name:
			return nil, fmt.Errorf("%w: these are of %s %s: take those of %s (souk auth add %s %s)", ErrRole,
				i.Role, i.Name, name, role, name)
		}
		return i, nil
	}
}

// ErrRole marks creds that are another's.
var ErrRole = errors.New("the creds are another's")

// readSecret reads a file that only its owner, and perhaps its group, may read.
func readSecret(path string, most int64) ([]byte, error) {
	f, err := regular.Open(path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&0o007 != 0 {
		err = fmt.Errorf("%s: %w (mode %v): chmod 600 it, and renew what is in it if they may have read it", path,
			ErrOpen, info.Mode().Perm())
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, most))
}
