package cli

import (
	"bytes"
	"strings"
	"testing"

	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
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

// Whatever whoever writes a journal puts into it, a terminal that shows records obeys nothing of it, and
// every record keeps to its lines.
func TestRecordsThatATerminalWouldObey(t *testing.T) {
	const bad = "\x1b]0;owned\a\n2026-01-01 deposit\u202e"
	for _, r := range []ledger.Record{
		ledger.NewDeposit("d", "ann", 5, &tip.Order{By: "cfo", Ref: "r", Note: bad}, [16]byte{}),
		{Kind: ledger.KindHold, ID: bad, Hold: &ledger.Hold{Client: "ann", Task: bad, Model: bad,
			Agent: bad}},
		{Kind: ledger.KindVoid, Void: &ledger.Void{Hold: bad, Reason: bad},
			Legs: []ledger.Leg{{Account: bad}}},
	} {
		var out bytes.Buffer
		p := newPrinter(&out, "table", "")
		p.print("general", &ledger.Frame{Time: 1}, &r, nil)
		lines := strings.Count(out.String(), "\n")
		if strings.ContainsAny(out.String(), "\x1b\a\u202e") || lines != 2+len(r.Legs) ||
			!strings.Contains(out.String(), `\x1b]0;owned\a\n`) {
			t.Errorf("%s: %d lines, %q", r.Kind, lines, out.String())
		}
	}
	var out bytes.Buffer
	round := &market.Round{Tasks: []market.Task{{ID: bad}}}
	printRound(&out, "table", round, &market.Outcome{})
	if strings.ContainsAny(out.String(), "\x1b\a\u202e") ||
		!strings.Contains(out.String(), `\x1b]0;owned\a\n`) {
		t.Errorf("a round: %q", out.String())
	}
}
