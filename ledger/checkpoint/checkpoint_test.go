package checkpoint

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"souk/bus/natsauth"
	"souk/ledger/tree"
)

var start = time.Unix(1_800_000_000, 0)

// bytesOf is a source of bytes for keys, the same each time.
type bytesOf struct{ *rand.ChaCha8 }

func seeded(name string) bytesOf {
	var seed [32]byte
	copy(seed[:], name)
	return bytesOf{rand.NewChaCha8(seed)}
}

func writer(t testing.TB, origin string) (note.Signer, string) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(seeded("log "+origin), origin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return s, vkey
}

func cosigner(t testing.TB, name string) (*Cosigner, string) {
	t.Helper()
	skey, vkey, err := natsauth.WitnessKey(seeded(name), name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCosigner(skey)
	if err != nil || c.Name() != name {
		t.Fatal(c, err)
	}
	return c, vkey
}

// market is a journal of some records with three witnesses, of whom two must cosign.
type market struct {
	writer    note.Signer
	witnesses [3]*Cosigner
	policy    *Policy
	text      string // of the policy
	records   [][]byte
	hashes    []tlog.Hash
	tree      tree.Tree
}

func (m *market) ReadHashes(index []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range index {
		out = append(out, m.hashes[i])
	}
	return out, nil
}

func newMarket(t testing.TB, size int) *market {
	m := &market{}
	var vkey string
	m.writer, vkey = writer(t, "m/hub")
	m.text = "# ours\n\nlog " + vkey + "\n"
	for i := range m.witnesses {
		m.witnesses[i], vkey = cosigner(t, fmt.Sprintf("m/w%d", i))
		m.text += fmt.Sprintf("witness w%d %s\thttps://w%d.example/x\n", i, vkey, i)
	}
	m.text += "group two 2 w0 w1 w2\nquorum two"
	var err error
	if m.policy, err = ParsePolicy([]byte(m.text)); err != nil {
		t.Fatal(err)
	}
	for i := range size {
		r := fmt.Appendf(nil, "record %d with %d bytes and some more of salt", i, i%7)
		m.records = append(m.records, r)
		m.hashes = m.tree.Append(tree.Leaf(r), m.hashes)
	}
	return m
}

// note returns the checkpoint of now, cosigned by the first n witnesses.
func (m *market) note(t testing.TB, n int) []byte {
	t.Helper()
	c := Checkpoint{"m/hub", m.tree.Size(), m.tree.Root()}
	signed, err := Sign(c, m.writer)
	for _, w := range m.witnesses[:n] {
		var by []byte
		if by, err = w.Cosign(c, start); err == nil {
			signed, err = Merge(signed, by)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return signed
}

func (m *market) proof(t testing.TB, n int64, cosigned int) *Proof {
	t.Helper()
	hashes, err := tlog.ProveRecord(m.tree.Size(), n, m)
	if err != nil {
		t.Fatal(err)
	}
	return &Proof{n, m.records[n], hashes, m.note(t, cosigned)}
}

func TestWhoSigned(t *testing.T) {
	m := newMarket(t, 5)
	v, err := m.policy.Judge(m.note(t, 2))
	want := "checkpoint of m/hub, size 5, signed by its writer and cosigned by w0 at 2027-01-15T08:00:00Z, w1 at " +
		"2027-01-15T08:00:00Z; the policy asks for 2 of (w0, w1, w2)"
	if err != nil || v.String() != want {
		t.Errorf("%v, %v\nwant %s", &v, err, want)
	}
	if _, err := m.policy.Judge(m.note(t, 1)); !errors.Is(err, ErrUnproven) ||
		!strings.Contains(err.Error(), "too few have cosigned") {
		t.Errorf("one of two: %v", err)
	}
	// a cosignature of another time takes the place of the former
	c, _ := Peek(m.note(t, 0))
	later, _ := m.witnesses[0].Cosign(c, start.Add(time.Hour))
	merged, err := Merge(m.note(t, 2), later)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = m.policy.Judge(merged); err != nil || !v.Cosigned[0].Time.Equal(start.Add(time.Hour)) {
		t.Errorf("%v, %v", &v, err)
	}
	if v.Checkpoint != c {
		t.Errorf("the verdict is on %v, want %v", v.Checkpoint, c)
	}
	c.Size++
	other, _ := m.witnesses[0].Cosign(c, start)
	if _, err := Merge(merged, other); err == nil {
		t.Error("signatures on two checkpoints are merged")
	}
}

// Whoever holds only the keys of a journal cannot cosign for it.
func TestNobodyIsItsOwnWitness(t *testing.T) {
	m := newMarket(t, 5)
	own, vkey := cosigner(t, "m/hub")
	p, err := ParsePolicy([]byte(strings.Replace(m.text, "group two 2 ",
		"witness own "+vkey+"\ngroup two 2 own ",
		1)))
	if err != nil {
		t.Fatal(err)
	}
	c, _ := Peek(m.note(t, 0))
	by, _ := own.Cosign(c, start)
	signed, err := Merge(m.note(t, 1), by)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Judge(signed); !errors.Is(err, ErrUnproven) || len(v.Cosigned) != 1 {
		t.Errorf("%v, %v", &v, err)
	}
	if _, err := Sign(Checkpoint{"m/other", 1, c.Root}, m.writer); err == nil {
		t.Error("a writer signs for another journal")
	}
}

func TestProofs(t *testing.T) {
	for _, size := range []int{1, 2, 7, 64, 100} {
		m := newMarket(t, size)
		for n := range int64(size) {
			data, err := m.proof(t, n, 3).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			p, err := ParseProof(data)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := p.Judge(m.policy); err != nil || len(v.Cosigned) != 3 ||
				!bytes.Equal(p.Record, m.records[n]) {
				t.Fatalf("record %d of %d: %v, %v", n, size, &v, err)
			}
			if again, err := p.Marshal(); err != nil || !bytes.Equal(again, data) {
				t.Fatalf("record %d of %d has another proof when it is written again", n, size)
			}
		}
	}
}

// No bit of a proof can change: where all who may cosign must, each is covered by something.
func TestEveryBitOfAProofCounts(t *testing.T) {
	m := newMarket(t, 37)
	p, err := ParsePolicy([]byte(strings.Replace(m.text, "group two 2", "group two all", 1)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.proof(t, 21, 3).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	judged := func(b []byte) error {
		x, err := ParseProof(b)
		if err == nil {
			_, err = x.Judge(p)
		}
		return err
	}
	if err := judged(data); err != nil {
		t.Fatal(err)
	}
	for bit := 0; bit < 8*len(data); bit += 13 { // so that each place in a byte has its turn
		b := bytes.Clone(data)
		b[bit/8] ^= 1 << (bit % 8)
		if err := judged(b); err == nil {
			t.Fatalf("bit %d of byte %d may change: %q", bit%8, bit/8, b)
		} else if strings.Contains(err.Error(), "\n") {
			t.Fatalf("more than one line: %q", err)
		}
	}
	for n := range len(data) {
		if judged(data[:n]) == nil {
			t.Fatalf("a proof cut after %d bytes passes", n)
		}
	}
}

func TestBadNotes(t *testing.T) {
	m := newMarket(t, 5)
	good := string(m.note(t, 2))
	root := strings.Split(good, "\n")[2]
	signature := strings.Split(good, "\n")[4]
	hundred := ""
	for i := range 100 {
		hundred += fmt.Sprintf("— x%d %s\n", i, strings.Split(signature, " ")[2])
	}
	for _, x := range []struct {
		name, note string
		is         error
		want       string
	}{
		{"of another origin", strings.Replace(good, "m/hub\n", "m/other\n", 1), ErrUnproven,
			"the checkpoint is of m/other, and the policy names m/hub"},
		{"of size 0 and some root", strings.Replace(good, "\n5\n", "\n0\n", 1), ErrMalformed, "no records"},
		{"of size 2^63", strings.Replace(good, "\n5\n", "\n9223372036854775808\n", 1), ErrMalformed,
			"up to 2^48"},
		{"of size 2^64", strings.Replace(good, "\n5\n", "\n18446744073709551616\n", 1), ErrMalformed,
			"up to 2^48"},
		{"of size 05", strings.Replace(good, "\n5\n", "\n05\n", 1), ErrMalformed, "up to 2^48"},
		{"of size -5", strings.Replace(good, "\n5\n", "\n-5\n", 1), ErrMalformed, "up to 2^48"},
		{"of another size", strings.Replace(good, "\n5\n", "\n6\n", 1), ErrFalse,
			"is not on this checkpoint"},
		{"without its last line end", strings.TrimSuffix(good, "\n"), ErrMalformed, "each with its line end"},
		{"without a line end", strings.ReplaceAll(good, "\n", " "), ErrMalformed, "no signed note"},
		{"without signatures", strings.Split(good, "—")[0], ErrMalformed, "no signed note"},
		{"nothing", "", ErrMalformed, "no signed note"},
		{"with a fourth line", strings.Replace(good, root, root+"\nmore", 1), ErrMalformed, "three lines"},
		{"with two lines", strings.Replace(good, root+"\n", "", 1), ErrMalformed, "three lines"},
		{"with a short root", strings.Replace(good, root, root[4:], 1), ErrMalformed, "32 bytes"},
		{"with a hundred signatures", good + hundred, ErrMalformed, "103 signatures, want at most 64"},
		{"with one signature twice", good + signature + "\n", ErrMalformed, "twice"},
		{"of a megabyte", good + strings.Repeat("x", 1<<20), ErrMalformed, "at most"},
		{"signed by a stranger", strings.ReplaceAll(good, "— m/", "— n/"), ErrUnproven,
			"nobody whose key is known"},
		{"not signed by its writer", strings.Replace(good, signature+"\n", "", 1), ErrUnproven,
			"the writer of m/hub has not signed"},
		{"with bytes that are no text", strings.Replace(good, "m/w0", "m/w\xff", 1), ErrMalformed,
			"no signed note"},
	} {
		v, err := m.policy.Judge([]byte(x.note))
		if !errors.Is(err, x.is) || !strings.Contains(fmt.Sprint(err), x.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("a note %s: %v, %v\nwant %v: %s", x.name, &v, err, x.is, x.want)
		}
	}
	empty := Checkpoint{"m/hub", 0, new(tree.Tree).Root()}
	if signed, err := Sign(empty, m.writer); err != nil {
		t.Error(err)
	} else if c, err := Peek(signed); err != nil || c != empty {
		t.Errorf("the checkpoint of no records: %v, %v", c, err)
	}
}

func TestBadProofs(t *testing.T) {
	m := newMarket(t, 5)
	p := m.proof(t, 3, 2)
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	hash := base64.StdEncoding.EncodeToString(p.Hashes[0][:])
	for _, x := range []struct {
		name, proof string
		is          error
		want        string
	}{
		{"of another record", strings.Replace(good, base64.StdEncoding.EncodeToString(p.Record),
			base64.StdEncoding.EncodeToString(m.records[2]), 1), ErrFalse, "the record is not record 3 of m/hub"},
		{"of another index", strings.Replace(good, "index 3", "index 2", 1), ErrFalse, "not record 2"},
		{"of a record beyond", strings.Replace(good, "index 3", "index 5", 1), ErrFalse, "covers 5 records"},
		{"of index 2^63", strings.Replace(good, "index 3", "index 9223372036854775808", 1), ErrMalformed,
			"below 2^48"},
		{"with a hash less", strings.Replace(good, hash+"\n", "", 1), ErrFalse, "is not record 3"},
		{"with a hash more", strings.Replace(good, hash, hash+"\n"+hash, 1), ErrFalse, "is not record 3"},
		{"with a hundred hashes", strings.Replace(good, hash, strings.Repeat(hash+"\n", 100)+hash, 1),
			ErrMalformed,
			"at most 64"},
		{"cut", good[:200], ErrMalformed, "is cut"},
		{"of 10 MB", good + strings.Repeat("x", 10<<20), ErrMalformed, "at most 1048576 are read"},
		{"nothing", "", ErrMalformed, "its first line"},
		{"without a record", good[:len(proofHead)] + good[strings.Index(good, "index"):], ErrMalformed,
			"no record"},
	} {
		q, err := ParseProof([]byte(x.proof))
		if err == nil {
			_, err = q.Judge(m.policy)
		}
		if !errors.Is(err, x.is) || !strings.Contains(fmt.Sprint(err), x.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("a proof %s: %v\nwant %v: %s", x.name, err, x.is, x.want)
		}
	}
	p.Record = make([]byte, MaxProof)
	if _, err := p.Marshal(); err == nil {
		t.Error("a proof is made that nobody reads")
	}
}

func TestBadPolicies(t *testing.T) {
	m := newMarket(t, 1)
	lines := strings.Split(m.text, "\n")
	log, w0 := lines[2], lines[3]
	stranger := strings.Fields(w0)[2]
	for _, x := range []struct{ name, policy, want string }{
		{"that asks for more than it names", strings.Replace(m.text, "two 2 w0 w1 w2", "two 4 w0 w1 w2", 1),
			"line 7 of the policy: group two asks for 4 of its members and names 3"},
		{"that asks for none of a group", strings.Replace(m.text, "two 2", "two 0", 1), "from 1 on"},
		{"without a quorum", strings.Replace(m.text, "quorum two", "", 1), "no line with its quorum"},
		{"with two", m.text + "\nquorum none", "a second quorum"},
		{"with an unknown quorum", strings.Replace(m.text, "quorum two", "quorum three", 1),
			"no line before it"},
		{"with an unknown member", strings.Replace(m.text, "w0 w1 w2", "w0 w1 w9", 1), `a member "w9"`},
		{"with a member twice", strings.Replace(m.text, "w0 w1 w2", "w0 w1 w0", 1), "twice"},
		{"with a name twice", strings.Replace(m.text, w0, w0+"\n"+strings.Replace(lines[4], "w1", "w0", 1),
			1), "twice"},
		{"with a witness's key twice", strings.Replace(m.text, w0, w0+"\n"+strings.Replace(w0, "w0", "w7",
			1), 1),
			`two lines "witness" have one key`},
		{"with a log twice", log + "\n" + log + "\nquorum none", `two lines "log" have one key`},
		{"with a key of another kind for a witness", "witness w " + strings.Fields(log)[1] + "\nquorum w", "no public key"},
		{"with a wrong key hash", "witness w " + strings.Replace(stranger, "+", "+0", 1) + "\nquorum w",
			"no public key"},
		{"of odd bytes", "quorum none\r\n", "byte 0xd"},
		{"of no words we know", "quorums none", "want \"log VKEY"},
		{"that is none", "", "no line with its quorum"},
		{"of 10 MB", strings.Repeat("#", 10<<20), "at most"},
	} {
		_, err := ParsePolicy([]byte(x.policy))
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), x.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("a policy %s: %v\nwant %s", x.name, err, x.want)
		}
	}
	if p, err := ParsePolicy([]byte(log + "\nquorum none")); err != nil {
		t.Error(err)
	} else if v, err := p.Judge(m.note(t, 0)); err != nil || !strings.Contains(v.String(),
		"asks for nobody else") {
		t.Errorf("%v, %v", &v, err)
	}
}

func TestGroupsOfGroups(t *testing.T) {
	m := newMarket(t, 1)
	p, err := ParsePolicy([]byte(strings.Replace(m.text, "group two 2 w0 w1 w2",
		"group a any w0 w1\ngroup two all a w2", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Judge(m.note(t, 2)); !errors.Is(err, ErrUnproven) ||
		v.Asked != "2 of (1 of (w0, w1), w2)" {
		t.Errorf("%v, %v", &v, err)
	}
	if _, err := p.Judge(m.note(t, 3)); err != nil {
		t.Error(err)
	}
}

func TestKeysOfWitnesses(t *testing.T) {
	skey, _, _ := note.GenerateKey(seeded("x"), "w")
	if _, err := NewCosigner(skey); err == nil {
		t.Error("a writer's key serves as a witness's")
	}
}

// A proof file has 2 KB at most, with a record as they are and three cosignatures.
func TestAProofIsShort(t *testing.T) {
	m := newMarket(t, 1<<10)
	p := m.proof(t, 300, 3)
	p.Hashes = make([]tlog.Hash, 20) // of a million records
	p.Record = make([]byte, 240)
	if data, err := p.Marshal(); err != nil || len(data) > 2048 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func fuzzed(f *testing.F) *market {
	m := newMarket(f, 5)
	f.Add([]byte(m.text))
	f.Add(m.note(f, 2))
	data, err := m.proof(f, 3, 2).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	return m
}

func FuzzNote(f *testing.F) {
	m := fuzzed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := m.policy.Judge(data)
		if err == nil && v.Root != m.tree.Root() {
			t.Fatalf("nobody signed %v", &v)
		}
		if c, err := Peek(data); err == nil && !bytes.HasPrefix(data, []byte(c.text()+"\n")) {
			t.Fatalf("%q is read as %q", data, c.text())
		}
	})
}

func FuzzPolicy(f *testing.F) {
	m := fuzzed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePolicy(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		_, _ = p.Judge(m.note(t, 2))
	})
}

func FuzzProof(f *testing.F) {
	m := fuzzed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseProof(data)
		if err != nil {
			return
		}
		if again, err := p.Marshal(); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%q is written as %q, %v", data, again, err)
		}
		if _, err := p.Judge(m.policy); err == nil && !bytes.Equal(p.Record, m.records[p.Index]) {
			t.Fatalf("%q proves a record that is not there", data)
		}
	})
}

// What a verifier does with a proof file: three cosignatures, a million records.
func BenchmarkVerify(b *testing.B) {
	m := newMarket(b, 1<<12)
	data, err := m.proof(b, 300, 3).Marshal()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p, err := ParseProof(data)
		if err == nil {
			_, err = p.Judge(m.policy)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
