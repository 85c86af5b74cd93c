package tree

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// rootOf is RFC 6962, section 2.1, word for word.
func rootOf(records [][]byte) Hash {
	switch n := len(records); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, records[0]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		left, right := rootOf(records[:k]), rootOf(records[k:])
		return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
	}
}

// stored hashes, as a file has them
type stored []Hash

func (s stored) ReadHashes(index []int64) ([]Hash, error) {
	out := make([]Hash, len(index))
	for i, n := range index {
		if n >= int64(len(s)) {
			return nil, fmt.Errorf("hash %d of %d", n, len(s))
		}
		out[i] = s[n]
	}
	return out, nil
}

func TestATreeIsThatOfRFC6962(t *testing.T) {
	const most = 130
	var tr Tree
	var hashes stored
	var records [][]byte
	roots := []Hash{rootOf(nil)}
	if tr.Root() != roots[0] {
		t.Fatal("the empty tree has another root")
	}
	for n := range int64(most) {
		record := fmt.Appendf(nil, "record %d", n)
		records = append(records, record)
		hashes = tr.Append(Leaf(record), hashes)
		root := rootOf(records)
		roots = append(roots, root)
		if tr.Root() != root || tr.Size() != n+1 {
			t.Fatalf("%d records: root %v of size %d, want %v", n+1, tr.Root(), tr.Size(), root)
		}
		if int64(len(hashes)) != tlog.StoredHashCount(n+1) {
			t.Fatalf("%d records: %d hashes are stored, want %d", n+1, len(hashes), tlog.StoredHashCount(n+1))
		}
	}
	for n := range int64(most + 1) {
		again, err := At(n, hashes)
		if err != nil || again.Root() != roots[n] {
			t.Fatalf("the tree of size %d from its hashes: root %v, %v, want %v", n, again.Root(), err, roots[n])
		}
		if n < most { // it goes on as the other did
			again.Append(Leaf(records[n]), nil)
			if again.Root() != roots[n+1] {
				t.Fatalf("the tree of size %d goes on to another root", n)
			}
		}
	}
	for _, size := range []int64{1, 2, 3, 64, 100, 127, 128, most} {
		for n := range size {
			p, err := tlog.ProveRecord(size, n, hashes)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckRecord(p, size, roots[size], n, Leaf(records[n])); err != nil {
				t.Fatalf("record %d of %d: %v", n, size, err)
			}
			if tlog.CheckRecord(p, size, roots[size], n, Leaf([]byte("another"))) == nil {
				t.Fatalf("record %d of %d: another record passes", n, size)
			}
			q, err := tlog.ProveTree(size, n+1, hashes)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(q, size, roots[size], n+1, roots[n+1]); err != nil {
				t.Fatalf("size %d after %d: %v", size, n+1, err)
			}
		}
	}
}

func TestATreeTooLarge(t *testing.T) {
	for _, size := range []int64{-1, MaxSize + 1, 1<<63 - 1} {
		if _, err := At(size, stored{}); err == nil {
			t.Errorf("a tree of %d records is made", size)
		}
	}
	if _, err := At(3, stored{}); err == nil {
		t.Error("a tree is made of hashes that are not there")
	}
}

func BenchmarkAppend(b *testing.B) {
	record := make([]byte, 300)
	var tr Tree
	var hashes []Hash
	for b.Loop() {
		hashes = tr.Append(Leaf(record), hashes[:0])
	}
}
