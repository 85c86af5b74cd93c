package natsauth

import (
	"errors"
	"testing"
	"time"

	"souk/bus"
)

// Who approves is an operator of the same market, by a JWT that the market's key has signed and that is good.
func TestWhoMayApprove(t *testing.T) {
	s, other, now := store(t), store(t), time.Now()
	token := func(s *Store, role bus.Role, name string) string {
		creds := may[string](t)(s.Add(role, bus.IDs{Name: name}, now, Valid))
		return may[*Identity](t)(File(creds)()).JWT()
	}
	treasury := may[Source](t)(s.Member(bus.RoleTreasury, bus.IDs{Name: "treasury"}))
	account := AccountFile(s.CredsPath("two"))
	good := token(s, bus.RoleOperator, "two")
	name, key, err := treasury.Operator(good, now, account)
	if err != nil || name != "two" || len(key) != 56 || key[0] != 'U' {
		t.Errorf("an operator is %q with key %q: %v", name, key, err)
	}
	changed := []byte(good)
	changed[len(changed)-10] ^= 1
	for what, token := range map[string]string{
		"a client": token(s, bus.RoleClient, "ada"), "a viewer": token(s, bus.RoleViewer, "eve"),
		"of another market": token(other, bus.RoleOperator, "two"), "changed": string(changed), "none": "",
	} {
		if name, _, err := treasury.Operator(token, now, account); err == nil {
			t.Errorf("%s approves as %q", what, name)
		}
	}
	if _, _, err := treasury.Operator(good, now.Add(2*Valid), account); err == nil {
		t.Error("expired creds approve")
	}
	if _, _, err := Source(nil).Operator(good, now, ""); err == nil {
		t.Error("a market without creds knows an operator")
	}
	creds := File(s.CredsPath("two"))
	gone := may[*Identity](t)(creds()).JWT()
	if err := s.Revoke("two", now); err != nil {
		t.Fatal(err)
	}
	if name, _, err := treasury.Operator(gone, now, account); !errors.Is(err, ErrRevoked) {
		t.Errorf("revoked creds approve as %q: %v", name, err)
	}
	if _, _, err := s.Renew("two", nil, now.Add(time.Hour), Valid); err != nil {
		t.Fatal(err)
	}
	fresh := may[*Identity](t)(creds()).JWT()
	if _, _, err := treasury.Operator(fresh, now.Add(time.Hour), account); err != nil {
		t.Errorf("of creds that were made since: %v", err)
	}
	strange := AccountFile(other.CredsPath("two"))
	if _, _, err := treasury.Operator(gone, now, strange); err == nil || account == "" || strange == "" {
		t.Errorf("another market's revocations count: %v", err)
	}
	if path := AccountFile("/etc/souk/treasury.creds"); path != "" {
		t.Errorf("beside creds that were carried elsewhere is %s", path)
	}
}
