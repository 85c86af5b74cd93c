package market

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Decoder reads values from bytes. It remembers the first fault; after that every read yields zero.
type Decoder struct {
	Data    []byte
	At      int
	Fault   string
	Strings *Strings // nil: every string is its own
}

// Fail notes a fault if it is the first, and drops the rest of the data, so that no read has to check for
// one.
func (d *Decoder) Fail(why string) {
	if d.Fault == "" {
		d.Fault = why
		d.Data = d.Data[:d.At]
	}
}

// End checks that all was read. It returns nil, or what is wrong as an error that wraps is.
func (d *Decoder) End(is error) error {
	if d.At < len(d.Data) {
		d.Fail("bytes after the end")
	}
	if d.Fault == "" {
		return nil
	}
	return fmt.Errorf("byte %d: %s: %w", d.At, d.Fault, is)
}

// Bytes reads n bytes. They share the memory of the data.
func (d *Decoder) Bytes(n uint64) []byte {
	if n > uint64(len(d.Data)-d.At) || d.Fault != "" {
		d.Fail("a length beyond what is left")
		return nil
	}
	d.At += int(n)
	return d.Data[d.At-int(n) : d.At]
}

// Fill reads bytes into all of b.
func (d *Decoder) Fill(b []byte) { copy(b, d.Bytes(uint64(len(b)))) }

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if b := d.Bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// Version reads a version, and refuses any other than want.
func (d *Decoder) Version(want byte) byte {
	v := d.Byte()
	if v != want {
		d.Fail(fmt.Sprintf("version %d, and this release of souk reads version %d alone: take the one that "+
			"wrote it", v, want))
	}
	return v
}

// Sized reads a number of bytes, and then these.
func (d *Decoder) Sized() []byte {
	if from := d.At + 1; from <= len(d.Data) && d.Data[d.At] < 0x80 { // as nearly always
		if to := from + int(d.Data[d.At]); to <= len(d.Data) {
			d.At = to
			return d.Data[from:to]
		}
	}
	return d.Bytes(d.Uvarint())
}

// Text reads a string that comes once or twice, and Name one that probably comes again.
func (d *Decoder) Text() string { return d.Strings.Text(d.Sized()) }

func (d *Decoder) Name() string { return d.Strings.Name(d.Sized()) }

// Again reads a name into a string that probably is that already, from the last time.
func (d *Decoder) Again(s *string) {
	if b := d.Sized(); *s != string(b) {
		*s = d.Strings.Name(b)
	}
}

// Uvarint reads an integer.
func (d *Decoder) Uvarint() uint64 {
	if d.At < len(d.Data) && d.Data[d.At] < 0x80 { // most are one byte
		d.At++
		return uint64(d.Data[d.At-1])
	}
	return d.longUvarint()
}

// longUvarint reads up to nine bytes at once, as a time has: it takes the seven bits of each of the first
// eight together in three steps.
func (d *Decoder) longUvarint() uint64 {
	if len(d.Data)-d.At > 8 {
		x, ninth := binary.LittleEndian.Uint64(d.Data[d.At:]), uint64(0)
		end := bits.TrailingZeros64(^x&0x8080808080808080) + 1
		if last := d.Data[d.At+8]; end > 64 && last < 0x80 {
			end, ninth = 72, uint64(last)<<56
		}
		if end != 65 {
			x &= 1<<end - 1
			if end > 8 && x>>(end-8)|ninth == 0 {
				d.Fail("integer not in its shortest form")
				return 0
			}
			x &= 0x7f7f7f7f7f7f7f7f
			x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
			x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
			x = x&0x000000000fffffff | x&0x0fffffff00000000>>4
			d.At += end / 8
			return x | ninth
		}
	}
	if d.Fault != "" {
		return 0
	}
	x, n := binary.Uvarint(d.Data[d.At:])
	switch {
	case n == 0:
		d.Fail("cut short")
	case n < 0:
		d.Fail("integer beyond 64 bits")
	case n > 1 && d.Data[d.At+n-1] == 0:
		d.Fail("integer not in its shortest form")
	default:
		d.At += n
		return x
	}
	return 0
}

// Varint reads an integer that may be negative.
func (d *Decoder) Varint() int64 {
	x := d.Uvarint()
	return int64(x>>1) ^ -int64(x&1)
}

// Varints reads as many.
func (d *Decoder) Varints(into []int64) {
	data, at := d.Data, d.At
	for i := range into {
		var x uint64
		if at < len(data) && data[at] < 0x80 {
			x = uint64(data[at])
			at++
		} else {
			d.At = at
			x = d.longUvarint()
			data, at = d.Data, d.At
		}
		into[i] = int64(x>>1) ^ -int64(x&1)
	}
	d.At = at
}

// Int reads a Varint as an int, and Credits one as an amount.
func (d *Decoder) Int() int { return int(d.Varint()) }

func (d *Decoder) Credits() Credits { return Credits(d.Varint()) }

// Count reads the number of items that follow, of at least least bytes each. A count that the data cannot
// hold is a fault, so a hostile one cannot make us allocate more than a small multiple of the data.
func (d *Decoder) Count(least int) int {
	if d.At < len(d.Data) && d.Data[d.At] == 0 { // as most lists are
		d.At++
		return 0
	}
	n, left := d.Uvarint(), uint64(len(d.Data)-d.At)
	if d.Fault == "" && (n > left || n*uint64(least) > left) { // a division would take longer than all else
		d.Fail("a list longer than what is left")
	}
	if d.Fault != "" {
		return 0
	}
	return int(n)
}

// decoder reads rounds, outcomes, epochs and tariffs.
type decoder struct{ Decoder }

func decode(data []byte) *decoder { return &decoder{Decoder{Data: data}} }

func (d *decoder) end(what string) error {
	if err := d.End(ErrEncoding); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// decodeList reads a count and then that many elements, of at least least bytes each, into a list whose
// memory is used again where there is enough.
func decodeList[T any](d *decoder, list []T, least int, element func(*T)) []T {
	n := d.Count(least)
	if n == 0 {
		return list[:0]
	}
	if list = list[:cap(list)]; len(list) < n { // what elements have is used again, too
		list = make([]T, n)
	}
	list = list[:n]
	for i := range list {
		if element(&list[i]); d.Fault != "" {
			return list[:0]
		}
	}
	return list
}
