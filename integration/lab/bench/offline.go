package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"souk/classifier"
	"souk/classifier/model"
	"souk/cmd/local"
	"souk/integration/lab/train"
	"souk/ledger/journal"
)

// promptsFile holds the classifier's rows in the repository.
const promptsFile = "classifier/data/domain_prompts.jsonl.gz"

func classifierBars(_ context.Context, o Options) ([]Bar, error) {
	f, err := os.Open(promptsFile)
	if err != nil {
		return nil, fmt.Errorf("run it from the root of the repository: %w", err)
	}
	defer f.Close()
	all, err := train.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", promptsFile, err)
	}
	var rows []train.Row
	for _, r := range all {
		if train.IsTest(r) {
			rows = append(rows, r)
		}
	}
	m := model.Default()
	rename := classifier.Default().Labels
	reference := newReference()
	var f1, f1All float64
	x, err := repeat(o, "the classifier", func() ([]float64, error) {
		f1All = train.Tally(train.Judge(m, rows, nil)).MacroF1()
		f1 = train.Tally(train.Judge(m, rows, rename)).MacroF1()
		call, loop, err := reference.beside(500*time.Millisecond, func() error {
			train.Judge(m, rows, rename)
			return nil
		})
		return []float64{micros(call) / float64(len(rows)), micros(loop)}, err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		ratio("classifier: CPU per task", 1.4, "loop", "us", x[0], x[1], ""),
		{Name: "classifier: macro-F1", Asked: "at least 0.80", Limit: 0.8, AtLeast: true, Measured: f1,
			Unit: "", Runs: []float64{f1},
			Note: fmt.Sprintf("%d rows not trained on, government and cloud_support counted as general; "+
				"with all labels apart %.3f", len(rows), f1All)},
	}, nil
}

// auditBars times the check of journals that a busy market has just written.
func auditBars(ctx context.Context, o Options) ([]Bar, error) {
	dir, err := os.MkdirTemp("", "lab-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := fill(ctx, o, dir); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	frames := uint64(0)
	paths, err := journal.Find(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		r, err := journal.NewReader(p)
		if err != nil {
			return nil, err
		}
		for err == nil {
			_, err = r.Next()
		}
		if err != io.EOF {
			return nil, err
		}
		frames += r.Frames
	}
	reference := newReference()
	x, err := repeat(o, "the audit", func() ([]float64, error) {
		call, loop, err := reference.beside(500*time.Millisecond, func() error {
			return local.CheckLedger(ctx, dir, io.Discard)
		})
		return []float64{micros(call) / float64(frames), micros(loop)}, err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{ratio("ledger check, all levels: CPU per frame", 1.1, "loop", "us", x[0], x[1],
		fmt.Sprintf("%d frames of %d journals, every round certified anew", frames, len(paths)))}, nil
}

// fill lets a market serve tasks on a directory, so that there is something to audit.
func fill(ctx context.Context, o Options, dir string) (err error) {
	engine, url, err := o.startEngine(ctx, "instant")
	if err != nil {
		return err
	}
	defer engine.stop()
	m, err := marketOf(ctx, dir, local.Engine{URL: url}, 4, 4)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Err(), m.Close()) }()
	return callers(ctx, 64, o.Tasks, func(ctx context.Context) error {
		_, _, err := ask(ctx, m, 4)
		return err
	})
}
