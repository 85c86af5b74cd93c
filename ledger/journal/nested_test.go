package journal

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

// Where what looks like a frame begins at every few bytes behind a gap, each of them up to the end of the
// segment and with as many records as there may be in so much, whoever reads comes back at once.
func TestFramesWithinFrames(t *testing.T) {
	alone(t)
	dir := copyOf(t, long(t, 2000))
	segs, err := segments(walDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	path := segs[len(segs)-1].path
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for n := uint64(1); n > 0; {
		if n = binary.LittleEndian.Uint64(b[at:]); n > 0 {
			n &= 1<<56 - 1
			at += 8 + int(n+-n&7)
		}
	}
	b = append(b, make([]byte, maxSegment-len(b))...)
	binary.LittleEndian.PutUint64(b[at:], 1<<30) // torn
	end := len(b)
	b[end-1] = endMark
	const seq = 1 << 40
	five := func(n int) []byte { // a number, not as short as it can be
		return []byte{byte(n) | 0x80, byte(n>>7) | 0x80, byte(n>>14) | 0x80, byte(n>>21) | 0x80,
			byte(n >> 28)}
	}
	n := 0
	for i := at + 8; i+64 < end; i += 56 {
		if end-i > 30<<20 {
			continue
		}
		binary.LittleEndian.PutUint64(b[i:], 64)
		x := append(b[i+8:i+8:end], 8, typeEntry, 16, 1, 0x1a)
		x = append(x, five(end-(i+8+len(x)+5))...)
		x = append(x, 0x10, 1, 0x18)
		x = append(binary.AppendUvarint(x, seq), 0x22)
		left := end - (i + 8 + len(x) + 5)
		x = append(x, five(left)...)
		x = append(x, 0, 1, 1) // position, version, epoch
		x = append(binary.AppendUvarint(x, seq), 1)
		binary.AppendUvarint(x, uint64(max(0, left-40)/20)) // records
		n++
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d beginnings of frames", n)
	for what, f := range map[string]func() error{
		"reading": func() error { _, _, err := examined(dir); return err },
		"a start": func() error { return startOn(dir) },
	} {
		if err := withinBounds(t, what, f); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want damage", what, err)
		}
	}
}
