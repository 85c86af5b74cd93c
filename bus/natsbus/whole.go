package natsbus

import (
	"fmt"
	"net"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/rawconn"
)

// whole is a connection that ends with the first write that fails. The client of NATS goes on after a write
// that came too late, as where the process did not run for a minute, without what it was: messages, or a
// ping, and then it takes the answer to each later ping for that to the one before, for good.
type whole struct{ net.Conn }

func (c whole) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.Close()
	}
	return n, err
}

// wholeInProcess connects to a server in this process.
type wholeInProcess struct{ server nats.InProcessConnProvider }

func (p wholeInProcess) InProcessConn() (net.Conn, error) { return wholeOf(p.server.InProcessConn()) }

// wholeDialer connects by a socket.
type wholeDialer struct {
	near bool // loopback alone, also where a server names others to go to
}

func (d wholeDialer) Dial(network, address string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(address); d.near && (err != nil || !bus.IsLoopback(host)) {
		return nil, fmt.Errorf("%s is not on loopback, and may only be reached by TLS", address)
	}
	return wholeOf(rawconn.Dialer{Dialer: net.Dialer{Timeout: connectWithin}}.Dial(network, address))
}

func wholeOf(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return whole{c}, nil
}
