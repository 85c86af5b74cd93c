// Package learned writes down plain structs, and reads them again: what a hub has learned, down to the last
// bit, and what a journal came to. What other structs were written as is refused, so nobody reads what an
// earlier build meant otherwise.
package learned

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"reflect"
)

// Most bounds the bytes that are read.
const Most = 64 << 20

// magic begins what is written; then comes the sum of what the structs are like, what they hold, and the sum
// of all.
const magic = "souk learned\n"

// Append writes a struct down, by a pointer to it. The sum of all, which takes longest, is left to [Sealed].
func Append(to []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(append(to, head(v)...))
	err := gob.NewEncoder(b).Encode(v)
	return b.Bytes(), err
}

// Sealed appends the sum of what was written down.
func Sealed(data []byte) ([]byte, error) {
	if n := len(data) + sha256.Size; n > Most {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are read", n, Most)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...), nil
}

// Read reads a sealed struct into an empty one, given by pointer. What has the right sum was written here, so
// nothing else is asked of it.
func Read(data []byte, v any) error {
	head, end := head(v), len(data)-sha256.Size
	switch {
	case len(data) > Most:
		return fmt.Errorf("it has %d bytes, and at most %d are read", len(data), Most)
	case !bytes.HasPrefix(data, []byte(head)):
		return errors.New("it is of another build, or of another program")
	case end < len(head):
		return errors.New("it ends too early")
	}
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return errors.New("it is damaged: its sum is another")
	}
	return ReadPart(data[:end], v)
}

// ReadPart reads a struct that was appended and not sealed, as it is part of what was.
func ReadPart(data []byte, v any) error {
	data, ok := bytes.CutPrefix(data, []byte(head(v)))
	if !ok {
		return errors.New("it is of another build, or of another program")
	}
	rest := bytes.NewReader(data)
	if err := gob.NewDecoder(rest).Decode(v); err != nil {
		return err
	}
	if rest.Len() > 0 {
		return fmt.Errorf("%d bytes follow its end", rest.Len())
	}
	return nil
}

// head begins the bytes of a struct: the magic, and the sum of the struct's layout.
func head(v any) string {
	sum := sha256.New()
	layout(sum.Write, reflect.TypeOf(v), map[reflect.Type]bool{})
	return magic + string(sum.Sum(nil))
}

// layout writes what a type is like.
func layout(write func([]byte) (int, error), t reflect.Type, known map[reflect.Type]bool) {
	write([]byte(t.Kind().String() + " "))
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		layout(write, t.Elem(), known)
	case reflect.Map:
		layout(write, t.Key(), known)
		layout(write, t.Elem(), known)
	case reflect.Array:
		write(fmt.Append(nil, t.Len(), " "))
		layout(write, t.Elem(), known)
	case reflect.Struct:
		write([]byte(t.String() + "{"))
		for i := 0; i < t.NumField() && !known[t]; i++ {
			if f := t.Field(i); f.IsExported() {
				write([]byte(f.Name + " "))
				inner := maps.Clone(known)
				inner[t] = true
				layout(write, f.Type, inner)
			}
		}
		write([]byte("}"))
	}
}
