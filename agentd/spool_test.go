package agentd

import (
	"errors"
	"strings"
	"testing"

	"souk/bus"
	"souk/market"
)

func report(hold string) Report {
	return Report{"math", bus.Completion{Agent: "a1", Boot: 7, Hold: hold, Client: "ann",
		Task: "t-" + strings.ReplaceAll(hold, "/", "-"), Outcome: bus.OutcomeDone,
		Finish: "stop", Usage: market.Usage{Prompt: 20, Cached: 16, Output: 3}, Relayed: 3, Cost: 1234}}
}

func holds(left []Report) string {
	var out []string
	for _, r := range left {
		out = append(out, r.Completion.Hold)
	}
	return strings.Join(out, " ")
}

// written is a spool with two completions, and its size with one.
func written(t *testing.T) (text []byte, one int64) {
	t.Helper()
	s, err := NewSpool("a1", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ = s.Text()
	s.Renewed(text)
	for _, hold := range []string{"j/1/0", "j/1/1"} {
		one = s.Size
		r := report(hold)
		more, err := s.Add(&r)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, more...)
		s.Added()
	}
	if s.Size != int64(len(text)) {
		t.Fatalf("%d bytes, and it says %d", len(text), s.Size)
	}
	return text, one
}

// What is whole before a damage counts.
func TestADamagedSpoolIsReadAsFarAsItIsWhole(t *testing.T) {
	good, one := written(t)
	for n := range good {
		left, _, err := ReadSpool(good[:n], "a1", 100)
		want := map[bool]string{true: "j/1/0"}[int64(n) >= one]
		if whole := int64(n) == one || n == len(spoolHead("a1")); holds(left) != want ||
			(err == nil) != whole {
			t.Fatalf("cut at %d: %q, %v", n, holds(left), err)
		}
		bad := append([]byte(nil), good...)
		bad[n] ^= 1
		if left, _, err = ReadSpool(bad, "a1", 100); err == nil || holds(left) != want {
			t.Fatalf("byte %d changed: %q, %v", n, holds(left), err)
		}
	}
	if _, _, err := ReadSpool(good, "a1", 1); err == nil || !strings.Contains(err.Error(), "more than 1") {
		t.Errorf("too many: %v", err)
	}
	failed := report("j/1/0")
	failed.Completion.Outcome = bus.OutcomeFailed
	entry, _ := appendReport([]byte(spoolHead("a1")), &failed)
	if _, _, err := ReadSpool(entry, "a1", 100); err == nil {
		t.Error("a failed task is to be paid")
	}
}

// A completion that was not written whole is taken back; if it cannot be, the file is begun anew. An
// acknowledgement goes along with whatever is written next.
func TestASpoolThatIsTorn(t *testing.T) {
	good, _ := written(t)
	left, _, err := ReadSpool(good, "a1", 100)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSpool("a1", left)
	if err != nil {
		t.Fatal(err)
	}
	text, none := s.Text()
	s.Renewed(text)
	if none || string(text) != string(good) {
		t.Errorf("%d bytes anew, want %d", len(text), len(good))
	}
	s.Done("j/1/0")
	for _, lost := range []bool{false, true} {
		r := report("j/2/0")
		if _, err := s.Add(&r); err != nil {
			t.Fatal(err)
		}
		if s.Torn(lost); s.Full() != lost || s.Has("j/2/0") {
			t.Errorf("torn, %v: full %v, has it %v", lost, s.Full(), s.Has("j/2/0"))
		}
		if lost {
			break
		}
		next := report("j/3/0")
		more, err := s.Add(&next)
		if err != nil {
			t.Fatal(err)
		}
		s.Added()
		if sync, waits := s.Look(); sync || !waits {
			t.Errorf("at the first look: a sync %v, some wait %v", sync, waits)
		}
		again, _, err := ReadSpool(append(text, more...), "a1", 100)
		if err != nil || holds(again) != "j/1/1 j/3/0" {
			t.Errorf("left is %q, %v", holds(again), err)
		}
	}
}

func FuzzReadSpool(f *testing.F) {
	text := []byte(spoolHead("a1"))
	f.Add(text)
	for _, hold := range []string{"j/1/0", "j/1/1"} {
		r := report(hold)
		text, _ = appendReport(text, &r)
	}
	f.Add(text)
	f.Add(appendDone(text, "j/1/0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		left, whole, err := ReadSpool(data, "a1", 3)
		if errors.Is(err, ErrForeign) && whole == 0 && len(left) == 0 {
			return
		}
		if whole > len(data) || (err == nil) != (whole == len(data)) || len(left) > 3 {
			t.Fatalf("%d of %d bytes, %d completions, %v", whole, len(data), len(left), err)
		}
		again, n, err := ReadSpool(data[:whole], "a1", 3)
		if err != nil || n != whole || holds(again) != holds(left) {
			t.Fatalf("what is whole is not: %v", err)
		}
		for _, r := range left {
			if r.Completion.Agent != "a1" || r.Completion.Validate() != nil || !bus.ValidID(r.Domain) {
				t.Fatalf("%+v", r)
			}
		}
	})
}
