package machines

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"souk/bus/natsauth"
	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/journal"
)

// notary has the keys of a market: those of its journals' writers, which an insider has, too, and that of a
// witness, which he has not.
type notary struct {
	writers map[string]note.Signer
	witness *checkpoint.Cosigner
	policy  string
}

// seeded gives bytes to keys.
type seeded struct{ *rand.ChaCha8 }

func newNotary(t *testing.T, seed uint64, journals []string) *notary {
	n := &notary{writers: map[string]note.Signer{}}
	bytes := seeded{rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})}
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range journals {
		skey, vkey, err := note.GenerateKey(bytes, "market/"+name)
		fail(err)
		n.writers[name], err = note.NewSigner(skey)
		fail(err)
		n.policy += fmt.Sprintf("log %s\n", vkey)
	}
	skey, vkey, err := natsauth.WitnessKey(bytes, "witness.example/w")
	fail(err)
	n.witness, err = checkpoint.NewCosigner(skey)
	fail(err)
	n.policy += fmt.Sprintf("witness w %s\nquorum w\n", vkey)
	return n
}

// store writes journals into a data directory. Where there is a notary, each is signed and cosigned when half
// of it is there, and at its end.
func store(t *testing.T, dir string, stored map[string][][]byte, n *notary) {
	for _, name := range sorted(stored) {
		j, err := journal.Open(filepath.Join(dir, "journal", name), journal.Config{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		var frames []ledger.Frame
		for _, data := range stored[name] {
			f, err := ledger.DecodeFrame(data)
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, f)
		}
		if n == nil {
			err = j.Append(frames...)
		} else {
			err = n.signed(j, name, frames)
		}
		if err == nil {
			err = j.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// signed appends frames to a journal, and has it signed on the way.
func (n *notary) signed(j *journal.Journal, name string, frames []ledger.Frame) error {
	m, err := j.Tree()
	if err != nil {
		return err
	}
	defer m.Close()
	for _, part := range [][]ledger.Frame{frames[:len(frames)/2], frames[len(frames)/2:]} {
		if err := j.Append(part...); err != nil {
			return err
		}
		head, err := m.Grow(nil)
		if err != nil {
			return err
		}
		c := checkpoint.Checkpoint{Origin: "market/" + name, Size: head.Size, Root: head.Root}
		signed, err := checkpoint.Sign(c, n.writers[name])
		if err != nil {
			return err
		}
		if n.witness != nil {
			var by []byte
			if by, err = n.witness.Cosign(c, time.Unix(0, frames[len(frames)-1].Time)); err == nil {
				signed, err = checkpoint.Merge(signed, by)
			}
		}
		if err == nil {
			err = m.Keep(signed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lay puts what is beside the logs of one directory beside those of another.
func lay(t *testing.T, from, to string, what ...string) {
	journals, err := filepath.Glob(filepath.Join(from, "journal", "*"))
	if err != nil || len(journals) == 0 {
		t.Fatal(journals, err)
	}
	for _, dir := range journals {
		for _, w := range what {
			at := filepath.Join(to, "journal", filepath.Base(dir), w)
			if err := os.CopyFS(at, os.DirFS(filepath.Join(dir, w))); err != nil {
				t.Fatal(err)
			}
		}
	}
}
