package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/mod/sumdb/note"

	"souk/bus/natsauth"
	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/inspect"
	"souk/ledger/journal"
)

// sign DATA JOURNAL WITNESSES: signs a checkpoint of the journal, cosigned by the first so many of three
// witnesses, and writes to DATA/policy that two of them must, and to DATA/JOURNAL.note the checkpoint.
func sign(ts *testscript.TestScript, _ bool, args []string) {
	data := ts.MkAbs(args[0])
	ts.Check(signJournal(data, args[1], int(args[2][0]-'0')))
}

func signJournal(data, name string, witnesses int) error {
	origin := "market/" + name
	var writer note.Signer
	policy := ""
	for _, n := range []string{"hub-maths", "treasury"} {
		skey, vkey, err := note.GenerateKey(rand.NewChaCha8([32]byte{1, n[0]}), "market/"+n)
		if err != nil {
			return err
		}
		policy += "log " + vkey + "\n"
		if n == name {
			if writer, err = note.NewSigner(skey); err != nil {
				return err
			}
		}
	}
	j, err := opened(filepath.Join(data, "journal", name))
	if err != nil {
		return err
	}
	defer j.Close()
	m, err := j.Tree()
	if err != nil {
		return err
	}
	defer m.Close()
	head, err := m.Grow(nil)
	if err != nil {
		return err
	}
	c := checkpoint.Checkpoint{Origin: origin, Size: head.Size, Root: head.Root}
	signed, err := checkpoint.Sign(c, writer)
	for i := range 3 {
		skey, vkey, err := natsauth.WitnessKey(rand.NewChaCha8([32]byte{2, byte(i)}),
			fmt.Sprint("w", i))
		if err != nil {
			return err
		}
		policy += fmt.Sprintf("witness w%d %s\n", i, vkey)
		if i >= witnesses {
			continue
		}
		w, err := checkpoint.NewCosigner(skey)
		if err != nil {
			return err
		}
		by, err := w.Cosign(c, time.Unix(1_800_000_000, 0))
		if err != nil {
			return err
		}
		if signed, err = checkpoint.Merge(signed, by); err != nil {
			return err
		}
	}
	if err == nil {
		err = m.Keep(signed)
	}
	return errorOf(err, os.WriteFile(filepath.Join(data, name+".note"), signed, 0o600),
		os.WriteFile(filepath.Join(data, "policy"), []byte(policy+"group two 2 w0 w1 w2\nquorum two\n"), 0o600))
}

// more DATA ROUNDS: plays more rounds at the hub.
func more(ts *testscript.TestScript, _ bool, args []string) {
	data := ts.MkAbs(args[0])
	j, err := opened(filepath.Join(data, "journal", "hub-maths"))
	ts.Check(err)
	defer j.Close()
	w := &writer{name: "hub-maths", j: j, salts: 100}
	w.book, err = bookOf(filepath.Join(data, "journal", "hub-maths"))
	ts.Check(err)
	for n := range int(args[1][0] - '0') {
		ts.Check(w.round(100+n, false, ""))
	}
}

// rewrite FROM TO: makes a journal of the same frames, but for one deposit that is 5 more.
func rewrite(ts *testscript.TestScript, _ bool, args []string) {
	from, to := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	frames, err := framesOf(from)
	ts.Check(err)
	j, err := opened(to)
	ts.Check(err)
	defer j.Close()
	for _, f := range frames {
		for i := range f.Records {
			if r := &f.Records[i]; strings.HasSuffix(r.ID, "cash-bob") {
				r.Transfer.Amount += 5e9
				for k := range r.Legs {
					r.Legs[k].Amount = r.Legs[k].Amount / 2 * 3
				}
			}
		}
		ts.Check(j.Append(f))
	}
	for _, sub := range []string{"tree", "checkpoints"} {
		ts.Check(os.CopyFS(filepath.Join(to, sub), os.DirFS(filepath.Join(from, sub))))
	}
}

// A proof that was made with the files beside the log is the one that is made without them.
func TestAProofNeedsTheLogAlone(t *testing.T) {
	data := t.TempDir()
	if err := errorOf(writeMarket(data, 20, ""), signJournal(data, "hub-maths", 2)); err != nil {
		t.Fatal(err)
	}
	prove := func(id string) string {
		file := filepath.Join(t.TempDir(), "proof")
		var out, errs strings.Builder
		if code := Run(t.Context(), "v", []string{"prove", id, "-o", file, "--data", data}, &out,
			&errs); code != 0 {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, id := range []string{"hub-maths/1/0", "hub-maths/12/1", "hub-maths/19/0"} {
		with := prove(id)
		tree := filepath.Join(data, "journal", "hub-maths", "tree")
		if err := os.Rename(tree, tree+".away"); err != nil {
			t.Fatal(err)
		}
		if without := prove(id); without != with {
			t.Errorf("%s: without the hashes:\n%s\nwith them:\n%s", id, without, with)
		}
		if err := os.Rename(tree+".away", tree); err != nil {
			t.Fatal(err)
		}
	}
}

func framesOf(dir string) (all []ledger.Frame, err error) {
	err = journal.Read(dir, func(f ledger.Frame) error { all = append(all, f); return nil })
	return all, err
}

func bookOf(dir string) (*ledger.Book, error) {
	b := ledger.NewBook()
	return b, journal.Read(dir, b.ApplyFrame)
}

// BenchmarkMillion measures what is asked of a hub's journal with a million records, of 400,000 tasks: what
// clients spent, in all and in the last tenth of the time, levels 0 to 3, the same with level 1, and a proof
// with the hashes beside the log and without them.
func BenchmarkMillion(b *testing.B) {
	data := b.TempDir()
	w, err := newWriter(data, "hub-maths", ledger.RoleHub)
	if err != nil {
		b.Fatal(err)
	}
	w.batch = []ledger.Frame{}
	for i, client := range []string{"ann", "bob", "cyd"} {
		if err := w.write(ledger.NewAccept(w.name, uint64(i+1), client, 4e15, w.salt())); err != nil {
			b.Fatal(err)
		}
	}
	const rounds = 200_000
	for n := range rounds {
		if err := w.round(n, false, ""); err != nil {
			b.Fatal(err)
		}
	}
	if err := errorOf(w.j.Append(w.batch...), w.j.Close()); err != nil {
		b.Fatal(err)
	}
	check := func(want int) func(b *testing.B) {
		return func(b *testing.B) {
			defer cpu(b)()
			for b.Loop() {
				sum, err := inspect.Check(b.Context(), []string{data},
					inspect.Options{Level: ledger.LevelConservation})
				if err != nil || sum.Count > 0 || len(sum.Undecided) != want {
					b.Fatal(err, sum.Findings, sum.Undecided)
				}
			}
		}
	}
	prove := func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			p, err := inspect.Prove(filepath.Join(data, "journal", "hub-maths"), "hub-maths/123456/1")
			if err != nil {
				b.Fatal(err)
			}
			data, err := p.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(data)), "bytes")
		}
	}
	spend := func(from time.Time) func(b *testing.B) {
		return func(b *testing.B) {
			defer cpu(b)()
			for b.Loop() {
				sources, err := inspect.Open([]string{data}, "")
				read := 0
				if err == nil {
					sources[0].Progress = func(bytes int) { read += bytes }
					q := inspect.Sums{Period: inspect.Period{From: from, Zone: time.UTC},
						By: []string{"client", "model"}}
					_, err = q.Sum(b.Context(), sources)
				}
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(read)/1e6, "MB-read")
			}
		}
	}
	_, _, last := w.book.Last()
	b.Run("spend", spend(time.Time{}))
	b.Run("spend,tenth", spend(time.Unix(0, last-rounds/10*3*1e6))) // each frame a millisecond after the last
	b.Run("levels=0-3", check(1))
	if err := signJournal(data, "hub-maths", 3); err != nil {
		b.Fatal(err)
	}
	b.Run("levels=0-3,checkpoints", check(1))
	b.Run("prove", prove)
	if err := os.RemoveAll(filepath.Join(data, "journal", "hub-maths", "tree")); err != nil {
		b.Fatal(err)
	}
	b.Run("prove,frames", prove)
}

// cpu reports the processor time of an operation, once the function that it returns is called.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/1e3/float64(b.N), "cpu-ms/op") }
}
