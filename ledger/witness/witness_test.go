package witness

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"souk/bus"
	"souk/bus/natsauth"
	"souk/ledger/checkpoint"
	"souk/ledger/tree"
)

var now = time.Unix(1_800_000_000, 0)

// records is a journal in memory.
type records struct {
	tree   tree.Tree
	hashes []tree.Hash
	roots  []tree.Hash
}

func journalOf(lines ...string) *records {
	r := &records{roots: []tree.Hash{new(tree.Tree).Root()}}
	r.add(lines...)
	return r
}

func (r *records) add(lines ...string) {
	for _, l := range lines {
		r.hashes = r.tree.Append(tree.Leaf([]byte(l)), r.hashes)
		r.roots = append(r.roots, r.tree.Root())
	}
}

func (r *records) head() tree.Head {
	return tree.Head{Frame: uint64(r.tree.Size()), Size: r.tree.Size(), Root: r.tree.Root()}
}

func (r *records) ReadHashes(index []int64) (all []tree.Hash, err error) {
	for _, i := range index {
		all = append(all, r.hashes[i])
	}
	return all, nil
}

func (r *records) Extends(size int64, root tree.Hash) (bool, error) {
	return size < int64(len(r.roots)) && r.roots[size] == root, nil
}

func (r *records) Consistency(from int64) (tlog.TreeProof, error) {
	if from == 0 || from == r.tree.Size() {
		return nil, nil
	}
	return tlog.ProveTree(r.tree.Size(), from, r)
}

// market has keys of a treasury and two hubs.
type market struct {
	t      *testing.T
	keys   map[string][2]string // secret
	policy string
}

func newMarket(t *testing.T) *market {
	m := &market{t: t, keys: map[string][2]string{}}
	for _, name := range []string{"treasury", "math", "code"} {
		m.key(name)
	}
	m.policy += "group hubs any math code\ngroup all any treasury hubs\nquorum all\n"
	return m
}

func (m *market) key(name string) {
	log, public, err := note.GenerateKey(rand.Reader, "souk/"+name)
	ok(m.t, err)
	witness, cosigns, err := natsauth.WitnessKey(rand.Reader, "souk/"+name)
	ok(m.t, err)
	m.keys[name] = [2]string{log, witness}
	m.policy = fmt.Sprintf("log %s\nwitness %s %s\n%s", public, name, cosigns, m.policy)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// side is a party and its journal, and what its shell keeps.
type side struct {
	*Party
	t       *testing.T
	name    string
	journal *records
	kept    []byte
	state   []byte
	errs    []string
	cosigns []int64 // sizes of checkpoints that were kept cosigned
}

// start begins a party on what is left of a side.
func (m *market) start(s *side) *side {
	m.t.Helper()
	k := m.keys[s.name]
	p, err := New(Config{Log: k[0], Witness: k[1], Policy: []byte(m.policy), Tree: s.journal, State: s.state,
		Last: s.kept, One: s.name != "treasury"})
	ok(m.t, err)
	s.Party, s.t = p, m.t
	s.grow()
	return s
}

func (m *market) begin(name string, lines ...string) *side {
	s := m.start(&side{name: name, journal: journalOf()})
	s.grow(lines...)
	return s
}

// grow writes records and signs them.
func (s *side) grow(lines ...string) {
	s.t.Helper()
	s.journal.add(lines...)
	n, err := s.Sign(s.journal.head())
	ok(s.t, err)
	if n != nil {
		s.kept = n
	}
}

// tell hands over what a party says, by the wire's encoding.
func (s *side) tell(to *side) {
	s.t.Helper()
	s.grow()
	a, err := s.Say("souk/" + to.name)
	ok(s.t, err)
	to.told(s.name, a)
}

func (s *side) told(by string, a *bus.Attest) {
	o, err := s.Hear("souk/"+by, a, now)
	if err != nil {
		s.errs = append(s.errs, err.Error())
	}
	if o.Keep != nil {
		c, err := checkpoint.Peek(o.Keep)
		ok(s.t, err)
		s.cosigns = append(s.cosigns, c.Size)
	}
	if o.State {
		s.state = s.State()
	}
}

// talk is a question of a hub and its answer.
func talk(hub, treasury *side) {
	hub.t.Helper()
	hub.tell(treasury)
	treasury.tell(hub)
}

func (s *side) wants(what string, got, want any) {
	s.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: %s is %v, want %v", s.name, what, got, want)
	}
}

func (s *side) says(what, text string) {
	s.t.Helper()
	if !strings.Contains(text, what) || what == "" && text != "" {
		s.t.Errorf("%s: %q, want %q", s.name, text, what)
	}
}

func TestHubAndTreasuryAreEachOthersWitness(t *testing.T) {
	m := newMarket(t)
	hub, treasury := m.begin("math"), m.begin("treasury")
	hub.says("", hub.Waits())
	treasury.says("", treasury.Waits()) // both are new
	hub.grow("open", "grant")
	treasury.grow("open", "deposit", "grant")
	talk(hub, treasury)
	hub.wants("cosigned", hub.cosigns, []int64{2})
	treasury.wants("cosigned", treasury.cosigns, []int64(nil)) // the next question brings it
	for i := range 5 {
		hub.grow(fmt.Sprint("task ", i), "end")
		talk(hub, treasury)
	}
	talk(hub, treasury) // nothing is new
	hub.wants("cosigned", hub.cosigns, []int64{2, 4, 6, 8, 10, 12, 12})
	treasury.wants("cosigned", slices.Compact(treasury.cosigns), []int64{3})
	hub.wants("wrong", hub.errs, []string(nil))
	treasury.wants("wrong", treasury.errs, []string(nil))
	signed, cosigned := hub.Progress()
	hub.wants("progress", []int64{signed, cosigned}, []int64{12, 12})
}

// I12: a checkpoint that does not go on the last one is not signed.
func TestCheckpointsFormOneChain(t *testing.T) {
	m := newMarket(t)
	for what, change := range map[string]func(s *side){
		"a record changed": func(s *side) { *s.journal = *journalOf("a", "B", "c", "d") },
		"the end cut off":  func(s *side) { *s.journal = *journalOf("a", "b") },
		"all gone":         func(s *side) { *s.journal = *journalOf() },
	} {
		for _, restarted := range []bool{false, true} {
			hub := m.begin("math", "a", "b", "c")
			first := hub.kept
			change(hub)
			if restarted {
				m.start(hub)
			} else {
				hub.grow()
			}
			hub.says("is not the one that was signed: its own last checkpoint is of 3 records", hub.Doubt)
			hub.grow("e", "f")
			if !bytes.Equal(hub.kept, first) {
				t.Errorf("%s: it was signed all the same", what)
			}
			if a, _ := hub.Say("souk/treasury"); a.Note != nil {
				t.Errorf("%s: a checkpoint is said all the same", what)
			}
		}
	}
}

// I13: who starts on an older copy, or another journal, hears it from its witness before it leads; one whose
// witness has not spoken waits.
func TestAStartHearsItsWitness(t *testing.T) {
	for _, c := range []struct {
		name    string
		journal *records
		doubt   string
	}{
		{"as it was", journalOf("a", "b", "c"), ""},
		{"and more that nobody cosigned", journalOf("a", "b", "c", "d"), ""},
		{"shorter", journalOf("a", "b"), "treasury has cosigned last is of 3 records with root"},
		{"changed", journalOf("a", "x", "c"), "its first 3 have another root"},
		{"changed, and longer", journalOf("a", "x", "c", "d"), "its first 3 have another root"},
		{"new", journalOf(), "it has 0"},
	} {
		m := newMarket(t)
		hub, treasury := m.begin("math", "a", "b", "c"), m.begin("treasury", "o")
		talk(hub, treasury)
		hub.journal, hub.kept = c.journal, nil // its own checkpoints were put back with it
		m.start(hub)
		if c.journal.tree.Size() > 0 {
			hub.says("waits for the word of a witness", hub.Waits())
		}
		talk(hub, treasury)
		doubt := hub.Doubt
		if hub.Waits() != "" || (doubt == "") != (c.doubt == "") || !strings.Contains(doubt, c.doubt) {
			t.Errorf("%s: it waits %q and doubts %q, want %q", c.name, hub.Waits(), doubt, c.doubt)
		}
	}
}

// Two that start together free each other, and a treasury with one hub that has cosigned waits for no other.
func TestTwoThatStartTogether(t *testing.T) {
	m := newMarket(t)
	hub, other, treasury := m.begin("math", "a"), m.begin("code", "x"), m.begin("treasury", "o")
	for range 2 {
		talk(hub, treasury)
	}
	talk(other, treasury)
	m.start(hub)
	m.start(treasury)
	hub.says("any of treasury", strings.Replace(hub.Waits(), "code, ", "", 1))
	treasury.says("any of code, math", treasury.Waits())
	hub.tell(treasury)
	treasury.says("", treasury.Waits())
	treasury.tell(hub)
	hub.says("", hub.Waits()+hub.Doubt+treasury.Doubt)

	// that one hub has cosigned nothing says little, that none has says enough
	treasury.state = nil
	m.start(treasury)
	fresh := m.start(&side{name: "code", journal: journalOf("x")})
	fresh.tell(treasury)
	treasury.says("any of math", treasury.Waits())
	m.start(&side{name: "math", journal: journalOf("y")}).tell(treasury)
	treasury.says("", treasury.Waits())
}

// What a witness has cosigned is known after its restart, and a journal that it would contradict is kept as
// evidence.
func TestTwoNotesThatContradictEachOther(t *testing.T) {
	m := newMarket(t)
	hub, treasury := m.begin("math", "a", "b"), m.begin("treasury", "o")
	talk(hub, treasury)
	m.start(treasury)
	fork := m.begin("math", "a", "c")
	fork.tell(treasury)
	if len(treasury.Amiss()) != 1 {
		t.Fatalf("they are not found: %v", treasury.errs)
	}
	for range 2 { // it is known after a restart, too
		treasury.says("souk/math has signed two checkpoints of 2 records", treasury.Amiss()[0])
		var kept map[string]seen
		ok(t, json.Unmarshal(treasury.state, &kept))
		s := kept["souk/math"]
		a, err := checkpoint.Peek([]byte(s.Note))
		ok(t, err)
		b, err := checkpoint.Peek([]byte(s.Against))
		ok(t, err)
		if a.Size != b.Size || a.Root == b.Root {
			t.Errorf("the evidence is of %v and %v", a, b)
		}
		hub.grow("c", "d") // the one that it knew may not go on either
		hub.tell(treasury)
		treasury.says("nothing of it is cosigned any more", treasury.errs[len(treasury.errs)-1])
		if got := treasury.State(); !bytes.Equal(got, treasury.state) {
			t.Errorf("something was cosigned:\n%s", got)
		}
		other := m.begin("code", "x") // of others all is as before
		talk(other, treasury)
		other.wants("cosigned", other.cosigns, []int64{1})
		m.start(treasury)
	}
	a, err := treasury.Say("souk/math")
	ok(t, err)
	fork.told("treasury", a) // and the fork finds itself out
	fork.says("another root", fork.Doubt)
}

// A longer journal that does not go on what was cosigned is kept with the proof by which it was to, also
// after a restart. Nobody signed that proof, so the fault may be in it alone: what is proven later is
// cosigned, and then nothing is amiss. Another note of that size is one signed twice.
func TestAProofThatFailsStopsNothing(t *testing.T) {
	m := newMarket(t)
	hub, treasury := m.begin("math", "a", "b", "c"), m.begin("treasury", "o")
	talk(hub, treasury)
	fork := m.begin("math", "a", "x", "c", "d", "e")
	fork.told("treasury", &bus.Attest{Of: "souk/treasury"})
	var err error
	a := &bus.Attest{Of: "souk/math", Note: fork.note, Old: 3}
	fork.held["souk/treasury"] = 3 // it hides what it knows of the other
	_, _, a.Proof, err = fork.proven(3)
	ok(t, err)
	treasury.told("math", a)
	hub.grow("d")
	for range 2 {
		all := treasury.Amiss()
		if len(all) != 1 {
			t.Fatalf("it is not found: %v", treasury.errs)
		}
		treasury.says("a checkpoint of 5 records that by its own proof does not go on what was cosigned", all[0])
		var kept map[string]seen
		ok(t, json.Unmarshal(treasury.state, &kept))
		u := kept["souk/math"].Unproven
		was, err := checkpoint.Peek([]byte(u.Was))
		ok(t, err)
		is, err := checkpoint.Peek([]byte(u.Note))
		ok(t, err)
		if was.Size != 3 || is.Size != 5 || !bytes.Equal(u.Proof, a.Proof) || goesOn(is, was, u.Proof) {
			t.Errorf("the evidence is of %v and %v", was, is)
		}
		state := treasury.State()
		treasury.told("math", a) // once more: nothing new
		if !bytes.Equal(treasury.State(), state) {
			t.Error("it is kept twice")
		}
		m.start(treasury)
	}
	talk(hub, treasury)
	hub.wants("cosigned", hub.cosigns, []int64{3, 4}) // which is proven, and shorter
	if len(treasury.Amiss()) != 1 {
		t.Error("a shorter one that is proven says nothing of it, and it is forgotten")
	}
	state := treasury.State()

	hub.grow("e", "f")
	talk(hub, treasury)
	hub.wants("cosigned", hub.cosigns, []int64{3, 4, 6})
	if all := treasury.Amiss(); len(all) > 0 {
		t.Errorf("a longer one is proven, and still: %v", all)
	}

	treasury.state = state
	m.start(treasury)
	honest := m.begin("math", "a", "b", "c", "d", "e")
	honest.told("treasury", &bus.Attest{Of: "souk/treasury"})
	honest.tell(treasury)
	for range 2 { // after a restart, too
		all := treasury.Amiss()
		if len(all) != 1 {
			t.Fatalf("a fork of the same size is not found: %v", treasury.errs)
		}
		treasury.says("signed two checkpoints of 5 records", all[0])
		m.start(treasury)
	}
}

// What is bad in what a party says is refused with a word, changes nothing and costs nothing else.
func TestWhatAWitnessRefuses(t *testing.T) {
	m := newMarket(t)
	hub, treasury := m.begin("math", "a", "b", "c"), m.begin("treasury", "o")
	talk(hub, treasury)
	hub.grow("d", "e", "f", "g")
	good, err := hub.Say("souk/treasury")
	ok(t, err)
	stranger := newMarket(t) // of one name
	alien := stranger.begin("math", "a", "b", "c", "d")
	foreign, err := alien.Say("souk/treasury")
	ok(t, err)
	hubs := m.begin("code", "z")
	other, err := hubs.Say("souk/treasury")
	ok(t, err)
	huge := strings.Replace(string(good.Note), "\n7\n", "\n9223372036854775808\n", 1)
	nothing := strings.Replace(string(good.Note), "\n7\n", "\n0\n", 1)
	none := checkpoint.Checkpoint{Origin: "souk/math", Root: new(tree.Tree).Root()}
	empty, err := checkpoint.Sign(none, hub.writer)
	ok(t, err)
	before := treasury.State()
	for _, c := range []struct {
		what string
		a    bus.Attest
		says string
	}{
		{"another's origin", bus.Attest{Of: "souk/code", Note: good.Note}, "the policy knows no such"},
		{"its own origin", bus.Attest{Of: "souk/treasury", Note: good.Note}, "the policy knows no such"},
		{"a note of another journal", bus.Attest{Note: other.Note}, "it is of souk/code"},
		{"another market of this name", bus.Attest{Note: foreign.Note}, "nobody whose key is known"},
		{"no note", bus.Attest{Note: []byte("hello")}, "malformed"},
		{"a note without its end", bus.Attest{Note: good.Note[:len(good.Note)-1]}, "malformed"},
		{"a size of 2^63", bus.Attest{Note: []byte(huge)}, "malformed"},
		{"a size of 0", bus.Attest{Note: []byte(nothing)}, "malformed"},
		{"an empty journal", bus.Attest{Note: empty}, "needs no witness"},
		{"from a later size", bus.Attest{Note: good.Note, Old: 5, Proof: good.Proof}, "3 were cosigned last"},
		{"no proof", bus.Attest{Note: good.Note, Old: 3}, "is not proven to go on"},
		{"half a hash", bus.Attest{Note: good.Note, Old: 3, Proof: good.Proof[:40]}, "is not proven"},
		{"a long note", bus.Attest{Note: make([]byte, maxNote+1)}, "of more than"},
		{"what it never cosigned", bus.Attest{Held: treasury.note}, "no checkpoint of souk/treasury that it"},
		{"another's as held", bus.Attest{Held: []byte(treasury.seen["souk/math"].Note)}, "of souk/math"},
	} {
		if c.a.Of == "" {
			c.a.Of = "souk/math"
		}
		_, err := treasury.Hear("souk/math", &c.a, now)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
		if got := treasury.State(); !bytes.Equal(got, before) {
			t.Errorf("%s: the state changed:\n%s", c.what, got)
		}
	}
	treasury.says("", treasury.Doubt)
	hub.tell(treasury)
	treasury.tell(hub)
	hub.wants("cosigned", hub.cosigns, []int64{3, 7})
}

// A new key signs what the old one signed last, and is believed by who has the new policy.
func TestANewKey(t *testing.T) {
	m := newMarket(t)
	hub, treasury := m.begin("math", "a", "b"), m.begin("treasury", "o")
	talk(hub, treasury)
	old := string(hub.kept)
	rest := strings.Replace(m.policy, "witness math ", "witness math-old ", 1)
	m.policy = strings.Replace(rest, "any math code", "any math math-old code", 1)
	m.key("math")
	m.start(hub)
	if string(hub.kept) != old {
		t.Error("it signs before it knows that it has the newest journal")
	}
	talk(hub, treasury)
	hub.grow()
	is, _, _ := strings.Cut(string(hub.kept), "\n\n")
	if was, _, _ := strings.Cut(old, "\n\n"); string(hub.kept) == old || is != was {
		t.Errorf("the new key signed\n%s, and the old one\n%s", hub.kept, old)
	}
	hub.grow("c")
	hub.tell(treasury)
	treasury.says("nobody whose key is known", strings.Join(treasury.errs, "; "))
	ok(t, treasury.SetPolicy([]byte(m.policy)))
	talk(hub, treasury)
	talk(hub, treasury)
	hub.wants("cosigned", slices.Compact(hub.cosigns), []int64{2, 3})
}

func TestWhatNoPartyIsMadeOf(t *testing.T) {
	m := newMarket(t)
	k := m.keys["math"]
	good := Config{Log: k[0], Witness: k[1], Policy: []byte(m.policy), Tree: journalOf()}
	for _, c := range []struct {
		what   string
		change func(c *Config)
		says   string
	}{
		{"no key", func(c *Config) { c.Log = "" }, "the key of checkpoints"},
		{"a witness's key as the log's", func(c *Config) { c.Log = k[1] }, "the key of checkpoints"},
		{"the log's key as a witness's", func(c *Config) { c.Witness = k[0] }, "cosignature/v1"},
		{"no policy", func(c *Config) { c.Policy = nil }, "quorum"},
		{"another market's policy", func(c *Config) { c.Policy = []byte(newMarket(t).policy) }, "not name"},
		{"a state of nothing", func(c *Config) { c.State = []byte("{") }, "what it cosigned before"},
		{"a state without a note", func(c *Config) { c.State = []byte(`{"souk/code":null}`) }, "before"},
		{"another's checkpoint", func(c *Config) { c.Last = m.begin("code", "a").kept }, "another"},
	} {
		bad := good
		c.change(&bad)
		if _, err := New(bad); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
	}
}
