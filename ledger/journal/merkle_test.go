package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"souk/bus/natsauth"
	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/tree"
)

const origin = "market/hub"

var signer = sync.OnceValue(func() note.Signer {
	skey, _, err := note.GenerateKey(rand.NewChaCha8([32]byte{1}), origin)
	if err != nil {
		panic(err)
	}
	return must(note.NewSigner(skey))
})

func signed(t testing.TB, h tree.Head) []byte {
	t.Helper()
	n, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: origin, Size: h.Size, Root: h.Root}, signer())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func mustTree(t testing.TB, j *Journal) *Tree {
	t.Helper()
	m, err := j.Tree()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func mustGrow(t testing.TB, m *Tree) tree.Head {
	t.Helper()
	h, err := m.Grow(nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// leafOf is the frame with one of its records alone.
func leafOf(f ledger.Frame, record int) []byte {
	f.Records = f.Records[record : record+1]
	return ledger.AppendFrame(nil, &f)
}

// leafNo is the leaf of a record by its number.
func leafNo(list []ledger.Frame, n int) []byte {
	for _, f := range list {
		if n < len(f.Records) {
			return leafOf(f, n)
		}
		n -= len(f.Records)
	}
	return nil
}

// treeOf is the tree of frames in memory, with its hashes.
func treeOf(list []ledger.Frame) (head tree.Head, hashes []tree.Hash, counts []int64) {
	var t tree.Tree
	for i := range list {
		for k := range list[i].Records {
			hashes = t.Append(tree.Leaf(leafOf(list[i], k)), hashes)
		}
		counts = append(counts, t.Size())
	}
	return tree.Head{Frame: uint64(len(list)), Size: t.Size(), Root: t.Root()}, hashes, counts
}

// I8: what was acknowledged is in the next tree, beside the writer and after each start, and in its files.
func TestTheTreeIsThatOfTheLog(t *testing.T) {
	dir := t.TempDir()
	list := frames(1, 60, 80_000) // 5 MB: two segments
	j := mustOpen(t, dir)
	m := mustTree(t, j)
	if h := mustGrow(t, m); h != (tree.Head{Root: h.Root}) {
		t.Errorf("an empty journal has the tree %v", h)
	}
	for at := 0; at < len(list); {
		n := min(1+at%7, len(list)-at)
		mustAppend(t, j, list[at:at+n]...)
		at += n
		if at%3 != 0 {
			continue // later, more at once
		}
		want, _, _ := treeOf(list[:at])
		if h := mustGrow(t, m); h != want {
			t.Fatalf("%d frames: %v, want %v", at, h, want)
		}
		if at%50 < 7 {
			if err := m.Keep(signed(t, want)); err != nil {
				t.Fatal(err)
			}
		}
		if at%110 < 7 { // a start
			m.Close()
			j.Close()
			j = mustOpen(t, dir)
			m = mustTree(t, j)
			if m.frame == 0 {
				t.Errorf("%d frames: it begins anew", at)
			}
		}
	}
	want, hashes, counts := treeOf(list)
	if h := mustGrow(t, m); h != want {
		t.Errorf("%v, want %v", h, want)
	}
	files, err := openHashes(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for i := range hashes {
		if h, err := files.ReadHashes([]int64{int64(i)}); err != nil || h[0] != hashes[i] {
			t.Fatalf("hash %d: %v, %v, want %v", i, h, err, hashes[i])
		}
	}
	for i, n := range counts {
		if files.count(uint64(i+1)) != n {
			t.Fatalf("frame %d ends with record %d, want %d", i+1, files.count(uint64(i+1)), n)
		}
	}
}

// kept makes a journal of some frames with checkpoints after each of those, and closes it.
func keptJournal(t testing.TB, n uint64, after ...uint64) (dir string, list []ledger.Frame) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "hub")
	list = frames(1, n, 500)
	j := mustOpen(t, dir)
	m := mustTree(t, j)
	for _, f := range list {
		mustAppend(t, j, f)
		if slices.Contains(after, f.Seq) {
			if err := m.Keep(signed(t, mustGrow(t, m))); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustGrow(t, m)
	m.Close()
	j.Close()
	return dir, list
}

// Hashes that are not there, cut, or of another journal are made anew: they prove nothing.
func TestHashesAreMadeAnew(t *testing.T) {
	other, _ := keptJournal(t, 7, 5)
	for name, harm := range map[string]func(dir string) error{
		"none":      func(dir string) error { return os.RemoveAll(treeDir(dir)) },
		"no hashes": func(dir string) error { return os.Remove(filepath.Join(treeDir(dir), "hashes")) },
		"no frames": func(dir string) error { return os.Remove(filepath.Join(treeDir(dir), "frames")) },
		"cut": func(dir string) error {
			return os.Truncate(filepath.Join(treeDir(dir), "hashes"),
				200)
		},
		"cut frames": func(dir string) error {
			return os.Truncate(filepath.Join(treeDir(dir), "frames"), 9*countBytes-3)
		},
		"another journal's": func(dir string) error {
			return errors.Join(os.RemoveAll(treeDir(dir)), os.CopyFS(treeDir(dir), os.DirFS(treeDir(other))))
		},
		"noise": func(dir string) error {
			path := filepath.Join(treeDir(dir), "hashes")
			b, err := os.ReadFile(path)
			for i := range b {
				b[i] ^= 0x55
			}
			return errors.Join(err, os.WriteFile(path, b, 0o600))
		},
	} {
		dir, list := keptJournal(t, 20, 4, 8, 12)
		note := keptNote(t, dir, 12)
		if err := harm(dir); err != nil {
			t.Fatal(err)
		}
		want, hashes, _ := treeOf(list)
		if p, err := Prove(dir, 30, leafNo(list, 30), note); err != nil ||
			p.Check(must(checkpoint.Peek(note))) != nil {
			t.Errorf("%s: a proof by the frames: %v", name, err)
		}
		j := mustOpen(t, dir)
		m := mustTree(t, j)
		if h := mustGrow(t, m); h != want {
			t.Errorf("%s: %v, want %v", name, h, want)
		}
		if got, err := m.files.ReadHashes([]int64{0, int64(len(hashes) - 1)}); err != nil ||
			got[0] != hashes[0] || got[1] != hashes[len(hashes)-1] {
			t.Errorf("%s: the hashes are not those of the journal: %v", name, err)
		}
		m.Close()
		j.Close()
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func keptNote(t testing.TB, dir string, frame uint64) []byte {
	t.Helper()
	kept, wrong, err := ReadKept(dir)
	if err != nil || wrong != nil {
		t.Fatal(wrong, err)
	}
	for _, k := range kept {
		if k.Frame == frame {
			return k.Note
		}
	}
	t.Fatalf("no checkpoint of frame %d", frame)
	return nil
}

// Hashes that fit what was signed stay beside a log that does not, and say nothing of that.
func TestAnotherLogBesideTheHashesOfTheSignedOne(t *testing.T) {
	for name, change := range map[string]func(list []ledger.Frame) []ledger.Frame{
		"as it was":  func(l []ledger.Frame) []ledger.Frame { return l },
		"cut behind": func(l []ledger.Frame) []ledger.Frame { return l[:16] },
		"cut before": func(l []ledger.Frame) []ledger.Frame { return l[:15] },
		"cut early":  func(l []ledger.Frame) []ledger.Frame { return l[:2] },
		"another amount": func(l []ledger.Frame) []ledger.Frame {
			l[9] = frame(10, 500)
			l[9].Records[1].Transfer.Amount++
			return l
		},
		"another first": func(l []ledger.Frame) []ledger.Frame {
			l[0].Time++
			return l
		},
	} {
		old, list := keptJournal(t, 20, 4, 8, 16)
		dir := filepath.Join(t.TempDir(), "hub")
		j := mustOpen(t, dir)
		mustAppend(t, j, change(list)...)
		j.Close()
		err := errors.Join(os.CopyFS(keptDir(dir), os.DirFS(keptDir(old))),
			os.CopyFS(treeDir(dir), os.DirFS(treeDir(old))))
		if err != nil {
			t.Fatal(err)
		}
		j = mustOpen(t, dir)
		m := mustTree(t, j)
		if _, err = m.Grow(nil); err == nil {
			err = m.Recheck(nil)
		}
		right := name == "as it was" || name == "cut behind"
		if right != (err == nil) || err != nil && !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
		m.Close()
		j.Close()
	}
}

// Where the hashes cannot lie beside the log, it is signed and proven all the same.
func TestHashesThatCannotLieBesideTheLog(t *testing.T) {
	dir, list := keptJournal(t, 40, 30)
	if err := errors.Join(os.RemoveAll(treeDir(dir)), os.WriteFile(treeDir(dir), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, dir)
	m := mustTree(t, j)
	mustGrow(t, m)
	mustAppend(t, j, frame(41, 10))
	now := mustGrow(t, m)
	for _, at := range []int{2, 30, 40} {
		was, _, _ := treeOf(list[:at])
		p, err := m.Consistency(was.Size)
		if err == nil {
			err = tlog.CheckTree(p, now.Size, now.Root, was.Size, was.Root)
		}
		if err != nil {
			t.Errorf("from frame %d: %v", at, err)
		}
		if ok, err := m.Extends(was.Size, tree.Hash{1}); ok || err != nil {
			t.Errorf("frame %d of another root: %v, %v", at, ok, err)
		}
	}
	m.Close()
	j.Close()
}

// Hashes that are found wrong while the journal is written are made anew. Until then nothing is said of what
// they would have to show: neither that the journal goes on something, nor that it does not.
func TestHashesThatAreFoundWrong(t *testing.T) {
	dir, list := keptJournal(t, 40, 30)
	j := mustOpen(t, dir)
	m := mustTree(t, j)
	m.files.hashes.Truncate(100)
	now := mustGrow(t, m)
	was, _, _ := treeOf(list[:7])
	for range 2 {
		for _, size := range []int64{was.Size, 0, now.Size, now.Size + 1} {
			if ok, err := m.Extends(size, was.Root); ok || !errors.Is(err, errAnew) {
				t.Errorf("size %d: %v, %v", size, ok, err)
			}
			if _, err := m.Consistency(size); !errors.Is(err, errAnew) {
				t.Errorf("from size %d: %v", size, err)
			}
		}
		stop := make(chan struct{})
		close(stop) // as at the end of a process, and nothing is known then
		if _, err := m.Grow(stop); err == nil {
			break
		}
	}
	if again := mustGrow(t, m); again != now {
		t.Errorf("%v, want %v", again, now)
	}
	if ok, err := m.Extends(was.Size, was.Root); !ok || err != nil {
		t.Errorf("once more: %v, %v", ok, err)
	}
	m.wrong = true
	defer func(was time.Duration) { anewFor = was }(anewFor)
	anewFor = 0
	calls, again, err := 1, tree.Head{}, errAnew
	for ; calls < 100 && errors.Is(err, errAnew); calls++ {
		again, err = m.Grow(nil)
	}
	if err != nil || again != now || calls < 40 {
		t.Errorf("a call for each frame: %v, %v after %d", again, err, calls)
	}
	if ok, err := m.Extends(was.Size, was.Root); !ok || err != nil {
		t.Errorf("and then: %v, %v", ok, err)
	}
	m.Close()
	j.Close()
}

// I12 and I13: whoever was signed for goes on what was signed, or nothing more is signed.
func TestAnotherJournalThanWasSigned(t *testing.T) {
	from := func(list []ledger.Frame) string {
		dir := filepath.Join(t.TempDir(), "hub")
		j := mustOpen(t, dir)
		mustAppend(t, j, list...)
		j.Close()
		return dir
	}
	for name, change := range map[string]func(list []ledger.Frame) []ledger.Frame{
		"as it was":    func(l []ledger.Frame) []ledger.Frame { return l },
		"gone on":      func(l []ledger.Frame) []ledger.Frame { return append(l, frame(21, 10)) },
		"cut behind":   func(l []ledger.Frame) []ledger.Frame { return l[:16] },
		"cut before":   func(l []ledger.Frame) []ledger.Frame { return l[:15] },
		"another last": func(l []ledger.Frame) []ledger.Frame { return append(l[:15], frame(16, 700)) },
		"another amount": func(l []ledger.Frame) []ledger.Frame {
			l[9] = frame(10, 500)
			l[9].Records[1].Transfer.Amount++
			return l
		},
		"another time": func(l []ledger.Frame) []ledger.Frame {
			l[9].Time++
			return l
		},
		"one left out": func(l []ledger.Frame) []ledger.Frame {
			l[9].Records = l[9].Records[:2]
			return l
		},
	} {
		right := name == "as it was" || name == "gone on" || name == "cut behind"
		old, list := keptJournal(t, 20, 4, 8, 16)
		dir := from(change(list))
		if err := os.CopyFS(keptDir(dir), os.DirFS(keptDir(old))); err != nil {
			t.Fatal(err)
		}
		j := mustOpen(t, dir)
		m := mustTree(t, j)
		for range 2 { // and no second try makes it better
			if _, err := m.Grow(nil); right != (err == nil) || err != nil && !errors.Is(err, ErrOther) {
				t.Errorf("%s: %v", name, err)
			}
		}
		m.Close()
		j.Close()
	}
}

func TestConsistency(t *testing.T) {
	dir, list := keptJournal(t, 40, 30)
	j := mustOpen(t, dir)
	m := mustTree(t, j)
	now := mustGrow(t, m)
	for at := uint64(1); at <= 40; at += 3 {
		was, _, _ := treeOf(list[:at])
		if ok, err := m.Extends(was.Size, was.Root); !ok || err != nil {
			t.Errorf("size %d: %v, %v", was.Size, ok, err)
		}
		if ok, err := m.Extends(was.Size, tree.Hash{1}); ok || err != nil {
			t.Errorf("size %d of another root: %v, %v", was.Size, ok, err)
		}
		p, err := m.Consistency(was.Size)
		if err == nil {
			err = tlog.CheckTree(p, now.Size, now.Root, was.Size, was.Root)
		}
		if err != nil {
			t.Errorf("from size %d: %v", was.Size, err)
		}
	}
	for _, size := range []int64{-1, now.Size + 1, 1 << 62} {
		if ok, err := m.Extends(size, now.Root); ok || err != nil {
			t.Errorf("size %d: %v, %v", size, ok, err)
		}
		if _, err := m.Consistency(size); err == nil {
			t.Errorf("a proof from size %d", size)
		}
	}
	if ok, _ := m.Extends(0, new(tree.Tree).Root()); !ok {
		t.Error("it does not go on the empty tree")
	}
	m.Close()
}

// Few checkpoints are kept of many: no gap is much more than a quarter of its age, and what more have signed
// stays.
func TestCheckpointsAreThinned(t *testing.T) {
	dir := t.TempDir()
	var all []Kept
	var err error
	s := signer()
	const n = 1200
	for i := int64(1); i <= n; i++ {
		c := checkpoint.Checkpoint{Origin: origin, Size: i * 10, Root: tree.Hash{byte(i)}}
		made := must(checkpoint.Sign(c, s))
		if i == 777 {
			made = fmt.Appendf(made, "— witness %s\n", "AAAAAAAAAAAA")
		}
		if all, err = keep(dir, all, uint64(i), made); err != nil {
			t.Fatal(err)
		}
	}
	read, wrong, err := ReadKept(dir)
	if err != nil || wrong != nil || len(read) != len(all) || len(read) > 100 {
		t.Fatalf("%d are kept, %d are read, %v %v", len(all), len(read), wrong, err)
	}
	if read[0].Frame != 1 || read[len(read)-1].Frame != n || !slices.ContainsFunc(read, func(k Kept) bool {
		return k.Frame == 777
	}) {
		t.Error("the first, the last or the one that more have signed is gone")
	}
	for i, k := range read[1:] {
		if gap, age := k.Size-read[i].Size, n*10-k.Size; gap > max(20, age/4+age/20) {
			t.Errorf("a gap of %d records, %d records ago", gap, age)
		}
	}
	// one that is signed by more takes the place of the former
	last := read[len(read)-1]
	more := fmt.Appendf(bytes.Clone(last.Note), "— witness %s\n", "AAAAAAAAAAAA")
	if all, err = keep(dir, all, last.Frame, more); err != nil || !bytes.Equal(all[len(all)-1].Note, more) {
		t.Error(err)
	}
}

// A checkpoint that several witnesses cosign, one after another, is kept with the signatures of all.
func TestNobodysSignatureIsLost(t *testing.T) {
	dir := t.TempDir()
	j := must(Open(dir, Config{MinFree: -1}))
	defer j.Close()
	m := mustTree(t, j)
	if err := j.Append(frames(1, 3, 10)...); err != nil {
		t.Fatal(err)
	}
	h := mustGrow(t, m)
	own := signed(t, h)
	notes := [][]byte{own}
	for i := range byte(3) {
		skey, _, err := natsauth.WitnessKey(rand.NewChaCha8([32]byte{2, i}), fmt.Sprint("w", i))
		if err != nil {
			t.Fatal(err)
		}
		by := must(must(checkpoint.NewCosigner(skey)).Cosign(must(checkpoint.Peek(own)), time.Unix(1e9, 0)))
		notes = append(notes, must(checkpoint.Merge(own, by)))
	}
	for i, n := range append(notes, own) {
		if err := m.Keep(n); err != nil {
			t.Fatal(err)
		}
		kept, wrong, err := ReadKept(dir)
		if got := checkpoint.Signatures(kept[0].Note); len(kept) != 1 || wrong != nil || err != nil ||
			got != min(i+1, 4) {
			t.Errorf("after note %d: %d signatures, %v %v", i, got, wrong, err)
		}
	}
}

// Files among the checkpoints that are none are named, and hide none.
func TestBadCheckpoints(t *testing.T) {
	dir, _ := keptJournal(t, 9, 3, 6)
	for name, text := range map[string]string{
		"00000000000000ff-00000000000000ff.note": "",
		"0000000000000007-0000000000000001.note": string(keptNote(t, dir, 6)),
		"odd.note":                               "text",
		"note.txt":                               "is passed over",
	} {
		if err := os.WriteFile(filepath.Join(keptDir(dir), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(keptDir(dir), "1.note"), 0o700); err != nil {
		t.Fatal(err)
	}
	kept, wrong, err := ReadKept(dir)
	if err != nil || len(kept) != 2 || len(wrong) != 4 {
		t.Errorf("%d are read, wrong: %v, %v", len(kept), wrong, err)
	}
	j := mustOpen(t, dir)
	mustGrow(t, mustTree(t, j))
}

func TestProve(t *testing.T) {
	dir, list := keptJournal(t, 30, 1, 20)
	var records [][]byte
	for i := range list {
		for k := range list[i].Records {
			records = append(records, leafOf(list[i], k))
		}
	}
	for _, at := range []uint64{1, 20} {
		made := keptNote(t, dir, at)
		c := must(checkpoint.Peek(made))
		for n := int64(0); n < c.Size; n += 5 {
			p, err := Prove(dir, n, records[n], made)
			if err != nil || p.Check(c) != nil || !bytes.Equal(p.Record, records[n]) {
				t.Errorf("record %d of %d: %v", n, c.Size, err)
			}
		}
		for _, n := range []int64{-1, c.Size, 1 << 60} {
			if _, err := Prove(dir, n, records[0], made); err == nil {
				t.Errorf("a proof of record %d of %d", n, c.Size)
			}
		}
	}
	head, _, _ := treeOf(list[:20])
	head.Root[0]++
	if _, err := Prove(dir, 3, records[3], signed(t, head)); !errors.Is(err, ErrOther) {
		t.Errorf("a checkpoint of another journal: %v", err)
	}
	head.Size = 1 << 40
	if _, err := Prove(dir, 3, records[3], signed(t, head)); err == nil {
		t.Error("a checkpoint of a longer journal")
	}
}

// A single record is its own tree.
func TestProveTheOnlyRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hub")
	j := mustOpen(t, dir)
	mustAppend(t, j, frame(1, 10))
	m := mustTree(t, j)
	made := signed(t, mustGrow(t, m))
	for range 2 {
		if p, err := Prove(dir, 0, leafOf(frame(1, 10), 0), made); err != nil ||
			p.Check(must(checkpoint.Peek(made))) != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(treeDir(dir)); err != nil {
			t.Fatal(err)
		}
	}
}
