package quality

import "testing"

// What is read has each domain and each client once, in order, or nothing of it is found again.
func TestNamesThatAreNotInOrderAreRefused(t *testing.T) {
	agent := func(domains, clients []string) *Agent {
		var a Agent
		for _, d := range domains {
			x := inDomain{Domain: d}
			for _, c := range clients {
				x.Voices = append(x.Voices, voice{Client: c, Paid: 1})
			}
			a.Domains = append(a.Domains, x)
		}
		return &a
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
		{[]string{""}, nil, false},
	} {
		if got := agent(c.domains, c.clients).Valid(); got != c.taken {
			t.Errorf("domains %q, clients %q are taken: %v", c.domains, c.clients, got)
		}
	}
}
