package choices

import (
	"strings"
	"testing"

	"souk/hub"
	"souk/hub/policy"
)

// A hub starts with each policy by its name, and with tolls that follow a regime; one that a program wires
// without them says that it has none.
func TestEachPartByItsName(t *testing.T) {
	made := 0
	for hook, known := range policies {
		for name := range known {
			for _, wired := range []bool{true, false} {
				c := Hub()
				c.Domain, c.Hub, c.Journal = "math", "math-1", "math"
				c.Regimes.Adapt = true
				c.Policies = policy.Params{Place: name}
				if policy.Hook(hook) == policy.Keep {
					c.Policies = policy.Params{Keep: name}
				}
				if !wired {
					c.Parts = hub.Parts{}
				}
				n, err := hub.NewNode(c, [32]byte{1})
				switch {
				case !wired && (err == nil || !strings.Contains(err.Error(), name) ||
					!strings.Contains(err.Error(), "regimes.adapt")):
					t.Errorf("%s where there is none: %v", name, err)
				case wired && err != nil:
					t.Errorf("%s: %v", name, err)
				case wired:
					if p := n.Stats().Policies; len(p) != 1 || p[0].Policy != name {
						t.Errorf("%s: a hub has %+v", name, p)
					}
					made++
				}
			}
		}
	}
	if made != 4 {
		t.Errorf("%d policies were made", made)
	}
}
