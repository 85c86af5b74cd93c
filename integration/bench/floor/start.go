package floor

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"souk/bus/embedded"
)

// Floor is a whole relay in this process, its NATS server included.
type Floor struct {
	*Caller
	opened []func() error // what to close at the end, last first
}

// Connect connects one part to a NATS server, with the creds in a file.
func Connect(url, creds string) (*nats.Conn, error) {
	return nats.Connect(url, nats.Name("souk-floor"), nats.UserCredentials(creds))
}

// WriteCreds makes creds for a market's NATS that may say and hear anything: the floor has no roles. dir has
// the market's keys.
func WriteCreds(dir, file string) error {
	seed, err := os.ReadFile(filepath.Join(dir, "signing.seed"))
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(dir, "account.jwt"))
	if err != nil {
		return err
	}
	account, err := jwt.DecodeAccountClaims(strings.TrimSpace(string(token)))
	if err != nil {
		return err
	}
	signer, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return err
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	public, err := user.PublicKey()
	if err != nil {
		return err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name, claims.IssuerAccount = "souk-floor", account.Subject
	signed, err := claims.Encode(signer)
	if err != nil {
		return err
	}
	if seed, err = user.Seed(); err != nil {
		return err
	}
	data, err := jwt.FormatUserConfig(signed, seed)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// Start relays to the engine of a base URL as so many agents, with its journal in dir.
func Start(engine, dir string, agents int) (*Floor, error) {
	f := &Floor{}
	if err := f.start(engine, dir, agents); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Floor) start(engine, dir string, agents int) error {
	server, err := embedded.StartNATS(embedded.NATSConfig{})
	if err != nil {
		return err
	}
	f.opened = append(f.opened, func() error { server.Close(); return nil })
	var conns [3]*nats.Conn // as a market's parts have each their own
	for i := range conns {
		conn, err := nats.Connect("", nats.InProcessServer(server))
		if err != nil {
			return err
		}
		conns[i] = conn
		f.opened = append(f.opened, func() error { conn.Close(); return nil })
	}
	journal, err := NewFile(dir)
	if err != nil {
		return err
	}
	f.opened = append(f.opened, journal.Close)
	a, err := StartAgents(conns[0], engine, 0, agents)
	if err != nil {
		return err
	}
	f.opened = append(f.opened, a.Close)
	h, err := StartHub(conns[1], journal, agents)
	if err != nil {
		return err
	}
	f.opened = append(f.opened, h.Close)
	if f.Caller, err = NewCaller(conns[2]); err != nil {
		return err
	}
	f.opened = append(f.opened, f.Caller.Close)
	return nil
}

// Close ends it all.
func (f *Floor) Close() error {
	var errs []error
	for _, closeIt := range slices.Backward(f.opened) {
		errs = append(errs, closeIt())
	}
	return errors.Join(errs...)
}
