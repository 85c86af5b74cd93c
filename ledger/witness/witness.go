// Package witness signs how far a journal is, and has others say that they know of no other past of it. Hub
// and treasury are each other's witness by the same machine. Values in, values out.
//
// A [Party] signs what its shell has read back from the disk, and never two checkpoints of which one does not
// go on the other (I12). It cosigns a checkpoint of another journal only if that goes on the last that it
// cosigned there; which that was is durable before anybody hears of it (C2SP tlog-witness). A witness shows
// what it cosigned last: so a journal that is shorter, or another, is found before it is led again (I13).
package witness

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"souk/bus"
	"souk/ledger/checkpoint"
	"souk/ledger/tree"
)

// Tree is the Merkle tree of the party's own journal, as it was read back last.
type Tree interface {
	// Extends reports whether it goes on a tree of this size and root.
	Extends(size int64, root tree.Hash) (bool, error)
	// Consistency proves that it goes on its own earlier size.
	Consistency(from int64) (tlog.TreeProof, error)
}

// Config of a party.
type Config struct {
	Log, Witness string // secret keys; the first one's name is the origin of the journal
	Policy       []byte
	Tree         Tree
	State        []byte // what State returned last; empty: it never was a witness
	Last         []byte // the last checkpoint of the journal that was kept; empty: none was
	// one witness speaks to it, so that it need not hear all to know that none has cosigned anything
	One bool
}

// Party is the writer of a journal and a witness of others. Not for use by several goroutines at once.
type Party struct {
	Origin   string // of the journal
	Market   string // what origins of its market begin with
	writer   note.Signer
	cosigner *checkpoint.Cosigner
	policy   *checkpoint.Policy
	tree     Tree

	head  tree.Head             // as it was read back last
	read  bool                  // it was
	last  checkpoint.Checkpoint // signed
	note  []byte                // by the key in use; nil: it is to be signed with that
	heard bool                  // a witness has said what it cosigned last, and the journal goes on that
	none  map[string]bool       // witnesses that have cosigned nothing of it
	one   bool
	Doubt string           // why the journal is not the one that was signed
	held  map[string]int64 // size of what each witness has cosigned last of this journal

	seen map[string]*seen // journals that it is a witness of, by origin
	why  map[string]string
}

// seen is a journal as a witness has seen it.
type seen struct {
	Note string `json:"note"` // cosigned last
	// a note by the same key that contradicts this or the unproven one: of the same size, with another root
	Against  string    `json:"against,omitempty"`
	Unproven *unproven `json:"unproven,omitempty"`
	at       checkpoint.Checkpoint
}

// unproven is a note that by its own proof does not go on what was cosigned then. Proofs are not signed: a
// fault may have made it.
type unproven struct {
	Note  string `json:"note"`
	Was   string `json:"was"`
	Proof []byte `json:"proof"`
	at    checkpoint.Checkpoint
}

// MaxState bounds the bytes of a party's state.
const MaxState = 16 << 20

// maxNote bounds notes between parties: they have few signatures.
const maxNote = 16 << 10

// New returns a party whose tree is not read yet.
func New(c Config) (*Party, error) {
	errOther := errors.New("another journal's")
	p := &Party{tree: c.Tree, one: c.One, held: map[string]int64{}, none: map[string]bool{},
		seen: map[string]*seen{}, why: map[string]string{}}
	var err error
	if p.writer, err = note.NewSigner(c.Log); err != nil {
		return nil, fmt.Errorf("the key of checkpoints: %w", err)
	}
	if p.cosigner, err = checkpoint.NewCosigner(c.Witness); err != nil {
		return nil, err
	}
	p.Origin = p.writer.Name()
	p.Market = p.Origin[:strings.LastIndex(p.Origin, "/")+1]
	if err := p.SetPolicy(c.Policy); err != nil {
		return nil, err
	}
	if len(c.State) > 0 {
		if err := json.Unmarshal(c.State, &p.seen); err != nil {
			return nil, fmt.Errorf("what it cosigned before: %w", err)
		}
	}
	for origin, s := range p.seen {
		if s == nil {
			return nil, fmt.Errorf("what it cosigned before of %s: nothing", origin)
		}
		s.at, err = checkpoint.Peek([]byte(s.Note))
		if u := s.Unproven; err == nil && u != nil {
			u.at, err = checkpoint.Peek([]byte(u.Note))
		}
		if err != nil || s.at.Origin != origin {
			return nil, fmt.Errorf("what it cosigned before of %s: %w", origin, cmp.Or(err, errOther))
		}
	}
	if len(c.Last) > 0 {
		if p.last, err = checkpoint.Peek(c.Last); err != nil || p.last.Origin != p.Origin {
			return nil, fmt.Errorf("the last checkpoint kept: %w", cmp.Or(err, errOther))
		}
	}
	return p, nil
}

// SetPolicy changes whose checkpoints are cosigned, and whose cosignatures count. The one before stays where
// this one is none.
func (p *Party) SetPolicy(text []byte) error {
	policy, err := checkpoint.ParsePolicy(text)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(policy.Logs, func(l checkpoint.Log) bool {
		return l.Origin == p.Origin && l.Key.KeyHash() == p.writer.KeyHash()
	}) {
		return fmt.Errorf("the policy does not name the key of %s: take the one that was written with it", p.Origin)
	}
	p.policy = policy
	return nil
}

// Sign takes in how far the journal was read back from the disk, and returns a checkpoint of it to be kept
// before anybody hears of it; nil where the last one covers it, by the key in use. One that does not go on
// what was signed, or may not, is never signed.
func (p *Party) Sign(head tree.Head) ([]byte, error) {
	if p.head, p.read = head, true; head.Size == 0 {
		p.heard = true
	}
	err := p.continues(p.last, "its own last checkpoint")
	covered := head.Size == 0 || p.note != nil && head.Size == p.last.Size
	if err != nil || p.Doubt != "" || p.Waits() != "" || covered {
		return nil, err
	}
	c := checkpoint.Checkpoint{Origin: p.Origin, Size: head.Size, Root: head.Root}
	n, err := checkpoint.Sign(c, p.writer)
	if err != nil {
		return nil, err
	}
	p.last, p.note = c, n
	return n, nil
}

// continues finds out whether the journal goes on a checkpoint of it, which somebody shows.
func (p *Party) continues(c checkpoint.Checkpoint, whose string) error {
	if c.Size == 0 {
		return nil
	}
	is, err := p.tree.Extends(c.Size, c.Root)
	if err == nil && !is {
		p.contradicted(c, whose)
	}
	return err
}

// contradicted notes that the journal is not the one that a checkpoint of it was of.
func (p *Party) contradicted(c checkpoint.Checkpoint, whose string) {
	if p.Doubt != "" {
		return
	}
	found := fmt.Sprintf("its first %d have another root", c.Size)
	if p.head.Size < c.Size {
		found = fmt.Sprintf("it has %d", p.head.Size)
	}
	p.Doubt = fmt.Sprintf("journal %s is not the one that was signed: %s is of %d records with root %v, and %s: an "+
		"older copy was put in its place, or records were changed (deploy/runbook.md: checkpoints)", p.Origin, whose,
		c.Size, c.Root, found)
}

// IsOther notes that whoever read the journal found that it is not the one that was signed.
func (p *Party) IsOther(why string) { p.Doubt = why }

// Waits says whose word is waited for before the journal is led; "": nobody's. A journal that was empty at
// the start needs nobody, nor does one in whose market nobody else signs. That a witness has cosigned
// nothing counts where all of them say so.
func (p *Party) Waits() string {
	if p.Doubt != "" || p.heard {
		return ""
	}
	most, peers := 8, p.peers()
	silent := slices.DeleteFunc(slices.Clone(peers), func(name string) bool { return p.none[p.Market+name] })
	if len(silent) == 0 || p.one && len(silent) < len(peers) {
		return ""
	}
	return fmt.Sprintf("journal %s may lack its end: with its %d records it waits for the word of a witness on what "+
		"that has cosigned of it last: any of %s", p.Origin, p.head.Size,
		strings.Join(silent[:min(most, len(silent))], ", "))
}

// Alone has the party wait for nobody: its operator says that it has the newest journal.
func (p *Party) Alone() { p.heard = true }

// peers lists the market's other keepers of journals by name, who are each other's witnesses.
func (p *Party) peers() (all []string) {
	for _, w := range p.policy.Witnesses {
		name, ok := strings.CutPrefix(w.Key.Name(), p.Market)
		if ok && w.Key.Name() != p.Origin && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Sees names the one journal that the party was a witness of; "": it was of none, or of several.
func (p *Party) Sees() (origin string) {
	if len(p.seen) == 1 {
		for origin = range p.seen {
		}
	}
	return origin
}

// Say returns what a witness, who is one in turn, is told. It is called after Sign, and once State is
// durable.
func (p *Party) Say(peer string) (*bus.Attest, error) {
	a := &bus.Attest{Of: p.Origin, Why: p.why[peer]}
	if s := p.seen[peer]; s != nil {
		a.Held = []byte(s.Note)
	}
	if p.note == nil || p.Doubt != "" || p.held[peer] >= p.last.Size {
		return a, nil
	}
	var err error
	a.Note, a.Old, a.Proof, err = p.proven(p.held[peer])
	return a, err
}

// proven returns the last checkpoint, and the proof that it goes on an earlier size.
func (p *Party) proven(old int64) ([]byte, int64, []byte, error) {
	if old > p.last.Size {
		old = 0
	}
	hashes, err := p.tree.Consistency(old)
	if err != nil {
		return nil, 0, nil, err
	}
	var proof []byte
	for _, h := range hashes {
		proof = append(proof, h[:]...)
	}
	return p.note, old, proof, nil
}

// Outcome lists effects of a word of another party.
type Outcome struct {
	Keep  []byte // a checkpoint of the journal, cosigned, to be kept; nil: none
	State bool   // make what State returns durable before anything is said to anybody
}

// Hear takes in what another party says, of which who carries it knows that it comes from the journal of this
// origin. An error says what of it was not believed; the rest is taken in.
func (p *Party) Hear(peer string, a *bus.Attest, now time.Time) (o Outcome, err error) {
	switch {
	case a.Of != peer || peer == p.Origin || !p.policy.Knows(peer):
		return o, fmt.Errorf("%.80q speaks of checkpoints as %.80q, and the policy knows no such other journal", peer,
			a.Of)
	case len(a.Note) > maxNote || len(a.Held) > maxNote:
		return o, fmt.Errorf("%s sends a note of more than %d bytes", peer, maxNote)
	}
	var wrong error
	if len(a.Held) == 0 {
		p.held[peer], p.none[peer] = 0, true
	} else {
		o.Keep, wrong = p.cosigned(peer, a.Held)
		p.heard = p.heard || o.Keep != nil
	}
	delete(p.why, peer)
	if len(a.Note) > 0 {
		if o.State, err = p.cosign(peer, a, now); err != nil {
			p.why[peer] = bus.Clip(err.Error(), bus.MaxText)
		}
	}
	return o, errors.Join(wrong, err)
}

// cosigned takes in a checkpoint of the journal that a witness has cosigned, and returns it to be kept.
func (p *Party) cosigned(by string, note []byte) ([]byte, error) {
	v, err := p.policy.Read(note)
	if err == nil && v.Origin != p.Origin {
		err = fmt.Errorf("it is of %s", v.Origin)
	}
	if err == nil && len(v.Cosigned) == 0 {
		err = errors.New("it has no signature of a witness")
	}
	if err != nil {
		return nil, fmt.Errorf("%s shows what is no checkpoint of %s that it has cosigned: %w", by, p.Origin, err)
	}
	err = p.continues(v.Checkpoint, "the checkpoint that "+by+" has cosigned last")
	if err != nil || p.Doubt != "" {
		return nil, err
	}
	p.held[by] = v.Size
	return note, nil
}

// cosign judges another's checkpoint, and takes it in as the last that was cosigned if it goes on that.
func (p *Party) cosign(peer string, a *bus.Attest, now time.Time) (changed bool, err error) {
	v, err := p.policy.Read(a.Note)
	if err == nil && v.Origin != peer {
		err = fmt.Errorf("it is of %s", v.Origin)
	}
	if err != nil {
		return false, fmt.Errorf("a checkpoint by %s is not cosigned: %w", peer, err)
	}
	c, s := v.Checkpoint, p.seen[peer]
	was := checkpoint.Checkpoint{Origin: peer}
	if s != nil {
		was = s.at
	}
	switch {
	case s != nil && s.Against != "":
		return false, errors.New(s.amiss())
	case s != nil && (contradict(c, was) || s.Unproven != nil && contradict(c, s.Unproven.at)):
		s.Against = string(a.Note)
		return true, errors.New(s.amiss())
	case c.Size == 0:
		return false, fmt.Errorf("the checkpoint of %s is of no record, and needs no witness", peer)
	case a.Old != was.Size:
		if a.Old > was.Size || c.Size < was.Size || s == nil {
			return false, fmt.Errorf("the proof of %s goes from record %d to %d, and %d were cosigned last", peer, a.Old,
				c.Size, was.Size)
		}
		return false, nil // it was overtaken: the last one says from where on
	case c.Size == was.Size:
		return false, nil // cosigned already
	case goesOn(c, was, a.Proof):
	case s != nil && s.amiss() == "" && len(a.Proof) > 0 && len(a.Proof)%sha256.Size == 0 &&
		len(a.Proof) <= maxNote:
		s.Unproven = &unproven{string(a.Note), s.Note, a.Proof, c}
		return true, errors.New(s.amiss())
	default:
		return false, fmt.Errorf("the checkpoint of %s of %d records is not proven to go on the one of %d that was "+
			"cosigned last", peer, c.Size, was.Size)
	}
	own, err := p.cosigner.Cosign(c, now)
	if err != nil {
		return false, err
	}
	cosigned, err := checkpoint.Merge(a.Note, own)
	if err != nil {
		return false, err
	}
	if s == nil {
		s = &seen{}
		p.seen[peer] = s
	}
	s.Note, s.at = string(cosigned), c
	return true, nil
}

// goesOn checks a proof that a checkpoint goes on an earlier one.
func goesOn(c, was checkpoint.Checkpoint, proof []byte) bool {
	if was.Size == 0 {
		return len(proof) == 0
	}
	if len(proof)%sha256.Size != 0 {
		return false
	}
	var hashes tlog.TreeProof
	for h := range slices.Chunk(proof, sha256.Size) {
		hashes = append(hashes, tlog.Hash(h))
	}
	return tlog.CheckTree(hashes, c.Size, c.Root, was.Size, was.Root) == nil
}

// contradict reports whether two checkpoints are of one size and of different histories.
func contradict(a, b checkpoint.Checkpoint) bool { return a.Size == b.Size && a.Root != b.Root }

// amiss says what is wrong with what the journal's key has signed; "": nothing. A note whose proof failed is
// wrong until something as long is proven, and keeps nothing from that.
func (s *seen) amiss() string {
	switch {
	case s.Against != "":
		c, _ := checkpoint.Peek([]byte(s.Against)) // it was read
		return fmt.Sprintf("%s has signed two checkpoints of %d records with different roots: both are kept, and "+
			"nothing of it is cosigned any more", s.at.Origin, c.Size)
	case s.Unproven != nil && s.Unproven.at.Size > s.at.Size:
		return fmt.Sprintf("%s has signed a checkpoint of %d records that by its own proof does not go on what was "+
			"cosigned: both are kept with the proof, and it is not cosigned until it, or a longer one, is proven to",
			s.at.Origin, s.Unproven.at.Size)
	}
	return ""
}

// Amiss says which journals were signed twice in one place, or by their own proof do not go on what was
// signed.
func (p *Party) Amiss() (all []string) {
	for _, origin := range slices.Sorted(maps.Keys(p.seen)) {
		if why := p.seen[origin].amiss(); why != "" {
			all = append(all, why)
		}
	}
	return all
}

// State returns all that the party remembers as a witness, to be given to New.
func (p *Party) State() []byte {
	text, err := json.MarshalIndent(p.seen, "", " ")
	if err != nil {
		panic("witness: " + err.Error()) // there are but texts in it
	}
	return append(text, '\n')
}

// Progress says how many records are signed, and how many of them the witness that is farthest has cosigned.
func (p *Party) Progress() (signed, cosigned int64) {
	for _, size := range p.held {
		cosigned = max(cosigned, size)
	}
	return p.last.Size, min(cosigned, p.last.Size)
}
