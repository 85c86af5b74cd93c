package natsauth

import (
	"errors"
	"testing"
	"time"

	"souk/bus"
)

// Who reads an answer hears a hub by its domain and an agent by its id, on subjects that end alike: no agent
// may have a domain's name.
func TestAgentsAndDomainsHaveNamesApart(t *testing.T) {
	now := time.Now()
	hub := bus.IDs{Name: "hub-1", Domain: "math"}
	node := bus.IDs{Name: "node", Agents: []string{"a1", "math"}}
	s := store(t)
	may[string](t)(s.Add(bus.RoleHub, hub, now, Valid))
	for name, err := range map[string]error{
		"an agent": func() error { _, err := s.Add(bus.RoleAgentd, node, now, Valid); return err }(),
		"an agentd and its agent": func() error {
			_, err := s.Member(bus.RoleAgentd, bus.IDs{Name: "math", Agents: []string{"math"}})
			return err
		}(),
	} {
		if !errors.Is(err, ErrTaken) {
			t.Errorf("%s with the name of a domain: %v", name, err)
		}
	}
	s = store(t)
	may[string](t)(s.Add(bus.RoleAgentd, node, now, Valid))
	if _, err := s.Add(bus.RoleHub, hub, now, Valid); !errors.Is(err, ErrTaken) {
		t.Errorf("a domain with the name of an agent: %v", err)
	}
	hub.Domain = "code"
	may[string](t)(s.Add(bus.RoleHub, hub, now, Valid))
	// a domain may have several hubs, and the name of one of them
	may[string](t)(s.Add(bus.RoleHub, bus.IDs{Name: "hub-2", Domain: "code"}, now, Valid))
	may[string](t)(s.Add(bus.RoleHub, bus.IDs{Name: "code", Domain: "code"}, now, Valid))
}
