package bus

import (
	"strings"
	"testing"

	"souk/market"
)

func TestAKeyIsKnownByItsHash(t *testing.T) {
	secret := NewSecret("k1", [keyRandom]byte{1, 2, 3})
	if id, ok := KeyID(secret); !ok || id != "k1" || !strings.HasPrefix(secret, "sk-souk-k1-") {
		t.Fatalf("%s: %q %v", secret, id, ok)
	}
	k := &APIKey{ID: "k1", Client: "dev", Hashes: []KeyHash{{SHA256: HashKey(secret)}}, ExpiresMS: 1000}
	value, err := EncodeEntry(k)
	if err != nil || strings.Contains(string(value), secret[len("sk-souk-k1-"):]) {
		t.Fatalf("%s, %v", value, err)
	}
	other := NewSecret("k1", [keyRandom]byte{9})
	k.Rotate(other, 500)
	for _, c := range []struct {
		key  string
		now  int64
		want bool
	}{{secret, 499, true}, {secret, 500, false}, {other, 999, true}, {other, 1000, false}, {"", 0, false},
		{NewSecret("k1", [keyRandom]byte{8}), 0, false}} {
		if got := k.Admits(c.key, c.now); got != c.want {
			t.Errorf("%q at %d: %v", c.key, c.now, got)
		}
	}
	third := NewSecret("k1", [keyRandom]byte{10})
	k.Rotate(third, 700)
	if k.Admits(secret, 0) || !k.Admits(other, 0) || !k.Admits(third, 0) {
		t.Errorf("%+v", k)
	}
}

func TestASlipIsNoKey(t *testing.T) {
	secret := NewSecret("k1", [keyRandom]byte{1})
	for i := range secret {
		slip := []byte(secret)
		slip[i] ^= 1
		if _, ok := KeyID(string(slip)); ok {
			t.Errorf("%s passes for %s", slip, secret)
		}
	}
	for _, s := range []string{"", "sk-souk-", "sk-souk--", secret + "A", secret[:len(secret)-1],
		"sk-souk-" + strings.Repeat("a", 100) + "-" + secret[11:]} {
		if _, ok := KeyID(s); ok {
			t.Errorf("%q passes", s)
		}
	}
}

// A gateway does not serve a key of which it cannot read all: what it does not know may be a limit.
func TestAKeyIsReadStrictly(t *testing.T) {
	good := `"id":"k","client":"c","hashes":[{"sha256":"` + HashKey("x") + `"}]`
	if err := DecodeEntry([]byte(`{`+good+`,"max_price":0.5,"terms":{"delta":0.5}}`), &APIKey{}); err != nil {
		t.Error(err)
	}
	for _, v := range []string{`{` + good + `,"budget":1}`, `{` + good + `,"max_price":0}`,
		`{` + good + `,"rate":-1}`, `{` + good + `,"terms":{"delta":2}}`, `{"id":"k","client":"c"}`,
		`{` + strings.Replace(good, `"k"`, `"a-b"`, 1) + `}`,
		`{"id":"k","client":"c","hashes":[{"sha256":"xy"}]}`} {
		if err := DecodeEntry([]byte(v), &APIKey{}); err == nil {
			t.Errorf("%s is taken", v)
		}
	}
	if _, err := EncodeEntry(&APIKey{ID: "k", MaxPrice: new(market.Credits)}); err == nil {
		t.Error("a key without a client is written")
	}
}

// No bytes pass for a key but one that was made.
func FuzzKeyID(f *testing.F) {
	f.Add(NewSecret("k1", [keyRandom]byte{1}))
	f.Add("sk-souk-k1-")
	f.Fuzz(func(t *testing.T, key string) {
		if id, ok := KeyID(key); ok && (!ValidID(id) || !strings.HasPrefix(key, KeyPrefix+id+"-")) {
			t.Errorf("%q is a key of %q", key, id)
		}
	})
}
