// Package checkpoint says how far a journal is in a way that cannot be taken back: notes that its writer
// signs, that witnesses cosign, and that anybody judges by a policy. Values in, values out.
//
// C2SP defines the forms, which other programs read and write as well: signed-note, tlog-checkpoint,
// tlog-cosignature (cosignature/v1), tlog-policy and tlog-proof.
//
//	MARKET/JOURNAL                                  the origin; the writer's key has its name
//	20852163                                        the number of records
//	CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=    the root of their Merkle tree, see package tree
//
//	— MARKET/JOURNAL Az3grlgtzPICa5OS...            by the writer
//	— MARKET/treasury jWbPPwAAAABkGFDL...           by a witness: every tree that it was shown before is
//	                                                the beginning of this one
//
// A witness says that all it has seen of a journal is one chain. So whoever holds a cosigned checkpoint knows
// that nobody is shown another past, as long as the witness is not in league with the writer.
package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"souk/ledger/tree"
)

// ErrMalformed marks bytes that are no checkpoint, proof or policy at all.
var ErrMalformed = errors.New("malformed")

// ErrFalse marks what has its form and cannot be true: a signature that is not its signer's, or a record that
// is not in the tree.
var ErrFalse = errors.New("false")

// ErrUnproven marks what may be true and is not shown: too few have signed.
var ErrUnproven = errors.New("not proven")

// Checkpoint is a journal up to a record.
type Checkpoint struct {
	Origin string    // of the journal: MARKET/JOURNAL
	Size   int64     // records
	Root   tree.Hash // of the tree of so many
}

// maxName bounds the name of a key or an origin, in bytes: as cosignatures can carry.
const maxName = 255

// text returns the lines that are signed.
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// parse reads what text wrote and nothing else.
func parse(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return c, fmt.Errorf("%w: a checkpoint has three lines, its origin, size and root, and this one has %d",
			ErrMalformed, len(lines)-1)
	}
	if c.Origin = lines[0]; !validName(c.Origin) {
		return c, fmt.Errorf("%w: %.80q is no origin of a checkpoint", ErrMalformed, c.Origin)
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil || size > tree.MaxSize || strconv.FormatUint(size, 10) != lines[1] {
		return c, fmt.Errorf("%w: the checkpoint's size is %.40q, want a number of records up to 2^48",
			ErrMalformed, lines[1])
	}
	c.Size = int64(size)
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return c, fmt.Errorf("%w: the checkpoint's root is %.80q, want 32 bytes in base64", ErrMalformed, lines[2])
	}
	copy(c.Root[:], root)
	if c.Size == 0 && c.Root != new(tree.Tree).Root() {
		return c, fmt.Errorf("%w: the checkpoint says that there are no records, and has the root of some",
			ErrMalformed)
	}
	return c, nil
}
