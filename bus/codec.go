package bus

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Encode returns m as msgpack.
func Encode(m Message) (data []byte, err error) {
	err = EncodeFor(m, func(encoded []byte) { data = bytes.Clone(encoded) })
	return data, err
}

// EncodeFor has use have m as msgpack, until it returns.
func EncodeFor(m Message, use func(data []byte)) error {
	v := reflect.Indirect(reflect.ValueOf(m))
	if !v.CanAddr() || plans[v.Type()] == nil {
		return fmt.Errorf("encode %T: it is no message", m)
	}
	p := plans[v.Type()]
	room := rooms.Get().(*[]byte)
	defer rooms.Put(room)
	*room, _ = p.append((*room)[:0], v)
	use(*room)
	if cap(*room) > maxPooled {
		*room = nil
	}
	return nil
}

// rooms are used again: how long a message is, is known once it is written.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// Decode reads one message of the bus into v, which should be zero: fields that data does not name
// keep their values, and members that v does not have are ignored, so that a release may add some.
//
// Whoever can send bytes can send hostile ones. So: the size, then the plan, which takes no length that goes
// beyond the end, no member twice and no number beyond its field, then v.Validate. Any error is an *Error,
// with CodeTooLarge or CodeBadRequest where the message does not say better.
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
	to := reflect.ValueOf(v).Elem()
	p := plans[to.Type()]
	if p == nil {
		return fmt.Errorf("%T is no message", v)
	}
	return p.message(data, to)
}

// refusal gives err a code if it has none.
func refusal(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
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
