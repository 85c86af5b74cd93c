package ledger

import (
	"bytes"
	"errors"
	"souk/bus/tip"
	"testing"
)

// A leaf is a frame with one record, and says all that the frame says: another time, sequence or epoch is
// another leaf, though the record is the same.
func TestLeaves(t *testing.T) {
	deposit := func(id string) Record {
		return NewDeposit(id, "ann", 7, &tip.Order{Note: "note"},
			[16]byte{3})
	}
	for n := 1; n < 300; n += 99 {
		f := Frame{Version: FrameVersion, Epoch: 3, Seq: 5, Time: 1e18}
		for i := range n {
			f.Records = append(f.Records, deposit(string(rune('a'+i%26))))
		}
		i := 0
		err := Leaves(AppendFrame(nil, &f), func(leaf []byte) {
			one := f
			one.Records = f.Records[i : i+1]
			if want := AppendFrame(nil, &one); !bytes.Equal(leaf, want) {
				t.Errorf("record %d of %d: %x, want %x", i, n, leaf, want)
			}
			i++
		})
		if err != nil || i != n {
			t.Errorf("%d leaves of %d records: %v", i, n, err)
		}
	}
	all := map[string]bool{}
	for _, f := range []Frame{{1, 3, 5, 1e18, nil}, {1, 4, 5, 1e18, nil}, {1, 3, 6, 1e18, nil},
		{1, 3, 5, 1e18 + 1, nil}} {
		f.Records = []Record{deposit("a"), deposit("b")}
		if err := Leaves(AppendFrame(nil, &f), func(leaf []byte) { all[string(leaf)] = true }); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) != 8 {
		t.Errorf("%d leaves, want 8", len(all))
	}
	f := Frame{1, 3, 5, 1e18, []Record{deposit("a"), deposit("b")}}
	whole := AppendFrame(nil, &f)
	for n := range whole {
		if err := Leaves(whole[:n], func([]byte) {}); !errors.Is(err, ErrEncoding) {
			t.Errorf("%d bytes of %d: %v", n, len(whole), err)
		}
	}
	if err := Leaves(append(whole, 0), func([]byte) {}); !errors.Is(err, ErrEncoding) {
		t.Error(err)
	}
}
