package serve

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"souk/bus/natsauth"
	"souk/ledger/checkpoint"
	"souk/ledger/tree"
)

// disk is a journal whose writer and reader share memory.
type disk struct {
	mu      sync.Mutex
	records []string // durable
	tree    tree.Tree
	hashes  []tree.Hash
	kept    []string // notes, as they were kept
	fails   error
	full    bool       // nothing can be kept
	again   chan error // what comes of reading all of it; nil: nothing
}

var errOther = errors.New("another journal")

func (d *disk) write(lines ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = append(d.records, lines...)
}

func (d *disk) Grow(<-chan struct{}) (tree.Head, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.records[d.tree.Size():] {
		d.hashes = d.tree.Append(tree.Leaf([]byte(r)), d.hashes)
	}
	return tree.Head{Frame: uint64(d.tree.Size()), Size: d.tree.Size(), Root: d.tree.Root()}, d.fails
}

func (d *disk) Recheck(stop <-chan struct{}) error {
	if d.again == nil {
		return nil
	}
	select {
	case err := <-d.again:
		return err
	case <-stop:
		return errors.New("stopped")
	}
}

func (d *disk) ReadHashes(index []int64) (all []tree.Hash, err error) {
	for _, i := range index {
		all = append(all, d.hashes[i])
	}
	return all, nil
}

func (d *disk) Extends(size int64, root tree.Hash) (bool, error) {
	if size > d.tree.Size() {
		return false, nil
	}
	was, err := tree.At(size, d)
	return was.Root() == root, err
}

func (d *disk) Consistency(from int64) (tlog.TreeProof, error) {
	if from == 0 || from == d.tree.Size() {
		return nil, nil
	}
	return tlog.ProveTree(d.tree.Size(), from, d)
}

func (d *disk) Keep(n []byte) error {
	c, err := checkpoint.Peek(n)
	if err != nil || c.Size > d.tree.Size() {
		return fmt.Errorf("size %d kept of %d: %w", c.Size, d.tree.Size(), err)
	}
	if d.full {
		return errors.New("full")
	}
	d.kept = append(d.kept, string(n))
	return nil
}

func (d *disk) Close() error { return nil }

// sizes lists the sizes that were kept; those that are cosigned have a plus.
func (d *disk) sizes() (all string) {
	for _, n := range d.kept {
		c, _ := checkpoint.Peek([]byte(n))
		all += fmt.Sprintf(" %d%s", c.Size, strings.Repeat("+", strings.Count(n, "—")-1))
	}
	return strings.TrimSpace(all)
}

// town has keys of a market in a folder.
type town struct {
	t    *testing.T
	dir  string
	keys map[string][2]string
}

func newTown(t *testing.T, names ...string) *town {
	w := &town{t: t, dir: t.TempDir(), keys: map[string][2]string{}}
	var policy string
	for _, name := range names {
		log, public, err := note.GenerateKey(rand.Reader, "m/"+name)
		ok(t, err)
		witness, cosigns, err := natsauth.WitnessKey(rand.Reader, "m/"+name)
		ok(t, err)
		w.keys[name] = [2]string{log, witness}
		url := ""
		if strings.HasPrefix(name, "public") {
			url = " https://" + name + ".example/w"
		} else {
			policy += "log " + public + "\n"
		}
		policy += "witness " + name + " " + cosigns + url + "\n"
	}
	w.policy(policy + "group all any " + strings.Join(names, " ") + "\nquorum all\n")
	return w
}

func (w *town) policy(text string) {
	ok(w.t, os.WriteFile(filepath.Join(w.dir, "policy"), []byte(text), 0o600))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keeper begins one, and returns what it logs.
func (w *town) keeper(name string, d *disk, last []byte) (*Keeper, *bytes.Buffer) {
	w.t.Helper()
	log := new(bytes.Buffer)
	keys, policy := w.keys[name], filepath.Join(w.dir, "policy")
	k, err := New(Config{Log: keys[0], Witness: keys[1], Policy: policy,
		State: filepath.Join(w.dir, name+".witnessed"), Tree: d, Last: last, One: name != "treasury",
		Other: errOther, Logger: slog.New(slog.NewTextHandler(log, nil))})
	ok(w.t, err)
	k.client = &http.Client{Transport: nobody{}}
	k.Begin()
	synctest.Wait()
	return k, log
}

// nobody is reached by a client that is given no witness.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("nobody is there")
}

func (k *Keeper) asks(other *Keeper, name string) {
	other.Hear(name, k.Say("treasury"))
	k.Hear("treasury", other.Say(name))
}

// A second after the first frame that nothing covers the journal is signed, and at the close.
func TestWhenAJournalIsSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newTown(t, "treasury", "math"), &disk{}
		k, _ := w.keeper("math", d, nil)
		for _, step := range []struct {
			write string
			wait  time.Duration
			kept  string
		}{
			{"a", 999 * time.Millisecond, ""},
			{"b", time.Millisecond, "2"},
			{"", time.Hour, "2"},
			{"c", time.Second, "2 3"},
			{"d", 100 * time.Millisecond, "2 3"},
		} {
			if step.write != "" {
				d.write(step.write)
				k.Wrote()
			}
			time.Sleep(step.wait)
			synctest.Wait()
			if got := d.sizes(); got != step.kept {
				t.Errorf("after %q and %v: kept are %q, want %q", step.write, step.wait, got, step.kept)
			}
		}
		ok(t, k.Close())
		if got := d.sizes(); got != "2 3 4" {
			t.Errorf("at the close: kept are %q", got)
		}
	})
}

// What is said to be cosigned is on the disk; who cannot keep it says nothing.
func TestWhatWasCosignedIsDurableBeforeItIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "treasury", "math")
		d, e := &disk{}, &disk{}
		hub, _ := w.keeper("math", d, nil)
		treasury, log := w.keeper("treasury", e, nil)
		defer hub.Close()
		defer treasury.Close()
		d.write("a", "b")
		state := filepath.Join(w.dir, "treasury.witnessed")
		ok(t, os.MkdirAll(filepath.Join(state+".new", "in the way"), 0o700))
		hub.asks(treasury, "math")
		if a := treasury.Say("math"); a != nil || !strings.Contains(log.String(), "cannot be kept") {
			t.Errorf("it says %+v, and logs %s", a, log)
		}
		ok(t, os.RemoveAll(state+".new"))
		a := treasury.Say("math")
		text, err := os.ReadFile(state)
		ok(t, err)
		if a == nil || len(a.Held) == 0 || !bytes.Contains(text, []byte(`m/math\n2\n`)) {
			t.Fatalf("it says %+v, and keeps %s", a, text)
		}
		hub.Hear("treasury", a)
		if got := d.sizes(); got != "2 2+" {
			t.Errorf("kept are %q", got)
		}
	})
}

// I13, and two that start together: each waits for the other's word, and frees the other by its own.
func TestTwoThatStartTogetherFreeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "treasury", "math", "code")
		d, e := &disk{}, &disk{}
		hub, _ := w.keeper("math", d, nil)
		treasury, _ := w.keeper("treasury", e, nil)
		d.write("a", "b")
		e.write("o")
		for range 2 {
			hub.asks(treasury, "math")
		}
		ok(t, hub.Close())
		ok(t, treasury.Close())
		hub, _ = w.keeper("math", d, nil)
		treasury, _ = w.keeper("treasury", e, nil)
		for _, k := range []*Keeper{hub, treasury} {
			if why, waits := k.Stands(); !waits || !strings.Contains(why, "waits for the word of a witness") {
				t.Errorf("it waits %v: %q", waits, why)
			}
		}
		hub.asks(treasury, "math")
		for _, k := range []*Keeper{hub, treasury} {
			if why, _ := k.Stands(); why != "" {
				t.Errorf("it still waits: %q", why)
			}
		}
		ok(t, hub.Close())
		ok(t, treasury.Close())

		// an older copy of the hub's journal is found, and its fork is no secret to its operator
		older := &disk{records: []string{"a"}}
		hub, log := w.keeper("math", older, nil)
		treasury, _ = w.keeper("treasury", e, nil)
		hub.asks(treasury, "math")
		why, waits := hub.Stands()
		if waits || !strings.Contains(why, "is of 2 records") || !strings.Contains(log.String(), "any more") {
			t.Errorf("an older copy: it waits %v: %q, and logs %s", waits, why, log)
		}
		ok(t, hub.Close())
		fork, _ := w.keeper("math", &disk{}, nil)
		fork.cfg.Tree.(*disk).write("a", "x")
		treasury.Hear("math", fork.Say("treasury"))
		if why := treasury.Unready(); !strings.Contains(why, "two checkpoints of 2 records") ||
			!strings.Contains(why, w.dir) {
			t.Errorf("a fork: %q", why)
		}
		ok(t, fork.Close())
		ok(t, treasury.Close())
	})
}

// A journal that cannot be read back, or is another by what is kept beside it, is not led, and says why.
func TestAJournalThatCannotBeReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "treasury", "math")
		for _, c := range []struct {
			err   error
			says  string
			waits bool
		}{{errors.New("rot"), "could not be read back: rot", true}, {errOther, "another journal", false}} {
			d := &disk{records: []string{"a"}, fails: c.err}
			k, log := w.keeper("math", d, nil)
			why, waits := k.Stands()
			if !strings.Contains(why, c.says) || waits != c.waits ||
				!strings.Contains(log.String(), c.err.Error()) {
				t.Errorf("%v: it waits %v: %q, and logs %s", c.err, waits, why, log)
			}
			ok(t, k.Close())
			if d.sizes() != "" {
				t.Errorf("%v: it is signed", c.err)
			}
		}
	})
}

// What was changed before the checkpoint from which a journal is read is found while it is led.
func TestAJournalThatIsFoundToBeAnotherLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "treasury", "math")
		for _, c := range []struct {
			found error
			why   string
			logs  string
			kept  string
		}{
			{errOther, "another journal", "not led any more", "1"},
			{errors.New("rot"), "", "not compared", "1 2"},
			{nil, "", "", "1 2"},
		} {
			d := &disk{again: make(chan error)}
			k, log := w.keeper("math", d, nil)
			d.write("a")
			k.Wrote()
			time.Sleep(time.Second)
			synctest.Wait()
			if why, _ := k.Stands(); why != "" {
				t.Errorf("it does not stand before: %q", why)
			}
			d.again <- c.found
			synctest.Wait()
			d.write("b")
			if why, waits := k.Stands(); why != c.why || waits && why != "" ||
				!strings.Contains(log.String(), c.logs) || (c.logs == "") != (log.Len() == 0) {
				t.Errorf("%v: it waits %v: %q, and logs %s", c.found, waits, why, log)
			}
			ok(t, k.Close())
			if got := d.sizes(); got != c.kept {
				t.Errorf("%v: kept are %q, want %q", c.found, got, c.kept)
			}
		}
		d := &disk{again: make(chan error)} // it is stopped before, and says nothing
		k, log := w.keeper("math", d, nil)
		ok(t, k.Close())
		if log.Len() > 0 {
			t.Errorf("it logs %s", log)
		}
	})
}

// A checkpoint that could not be kept is kept once it can be, without another record, as is its cosigned one.
func TestACheckpointIsKeptLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newTown(t, "treasury", "math"), &disk{}
		k, log := w.keeper("math", d, nil)
		defer k.Close()
		treasury, _ := w.keeper("treasury", &disk{}, nil)
		defer treasury.Close()
		d.full = true
		d.write("a")
		k.asks(treasury, "math")
		k.asks(treasury, "math")
		logs := log.String()
		if d.full = false; d.sizes() != "" || strings.Count(logs, "full") != 2 ||
			strings.Count(logs, "journal=m/math") != 2 || strings.Contains(logs, "believed") {
			t.Errorf("kept are %q, and it logs %s", d.sizes(), log)
		}
		k.asks(treasury, "math")
		if got := d.sizes(); !strings.Contains(got, "1 1+") {
			t.Errorf("kept are %q", got)
		}
	})
}

// A hub whose keys are made while the treasury runs is cosigned at its next question.
func TestAPolicyThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "treasury", "math")
		whole, err := os.ReadFile(filepath.Join(w.dir, "policy"))
		ok(t, err)
		lines := strings.SplitAfter(string(whole), "\n")
		w.policy(lines[0] + lines[1] + "quorum treasury\n") // the treasury's alone
		d := &disk{}
		treasury, log := w.keeper("treasury", &disk{}, nil)
		defer treasury.Close()
		w.policy(string(whole))
		hub, _ := w.keeper("math", d, nil)
		defer hub.Close()
		d.write("a")
		hub.asks(treasury, "math")
		if got := d.sizes(); got != "1 1+" {
			t.Errorf("kept are %q; %s", got, log)
		}
		w.policy("nonsense")
		time.Sleep(lookAgain)
		d.write("b")
		hub.asks(treasury, "math")
		if got := d.sizes(); got != "1 1+ 2 2+" || !strings.Contains(log.String(), "the one before stays") {
			t.Errorf("a policy that is none: kept are %q; %s", got, log)
		}
	})
}

// A nil keeper signs nothing, and has nobody wait.
func TestNoKeeper(t *testing.T) {
	var k *Keeper
	k.Wrote()
	k.Hear("a", nil)
	k.Alone()
	why, _ := k.Stands()
	if k.Say("a") != nil || why != "" || k.Unready() != "" || k.Close() != nil {
		t.Error("it does something")
	}
}

// public is a witness as C2SP's tlog-witness has it, for one journal, and what else it may do.
type public struct {
	t      *testing.T
	key    *checkpoint.Cosigner
	size   int64
	asked  []string // the first lines that came
	answer func(size int64, note []byte) (int, string)
}

func (p *public) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	ok(p.t, err)
	head, n, _ := strings.Cut(string(body), "\n\n")
	old, _, _ := strings.Cut(head, "\n")
	p.asked = append(p.asked, old)
	c, err := checkpoint.Peek([]byte(n))
	ok(p.t, err)
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/w/add-checkpoint") {
		p.t.Errorf("%s %s", r.Method, r.URL)
	}
	status, said := 0, ""
	switch {
	case p.answer != nil:
		if status, said = p.answer(c.Size, []byte(n)); status == 0 { // it hangs
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
	case old != fmt.Sprint("old ", p.size):
		status, said = http.StatusConflict, fmt.Sprintln(p.size)
	default:
		p.size, status, said = c.Size, http.StatusOK, p.lines(c)
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Request: r,
		Body: io.NopCloser(strings.NewReader(said))}, nil
}

func (p *public) lines(c checkpoint.Checkpoint) string {
	n, err := p.key.Cosign(c, time.Now())
	ok(p.t, err)
	_, lines, _ := strings.Cut(string(n), "\n\n")
	return lines
}

// A witness with a URL cosigns; one that answers 409 for ever, hangs or cosigns something else is asked
// seldom, and delays nothing.
func TestPublicWitnesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "math", "public")
		key, err := checkpoint.NewCosigner(w.keys["public"][1])
		ok(t, err)
		other, err := checkpoint.NewCosigner(w.keys["math"][1])
		ok(t, err)
		says := func(status int, text string) func(int64, []byte) (int, string) {
			return func(int64, []byte) (int, string) { return status, text }
		}
		for _, c := range []struct {
			what   string
			answer func(size int64, note []byte) (int, string)
			kept   string
			logs   string
			asked  int
		}{
			{"that works", nil, "1 1+ 2 2+", "", 3},
			{"409 for ever", says(409, "0\n"), "1 2", "takes none", 5},
			{"409 of a size to come", says(409, "9223372036854775807\n"), "1 2", "which has signed", 5},
			{"409 of anything", says(409, "<html>"), "1 2", "answers 409", 5},
			{"404", says(404, "who?"), "1 2", "answers 404", 5},
			{"that hangs", says(0, ""), "1 2", "deadline", 5},
			{"that says nothing", says(200, ""), "1 2", "no signature", 5},
			{"that says much", says(200, strings.Repeat("—", 1<<20)), "1 2", "too long", 5},
			{"that cosigns something else", func(size int64, _ []byte) (int, string) {
				at := checkpoint.Checkpoint{Origin: "m/math", Size: size + 1}
				return 200, (&public{t: t, key: key}).lines(at)
			}, "1 2", "no signature of it", 5},
			{"that is another", func(size int64, n []byte) (int, string) {
				at, err := checkpoint.Peek(n)
				ok(t, err)
				return 200, (&public{t: t, key: other}).lines(at)
			}, "1 2", "no signature of it", 5},
		} {
			ok(t, os.RemoveAll(filepath.Join(w.dir, "math.witnessed")))
			d := &disk{}
			k, log := w.keeper("math", d, nil)
			p := &public{t: t, key: key, answer: c.answer, size: 0}
			k.client = &http.Client{Transport: p, Timeout: askWithin}
			d.write("a")
			k.Wrote()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			p.size = 0 // it has forgotten, and says so
			d.write("b")
			k.Wrote()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			why, _ := k.Stands()
			if got := d.sizes(); got != c.kept || why != "" {
				t.Errorf("a witness %s: kept are %q, want %q; %q", c.what, got, c.kept, why)
			}
			logs := log.String()
			if !strings.Contains(logs, c.logs) || strings.Count(logs, "does not cosign") > 1 ||
				(c.logs == "") != (logs == "") {
				t.Errorf("a witness %s: it logs %s", c.what, logs)
			}
			if n := len(p.asked); n > c.asked || n < 2 {
				t.Errorf("a witness %s: asked %d times in two minutes: %v", c.what, n, p.asked)
			}
			ok(t, k.Close())
		}
	})
}
