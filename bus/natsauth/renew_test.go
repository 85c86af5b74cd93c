package natsauth

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"souk/bus"
)

// Creds and certificates in the directory of keys are renewed by themselves when a third of their time is
// left, and when they are over; not those that were made for less, were revoked, or are not here.
func TestWhatEndsSoonIsRenewed(t *testing.T) {
	s := store(t)
	now := time.Now()
	hub := bus.IDs{Name: "math", Domain: "math", Journal: "math"}
	may[string](t)(s.Add(bus.RoleHub, hub, now, Valid))
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "ann"}, now, Valid))
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "brief"}, now, 24*time.Hour))
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "out"}, now, Valid))
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "away"}, now, Valid))
	if err := s.Revoke("out", now); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.CredsPath("away")); err != nil {
		t.Fatal(err)
	}
	due := func(at time.Time, want ...string) {
		t.Helper()
		got, err := s.RenewDue(at)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("after %v renewed %q, %v; want %q", at.Sub(now), got, err, want)
		}
	}
	identity := func(name string) *Identity { return may[*Identity](t)(ReadFile(s.CredsPath(name))) }
	due(now.Add(Valid/3*2 - time.Hour))
	before := identity("math")
	at := now.Add(Valid/3*2 + time.Hour)
	due(at, "ann", "math")
	after, cert := identity("math"), ClientFiles(s.Dir, "math")
	if after.JWT() == before.JWT() || !slices.Equal(after.say, before.say) ||
		after.Expires.Sub(at) < Valid-time.Minute || cert.Expires().Sub(at) < CertLife-time.Minute {
		t.Errorf("renewed until %v, the certificate until %v", after.Expires, cert.Expires())
	}
	due(at)
	// a certificate alone
	if err := os.Remove(cert.Cert); err != nil {
		t.Fatal(err)
	}
	due(at, "math")
	// whoever was down for long comes back
	at = at.Add(2 * Valid)
	due(at, "ann", "math")
	if i := identity("ann"); i.Expired(at) != nil {
		t.Error(i.Expired(at))
	}
	for _, u := range may[[]User](t)(s.List()) {
		if u.Brief != (u.Name == "brief") {
			t.Errorf("%s was made for a short time: %v", u.Name, u.Brief)
		}
	}
	// one whose file cannot be read keeps no other from being renewed
	if err := os.Chmod(s.CredsPath("ann"), 0o644); err != nil {
		t.Fatal(err)
	}
	at = at.Add(2 * Valid)
	if got, err := s.RenewDue(at); err == nil || !slices.Equal(got, []string{"math"}) {
		t.Errorf("renewed %q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(s.Dir, signingSeed)); err != nil {
		t.Fatal(err)
	}
	due(at.Add(2 * Valid))
}

// A name is renewed as it is when its turn comes: what was taken from it after the names were listed does not
// come back.
func TestARenewalGivesNothingBack(t *testing.T) {
	s, now := store(t), time.Now()
	may[string](t)(s.Add(bus.RoleAgentd, bus.IDs{Name: "node", Agents: []string{"a", "b"}}, now, Valid))
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "ann"}, now, Valid))
	if _, _, err := s.Renew("node", []string{"a"}, now, Valid); err != nil {
		t.Fatal(err)
	}
	if err := s.Revoke("ann", now); err != nil {
		t.Fatal(err)
	}
	if err := s.renewDue("node", now); err != nil {
		t.Error(err)
	}
	if err := s.renewDue("ann", now); !errors.Is(err, ErrRevoked) {
		t.Errorf("of one that was revoked: %v", err)
	}
	for _, u := range may[[]User](t)(s.List()) {
		if u.Name == "node" && !slices.Equal(u.Agents, []string{"a"}) || u.Revoked != (u.Name == "ann") {
			t.Errorf("%+v", u)
		}
	}
}
