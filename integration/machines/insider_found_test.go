package machines

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"souk/ledger"
	"souk/ledger/tree"
)

// leaves are the hashes of a journal's records, in order.
func leaves(t *testing.T, frames [][]byte) (all []tree.Hash) {
	for _, data := range frames {
		if err := ledger.Leaves(data, func(leaf []byte) { all = append(all, tree.Leaf(leaf)) }); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// differ is the first record, from 0 on, in which two journals differ; the length of the shorter one where
// one goes on as the other ends, and -1 if they are the same.
func differ(a, b []tree.Hash) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return n
}

// Whoever may write every file, and knows each checksum, sum and rule, changes what he likes: no level finds
// it, as long as he keeps all rules. Leaves of the Merkle tree are others all the same.
func TestAnInsider(t *testing.T) {
	seed, draws := rand.Uint64(), 3
	if os.Getenv("SOUK_SOAK") != "" {
		draws = 25
	}
	t.Logf("seed %d", seed)
	var markets []*economy
	for i := range uint64(1 + draws/5) {
		markets = append(markets, honest(t, seed+i))
		if all := found(markets[i].bytes); len(all) > 0 {
			t.Fatal(all)
		}
	}
	for _, f := range frauds {
		done, kept, by := 0, 0, map[string]int{}
		for try := 0; done < draws; try++ {
			if try == 40*draws {
				t.Fatalf("%s: it came to that %d times", f.name, done)
			}
			m := markets[try%len(markets)]
			x, err := newInsider(rand.New(rand.NewPCG(seed, uint64(try))), m.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if !f.do(x) {
				continue
			}
			forged, err := x.write()
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			done++
			if all := found(forged); len(all) == 0 {
				kept++
			} else {
				by[fmt.Sprintf("level %d", all[0].Level)]++
			}
			if !slices.ContainsFunc(sorted(forged), func(journal string) bool {
				return differ(leaves(t, m.bytes[journal]), leaves(t, forged[journal])) >= 0
			}) {
				t.Errorf("%s: each record is as it was", f.name)
			}
		}
		if t.Logf("%-40s %d of %d keep every rule; found by %v", f.name, kept, done, by); kept == 0 {
			t.Errorf("%s: all of them break a rule", f.name)
		}
	}
}
