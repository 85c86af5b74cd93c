package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"souk/ledger"
)

// smallDisk mounts a disk of size bytes in memory, which takes root.
func smallDisk(t *testing.T, size string) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestARealDiskRunsFull(t *testing.T) {
	void := func(seq uint64) ledger.Frame {
		f := frame(seq, 10)
		f.Records = []ledger.Record{ledger.NewVoid("j", ledger.Hold{Client: "ann", Round: seq}, "timeout",
			[16]byte{9})}
		return f
	}
	t.Run("new money is refused first, ends still fit", func(t *testing.T) {
		dir := filepath.Join(smallDisk(t, "24m"), "j")
		j, err := Open(dir, Config{MinFree: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		seq := uint64(1)
		for ; ; seq++ {
			if err = j.Append(frame(seq, 100_000)); err != nil {
				break
			}
		}
		if !errors.Is(err, ledger.ErrDiskFull) || seq < 10 {
			t.Fatalf("frame %d: %v, want ErrDiskFull after some", seq, err)
		}
		for end := seq + 2000; seq < end; seq++ {
			mustAppend(t, j, void(seq))
		}
		if got, err := readAll(dir); err != nil || uint64(len(got)) != seq-1 {
			t.Errorf("%d frames, %v; want %d", len(got), err, seq-1)
		}
	})
	t.Run("to the last byte", func(t *testing.T) {
		disk := smallDisk(t, "20m")
		dir := filepath.Join(disk, "j")
		j, err := Open(dir, Config{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		acknowledged := uint64(0)
		for {
			if err = j.Append(frame(acknowledged+1, 100_000)); err != nil {
				break
			}
			acknowledged++
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("after %d frames: %v, want ENOSPC", acknowledged, err)
		}
		if again := j.Append(void(acknowledged + 1)); again == nil {
			t.Error("a journal whose append failed took another")
		}
		j.Close()
		got, err := readAll(dir)
		if err != nil || uint64(len(got)) < acknowledged || acknowledged == 0 {
			t.Fatalf("%d frames, %v; %d were acknowledged", len(got), err, acknowledged)
		}
		// With room again, it goes on where the disk stopped.
		if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
		if j, err = Open(dir, Config{MinFree: -1}); err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		seq, _, _ := j.Last()
		mustAppend(t, j, frame(seq+1, 10))
	})
}

// A checkpoint that a full disk cuts takes the place of none, and is kept once there is room.
func TestWhatIsKeptStaysOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "64k")
	head, _, _ := treeOf(frames(1, 3, 10))
	n := signed(t, head)
	all, err := keep(dir, nil, 3, n)
	if err != nil {
		t.Fatal(err)
	}
	rest := filepath.Join(dir, "rest")
	if err := os.WriteFile(rest, make([]byte, 64<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	for _, full := range []bool{true, false} {
		if !full {
			os.Remove(rest)
		}
		if all, err = keep(dir, all, 3, n); full != errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full %v: %v", full, err)
		}
		if kept, wrong, err := ReadKept(dir); err != nil || wrong != nil || len(kept) != 1 || len(all) != 1 {
			t.Errorf("full %v: %d are kept, %v %v", full, len(kept), wrong, err)
		}
	}
}
