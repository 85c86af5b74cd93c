package daemon

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

var ports struct {
	sync.Mutex
	next int
}

// freePort returns an address of loopback that is free, outside of the range from which systems give ports to
// connections: what is started again finds its own.
func freePort() string {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = 12000 + rand.IntN(18000)
	}
	for range 20000 {
		if ports.next++; ports.next >= 32000 {
			ports.next = 12000
		}
		address := fmt.Sprintf("127.0.0.1:%d", ports.next)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	panic("no port of loopback is free")
}
