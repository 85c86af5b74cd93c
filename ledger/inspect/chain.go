package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/journal"
	"souk/ledger/tree"
)

// Note is a checkpoint that is kept elsewhere, and where.
type Note struct {
	Name string
	Data []byte
}

// chain compares what was signed of a journal with what is read of it: level 1.
type chain struct {
	of    *Source
	audit *ledger.Audit
	due   []signed // by size, those that the log has still to reach
	tree  tree.Tree
	fit   journal.Place // the last of them that is right and sure
	buf   []tree.Hash

	written, covered int64 // when the last frame was written, and the last one with a record up to fit
}

// signed is a checkpoint, and where it is.
type signed struct {
	checkpoint.Checkpoint
	at   string
	sure bool // it is not for whoever can write the journal's files to make it up
}

// chains reads the checkpoints of journals, judges their signatures, and says what cannot be judged.
func (c *checker) chains(sources []*Source, audits []*ledger.Audit) (all []*chain, undecided []string,
	err error) {
	origins := map[string]int{} // by journal
	for i, s := range sources {
		x := &chain{of: s, audit: audits[i]}
		all = append(all, x)
		kept, wrong, err := journal.ReadKept(s.Dir)
		if err != nil {
			return nil, nil, err
		}
		for _, w := range wrong {
			undecided = append(undecided, fmt.Sprintf("level 1: a checkpoint cannot be read: torn by a crash, or "+
				"damaged: %v: delete it", w))
		}
		for _, k := range kept {
			origins[k.Origin] = i
		}
		undecided = append(undecided, c.judge(x, kept)...)
	}
	for _, n := range c.o.Against {
		p, err := checkpoint.Peek(n.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		i, ok := origins[p.Origin]
		if !ok {
			_, name, _ := strings.Cut(p.Origin, "/")
			i = slices.IndexFunc(sources, func(s *Source) bool { return s.Name == name })
		}
		if i < 0 && len(sources) == 1 {
			i = 0
		}
		if i < 0 || !ok && len(all[i].due) > 0 {
			return nil, nil, fmt.Errorf("%s is a checkpoint of %s, which is none of these journals: name the one "+
				"that is meant by its directory", n.Name, p.Origin)
		}
		if len(c.o.Policies) > 0 {
			if _, err := PolicyOf(c.o.Policies, p.Origin).Read(n.Data); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", n.Name, err)
			}
		}
		all[i].due = append(all[i].due, signed{p, n.Name, true})
	}
	for _, x := range all {
		slices.SortStableFunc(x.due, func(a, b signed) int { return cmp.Compare(a.Size, b.Size) })
	}
	return all, undecided, nil
}

// PolicyOf returns the policy that names a journal, or else the first one.
func PolicyOf(all []*checkpoint.Policy, origin string) *checkpoint.Policy {
	for _, p := range all {
		if p.Knows(origin) {
			return p
		}
	}
	return all[0]
}

// judge judges the signatures of the checkpoints that a journal has.
func (c *checker) judge(x *chain, kept []journal.Kept) (undecided []string) {
	if len(kept) == 0 {
		return []string{fmt.Sprintf("level 1: %s has no checkpoints: what was changed with sums that fit is not "+
			"found", x.of.Name)}
	}
	if len(c.o.Policies) == 0 {
		for _, k := range kept {
			x.due = append(x.due, signed{k.Checkpoint, k.Path, len(c.o.Against) == 0})
		}
		return []string{fmt.Sprintf("level 1: the signatures on the checkpoints of %s were not checked: name a "+
			"policy by --policy", x.of.Name)}
	}
	enough, asked := false, ""
	for _, k := range kept {
		policy := PolicyOf(c.o.Policies, k.Origin)
		if !policy.Knows(k.Origin) {
			x.due = nil
			return []string{fmt.Sprintf("level 1: no policy names %s, of which %s has checkpoints", k.Origin, x.of.Name)}
		}
		v, err := policy.Read(k.Note)
		if err != nil {
			x.audit.Add(ledger.Finding{Level: ledger.LevelMerkle, Invariant: "I12", Seq: k.Frame,
				Damage:   true,
				Expected: fmt.Sprintf("checkpoints that its writer signed, as %s has to be", k.Path), Found: err.Error()})
			continue
		}
		x.due = append(x.due, signed{k.Checkpoint, k.Path, v.Enough})
		enough, asked = enough || v.Enough, v.Asked
	}
	if !enough {
		undecided = append(undecided, fmt.Sprintf("level 1: no checkpoint of %s is cosigned by as many as the policy "+
			"asks for: %s", x.of.Name, asked))
	}
	return undecided
}

// frame takes in the next frame.
func (c *chain) frame(seq uint64, data []byte) {
	if len(c.due) == 0 && c.fit.Size == 0 { // nothing was signed
		return
	}
	if c.written, _ = ledger.Written(data); len(c.due) == 0 {
		return
	}
	before := c.tree.Size()
	c.reached(seq, before)
	_ = ledger.Leaves(data, func(leaf []byte) { // the audit says what is wrong with it
		if len(c.due) > 0 {
			c.buf = c.tree.Append(tree.Leaf(leaf), c.buf[:0])
			c.reached(seq, before)
		}
	})
}

// reached compares the tree with what was signed of this size.
func (c *chain) reached(seq uint64, before int64) {
	for len(c.due) > 0 && c.due[0].Size == c.tree.Size() {
		s := c.due[0]
		if s.Root != c.tree.Root() {
			c.differs(s, false)
			c.due = nil // of all later ones the same is to be said
			return
		}
		if s.sure {
			c.fit = journal.Place{Frame: seq, Before: before, Size: s.Size, Root: s.Root}
			c.covered = c.written
		}
		c.due = c.due[1:]
	}
}

// late bounds the time for which nothing but records without a cosigned checkpoint may have been written.
const late = int64(time.Minute)

// end is called once the log is read, unless it is damaged. It says what is not covered.
func (c *chain) end() (undecided string) {
	c.reached(0, 0)
	if len(c.due) > 0 {
		c.differs(c.due[len(c.due)-1], true)
		c.due = nil
	}
	if c.fit.Size == 0 || c.written-c.covered <= late {
		return ""
	}
	return fmt.Sprintf("level 1: %s is covered up to record %d, of %s, and goes on to %s: what was changed in that "+
		"is not found", c.of.Name, c.fit.Size-1, moment(c.covered), moment(c.written))
}

func moment(at int64) string { return time.Unix(0, at).UTC().Format(time.DateTime + "Z") }

const notHere = "what was signed is not here"

// differs notes that the log is not what was signed, with the first record that is not, if that can be told.
// ends says that it ends before.
func (c *chain) differs(s signed, ends bool) {
	f := ledger.Finding{Level: ledger.LevelMerkle, Invariant: "I12", Damage: true, Seq: c.fit.Frame + 1,
		Expected: fmt.Sprintf("root %v of %d records, as the checkpoint %s of %s says", s.Root, s.Size, s.at,
			s.Origin),
		Found: fmt.Sprintf("root %v: ", c.tree.Root())}
	if ends {
		f.Invariant, f.Seq = "I13", c.of.last
		f.Expected = fmt.Sprintf("%d records, as the checkpoint %s of %s says", s.Size, s.at, s.Origin)
		f.Found = fmt.Sprintf("the end behind %d: ", c.tree.Size())
	}
	d, err := journal.Differs(c.of.Dir, c.fit, s.Checkpoint)
	switch {
	case err == nil && d.Leaf == nil:
		f.Found += notHere
	case err == nil:
		f.Seq = d.Frame
		f.Record = fmt.Sprintf("record %d", d.Record)
		if one, err := ledger.DecodeFrame(d.Leaf); err == nil && len(one.Records) == 1 &&
			one.Records[0].ID != "" {
			f.Record = one.Records[0].ID
		}
		f.Found += fmt.Sprintf("record %d is the first that is not what was signed", d.Record)
	case ends && errors.Is(err, journal.ErrUnknown):
		f.Found += notHere
		if from, to := c.fit.Size, c.tree.Size(); from < to {
			f.Found += fmt.Sprintf(", and of records %d to %d nothing tells whether they are", from, to-1)
		}
	case errors.Is(err, journal.ErrUnknown):
		f.Found += fmt.Sprintf("of records %d to %d at least one is not what was signed", c.fit.Size, s.Size-1)
	default:
		f.Found += fmt.Sprintf("where they differ cannot be read: %v", err)
	}
	c.audit.Add(f)
}
