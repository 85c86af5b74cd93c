package learned

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
)

// tensor is a matrix as a weights file has it: a byte a number, times a step.
type tensor struct {
	name  string
	r, c  int
	step  float32
	bytes []int8
}

func asBytes(name string, m *matrix) *tensor {
	top := 1e-9
	for _, x := range m.V {
		top = max(top, math.Abs(x))
	}
	t := &tensor{name: name, r: m.R, c: m.C, step: float32(top / 127)}
	for _, x := range m.V {
		t.bytes = append(t.bytes, int8(max(-127, min(127, math.RoundToEven(x/float64(t.step))))))
	}
	return t
}

// matrix has a tensor's numbers.
func (t *tensor) matrix() *matrix {
	m := newMatrix(t.r, t.c)
	for i, x := range t.bytes {
		m.V[i] = float64(x) * float64(t.step)
	}
	return m
}

// MostBytes bounds a weights file.
const MostBytes = 16 << 20

// Magic opens a weights file; its last character is the version of what stands in it.
const Magic = "SOUKRTR1"

// encode writes a text and tensors: Magic, the text behind its length, and for each tensor its name behind
// its length, rows, columns, step, the bytes of a number, and these; in the end a checksum of it all. All
// is little endian.
func encode(text string, all []*tensor) []byte {
	le := binary.LittleEndian
	b := append(le.AppendUint16([]byte(Magic), uint16(len(text))), text...)
	for _, t := range all {
		b = append(append(b, byte(len(t.name))), t.name...)
		b = le.AppendUint16(le.AppendUint16(b, uint16(t.r)), uint16(t.c))
		b = le.AppendUint32(b, math.Float32bits(t.step))
		for _, x := range t.bytes {
			b = append(b, byte(x))
		}
	}
	return le.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// decode reads what encode wrote, and says what is wrong with anything else.
func decode(data []byte) (text string, all map[string]*tensor, err error) {
	le := binary.LittleEndian
	if len(data) < len(Magic)+6 || string(data[:len(Magic)]) != Magic {
		return "", nil, fmt.Errorf("weights: no %s file: it begins otherwise", Magic)
	}
	end := len(data) - 4
	if crc32.ChecksumIEEE(data[:end]) != le.Uint32(data[end:]) {
		return "", nil,
			fmt.Errorf("weights: cut or changed: the checksum behind its %d bytes is another", len(data))
	}
	data = data[len(Magic):end]
	n := 2 + int(le.Uint16(data))
	if len(data) < n {
		return "", nil, fmt.Errorf("weights: cut within their first line")
	}
	text, all = string(data[2:n]), map[string]*tensor{}
	for data = data[n:]; len(data) > 0; {
		n := 1 + int(data[0])
		if len(data) < n+8 {
			return "", nil, fmt.Errorf("weights: cut within a name")
		}
		t := &tensor{name: string(data[1:n]), r: int(le.Uint16(data[n:])), c: int(le.Uint16(data[n+2:])),
			step: math.Float32frombits(le.Uint32(data[n+4:]))}
		data = data[n+8:]
		if s := float64(t.step); len(data) < t.r*t.c || !(s > 0) || math.IsInf(s, 0) {
			return "", nil, fmt.Errorf("weights: %s: %d by %d numbers, times %v, are not there", t.name,
				t.r, t.c,
				t.step)
		}
		for _, x := range data[:t.r*t.c] {
			t.bytes = append(t.bytes, int8(x))
		}
		if data = data[t.r*t.c:]; all[t.name] != nil {
			return "", nil, fmt.Errorf("weights: %s is there twice", t.name)
		}
		all[t.name] = t
	}
	return text, all, nil
}

// DecodeEncoder reads an encoder's file.
func DecodeEncoder(data []byte) (*Encoder, error) {
	_, all, err := decode(data)
	if err != nil {
		return nil, err
	}
	t := all["encoder"]
	if t == nil || t.r != Buckets || t.c != Size {
		return nil, fmt.Errorf("weights: they are of no encoder from %d buckets to %d numbers", Buckets, Size)
	}
	return &Encoder{t}, nil
}

// Encode writes the file of an encoder.
func (e *Encoder) Encode() []byte { return encode("", []*tensor{e.rows}) }

//go:embed data/encoder.weights
var packedEncoder []byte

// Reader is the encoder that lies beside the code.
var Reader = sync.OnceValue(func() *Encoder {
	e, err := DecodeEncoder(packedEncoder)
	if err != nil {
		panic(fmt.Sprintf("learned: the encoder that is built in: %v", err))
	}
	return e
})
