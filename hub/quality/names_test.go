package quality

import (
	"encoding/binary"
	"testing"
)

// What is read has each domain and each client once, in order, or nothing of it is found again.
func TestNamesThatAreNotInOrderAreRefused(t *testing.T) {
	agent := func(domains, clients []string) []byte {
		b := binary.AppendUvarint(nil, uint64(len(domains)))
		for _, d := range domains {
			b = appendName(b, d)
			for range Sources {
				b = append(appendFloats(b, 0, 0), 0)
			}
			b = binary.AppendUvarint(b, uint64(len(clients)))
			for _, c := range clients {
				b = appendFloats(appendName(b, c), 1, 0, 0)
			}
		}
		return b
	}
	for _, c := range []struct {
		domains, clients []string
		taken            bool
	}{
		{[]string{"code", "math"}, []string{"ann", "bob"}, true},
		{[]string{"math", "code"}, nil, false},
		{[]string{"math", "math"}, nil, false},
		{[]string{"math"}, []string{"bob", "ann"}, false},
		{[]string{"math"}, []string{"ann", "ann"}, false},
		{[]string{"math", "\xff"}, nil, false},
		{[]string{""}, nil, false},
	} {
		if _, _, err := Read(agent(c.domains, c.clients)); (err == nil) != c.taken {
			t.Errorf("domains %q, clients %q: %v", c.domains, c.clients, err)
		}
	}
}
