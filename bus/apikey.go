package bus

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"

	"souk/market"
)

// APIKey is the registry's entry of a key with which a client comes over HTTP: never the key itself.
type APIKey struct {
	ID     string `json:"id" want:"id"`
	Client string `json:"client" want:"id"` // who pays
	// of secrets that are good: while one takes another's place, two
	Hashes []KeyHash `json:"hashes"`

	ExpiresMS int64    `json:"expires_ms,omitempty" want:"unix"` // Unix milliseconds; 0: never
	Models    []string `json:"models,omitempty" want:"most:256"` // that may be asked for; none: all
	Terms     Terms    `json:"terms,omitzero"`                   // where a request says nothing
	// whatever a request says it pays at most this, for all of its answers together
	MaxPrice *market.Credits `json:"max_price,omitempty"`
	// requests a second; 0: as many as the gateway takes
	Rate float64 `json:"rate,omitempty" want:"any"`
	// answers at once; 0: as many as the gateway gives a key
	Open   int        `json:"open,omitempty" want:"turn"`
	Budget *KeyBudget `json:"budget,omitempty"`
}

// KeyBudget is the part of a client's money that a key may spend. The key is then a client of its own, whose
// money the treasury tops up. This copy is for reading; the treasury's counts.
type KeyBudget struct {
	Of     string         `json:"of" want:"id"` // whose money it is
	Amount market.Credits `json:"amount"`
	Every  string         `json:"every,omitempty" want:"every"`
}

// BudgetClient is the client that a key with a budget is.
func BudgetClient(of, key string) string { return of + "-" + key }

// KeyHash is the SHA-256 of a secret. A secret is random, so that nothing slower is needed.
type KeyHash struct {
	SHA256  string `json:"sha256"`                         // hexadecimal
	UntilMS int64  `json:"until_ms,omitempty" want:"unix"` // Unix milliseconds; 0: as long as the key
}

// KeyPrefix begins every key: sk-souk-ID-SECRET.
const KeyPrefix = "sk-souk-"

// keyRandom is the number of random bytes in a secret.
const keyRandom = 32

// NewSecret makes the key of an id, which has no '-', of keyRandom random bytes. It ends with a checksum, so
// that a slip is told from a key that nobody knows.
func NewSecret(id string, random [keyRandom]byte) string {
	sum := crc32.ChecksumIEEE(append([]byte(id), random[:]...))
	secret := append(random[:], byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
	return KeyPrefix + id + "-" + base64.RawURLEncoding.EncodeToString(secret)
}

// KeyID is the id of a well-formed key.
func KeyID(key string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok || len(rest) > MaxID+64 {
		return "", false
	}
	id, secret, ok := strings.Cut(rest, "-")
	if !ok || !ValidID(id) {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	if err != nil || len(raw) != keyRandom+4 || NewSecret(id, [keyRandom]byte(raw)) != key {
		return "", false
	}
	return id, true
}

// HashKey returns the hash of a key for the registry.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Admits reports whether a key is this one, at some time.
func (k *APIKey) Admits(key string, nowMS int64) bool { return k.AdmitsHash(HashKey(key), nowMS) }

// AdmitsHash is Admits of a key's hash.
func (k *APIKey) AdmitsHash(hash string, nowMS int64) bool {
	if k.Expired(nowMS) {
		return false
	}
	good := 0
	for _, h := range k.Hashes {
		same := subtle.ConstantTimeCompare([]byte(h.SHA256), []byte(hash))
		if h.UntilMS == 0 || nowMS < h.UntilMS {
			good |= same
		}
	}
	return good == 1
}

// Expired reports whether the key's time is over.
func (k *APIKey) Expired(nowMS int64) bool { return k.ExpiresMS != 0 && nowMS >= k.ExpiresMS }

// Rotate makes a secret the key's, and lets the one before live until some time.
func (k *APIKey) Rotate(key string, untilMS int64) {
	last := k.Hashes[len(k.Hashes)-1]
	last.UntilMS = untilMS
	k.Hashes = []KeyHash{last, {SHA256: HashKey(key)}}
}

func (k *APIKey) Validate() error {
	switch {
	case strings.Contains(k.ID, "-"):
		return fmt.Errorf("id: %q: an id of a key has no '-', which ends it in the key", k.ID)
	case len(k.Hashes) < 1 || len(k.Hashes) > 2:
		return fmt.Errorf("hashes: %d, want 1, or 2 while a key is replaced", len(k.Hashes))
	case k.MaxPrice != nil && *k.MaxPrice <= 0:
		return fmt.Errorf("max_price: %s: a key that may pay nothing buys nothing", *k.MaxPrice)
	case !(k.Rate >= 0 && k.Rate <= 1e6):
		return fmt.Errorf("rate: %v requests a second is not within 0 and a million", k.Rate)
	}
	for _, h := range k.Hashes {
		if b, err := hex.DecodeString(h.SHA256); err != nil || len(b) != sha256.Size {
			return fmt.Errorf("hashes.sha256: %.80q is not the hexadecimal SHA-256 of a key", h.SHA256)
		}
	}
	if b := k.Budget; b != nil {
		if want := BudgetClient(b.Of, k.ID); k.Client != want {
			return fmt.Errorf("client: %.80q: a key with a budget is the client %.140s", k.Client, want)
		}
		if b.Amount <= 0 {
			return fmt.Errorf("budget.amount: %s is not above 0", b.Amount)
		}
	}
	return judge(k)
}
