package checkpoint

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"souk/ledger/tree"
)

// MaxProof bounds a proof in bytes. The largest rounds are longer: no proof of them is made.
const MaxProof = 1 << 20

// Proof shows that a journal holds a record: C2SP's tlog-proof, with the record as its extra data.
type Proof struct {
	Index  int64  // of the record, from 0 on
	Record []byte // with its frame's head, as ledger.Leaves gives it: ledger.DecodeFrame reads it
	Hashes tlog.RecordProof
	Note   []byte // the checkpoint, cosigned
}

const proofHead = "c2sp.org/tlog-proof@v1\n"

// Marshal writes the proof as a file.
func (p *Proof) Marshal() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%sextra %s\nindex %d\n", proofHead, base64.StdEncoding.EncodeToString(p.Record), p.Index)
	for _, h := range p.Hashes {
		fmt.Fprintf(&b, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	b.WriteByte('\n')
	b.Write(p.Note)
	if b.Len() > MaxProof {
		return nil, fmt.Errorf("a record of %d bytes is too large for a proof: at most %d bytes in all",
			len(p.Record), MaxProof)
	}
	return b.Bytes(), nil
}

// ParseProof reads what Marshal writes and nothing else.
func ParseProof(data []byte) (*Proof, error) {
	wrong := func(format string, args ...any) (*Proof, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
	if len(data) > MaxProof {
		return wrong("a proof of %d bytes, at most %d are read", len(data), MaxProof)
	}
	if bytes.IndexByte(data, '\r') >= 0 {
		return wrong("the proof has other line ends than it was made with")
	}
	head, signed, found := strings.Cut(string(data), "\n\n")
	head, ok := strings.CutPrefix(head, proofHead)
	if !ok {
		return wrong("this is no proof: its first line is not %q", strings.TrimSpace(proofHead))
	}
	if !found || signed == "" {
		return wrong("the proof is cut: it has no checkpoint")
	}
	lines := strings.Split(head, "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "extra ") || !strings.HasPrefix(lines[1], "index ") {
		return wrong("the proof has no record with it, or no index: want lines \"extra BASE64\" and \"index N\"")
	}
	p := &Proof{Note: []byte(signed)}
	var err error
	strict := base64.StdEncoding.Strict()
	if p.Record, err = strict.DecodeString(strings.TrimPrefix(lines[0], "extra ")); err != nil {
		return wrong("the proof's record is not in base64")
	}
	index := strings.TrimPrefix(lines[1], "index ")
	p.Index, err = strconv.ParseInt(index, 10, 64)
	if err != nil || p.Index < 0 || p.Index >= tree.MaxSize || strconv.FormatInt(p.Index, 10) != index {
		return wrong("the proof's index is %.40q, want a number below 2^48", index)
	}
	const most = 64 // more than any tree is high
	if len(lines)-2 > most {
		return wrong("the proof has %d hashes, want at most %d", len(lines)-2, most)
	}
	for _, line := range lines[2:] {
		h, err := strict.DecodeString(line)
		if err != nil || len(h) != tlog.HashSize {
			return wrong("%.60q is no hash of a proof: want 32 bytes in base64", line)
		}
		p.Hashes = append(p.Hashes, tlog.Hash(h))
	}
	return p, nil
}

// Judge judges the proof by a policy and nothing else: enough have signed the checkpoint, and the record is
// in its tree.
func (p *Proof) Judge(by *Policy) (Verdict, error) {
	v, err := by.Judge(p.Note)
	if err != nil {
		return v, err
	}
	return v, p.Check(v.Checkpoint)
}

// Check returns ErrFalse if the record is not in a checkpoint's tree at its index.
func (p *Proof) Check(c Checkpoint) error {
	if p.Index >= c.Size {
		return fmt.Errorf("%w: the proof is of record %d, and the checkpoint of %s covers %d records: those before "+
			"it", ErrFalse, p.Index, c.Origin, c.Size)
	}
	if err := tlog.CheckRecord(p.Hashes, c.Size, c.Root, p.Index, tree.Leaf(p.Record)); err != nil {
		return fmt.Errorf("%w: the record is not record %d of %s: the root that follows from it is not that of the "+
			"checkpoint of size %d", ErrFalse, p.Index, c.Origin, c.Size)
	}
	return nil
}
