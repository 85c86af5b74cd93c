package agentd

// frames are the encoded messages of one answer, kept in case its reader missed some. Number base is the
// oldest still there.
type frames struct {
	base  uint64
	data  [][]byte
	bytes int
	most  int
}

// keep adds the next frame and drops the oldest ones beyond the limit, never the newest.
func (f *frames) keep(b []byte) {
	f.data = append(f.data, b)
	f.bytes += len(b)
	for f.bytes > f.most && len(f.data) > 1 {
		f.drop(1)
	}
}

// acked drops everything below n. Who has more than was ever sent is mistaken, and what was sent is kept.
func (f *frames) acked(n uint64) {
	if n > f.base && n-f.base <= uint64(len(f.data)) {
		f.drop(int(n - f.base))
	}
}

func (f *frames) drop(n int) {
	for i := range n {
		f.bytes -= len(f.data[i])
		f.data[i] = nil
	}
	f.data = f.data[n:]
	f.base += uint64(n)
}

// from returns the frames from number n on; false if some of these are gone. Beyond the newest there
// is nothing to send, which is no loss.
func (f *frames) from(n uint64) ([][]byte, bool) {
	if n < f.base {
		return nil, false
	}
	return f.data[min(n-f.base, uint64(len(f.data))):], true
}
