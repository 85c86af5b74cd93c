package journal

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"souk/bus/tip"
	"souk/ledger"
)

// The checksum of every frame is that of its bytes, whoever is asked: the process that wrote it, lately or
// long ago, or one that comes after it.
func TestSums(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	j := mustOpen(t, dir)
	want := map[uint64]tip.Sum{}
	check := func(j *Journal) {
		t.Helper()
		for seq := uint64(1); seq <= uint64(len(want)); seq++ {
			if got, ok, err := j.Sum(seq); got != want[seq] || !ok || err != nil {
				t.Fatalf("frame %d: %s %v %v, want %s", seq, got, ok, err, want[seq])
			}
		}
		for _, seq := range []uint64{0, uint64(len(want)) + 1, 1 << 63} {
			if _, ok, err := j.Sum(seq); ok || err != nil {
				t.Errorf("frame %d: %v, %v", seq, ok, err)
			}
		}
	}
	book := ledger.NewBook()
	next := func(records ...ledger.Record) ledger.Frame {
		t.Helper()
		seq, _, at := book.Last()
		f := ledger.Frame{Version: ledger.FrameVersion, Epoch: 1, Seq: seq + 1, Time: at + 1,
			Records: records}
		if err := book.ApplyFrame(f); err != nil {
			t.Fatal(err)
		}
		want[f.Seq] = tip.SumOf(ledger.AppendFrame(nil, &f))
		return f
	}
	deposit := func(n byte) ledger.Record {
		return ledger.NewDeposit(string('a'+rune(n)), "ann", 1000, nil, [16]byte{n})
	}
	write := func(frames ...ledger.Frame) {
		t.Helper()
		if err := j.Append(frames...); err != nil {
			t.Fatal(err)
		}
	}
	write(next(ledger.NewOpen("treasury", ledger.RoleTreasury, "", [16]byte{})))
	write(next(deposit(1)), next(deposit(2)), next(ledger.NewGrant("h", 1, "ann", 5, "", [16]byte{})))
	m := tip.Mark{Journal: tip.Sum{1}, Seq: 1, Sum: tip.Sum{2}}
	write(next(ledger.NewMark("h", 1, m, nil, [16]byte{})))
	if got, ok, err := j.Sum(book.Said()); book.Said() != 4 || got != want[4] || !ok || err != nil {
		t.Errorf("the journal's own mark is frame %d: %s, %v, %v", book.Said(), got, ok, err)
	}
	check(j)
	write(next(deposit(3)))
	check(j)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, dir)
	defer j.Close()
	check(j)
}

// A journal that was moved is found so by each later opening, until it is settled that it is the one that was
// written last. One that is doubted is found so, too. Once it is settled, each finds it confirmed.
func TestAMovedJournalIsMovedUntilItIsSettled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing is proven here")
	}
	dir := filepath.Join(t.TempDir(), "j")
	again := func(dir string, settle func(*Journal)) string {
		t.Helper()
		j := mustOpen(t, dir)
		defer j.Close()
		defer settle(j)
		switch {
		case j.Moved() && j.Confirmed():
			return "both"
		case j.Moved():
			return "moved"
		case j.Confirmed():
			return "confirmed"
		}
		return ""
	}
	nothing := func(*Journal) {}
	for range 2 {
		if got := again(dir, nothing); got != "" {
			t.Fatalf("a new journal is %s", got)
		}
	}
	again(dir, func(j *Journal) { j.Settle(true) }) // it was never in doubt
	twin := filepath.Join(t.TempDir(), "j")
	if out, err := exec.Command("cp", "-a", dir, twin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	own := func(j *Journal) {
		if j.Settle(true); j.Moved() {
			t.Error("it is settled, and may be a copy all the same")
		}
	}
	doubt := func(j *Journal) { j.Settle(false) }
	for i, c := range []struct{ got, want string }{{again(twin, nothing), "moved"},
		{again(twin, nothing), "moved"}, {again(twin, own), "moved"}, {again(twin, own), "confirmed"},
		{again(twin, nothing), "confirmed"},
		{again(dir, doubt), ""}, {again(dir, own), "moved"}, {again(dir, nothing), "confirmed"},
		{again(dir, doubt), "confirmed"}, {again(dir, nothing), "moved"}} {
		if c.got != c.want {
			t.Errorf("opening %d: it is %q, want %q", i, c.got, c.want)
		}
	}
}
