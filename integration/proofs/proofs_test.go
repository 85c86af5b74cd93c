// Package proofs has others judge what the ledger proves: a verifier that shares no line with it, and a
// witness that anybody runs.
package proofs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"souk/bus/natsauth"
	"souk/bus/tip"
	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/tree"
	"souk/market"
)

// chain is a journal's records, with three witnesses who have cosigned.
type chain struct {
	r         *rand.Rand
	writer    note.Signer
	vkey      string // of the writer
	cosigners []*checkpoint.Cosigner
	witnesses string // lines of a policy
	leaves    [][]byte
	hashes    []tlog.Hash
	tree      tree.Tree
}

func (c *chain) ReadHashes(index []int64) (out []tlog.Hash, err error) {
	for _, i := range index {
		out = append(out, c.hashes[i])
	}
	return out, nil
}

// Read gives bytes to keys.
func (c *chain) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c.r.Uint32())
	}
	return len(p), nil
}

func (c *chain) salt() (s [16]byte) {
	c.Read(s[:])
	return s
}

func newChain(t *testing.T, seed uint64, origin string) *chain {
	c := &chain{r: rand.New(rand.NewPCG(seed, 3))}
	skey, vkey, err := note.GenerateKey(c, origin)
	if err != nil {
		t.Fatal(err)
	}
	if c.writer, err = note.NewSigner(skey); err != nil {
		t.Fatal(err)
	}
	c.vkey = vkey
	for i := range 3 {
		skey, vkey, err := natsauth.WitnessKey(c, fmt.Sprintf("witness.example/w%d", i))
		if err != nil {
			t.Fatal(err)
		}
		k, err := checkpoint.NewCosigner(skey)
		if err != nil {
			t.Fatal(err)
		}
		c.cosigners = append(c.cosigners, k)
		c.witnesses += fmt.Sprintf("witness w%d %s\n", i, vkey)
	}
	return c
}

// policy asks for so many of the witnesses, or for those that the words name.
func (c *chain) policy(need string) string {
	return fmt.Sprintf("log %s\n%sgroup who %s w0 w1 w2\nquorum who\n", c.vkey, c.witnesses, need)
}

// grow adds records, of all sizes that a proof may have.
func (c *chain) grow(n int) {
	for range n {
		size := c.tree.Size()
		r := ledger.NewDeposit(fmt.Sprint("op-", size), "dev", market.Credits(1+c.r.Int64N(1e12)),
			&tip.Order{Note: strings.Repeat("n", c.r.IntN(60))}, c.salt())
		f := ledger.Frame{Version: ledger.FrameVersion, Epoch: 1, Seq: uint64(size + 1), Time: 18e17 + size,
			Records: []ledger.Record{r}}
		leaf := ledger.AppendFrame(nil, &f)
		c.leaves = append(c.leaves, leaf)
		c.hashes = c.tree.Append(tree.Leaf(leaf), c.hashes)
	}
}

// note is the checkpoint of now, cosigned by the first few witnesses.
func (c *chain) note(t *testing.T, cosigned int) []byte {
	p := checkpoint.Checkpoint{Origin: c.writer.Name(), Size: c.tree.Size(), Root: c.tree.Root()}
	signed, err := checkpoint.Sign(p, c.writer)
	for _, w := range c.cosigners[:cosigned] {
		var by []byte
		if by, err = w.Cosign(p, time.Unix(1_900_000_000+c.r.Int64N(1e6), 0)); err == nil {
			signed, err = checkpoint.Merge(signed, by)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func (c *chain) proof(t *testing.T, index int64, cosigned int) []byte {
	hashes, err := tlog.ProveRecord(c.tree.Size(), index, c)
	if err != nil {
		t.Fatal(err)
	}
	p := checkpoint.Proof{Index: index, Record: c.leaves[index], Hashes: hashes, Note: c.note(t, cosigned)}
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ours judges a proof by our own verifier, in the words of the other one.
func ours(t *testing.T, policy string, proof []byte) string {
	t.Helper()
	by, err := checkpoint.ParsePolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	one, err := checkpoint.ParseProof(proof)
	if err == nil {
		_, err = one.Judge(by)
	}
	switch {
	case errors.Is(err, checkpoint.ErrFalse):
		return "false: "
	case errors.Is(err, checkpoint.ErrUnproven):
		return "not proven: "
	case errors.Is(err, checkpoint.ErrMalformed):
		return "malformed: "
	case err != nil:
		t.Errorf("%v of\n%s", err, proof)
	}
	return "right: "
}

// python is the program of that name, or the test is skipped. quick says whether it has the package that
// checks signatures in no time.
func python(t *testing.T) (program string, quick bool) {
	program, err := exec.LookPath(cmp.Or(os.Getenv("SOUK_PYTHON"), "python3"))
	if err != nil {
		t.Skip("no Python is here")
	}
	return program, exec.Command(program, "-c", "import cryptography").Run() == nil
}

// theirs has deploy/verify.py judge proofs, and returns what it says of each.
func theirs(t *testing.T, program, policy string, proofs [][]byte) []string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"../../deploy/verify.py", filepath.Join(dir, "policy")}
	if err := os.WriteFile(args[1], []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, p := range proofs {
		path := filepath.Join(dir, fmt.Sprint(i, ".tlog-proof"))
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	var errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	said := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(said) != len(proofs) || errs.Len() > 0 {
		t.Fatalf("%v: %d lines about %d proofs; %s", err, len(said), len(proofs), &errs)
	}
	code := 0
	for i := range said {
		said[i] = strings.TrimPrefix(said[i], args[2+i]+": ")
		word, _, _ := strings.Cut(said[i], ":")
		code = max(code, map[string]int{"right": 0, "not proven": 1, "malformed": 2, "false": 3}[word])
	}
	if cmd.ProcessState.ExitCode() != code {
		t.Errorf("exit %d, want %d", cmd.ProcessState.ExitCode(), code)
	}
	return said
}

// A verifier that shares no line with ours takes our proofs, of trees of many sizes, and none of which one
// bit is another. Where a policy asks for fewer witnesses than have cosigned, one who is not known any more
// may be one too many: then both say the same.
func TestAStrangersVerifier(t *testing.T) {
	program, quick := python(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := newChain(t, seed, "souk.example/general")
	flips := 1000
	if testing.Short() {
		flips = 200
	}
	if !quick {
		t.Log("without the package cryptography: fewer of them")
		flips = 60
	}
	var good, bad [][]byte
	for _, more := range []int{1, 1, 1, 4, 1, 25, 31, 200} {
		c.grow(more)
		size := c.tree.Size()
		for _, i := range []int64{0, c.r.Int64N(size), size - 1} {
			good = append(good, c.proof(t, i, 3))
		}
	}
	for range flips {
		p := bytes.Clone(good[c.r.IntN(len(good))])
		p[c.r.IntN(len(p))] ^= 1 << c.r.IntN(8)
		bad = append(bad, p)
	}
	all := c.policy("all")
	for i, said := range theirs(t, program, all, good) {
		if ours(t, all, good[i]) != "right: " || !strings.HasPrefix(said, "right: record ") ||
			!strings.Contains(said, "2027-01-15 08:00:00Z: deposit deposit/op-") ||
			strings.Count(said, " at 203") != 3 {
			t.Errorf("%q of\n%s", said, good[i])
		}
	}
	for i, said := range theirs(t, program, all, bad) {
		if want := ours(t, all, bad[i]); want == "right: " || !strings.HasPrefix(said, want) {
			t.Errorf("ours says %s, theirs %q, of\n%s", want, said, bad[i])
		}
	}
	taken := 0
	some := c.policy("2")
	for i, said := range theirs(t, program, some, bad[:flips/4]) {
		if want := ours(t, some, bad[i]); !strings.HasPrefix(said, want) {
			t.Errorf("ours says %s, theirs %q, of\n%s", want, said, bad[i])
		} else if want == "right: " {
			taken++
		}
	}
	if t.Logf("%d of %d lack a witness alone", taken, flips/4); quick && !testing.Short() && taken == 0 {
		t.Error("none of them: that proves little")
	}
	few := [][]byte{c.proof(t, 3, 3), c.proof(t, 3, 2), c.proof(t, 3, 1), c.proof(t, 3, 0)}
	for seed, origin := range map[uint64]string{1: "souk.example/general", 2: "souk.example/math"} {
		other := newChain(t, seed, origin)
		other.grow(20)
		few = append(few, other.proof(t, 3, 3))
	}
	for i, said := range theirs(t, program, some, few) {
		want := "not proven: "
		if i < 2 {
			want = "right: "
		}
		if !strings.HasPrefix(said, want) || ours(t, some, few[i]) != want {
			t.Errorf("proof %d: %q", i, said)
		}
	}
}
