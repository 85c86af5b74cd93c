package checkpoint

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

const (
	// MaxNote bounds a note in bytes: room for all signatures, even of the largest kind.
	MaxNote = maxSignatures*4096 + 1024
	// maxSignatures bounds those on a note: more witnesses than a market has hubs that watch one another.
	maxSignatures = 64
)

// Sign makes a note of a checkpoint, signed by its writer.
func Sign(c Checkpoint, writer note.Signer) ([]byte, error) {
	if _, err := parse(c.text()); err != nil {
		return nil, err
	}
	if writer.Name() != c.Origin {
		return nil, fmt.Errorf("the key of %s may not sign a checkpoint of %s", writer.Name(), c.Origin)
	}
	return note.Sign(&note.Note{Text: c.text()}, writer)
}

// Peek reads a note's checkpoint and checks no signature: whoever made it may have made it up.
func Peek(data []byte) (Checkpoint, error) {
	_, c, err := open(data)
	return c, err
}

// Open reads a note that at least one of these keys has signed, and none of them falsely. What others signed
// counts for nothing. It returns the signatures that count.
func Open(data []byte, keys ...note.Verifier) ([]note.Signature, error) {
	_, c, err := open(data)
	if err != nil {
		return nil, err
	}
	n, err := note.Open(data, note.VerifierList(keys...))
	if err != nil {
		return nil, judged(c, err)
	}
	return n.Sigs, nil
}

// judged says of a well-formed note why no signature counts.
func judged(c Checkpoint, err error) error {
	if wrong := (*note.InvalidSignatureError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%w: the signature of %s is not on this checkpoint of %s, size %d", ErrFalse, wrong.Name,
			c.Origin, c.Size)
	}
	if none := (*note.UnverifiedNoteError)(nil); errors.As(err, &none) {
		return fmt.Errorf("%w: nobody whose key is known signed this checkpoint of %s, size %d", ErrUnproven,
			c.Origin, c.Size)
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

// open reads a note in its one form, all signatures unchecked.
func open(data []byte) (*note.Note, Checkpoint, error) {
	var c Checkpoint
	if len(data) > MaxNote {
		return nil, c, fmt.Errorf("%w: a note of %d bytes, at most %d are read", ErrMalformed, len(data), MaxNote)
	}
	text, signatures, found := bytes.Cut(data, []byte("\n\n"))
	if !found || !bytes.HasSuffix(data, []byte("\n")) {
		return nil, c, fmt.Errorf("%w: this is no signed note: want its text, an empty line, and lines of "+
			"signatures, each with its line end", ErrMalformed)
	}
	c, err := parse(string(text) + "\n")
	if err != nil {
		return nil, c, err
	}
	lines := bytes.Count(signatures, []byte("\n"))
	if lines > maxSignatures {
		return nil, c, fmt.Errorf("%w: a note with %d signatures, want at most %d", ErrMalformed, lines,
			maxSignatures)
	}
	_, err = note.Open(data, note.VerifierList())
	none := (*note.UnverifiedNoteError)(nil)
	if !errors.As(err, &none) {
		return nil, c, fmt.Errorf("%w: this is no signed note: %w", ErrMalformed, err)
	}
	// each is there once and has one form, so no bit of a note can change unnoticed
	seen := map[string]bool{}
	for _, s := range none.Note.UnverifiedSigs {
		who := fmt.Sprintf("%s %x", s.Name, s.Hash)
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil || seen[who] {
			return nil, c, fmt.Errorf("%w: two signatures by %.80s, or one that is not in its only form",
				ErrMalformed, s.Name)
		}
		seen[who] = true
	}
	if len(seen) != lines {
		return nil, c, fmt.Errorf("%w: the same signature twice", ErrMalformed)
	}
	return none.Note, c, nil
}

// Merge adds to a note the signatures of others on the same checkpoint, in the order in which they come; of
// one key the last counts. Nothing is checked: notes come from Sign, or have been opened.
func Merge(data []byte, others ...[]byte) ([]byte, error) {
	n, c, err := open(data)
	if err != nil {
		return nil, err
	}
	all := n.UnverifiedSigs
	for _, other := range others {
		m, d, err := open(other)
		if err != nil {
			return nil, err
		}
		if d != c {
			return nil, fmt.Errorf("signatures on a checkpoint of %s, size %d, root %v, are none on one of %s, size "+
				"%d, root %v", d.Origin, d.Size, d.Root, c.Origin, c.Size, c.Root)
		}
		for _, s := range m.UnverifiedSigs {
			all = placed(all, s)
		}
	}
	if len(all) > maxSignatures {
		return nil, fmt.Errorf("%d signatures on a note, want at most %d", len(all), maxSignatures)
	}
	return note.Sign(&note.Note{Text: n.Text, Sigs: all})
}

func placed(all []note.Signature, s note.Signature) []note.Signature {
	for i := range all {
		if all[i].Name == s.Name && all[i].Hash == s.Hash {
			all[i] = s
			return all
		}
	}
	return append(all, s)
}

// validName reports whether a note can carry a key of this name.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.Contains(s, "+") &&
		strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) < 0
}

// Signatures counts those on a note, whoever made them.
func Signatures(data []byte) int {
	_, signatures, _ := bytes.Cut(data, []byte("\n\n"))
	return bytes.Count(signatures, []byte("\n"))
}
