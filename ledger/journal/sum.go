package journal

import (
	"errors"
	"fmt"

	"souk/bus/bounded"
	"souk/bus/tip"
	"souk/ledger"
)

// maxSums are the checksums that are kept: a treasury is asked for one by each hub, every few seconds.
const maxSums = 1 << 12

// sums are checksums of frames that were asked for.
type sums struct {
	all  *bounded.Cache[struct{}, uint64, tip.Sum]
	seq  uint64 // of the last frame that says more than marks, appended by this process; 0: none
	last tip.Sum
}

func newSums() sums { return sums{all: bounded.New[struct{}, uint64, tip.Sum](maxSums, 0)} }

func (s *sums) put(seq uint64, sum tip.Sum) {
	s.all.Put(struct{}{}, seq, sum, 1)
}

// keepSums keeps the checksum of the last of these frames, which were encoded last, and of the last that says
// more than marks: that is asked for most.
func (j *Journal) keepSums(frames []ledger.Frame) {
	last := len(frames) - 1
	j.end = tip.SumOf(j.frameAt(last))
	for i := last; i >= 0; i-- {
		if frames[i].Says() {
			if j.sums.seq, j.sums.last = frames[i].Seq, j.end; i < last {
				j.sums.last = tip.SumOf(j.frameAt(i))
			}
			return
		}
	}
}

// frameAt is the bytes of a frame that was encoded last, without the end mark.
func (j *Journal) frameAt(i int) []byte { return j.buf[j.starts[i] : j.ends[i]-1] }

// Sum is the checksum of a stored frame; see [ledger.Journal].
func (j *Journal) Sum(seq uint64) (sum tip.Sum, ok bool, err error) {
	j.mu.Lock()
	if seq == 0 || seq > j.last.Seq {
		j.mu.Unlock()
		return sum, false, nil
	}
	known := j.sums.all.Peek(seq)
	if ok = known != nil; ok {
		sum = *known
	} else if seq == j.sums.seq {
		sum, ok = j.sums.last, true
		j.sums.put(seq, sum)
	}
	j.mu.Unlock()
	if ok {
		return sum, true, nil
	}
	if sum, err = SumAt(j.dir, seq); err != nil {
		return sum, false, fmt.Errorf("journal %s: checksum of frame %d: %w", j.dir, seq, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sums.put(seq, sum)
	return sum, true, nil
}

// SumAt reads the checksum of a frame of the journal in dir.
func SumAt(dir string, seq uint64) (tip.Sum, error) {
	for e, err := range entries(dir, seq) {
		return tip.SumOf(e.Data), err
	}
	return tip.Sum{}, errors.New("the log ends before it")
}
