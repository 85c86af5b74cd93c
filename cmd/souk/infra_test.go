package main

import (
	"strings"
	"testing"

	"souk/bus"
	"souk/cmd/daemon"
)

// Names of a file that cannot belong to those that it gives them to are found as it is judged, and not when
// the first of them have their keys.
func TestNamesThatAreTakenInTheFile(t *testing.T) {
	hub := infraName{Role: bus.RoleHub, Name: "math"}
	node := infraName{Role: bus.RoleAgentd, Name: "n1", Agents: []string{"a1"}}
	for _, c := range []struct {
		names []infraName
		says  string // "" nothing
	}{
		{[]infraName{hub, node, hub}, ""},
		{[]infraName{hub, {Role: bus.RoleClient, Name: "math"}}, "names[1]: client math: the name is taken"},
		{[]infraName{node, {Role: bus.RoleAgentd, Name: "n2", Agents: []string{"a1"}}},
			"names[1]: agent a1: the name is taken"},
		{[]infraName{{Role: bus.RoleHub, Name: "m", Domain: "a1"}, node},
			"names[1]: agent a1: the name is taken"},
		{[]infraName{{Role: bus.RoleClient, Name: "root"}}, "names[0]: root: the name is taken"},
		{[]infraName{{Role: "bank", Name: "a"}}, "names[0]: role: "},
	} {
		cfg := &infraConfig{Common: daemon.Default(), Data: "data"}
		cfg.Infra.NATS, cfg.Infra.Etcd, cfg.Infra.Names = "127.0.0.1:0", "127.0.0.1:0", c.names
		err := cfg.Complete()
		if c.says == "" && err != nil ||
			c.says != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says)) {
			t.Errorf("%v: %v, want %q", c.names, err, c.says)
		}
	}
}
