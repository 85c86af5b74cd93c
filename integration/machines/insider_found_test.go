package machines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"souk/cmd/ledger/cli"
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

// view has all that level 1 finds in a data directory.
type view struct {
	code     int
	Findings []ledger.Finding
	said     string
}

func look(t *testing.T, args ...string) (v view) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"check", "--level", "1", "-O", "json"}, args...)
	v.code = cli.Run(t.Context(), "test", args, &out, &errs)
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatalf("%v: exit %d, %s: %v", args, v.code, &errs, err)
	}
	v.said = errs.String()
	return v
}

// market is a market's journals as they were written and signed, in memory and on disk.
type signedMarket struct {
	*economy
	*notary
	dir    string
	leaves map[string][]tree.Hash
}

func newSignedMarket(t *testing.T, seed uint64) *signedMarket {
	m := &signedMarket{economy: honest(t, seed), dir: t.TempDir(), leaves: map[string][]tree.Hash{}}
	if all := found(m.bytes); len(all) > 0 {
		t.Fatal(all)
	}
	m.notary = newNotary(t, seed, sorted(m.bytes))
	store(t, m.dir, m.bytes, m.notary)
	for name, frames := range m.bytes {
		m.leaves[name] = leaves(t, frames)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "policy"), []byte(m.policy), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := look(t, m.dir, "--policy", filepath.Join(m.dir, "policy"), "--strict"); v.code != 0 {
		t.Fatal(v)
	}
	return m
}

// last returns the files of the last checkpoints of all journals below a directory.
func last(t *testing.T, dir string) (all []string) {
	for _, journal := range glob(t, dir, "journal/*") {
		notes := glob(t, journal, "checkpoints/*.note")
		all = append(all, notes[len(notes)-1])
	}
	return all
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(all) == 0 {
		t.Fatal(dir, pattern, all, err)
	}
	return all
}

// changed returns the first record of each journal that is another. What stands behind the last checkpoint,
// at which a market ends, nobody has signed.
func (m *signedMarket) changed(t *testing.T, forged map[string][][]byte) map[string]int {
	first := map[string]int{}
	for journal := range forged {
		n := differ(m.leaves[journal], leaves(t, forged[journal]))
		if n >= 0 && n < len(m.leaves[journal]) {
			first[journal] = n
		}
	}
	return first
}

// judge has level 1 look at what an insider made of a market, and wants it to name the first record of each
// journal that is another.
func (m *signedMarket) judge(t *testing.T, name string, forged map[string][][]byte) {
	policy, first := []string{"--policy", filepath.Join(m.dir, "policy")}, m.changed(t, forged)
	if len(first) == 0 {
		t.Errorf("%s: each record is as it was", name)
	}
	found := func(v view, how string, named func(f *ledger.Finding, n int) bool) {
		if v.code != cli.ExitDamaged || len(v.Findings) != len(first) {
			t.Errorf("%s, %s: exit %d, want that in %v records are others: %s", name, how, v.code, first, v.said)
		}
		for i := range v.Findings {
			f := &v.Findings[i]
			n, is := first[f.Journal]
			cut := n == len(leaves(t, forged[f.Journal])) &&
				strings.Contains(f.Found, fmt.Sprintf("the end behind %d", n))
			if !is || !f.Damage || f.Level != 1 || !cut && !named(f, n) {
				t.Errorf("%s, %s: record %d is the first of %s that is another: %s", name, how, n, f.Journal, f)
			}
		}
	}
	between := func(f *ledger.Finding, n int) bool {
		var from, to int
		_, of, _ := strings.Cut(f.Found, "of records ")
		_, err := fmt.Sscanf(of, "%d to %d ", &from, &to)
		return err == nil && from <= n && n <= to
	}
	// He has the writers' keys: what he signs with them nobody else has seen.
	dir, elsewhere := t.TempDir(), []string(nil)
	store(t, dir, forged, &notary{writers: m.writers})
	if v := look(t, append(policy, dir, "--strict")...); v.code != cli.ExitUndecided ||
		strings.Count(v.said, "is cosigned by as many as the policy asks for") != len(forged) {
		t.Errorf("%s, signed by himself: exit %d, %s", name, v.code, v.said)
	}
	for _, note := range last(t, m.dir) {
		elsewhere = append(elsewhere, "--against", note)
	}
	found(look(t, append(append(policy, dir), elsewhere...)...), "by a checkpoint that is kept elsewhere", between)
	remove(t, dir, "checkpoints")
	remove(t, dir, "tree")
	found(look(t, append(elsewhere, dir)...), "without any beside it", between)
	lay(t, m.dir, dir, "checkpoints")
	found(look(t, append(policy, dir)...), "by those that he has left", between)
	lay(t, m.dir, dir, "tree")
	found(look(t, append(policy, dir)...), "with hashes", func(f *ledger.Finding, n int) bool {
		return strings.Contains(f.Found, fmt.Sprintf("record %d is the first", n))
	})
}

func remove(t *testing.T, dir, what string) {
	for _, path := range glob(t, dir, "journal/*/"+what) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever may write every file, and knows each checksum, sum and rule, changes what he likes: no level but
// the first finds it, as long as he keeps all rules. That one finds all of it, up to the last checkpoint, by
// those that a witness has cosigned; and, if he has deleted these, or written others, by one that is kept
// elsewhere.
func TestAnInsider(t *testing.T) {
	seed, draws := rand.Uint64(), 2
	if os.Getenv("SOUK_SOAK") != "" {
		draws = 25
	}
	t.Logf("seed %d", seed)
	var markets []*signedMarket
	for i := range uint64(1 + draws/5) {
		markets = append(markets, newSignedMarket(t, seed+i))
	}
	for _, f := range frauds {
		done, kept, by := 0, 0, map[string]int{}
		for try := 0; done < draws || kept == 0; try++ {
			if try == 100*draws {
				t.Fatalf("%s: it came to that %d times, and %d kept every rule", f.name, done, kept)
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
			if len(m.changed(t, forged)) == 0 {
				continue // a payout at the very end
			}
			all := found(forged)
			if done++; len(all) == 0 {
				kept++
			} else if by[fmt.Sprintf("level %d", all[0].Level)]++; done > draws {
				continue
			}
			m.judge(t, f.name, forged)
		}
		t.Logf("%-40s %d of %d keep every rule; found by %v", f.name, kept, done, by)
	}
}

// Who has deleted all checkpoints behind the one up to which he changed nothing is found out, too: what came
// later is covered by none.
func TestWhatNoCheckpointCovers(t *testing.T) {
	m := newSignedMarket(t, rand.Uint64())
	for _, note := range last(t, m.dir) {
		if err := os.Remove(note); err != nil {
			t.Fatal(err)
		}
	}
	v := look(t, m.dir, "--policy", filepath.Join(m.dir, "policy"), "--strict")
	if v.code != cli.ExitUndecided || strings.Count(v.said, "is covered up to record ") != len(m.bytes) {
		t.Errorf("exit %d, %s", v.code, v.said)
	}
}
