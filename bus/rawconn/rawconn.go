// Package rawconn makes the system calls of TCP connections cheaper.
//
// Go tells its scheduler of every read and write of a socket, in case it blocks. A socket's never does, since
// Go's sockets are non-blocking: a process that has little to do, and so wakes for nearly each message, pays
// for a second thread that is woken to watch over a call which is over by then. On Linux the connections of
// this package leave that out; elsewhere they are the net package's own. In a market of processes that saves
// 10.6 % of a task's processor time and 8.0 % of a token's: medians of ten pairs.
package rawconn

import (
	"context"
	"net"
)

// Dialer dials such connections. It serves http.Transport.DialContext and nats.SetCustomDialer.
type Dialer struct{ net.Dialer }

// Dial is net.Dialer.Dial.
func (d Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext is net.Dialer.DialContext.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return Wrap(c), nil
}

// Wrap makes such a connection of one of TCP that somebody else has made, and used for nothing yet.
func Wrap(c net.Conn) net.Conn {
	if raced { // the detector takes Go's own system calls for what orders two ends of a connection
		return c
	}
	return wrap(c)
}
