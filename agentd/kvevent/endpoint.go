package kvevent

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"souk/bus"
)

// Source says where an engine publishes, in the words of its own --kv-events-config.
type Source struct {
	// tcp://*:5557, where the engine listens, or tcp://127.0.0.1:5557, to where it connects, or
	// ipc:///run/vllm/kv; empty: what the engine says of itself; none: its events are not heard
	Endpoint string `yaml:"endpoint"`
	// where it says again what was missed; empty: nowhere
	Replay string `yaml:"replay"`
}

// NoEvents is the endpoint of an engine that is not heard.
const NoEvents = "none"

// Validate judges what is configured.
func (s Source) Validate() error {
	if s.Endpoint == "" || s.Endpoint == NoEvents {
		if s.Replay != "" {
			return fmt.Errorf("replay: %q without an endpoint: name both, or neither", s.Replay)
		}
		return nil
	}
	if _, _, err := s.Publisher(); err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	if _, err := s.Replays(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

// Publisher returns the endpoint of the engine's publisher, and whether the agent is to listen there: an
// engine itself listens at an endpoint of ipc and at one of all interfaces, and connects to any other.
func (s Source) Publisher() (endpoint string, listen bool, err error) {
	endpoint = here(s.Endpoint)
	_, _, err = Resolve(endpoint)
	listen = strings.HasPrefix(endpoint, "tcp://") && !strings.Contains(s.Endpoint, "*") &&
		!strings.Contains(s.Endpoint, "::")
	return endpoint, listen, err
}

// Replays returns the endpoint of the engine's replay, which always listens; empty where there is none.
func (s Source) Replays() (endpoint string, err error) {
	if s.Replay == "" {
		return "", nil
	}
	endpoint = here(s.Replay)
	_, _, err = Resolve(endpoint)
	return endpoint, err
}

// here returns the address by which a process of this machine reaches an endpoint on all interfaces.
func here(endpoint string) string {
	for all, one := range map[string]string{"tcp://*:": "tcp://127.0.0.1:", "tcp://[::]:": "tcp://[::1]:"} {
		if port, ok := strings.CutPrefix(endpoint, all); ok {
			return one + port
		}
	}
	return endpoint
}

// Resolve reads an endpoint: tcp://HOST:PORT, where HOST is this machine to itself, or ipc://PATH. What else
// ZeroMQ has is refused: events tell the tokens of prompts, and belong on no network.
func Resolve(endpoint string) (network, address string, err error) {
	scheme, rest, _ := strings.Cut(endpoint, "://")
	switch {
	case scheme == "ipc" && rest != "" && len(rest) <= maxPath:
		return "unix", rest, nil
	case scheme == "ipc" && rest != "":
		return "", "", fmt.Errorf("%q: a path of %d bytes; a socket's has at most %d", endpoint,
			len(rest), maxPath)
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
	if !bus.IsLoopback(host) {
		return "", "", fmt.Errorf("%q: %q is not this machine alone, and events tell the tokens of prompts: "+
			"use ipc:///run/vllm/kv or tcp://127.0.0.1:%s", endpoint, host, port)
	}
	return "tcp", rest, nil
}

// maxPath is the longest path of a socket that Linux has.
const maxPath = 107
