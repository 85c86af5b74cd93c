package hub_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"souk/hub"
	"souk/ledger"
	"souk/ledger/journal"
)

// A hub starts: its journal of a million frames is read from the disk and made a Node of, from the first
// frame, and from a snapshot that is as old as one becomes. A task leaves two frames where rounds are small.
// making-us/frame is the CPU that snapshots cost the hub which keeps them, making-ms what one takes.
func BenchmarkStart(b *testing.B) {
	const million, behind = 1_000_000, 1 << 17
	dir := filepath.Join(b.TempDir(), "j")
	open := func() *journal.Journal {
		j, err := journal.Open(dir, journal.Config{MinFree: -1})
		if err != nil {
			b.Fatal(err)
		}
		return j
	}
	cfg := testConfig()
	j := open()
	n := 0
	l := newLoad(b, 16, 8, 16)
	var frames []ledger.Frame
	l.frames = func(f []ledger.Frame) {
		if frames = append(frames, f...); len(frames) >= 1000 {
			if err := j.Append(frames...); err != nil {
				b.Fatal(err)
			}
			n, frames = n+len(frames), frames[:0]
		}
	}
	snapshot := func() time.Duration {
		begin := time.Now()
		if err := j.Snapshot(nil, hub.NewHistory()); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	var making time.Duration
	for i, next := 0, million-2*behind; n < million; i++ {
		if n >= next {
			making = snapshot()
			next += behind
		}
		l.task(b, i, 2*time.Millisecond)
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	for _, from := range []string{"snapshot", "first-frame"} {
		b.Run(from, func(b *testing.B) {
			if from == "first-frame" {
				if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				j := open()
				again, err := hub.NewNode(cfg, [32]byte{2})
				if err == nil {
					err = j.Restore(again.Past)
				}
				if err == nil {
					err = again.Restore()
				}
				if err != nil {
					b.Fatal(err)
				}
				j.Close()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "frames/s")
			if from == "snapshot" {
				b.ReportMetric(float64(making.Milliseconds()), "making-ms")
			}
		})
	}
}
