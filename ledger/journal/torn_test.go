package journal

import (
	"io"
	"path/filepath"
	"slices"
	"testing"

	"souk/ledger"
)

// A crash keeps some sectors of the last write and loses others. Where a frame's end mark, or its length, is
// alone in its sector, what is left looks like a byte that changed; but a sound journal is never called
// damaged.
func TestATornWriteIsNoDamageWhereverItsSectorsEnd(t *testing.T) {
	alone(t)
	dir := filepath.Join(t.TempDir(), "hub-maths")
	j := mustOpen(t, dir)
	var list []ledger.Frame
	for seq := uint64(1); seq <= 4000; seq++ {
		size := int(seq) * 37 % 150
		if seq%3 == 0 {
			size += 500
		}
		list = append(list, frame(seq, size))
	}
	mustAppend(t, j, list...)
	j.Close()
	path, b, end := used(t, dir)
	var starts []int
	r, err := NewReader(dir)
	for err == nil {
		var e Entry
		if e, err = r.Next(); err == nil {
			starts = append(starts, int(e.Offset))
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	starts = append(starts, end)
	judge := func(what string, b []byte) {
		t.Helper()
		r := &Reader{wal: walDir(dir), segs: []segment{{path: path}}, buf: b}
		if _, err := drain(r); err != io.EOF {
			t.Fatalf("%s: %v", what, err)
		}
		if note, err := r.behind(r.buf[r.off:]); err != nil || note == "" {
			t.Errorf("%s: %q, %v", what, note, err)
		}
	}
	marks, lengths := 0, 0
	for i, from := range starts[:len(starts)-1] {
		mark := starts[i+1] - 1
		for b[mark] == 0 {
			mark--
		}
		if b[mark] != endMark {
			t.Fatalf("frame %d ends with %02x", i+1, b[mark])
		}
		torn := func() []byte { return append(slices.Clone(b[:mark+1]), make([]byte, 2*sector)...) }
		if mark%sector == 0 {
			marks++
			lost := torn()
			lost[mark] = 0
			judge("all but the sector of the end mark", lost)
			alone := torn()
			clear(alone[from:mark])
			judge("nothing but the sector of the end mark", alone)
		}
		if from%sector == sector-8 {
			lengths++
			head := torn()
			clear(head[from+8:])
			judge("nothing but the sector of the length", head)
		}
	}
	if marks == 0 || lengths == 0 {
		t.Fatalf("%d frames end where a sector begins, %d begin where one ends", marks, lengths)
	}
}

// A copy of what a crash left is kept in the directory, and no start after that has a word to say of it.
func TestACopyOfATornTailIsNoNews(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, frame(1, 3000))
	mustAppend(t, j, frame(2, 3000))
	j.Close()
	path, b, end := used(t, dir)
	rewrite(t, path, b[:end-100], len(b))
	for start := range 3 {
		got := new(tally)
		j, logged := restored(t, dir, got)
		if got.frames != 1 {
			t.Errorf("start %d: %d frames, want that which is whole", start, got.frames)
		}
		if start > 0 && len(logged) > 0 {
			t.Errorf("start %d: %q", start, logged)
		}
		j.Close()
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*.torn")); len(list) != 1 {
		t.Errorf("%d copies are kept", len(list))
	}
}
