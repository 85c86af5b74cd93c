package bustest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

var port atomic.Uint32

func init() { port.Store(rand.Uint32N(1 << 16)) }

// FreePort returns an address of loopback where nobody listens, outside of the range from which systems give
// ports to connections: what is started there, or started again, finds it free.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 18_000 {
		address := fmt.Sprintf("127.0.0.1:%d", 12_000+port.Add(1)%18_000)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no port of loopback is free")
	panic("unreachable")
}
