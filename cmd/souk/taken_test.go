package main

import (
	"errors"
	"strings"
	"testing"

	"souk/bus"
	"souk/bus/natsauth"
)

// Nobody pays in for, and nobody has a key of, a name that belongs to another role: nobody could spend that.
func TestTheNameOfAClientIsTaken(t *testing.T) {
	dir := t.TempDir()
	keys, err := natsauth.Init(natsauth.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []struct {
		role bus.Role
		ids  bus.IDs
	}{{bus.RoleGateway, bus.IDs{Name: "gateway"}},
		{bus.RoleAgentd, bus.IDs{Name: "node", Agents: []string{"a1"}}},
		{bus.RoleClient, bus.IDs{Name: "ann"}}} {
		if _, err := keys.Member(u.role, u.ids); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"fund gateway 1", "fund a1 1", "key new node", "key new gateway --budget 1",
		"fund ann 1", "fund bob 1", "key new ann"} {
		c := root()
		c.SetArgs(append(strings.Fields(args), "--data", dir))
		taken := errors.Is(c.Execute(), natsauth.ErrTaken)
		if want := !strings.Contains(args, "ann") && !strings.Contains(args, "bob"); taken != want {
			t.Errorf("souk %s: refused as taken is %v", args, taken)
		}
	}
}
