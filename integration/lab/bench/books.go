package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"souk/integration/lab/load/proc"
	"souk/ledger"
	"souk/ledger/journal"
)

// bookTasks are the tasks whose journal finance reads.
const bookTasks = 1_000_000

// bookBars measure what it takes to sum up who spent and who earned, and a client's month.
func bookBars(ctx context.Context, o Options) ([]Bar, error) {
	dir, err := os.MkdirTemp("", "lab-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(o.Progress, "writing a journal of %d tasks\n", bookTasks)
	bytes, err := writeBooks(filepath.Join(dir, "journal", "hub-general"), bookTasks)
	if err != nil {
		return nil, err
	}
	x, err := repeat(o, "ledger spend", func() (all []float64, err error) {
		if err := os.RemoveAll(filepath.Join(dir, "journal", "hub-general", "index")); err != nil {
			return nil, err
		}
		for range 2 {
			x, err := spend(ctx, o, dir)
			if err != nil {
				return nil, err
			}
			all = append(all, x[:]...)
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("by client and model, %d clients, %.0f MB of journal", sessions,
		float64(bytes)/(1<<20))
	return []Bar{
		{Name: "ledger spend, a million tasks: CPU", Asked: "in 3 s", Limit: 3, Measured: median(x[1]),
			Unit: "s", Runs: x[1], Note: fmt.Sprintf("%s, which nobody has summed up before, in %.1f s", note, median(x[0]))},
		{Name: "ledger spend, once more: CPU", Asked: "in 1 s", Limit: 1, Measured: median(x[4]), Unit: "s",
			Runs: x[4], Note: fmt.Sprintf("%s, by its index, in %.1f s", note, median(x[3]))},
		{Name: "ledger spend: resident memory", Asked: "under 200 MB", Limit: 200, Measured: median(x[2]),
			Unit: "MB", Runs: x[2]},
	}, nil
}

// spend returns what a sum takes: seconds, of them those of the processor, and the most memory, in MB.
func spend(ctx context.Context, o Options, dir string) (x [3]float64, err error) {
	begin := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(o.Bin, "ledger"), "spend", "--by", "client,model",
		"-O", "csv", "--data", dir)
	if err := cmd.Start(); err != nil {
		return x, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	most, t := int64(0), time.NewTicker(10*time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if n, err := proc.RSS(cmd.Process.Pid); err == nil {
				most = max(most, n)
			}
			continue
		case err = <-ended:
		}
		used := cmd.ProcessState
		return [3]float64{time.Since(begin).Seconds(), (used.UserTime() + used.SystemTime()).Seconds(),
			float64(most) / (1 << 20)}, err
	}
}

// writeBooks writes a hub's journal of so many tasks: those of a desk, again and again under other numbers.
func writeBooks(dir string, tasks int) (bytes int64, err error) {
	d, err := newDesk(16, 8)
	if err != nil {
		return 0, err
	}
	const often = 2 * sessions
	frames := []ledger.Frame{{Version: ledger.FrameVersion, Epoch: 1, Seq: 1, Records: []ledger.Record{
		ledger.NewOpen("hub-general", ledger.RoleHub, "general", [16]byte{1})}}}
	d.keep = func(f ledger.Frame) { frames = append(frames, f) }
	if _, _, err := d.lives(often); err != nil { // everybody has been here
		return 0, err
	}
	first := len(frames)
	if _, _, err := d.lives(often); err != nil {
		return 0, err
	}
	j, err := journal.Open(dir, journal.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := j.Append(frames[:first]...); err != nil {
		return 0, err
	}
	last, again := frames[first-1], frames[first:]
	for n := 0; n < tasks; n += often {
		if n > 0 {
			later(again, last.Time-again[0].Time+int64(time.Millisecond), uint64(len(again)), often)
		}
		if err := j.Append(again...); err != nil {
			return 0, err
		}
		last = again[len(again)-1]
	}
	return int64(d.bytes) * int64(tasks) / often / 2, nil
}

// later gives frames other numbers.
func later(frames []ledger.Frame, after int64, seq, rounds uint64) {
	for i := range frames {
		f := &frames[i]
		f.Seq, f.Time = f.Seq+seq, f.Time+after
		for k := range f.Records {
			switch r := &f.Records[k]; {
			case r.Round != nil:
				r.Round.Round.Number += rounds
			case r.Hold != nil:
				r.Hold.Round += rounds
				r.ID = ledger.HoldID("hub-general", r.Hold.Round, r.Hold.Slot)
			case r.Capture != nil:
				_, round, slot, _ := ledger.ParseHoldID(r.Capture.Hold)
				r.Capture.Hold = ledger.HoldID("hub-general", round+rounds, slot)
				r.ID = ledger.CaptureID(r.Capture.Hold)
			}
		}
	}
}
