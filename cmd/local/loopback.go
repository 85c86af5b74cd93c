package local

import (
	"fmt"
	"net"

	"souk/bus"
)

// CheckLoopback refuses every address that another machine could reach.
func CheckLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: want an address like 127.0.0.1:4222 (port 0 for any free one)",
			bus.Redact(address))
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%q is not on loopback: this market knows no authentication yet, so whoever reached "+
		"it could spend any client's "+
		"money. Listen on 127.0.0.1 and reach it from elsewhere by an SSH tunnel", address)
}
