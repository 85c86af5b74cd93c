package bus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The longest value that an operator makes has room in the registry four times over, and one that has none is
// refused where it is made.
func TestTheLongestEntries(t *testing.T) {
	key := &APIKey{ID: "k1", Client: "ada",
		Hashes: []KeyHash{{SHA256: HashKey("a"), UntilMS: 1}, {SHA256: HashKey("b")}}}
	for i := range 256 {
		key.Models = append(key.Models, fmt.Sprintf("%s-%03d", strings.Repeat("m", 56), i))
	}
	value, err := EncodeEntry(key)
	if n := len(value); err != nil || n > MaxEntry/3 || n < MaxEntry/5 {
		t.Errorf("a key of %d models has %d bytes, want about a quarter of %d (%v)", 256, n, MaxEntry,
			err)
	}
	long := &HubEntry{Domain: "math", Hub: "math"}
	for i := range maxEntries {
		long.Labels = append(long.Labels, fmt.Sprintf("%s-%04d", strings.Repeat("l", MaxID-5), i))
	}
	if _, err := EncodeEntry(long); !errors.Is(err, ErrTooLarge) {
		t.Errorf("an entry that nobody would read: %v", err)
	}
}
