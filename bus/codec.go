package bus

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Encode returns m as msgpack.
func Encode(m Message) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	if err := e.encode(m); err != nil {
		return nil, err
	}
	out := bytes.Clone(e.out.b)
	if cap(e.out.b) > maxPooled {
		e.out.b = nil
	}
	return out, nil
}

// Decode reads one message of the bus into v, which should be zero: fields that data does not name
// keep their values, and members that v does not have are ignored, so that a release may add some.
//
// Whoever can send bytes can send hostile ones, and the msgpack library can be killed by eleven of
// them. So: the size, then [Check], then the decoder, then v.Validate. Any error is an *Error, with
// CodeTooLarge or CodeBadRequest where the message does not say better.
//
// Cancel, Feedback, FundsRequest and SessionEnd, which people write by hand, may be JSON as well.
func Decode(data []byte, v Message) error {
	if err := DecodeForm(data, v); err != nil {
		return err
	}
	if err := v.Validate(); err != nil {
		return refusal(err)
	}
	return nil
}

// DecodeForm is Decode without v.Validate: for a receiver that has to answer what it refuses, and so has to
// know from whom and about what it is. v is judged before it has an effect.
func DecodeForm(data []byte, v Message) error {
	if len(data) > MaxMessage {
		return &Error{Code: CodeTooLarge,
			Message: fmt.Sprintf("message of %d bytes: at most %d are taken", len(data), MaxMessage)}
	}
	if err := decodeUnchecked(data, v); err != nil {
		return refusal(err)
	}
	return nil
}

func decodeUnchecked(data []byte, v Message) error {
	if isJSON(data) {
		switch v.(type) {
		case *Cancel, *Feedback, *FundsRequest, *SessionEnd, *StreamControl:
			return decodeJSON(data, v, false)
		}
	}
	if err := Check(data); err != nil {
		return err
	}
	if p, to := plans[reflect.TypeOf(v).Elem()], reflect.ValueOf(v).Elem(); p != nil {
		return p.read(&cursor{data: data}, to)
	}
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.in.Reset(data)
	d.dec.Reset(&d.in)
	err := d.dec.Decode(v)
	d.in.Reset(nil)
	return err
}

// refusal gives err a code if it has none.
func refusal(err error) error {
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{Code: CodeBadRequest, Message: err.Error()}
}

// isJSON reports whether data is a JSON object rather than msgpack: every msgpack message is a map,
// whose first byte is never a '{' or white space.
func isJSON(data []byte) bool {
	for _, c := range data {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == '{'
	}
	return false
}

// WantsJSON reports whether a request wants its answer as JSON: it is JSON, or nothing that is understood,
// which people write.
func WantsJSON(data []byte, header Header) bool {
	if header != nil {
		switch kind, _, _ := strings.Cut(header.Get("Content-Type"),
			";"); strings.ToLower(strings.TrimSpace(kind)) {
		case "application/json":
			return true
		case "application/msgpack", "application/x-msgpack", "application/vnd.msgpack":
			return false
		}
	}
	return len(data) == 0 || !isMap(data[0])
}

// isMap reports whether msgpack that begins with c is a map, as every message is.
func isMap(c byte) bool { return c&0xf0 == 0x80 || c == 0xde || c == 0xdf }

// maxPooled is the largest buffer kept for reuse, in bytes: more would pin the memory of one rare
// large message for ever.
const maxPooled = 64 << 10

type encoder struct {
	out sink
	enc *msgpack.Encoder
}

func (e *encoder) encode(m Message) error {
	e.out.b = e.out.b[:0]
	if v := reflect.ValueOf(m); !v.IsNil() {
		if p := plans[v.Type().Elem()]; p != nil {
			e.out.b = p.append(e.out.b, v.Elem())
			return nil
		}
	}
	e.enc.Reset(&e.out)
	e.enc.UseCompactInts(true)
	if err := e.enc.Encode(m); err != nil {
		return fmt.Errorf("encode %T: %w", m, err)
	}
	return nil
}

// sink is a growing slice that msgpack writes to without further wrapping.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) { s.b = append(s.b, p...); return len(p), nil }
func (s *sink) WriteByte(c byte) error      { s.b = append(s.b, c); return nil }

type decoder struct {
	in  bytes.Reader
	dec *msgpack.Decoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.enc = msgpack.NewEncoder(&e.out)
	return e
}}

var decoders = sync.Pool{New: func() any {
	d := &decoder{}
	d.dec = msgpack.NewDecoder(&d.in)
	return d
}}
