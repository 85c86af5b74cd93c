package zmtp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Resolve reads an endpoint: tcp://HOST:PORT, where HOST is this machine to itself, or ipc://PATH. What else
// ZeroMQ has is refused: events tell the tokens of prompts, and belong on no network.
func Resolve(endpoint string) (network, address string, err error) {
	scheme, rest, _ := strings.Cut(endpoint, "://")
	switch {
	case scheme == "ipc" && rest != "" && len(rest) <= maxPath:
		return "unix", rest, nil
	case scheme == "ipc" && rest != "":
		return "", "", fmt.Errorf("%q: a path of %d bytes; a socket's has at most %d", endpoint, len(rest), maxPath)
	case scheme != "tcp":
		return "", "", fmt.Errorf("%q is not like ipc:///run/vllm/kv or tcp://127.0.0.1:5557", endpoint)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return "", "", fmt.Errorf("%q is not like tcp://127.0.0.1:5557", endpoint)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", "", fmt.Errorf("%q: port %q is not within 0 and 65535", endpoint, port)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", "", fmt.Errorf("%q: %q is not this machine alone, and events tell the tokens of prompts: "+
			"use ipc:///run/vllm/kv or tcp://127.0.0.1:%s", endpoint, host, port)
	}
	return "tcp", rest, nil
}

// maxPath is the longest path of a socket that Linux has.
const maxPath = 107

// Dial connects to an endpoint.
func Dial(ctx context.Context, endpoint string) (net.Conn, error) {
	network, address, err := Resolve(endpoint)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: greeting}
	return d.DialContext(ctx, network, address)
}

// Listen takes connections at an endpoint. A socket's file that a dead process left is taken over.
func Listen(endpoint string) (net.Listener, error) {
	network, address, err := Resolve(endpoint)
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
