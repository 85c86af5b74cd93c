package bus

import "net/netip"

// IsLoopback reports whether no other machine is reached at a host, a name or an address without its port.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
