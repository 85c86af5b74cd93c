package journal

import (
	"fmt"
	"io"

	"souk/bus/tip"
	"souk/ledger"
)

// FramesOf calls f with the frames of the journal in dir that are named, in order; of those beyond its end
// with none.
func FramesOf(dir string, seqs []uint64, f func(ledger.Frame)) error {
	if len(seqs) == 0 {
		return nil
	}
	r, err := ReaderAt(dir, seqs[0])
	for err == nil && len(seqs) > 0 {
		var e Entry
		if e, err = r.Next(); err != nil || e.Seq != seqs[0] {
			continue
		}
		var frame ledger.Frame
		if frame, err = e.Frame(); err == nil {
			f(frame)
			seqs = seqs[1:]
		}
	}
	if err == io.EOF {
		err = nil
	}
	return err
}

// Captured finds what was paid for a hold, whenever that was: see [ledger.Journal].
func (j *Journal) Captured(receipt string) (tip.Ordered, error) {
	none := fmt.Errorf("%w: %.80q", ledger.ErrUnpaid, receipt)
	_, round, _, ok := ledger.ParseHoldID(receipt)
	if !ok {
		return tip.Ordered{}, none
	}
	segs, err := segments(walDir(j.dir))
	var r *Reader
	if err == nil {
		r, err = ReaderAt(j.dir, segs[segmentOf(segs, round)].first)
	}
	var held *ledger.Frame
	for err == nil {
		var e Entry
		var f ledger.Frame
		if e, err = r.Next(); err == nil {
			f, err = e.Frame()
		}
		for i := 0; i < len(f.Records) && err == nil; i++ {
			switch x := &f.Records[i]; {
			case x.Kind == ledger.KindRound && x.Round.Round.Number > round && held == nil,
				x.Kind == ledger.KindVoid && x.Void.Hold == receipt:
				return tip.Ordered{}, none
			case x.Kind == ledger.KindHold && x.ID == receipt:
				held = &f
			case x.Kind == ledger.KindCapture && x.Capture.Hold == receipt:
				if o, ok := ledger.CapturedIn(receipt, held, &f); ok {
					return o, nil
				}
				return tip.Ordered{}, none
			}
		}
	}
	if err == io.EOF {
		err = none
	}
	return tip.Ordered{}, err
}
