package floor

import (
	"context"
	"crypto/tls"

	"github.com/nats-io/nats.go"

	"souk/bus/embedded"
)

// Echo is a NATS server in this process on which somebody answers each request with what it says: the least
// that a question costs.
type Echo struct {
	server        *embedded.NATS
	asker, answer *nats.Conn
}

// NewEcho starts one, which is reached in process.
func NewEcho() (*Echo, error) {
	return newEcho(embedded.NATSConfig{}, func(s *embedded.NATS) (*nats.Conn, error) {
		return nats.Connect("", nats.InProcessServer(s))
	})
}

// NewEchoOver starts one that is reached over loopback TCP, and over TLS where server and client say how.
func NewEchoOver(server, client *tls.Config) (*Echo, error) {
	return newEcho(embedded.NATSConfig{Listen: "127.0.0.1:0", TLS: server},
		func(s *embedded.NATS) (*nats.Conn, error) {
			if client == nil {
				return nats.Connect(s.URL)
			}
			return nats.Connect(s.URL, nats.Secure(client))
		})
}

func newEcho(config embedded.NATSConfig, connect func(*embedded.NATS) (*nats.Conn, error)) (e *Echo,
	err error) {
	e = &Echo{}
	if e.server, err = embedded.StartNATS(config); err != nil {
		return nil, err
	}
	for _, c := range []**nats.Conn{&e.asker, &e.answer} {
		if *c, err = connect(e.server); err != nil {
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
