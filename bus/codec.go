package bus

import (
	"bytes"
	"fmt"
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

// AppendEncode appends m as msgpack to dst and returns the longer slice. It allocates only where dst
// is too short.
func AppendEncode(dst []byte, m Message) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	own := e.out.b
	e.out.b = dst
	err := e.encodeMore(m)
	dst, e.out.b = e.out.b, own
	return dst, err
}

// Decode reads one message of the bus into v, which should be zero: fields that data does not name
// keep their values, and members that v does not have are ignored, so that versions can mix.
//
// Whoever can send bytes can send hostile ones, and the msgpack library can be killed by eleven of
// them. So: the size, then [Check], then the decoder, then v.Validate. Any error is an *Error, with
// CodeTooLarge or CodeBadRequest where the message does not say better.
//
// Cancel, Feedback and FundsRequest, which people write by hand, may be JSON as well.
func Decode(data []byte, v Message) error {
	if len(data) > MaxMessage {
		return &Error{CodeTooLarge, fmt.Sprintf("message of %d bytes: at most %d are taken", len(data), MaxMessage)}
	}
	if err := decodeUnchecked(data, v); err != nil {
		return refusal(err)
	}
	if err := v.Validate(); err != nil {
		return refusal(err)
	}
	return nil
}

func decodeUnchecked(data []byte, v Message) error {
	if isJSON(data) {
		switch v.(type) {
		case *Cancel, *Feedback, *FundsRequest:
			return decodeJSON(data, v)
		}
	}
	if err := Check(data); err != nil {
		return err
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
	return &Error{CodeBadRequest, err.Error()}
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

// maxPooled is the largest buffer kept for reuse, in bytes: more would pin the memory of one rare
// large message for ever.
const maxPooled = 64 << 10

type encoder struct {
	out sink
	enc *msgpack.Encoder
}

func (e *encoder) encode(m Message) error {
	e.out.b = e.out.b[:0]
	return e.encodeMore(m)
}

func (e *encoder) encodeMore(m Message) error {
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

// DecodeMsgpack reads a chunk as its tags say, without reflection: whoever reads a stream does it for every token.
// Unknown fields are passed over. The lengths that it trusts were checked against the bytes there are (see [Check]).
func (c *Chunk) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeMapLen()
	for ; err == nil && n > 0; n-- {
		var key string
		if key, err = d.DecodeString(); err == nil {
			err = c.decodeField(d, key)
		}
	}
	return err
}

func (c *Chunk) decodeField(d *msgpack.Decoder, key string) (err error) {
	switch key {
	case "t":
		c.Task, err = d.DecodeString()
	case "a":
		c.Attempt, err = d.DecodeInt()
	case "n":
		c.Seq, err = d.DecodeUint64()
	case "x":
		c.Text, err = d.DecodeString()
	case "k":
		c.Tokens, err = decodeTokens(d)
	case "c":
		c.Count, err = d.DecodeInt()
	case "e":
		err = d.Decode(&c.Extra)
	case "f":
		c.Finish, err = d.DecodeBool()
	case "h":
		c.Heartbeat, err = d.DecodeBool()
	case "g":
		c.Agent, err = d.DecodeString()
	case "r":
		err = d.Decode(&c.Result)
	default:
		err = d.Skip()
	}
	return err
}

func decodeTokens(d *msgpack.Decoder) ([]uint32, error) {
	n, err := d.DecodeArrayLen()
	if err != nil || n < 0 { // -1 is nil
		return nil, err
	}
	ids := make([]uint32, n)
	for i := range ids {
		if ids[i], err = d.DecodeUint32(); err != nil {
			return nil, err
		}
	}
	return ids, nil
}
