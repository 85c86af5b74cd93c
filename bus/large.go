package bus

import (
	"crypto/sha256"
	"fmt"
)

// Large stands for a body of more than MaxBody bytes, which stays with whoever sent the task. The door that
// reads it and the agent that serves it ask the sender for it piece by piece, and hash what they have.
type Large struct {
	Bytes  int    `msgpack:"bytes" want:"any"`
	SHA256 []byte `msgpack:"sha256" want:"any"`
}

// LargeOf says what a body is.
func LargeOf(body []byte) *Large {
	sum := sha256.Sum256(body)
	return &Large{Bytes: len(body), SHA256: sum[:]}
}

// Validate wants a body that does not fit in a message.
func (l *Large) Validate() error {
	switch {
	case l.Bytes <= MaxBody:
		return fmt.Errorf("bytes: a body of %d travels with its task", l.Bytes)
	case l.Bytes > MaxLarge:
		return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("body of %d bytes: at most %d are taken, pictures "+
			"and sound included; send a smaller one", l.Bytes, MaxLarge)}
	case len(l.SHA256) != sha256.Size:
		return fmt.Errorf("sha256: %d bytes, it has %d", len(l.SHA256), sha256.Size)
	}
	return nil
}

// BodyAsk asks a task's sender for the piece of a body that begins at a byte. Only who was given the task
// knows the hash.
type BodyAsk struct {
	SHA256 []byte `msgpack:"sha256" want:"any"`
	At     int    `msgpack:"at" want:"any"`
	Token  string `msgpack:"token" want:"id"` // names the answer's subject: see PieceSubject
}

// Validate wants a whole hash and a byte that a body may have.
func (a *BodyAsk) Validate() error {
	if len(a.SHA256) != sha256.Size || a.At < 0 || a.At >= MaxLarge {
		return fmt.Errorf("byte %d of a body with a hash of %d bytes", a.At, len(a.SHA256))
	}
	return judge(a)
}

// BodyPiece is MaxBody bytes of a body, or what is left of it; none where its sender has no such body.
type BodyPiece struct {
	At   int    `msgpack:"at" want:"any"`
	Data []byte `msgpack:"data,omitempty" want:"any"`
}

// Validate wants no more than a piece.
func (p *BodyPiece) Validate() error {
	if len(p.Data) > MaxBody || p.At < 0 || p.At >= MaxLarge {
		return fmt.Errorf("piece of %d bytes at %d", len(p.Data), p.At)
	}
	return nil
}
