package bus

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"souk/market"
)

// A voucher proves what it says of one client at one hub, by one door with one key, and nothing else: not
// where any bit of it is another, nor where names run together.
func TestAVoucherProvesOneThing(t *testing.T) {
	key, other := bytes.Repeat([]byte{1}, VouchKeyBytes), bytes.Repeat([]byte{2}, VouchKeyBytes)
	v := NewVoucher(key, "door", "ann", "j", 1<<60, market.MaxCredits, 7)
	if v.Line() != 1<<60 || v.Total() != market.MaxCredits || v.Most() != 7 ||
		!v.Proves(key, "door", "ann", "j") {
		t.Errorf("line %d, total %d, most %d", v.Line(), v.Total(), v.Most())
	}
	for _, c := range []struct {
		key                   []byte
		door, client, journal string
	}{
		{other, "door", "ann", "j"}, {key[1:], "door", "ann", "j"}, {nil, "door", "ann", "j"},
		{key, "door2", "ann", "j"}, {key, "door", "bob", "j"}, {key, "door", "ann", "k"},
		{key, "doo", "rann", "j"}, {key, "door", "an", "nj"}, {key, "ann", "door", "j"}, {key, "", "", ""},
	} {
		if v.Proves(c.key, c.door, c.client, c.journal) {
			t.Errorf("it proves %+v", c)
		}
	}
	for bit := range 8 * len(v) {
		torn := bytes.Clone(v)
		torn[bit/8] ^= 1 << (bit % 8)
		if Voucher(torn).Proves(key, "door", "ann", "j") {
			t.Errorf("with another bit %d it proves the same", bit)
		}
	}
	for _, short := range []Voucher{nil, {}, v[:len(v)-1], append(bytes.Clone(v), 0)} {
		if short.Proves(key, "door", "ann", "j") || short.Line() != 0 || short.Total() != 0 ||
			short.Most() != 0 {
			t.Errorf("%d bytes say something", len(short))
		}
	}
	long := strings.Repeat("x", MaxID)
	if w := NewVoucher(key, long, long, long, 1, 2, 3); !w.Proves(key, long, long, long) ||
		w.Proves(key, long, long, long+"x") {
		t.Error("of long names")
	}
}

// A door's keys are three at most, the last first, each once; what is none is refused, and no log shows
// one.
func TestVouchKeys(t *testing.T) {
	k := &VouchKeys{}
	for i := range byte(5) {
		k = k.With(bytes.Repeat([]byte{i}, VouchKeyBytes), uint64(i%3))
		again := k.With(k.Keys[0], 0)
		if len(again.Keys) != len(k.Keys) || again.Line != k.Line {
			t.Errorf("said again: %d keys, were %d; line %d, was %d", len(again.Keys), len(k.Keys), again.Line,
				k.Line)
		}
	}
	if len(k.Keys) != maxVouchKeys || k.Keys[0][0] != 4 || k.Keys[2][0] != 2 || k.Line != 2 {
		t.Errorf("%d keys, line %d", len(k.Keys), k.Line)
	}
	value, err := EncodeEntry(k)
	if err != nil {
		t.Fatal(err)
	}
	back := new(VouchKeys)
	if err := DecodeEntry(value, back); err != nil || len(back.Keys) != 3 || back.Line != 2 {
		t.Errorf("%d keys, %v", len(back.Keys), err)
	}
	for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%+v", *k), fmt.Sprintf("%x", k)} {
		if shown != Redacted {
			t.Errorf("shown as %s", shown)
		}
	}
	for _, bad := range []string{`{}`, `{"keys":[]}`, `{"keys":["AAAA"]}`, `{"keys":[null]}`, `[]`,
		strings.Replace(string(value), `"line":2`, `"line":9223372036854775808`, 1),
		strings.Replace(string(value), `"keys":[`, `"keys":["",`, 1)} {
		if err := DecodeEntry([]byte(bad), new(VouchKeys)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
