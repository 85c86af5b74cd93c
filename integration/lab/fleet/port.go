package fleet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

var freePorts struct {
	sync.Mutex
	next int
}

// port returns an address of loopback that is free, outside of the range from which systems give ports to
// connections: a part that is started again finds its own.
func port() string {
	freePorts.Lock()
	defer freePorts.Unlock()
	if freePorts.next == 0 {
		freePorts.next = 12000 + rand.IntN(18000)
	}
	for range 20000 {
		if freePorts.next++; freePorts.next >= 32000 {
			freePorts.next = 12000
		}
		address := fmt.Sprintf("127.0.0.1:%d", freePorts.next)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	panic("fleet: no port of loopback is free")
}
