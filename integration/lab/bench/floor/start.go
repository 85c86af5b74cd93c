package floor

import (
	"errors"
	"slices"

	"github.com/nats-io/nats.go"

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
