package journal

import (
	"fmt"
	"io"

	"souk/bus/bounded"
	"souk/bus/tip"
	"souk/ledger"
)

// maxSums are the checksums that are kept: a treasury is asked for one by each hub, every few seconds.
const maxSums = 1 << 12

// sums are checksums of frames that were asked for.
type sums struct {
	all  *bounded.Cache[struct{}, uint64, tip.Sum]
	seq  uint64 // of the tail
	tail []byte // bytes of the last frame that says more than marks, appended by this process
}

func newSums() sums { return sums{all: bounded.New[struct{}, uint64, tip.Sum](maxSums, 0)} }

func (s *sums) put(seq uint64, sum tip.Sum) {
	s.all.Put(struct{}{}, seq, sum, 1)
}

// keepTail keeps the bytes of the last of these frames that says more than marks: its checksum is what is
// asked for most.
func (j *Journal) keepTail(frames []ledger.Frame) {
	for i := len(frames) - 1; i >= 0; i-- {
		if frames[i].Says() {
			j.sums.seq = frames[i].Seq
			j.sums.tail = append(j.sums.tail[:0], j.frameAt(i)...)
			if cap(j.sums.tail) > 1<<20 {
				j.sums.put(j.sums.seq, tip.SumOf(j.sums.tail))
				j.sums.tail = nil // one rare large frame must not pin its memory
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
	} else if seq == j.sums.seq && len(j.sums.tail) > 0 {
		sum, ok = tip.SumOf(j.sums.tail), true
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
	r, err := readerAt(dir, seq)
	for err == nil {
		var e Entry
		if e, err = r.Next(); err == nil && e.Seq == seq {
			return tip.SumOf(e.Data), nil
		}
	}
	if err == io.EOF {
		err = fmt.Errorf("the log ends before it")
	}
	return tip.Sum{}, err
}

// Settle says whether the journal is known to be the one that was written last; see [ledger.Journal].
func (j *Journal) Settle(own bool) { j.home.Settle(own) }
