package zmtp

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"souk/agentd/kvevent"
)

// Dial connects to an endpoint.
func Dial(ctx context.Context, endpoint string) (net.Conn, error) {
	network, address, err := kvevent.Resolve(endpoint)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: greeting}
	return d.DialContext(ctx, network, address)
}

// Listen takes connections at an endpoint. A socket's file that a dead process left is taken over.
func Listen(endpoint string) (net.Listener, error) {
	network, address, err := kvevent.Resolve(endpoint)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(network, address)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) {
		if c, dead := net.Dial(network, address); dead == nil {
			_ = c.Close()
		} else if info, e := os.Lstat(address); e == nil && info.Mode().Type() == fs.ModeSocket &&
			errors.Is(dead, syscall.ECONNREFUSED) && os.Remove(address) == nil {
			l, err = net.Listen(network, address)
		}
	}
	return l, err
}
