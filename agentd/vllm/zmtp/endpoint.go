package zmtp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"souk/agentd/kvevent"
	"souk/bus/follow"
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

// Pauses before an endpoint is dialled again: the first, which doubles, and the longest.
const (
	pauseMin = 100 * time.Millisecond
	pauseMax = time.Second
)

// Connections calls each with every connection at an endpoint until ctx ends. If it listens, accepted
// connections run side by side; else it connects to the listener there, one connection after the other. each
// reports whether the two sides met. Running calls are counted in done; addr is the address it listens at.
func Connections(ctx context.Context, done *sync.WaitGroup, endpoint string, listen bool, failed func(error),
	each func(net.Conn) (met bool)) (addr net.Addr, err error) {
	if !listen {
		_, _, err := kvevent.Resolve(endpoint)
		if err == nil {
			done.Go(func() {
				dials(ctx, func() (net.Conn, error) { return Dial(ctx, endpoint) }, failed, each)
			})
		}
		return nil, err
	}
	l, err := Listen(endpoint)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	done.Go(func() {
		for {
			nc, err := l.Accept()
			switch {
			case ctx.Err() != nil:
				if err == nil {
					_ = nc.Close()
				}
				return
			case err != nil: // out of descriptors
				failed(fmt.Errorf("taking a connection: %w", err))
				follow.Pause(ctx, follow.Jitter(pauseMin))
			default:
				done.Go(func() { each(nc) })
			}
		}
	})
	return l.Addr(), nil
}

// dials keeps one connection.
func dials(ctx context.Context, dial func() (net.Conn, error), failed func(error), each func(net.Conn) bool) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		nc, err := dial()
		if err != nil {
			failed(err)
		} else if each(nc) {
			pause = pauseMin
		}
		if !follow.Pause(ctx, follow.Jitter(pause)) {
			return
		}
	}
}
