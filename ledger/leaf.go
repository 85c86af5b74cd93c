package ledger

import "encoding/binary"

// Leaves calls f with what each leaf of a journal's Merkle tree is the hash of, by a frame's stored bytes:
// the frame as it would be if the record were alone in it, which [DecodeFrame] reads. So nobody can change
// when a record was written, by which epoch and in which frame, while its leaf stays what it was. The next
// call has its bytes in the same place.
func Leaves(data []byte, f func(leaf []byte)) error {
	d := decode(data)
	n := d.header(new(Frame))
	var count [binary.MaxVarintLen64]byte
	head := max(0, d.At-binary.PutUvarint(count[:], uint64(n)))
	var leaf []byte
	if n > 1 {
		leaf = make([]byte, 0, len(data))
	}
	for range n {
		at := d.At
		if d.Sized(); d.Fault != "" {
			break
		}
		if n == 1 {
			leaf = data[:d.At]
		} else {
			leaf = append(append(append(leaf[:0], data[:head]...), 1), data[at:d.At]...)
		}
		f(leaf)
	}
	return d.end()
}

// Written returns when a frame was written, in Unix nanoseconds, and how many records it has, by its stored
// bytes; zeros where they are none.
func Written(data []byte) (at int64, records int) {
	d, f := decode(data), Frame{}
	if records = d.header(&f); d.Fault != "" {
		return 0, 0
	}
	return f.Time, records
}
