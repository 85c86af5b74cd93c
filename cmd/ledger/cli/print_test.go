package cli

import (
	"strings"
	"testing"

	"souk/ledger"
)

// Whatever kind a record is of can be asked for, and stands in the list of who asks for another.
func TestEveryKindCanBeAskedFor(t *testing.T) {
	none := filter{kind: "none"}
	said := none.validate().Error() + ","
	asked := 0
	for k := range ledger.Kind(255) {
		if strings.HasPrefix(k.String(), "kind ") {
			continue
		}
		asked++
		f := filter{kind: k.String()}
		if err := f.validate(); err != nil || !strings.Contains(said, " "+k.String()+",") {
			t.Errorf("--kind %s: %v; said of another: %s", k, err, said)
		}
	}
	if f := (filter{kind: ""}); asked != len(ledger.KindNames()) || asked < 19 || f.validate() != nil {
		t.Errorf("%d kinds of %q", asked, ledger.KindNames())
	}
}

// What an agent asserts to hold stands with its hold, where it asserts anything.
func TestAHoldIsShownWithItsAssertion(t *testing.T) {
	for asserted, want := range map[int]bool{0: false, 48: true} {
		h := ledger.Hold{Client: "ann", Task: "t", Agent: "a", Asserted: asserted}
		s := sentence(&ledger.Record{Hold: &h})
		if strings.Contains(s, "says that it holds 48 prompt tokens") != want {
			t.Errorf("an assertion of %d: %s", asserted, s)
		}
	}
}
