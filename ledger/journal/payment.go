package journal

import (
	"fmt"

	"souk/bus/tip"
	"souk/ledger"
)

// FramesOf calls f with the frames of the journal in dir that are named, in order; of those beyond its end
// with none.
func FramesOf(dir string, seqs []uint64, f func(ledger.Frame)) error {
	if len(seqs) == 0 {
		return nil
	}
	for e, err := range entries(dir, seqs[0]) {
		if err == nil && e.Seq != seqs[0] {
			continue
		}
		var frame ledger.Frame
		if err == nil {
			frame, err = e.Frame()
		}
		if err != nil {
			return err
		}
		f(frame)
		if seqs = seqs[1:]; len(seqs) == 0 {
			break
		}
	}
	return nil
}

// Captured finds what was paid for a hold, whenever that was: see [ledger.Journal].
func (j *Journal) Captured(receipt string) (tip.Ordered, error) {
	none := fmt.Errorf("%w: %.80q", ledger.ErrUnpaid, receipt)
	_, round, _, ok := ledger.ParseHoldID(receipt)
	if !ok {
		return tip.Ordered{}, none
	}
	segs, err := segments(walDir(j.dir))
	if err != nil {
		return tip.Ordered{}, err
	}
	var held *ledger.Frame
	for e, err := range entries(j.dir, segs[segmentOf(segs, round)].first) {
		var f ledger.Frame
		if err == nil {
			f, err = e.Frame()
		}
		if err != nil {
			return tip.Ordered{}, err
		}
		for i := range f.Records {
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
	return tip.Ordered{}, none
}
