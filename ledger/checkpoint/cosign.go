package checkpoint

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// algCosignature is the kind of key that cosignature/v1 by Ed25519 takes.
const algCosignature = 4

// Cosigner is the key of a witness.
type Cosigner struct {
	name string
	hash uint32
	key  ed25519.PrivateKey
}

// NewCosigner reads a witness's secret key. A writer's must not serve as one.
func NewCosigner(skey string) (*Cosigner, error) {
	s, err := cosign.NewSignerForCosignatureV1(skey)
	if err != nil {
		return nil, fmt.Errorf("%w: this is no secret key of a witness", ErrMalformed)
	}
	at := len(skey) - base64.StdEncoding.EncodedLen(1+ed25519.SeedSize)
	raw, err := base64.StdEncoding.DecodeString(skey[max(0, at):])
	if err != nil || len(raw) != 1+ed25519.SeedSize || raw[0] != algCosignature {
		return nil, fmt.Errorf("%w: the key of witness %s is of another kind than cosignature/v1 by Ed25519",
			ErrMalformed, s.Name())
	}
	return &Cosigner{s.Name(), s.KeyHash(), ed25519.NewKeyFromSeed(raw[1:])}, nil
}

// Name of the witness.
func (c *Cosigner) Name() string { return c.name }

// Cosign returns a note that has the witness's signature alone, as of a time: what it hands back to the
// writer, which merges it. Whoever asks for it has checked that the checkpoint is what the witness may sign.
func (c *Cosigner) Cosign(p Checkpoint, now time.Time) ([]byte, error) {
	if _, err := parse(p.text()); err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: p.text()}, &cosigning{c, now})
}

// cosigning is a cosigner at a time.
type cosigning struct {
	*Cosigner
	at time.Time
}

func (c *cosigning) KeyHash() uint32 { return c.hash }

func (c *cosigning) Sign(text []byte) ([]byte, error) {
	t := max(0, c.at.Unix())
	signed := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", t, text)
	return append(binary.BigEndian.AppendUint64(nil, uint64(t)), ed25519.Sign(c.key, signed)...), nil
}

// NewVerifier reads the public key of a witness, of any kind that cosigns.
func NewVerifier(vkey string) (note.Verifier, error) {
	v, err := cosign.NewVerifierForCosignatureV1(vkey)
	if err != nil || !strings.HasPrefix(vkey, fmt.Sprintf("%s+%08x+", v.Name(), v.KeyHash())) {
		return nil, fmt.Errorf("%w: this is no public key of a witness: %.120q", ErrMalformed, vkey)
	}
	return v, nil
}
