package floor

import (
	"context"

	"github.com/nats-io/nats.go"

	"souk/bus/embedded"
)

// Echo is a NATS server in this process on which somebody answers each request with what it says: the least
// that a question costs.
type Echo struct {
	server        *embedded.NATS
	asker, answer *nats.Conn
}

// NewEcho starts one.
func NewEcho() (e *Echo, err error) {
	e = &Echo{}
	if e.server, err = embedded.StartNATS(embedded.NATSConfig{}); err != nil {
		return nil, err
	}
	for _, c := range []**nats.Conn{&e.asker, &e.answer} {
		if *c, err = nats.Connect("", nats.InProcessServer(e.server)); err != nil {
			e.Close()
			return nil, err
		}
	}
	if _, err = e.answer.Subscribe("echo", func(m *nats.Msg) { m.Respond(m.Data) }); err == nil {
		err = e.answer.Flush()
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Ask makes one request and waits for its answer.
func (e *Echo) Ask(ctx context.Context, data []byte) error {
	_, err := e.asker.RequestWithContext(ctx, "echo", data)
	return err
}

// Close ends it.
func (e *Echo) Close() {
	for _, c := range []*nats.Conn{e.asker, e.answer} {
		if c != nil {
			c.Close()
		}
	}
	e.server.Close()
}
