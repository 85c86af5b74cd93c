package natsauth

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/formats/witness"
	"golang.org/x/mod/sumdb/note"

	"souk/bus"
)

// A treasury and hubs have keys to sign with, whichever way they got their names, and the policy names them.
func TestWhoHasAJournalHasNoteKeys(t *testing.T) {
	s, now := store(t), time.Now()
	if _, err := os.Stat(s.PolicyPath()); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("a policy without anybody to sign")
	}
	may[Source](t)(s.Member(bus.RoleTreasury, bus.IDs{Name: "treasury"}))
	may[string](t)(s.Ensure(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}, now))
	creds := may[string](t)(s.Add(bus.RoleHub, bus.IDs{Name: "code", Domain: "code"}, now, Valid))
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "alice"}, now, Valid))
	if key, policy := NotesBeside(creds); key != s.NotePath("code") || policy != s.PolicyPath() {
		t.Errorf("beside the creds are %s and %s", key, policy)
	}
	if key, _ := NotesBeside(s.CredsPath("alice")); key != "" {
		t.Errorf("a client has %s", key)
	}
	policy := string(may[[]byte](t)(os.ReadFile(s.PolicyPath())))
	body := []byte("origin\n1\nAAAA\n")
	for _, id := range []string{"treasury", "math", "code"} {
		k, err := ReadNoteKey(s.NotePath(id))
		if err != nil {
			t.Fatal(err)
		}
		log, err := note.NewSigner(k.Log)
		if err != nil {
			t.Fatal(err)
		}
		cosigner, err := fnote.NewSignerForCosignatureV1(k.Witness)
		if err != nil {
			t.Fatal(err)
		}
		if log.Name() != s.origin(id) || cosigner.Name() != log.Name() {
			t.Errorf("the keys of %s are of %s and %s", id, log.Name(), cosigner.Name())
		}
		if _, err := note.NewSigner(k.Witness); err == nil {
			t.Errorf("the witness's key of %s signs checkpoints, too", id)
		}
		for _, c := range []struct {
			keyword string
			signer  note.Signer
			read    func(string) (note.Verifier, error)
		}{
			{"\nlog ", log, note.NewVerifier},
			{"\nwitness " + id + " ", cosigner, fnote.NewVerifierForCosignatureV1},
		} {
			_, rest, _ := strings.Cut(policy, c.keyword+c.signer.Name()+"+")
			rest, _, _ = strings.Cut(rest, "\n")
			key := c.signer.Name() + "+" + rest
			verifier, err := c.read(key)
			if err != nil {
				t.Fatalf("%s: the policy has key %q: %v:\n%s", id, key, err, policy)
			}
			if sig, err := c.signer.Sign(body); err != nil || !verifier.Verify(body, sig) ||
				verifier.KeyHash() != c.signer.KeyHash() {
				t.Errorf("%s: what the key signs is not what the policy believes: %v", id, err)
			}
		}
	}
	other := store(t)
	if other.origin("math") == s.origin("math") {
		t.Error("journals of two markets have one origin")
	}
}

// Keys that are renewed sign from then on, and those before stay believed. What an operator added stays, and
// a library that shares no line with this one understands it.
func TestTheyAreRenewed(t *testing.T) {
	s, now := store(t), time.Now()
	may[string](t)(s.Add(bus.RoleTreasury, bus.IDs{Name: "treasury"}, now, Valid))
	may[string](t)(s.Add(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}, now, Valid))
	first := may[NoteKey](t)(ReadNoteKey(s.NotePath("math")))
	public := may[note.Signer](t)(fnote.NewSignerForCosignatureV1(first.Witness))
	own, _, _ := strings.Cut(string(may[[]byte](t)(os.ReadFile(s.PolicyPath()))), yours+"\n")
	added := "# ours\nwitness public " + public.Name() + "+00000000+AA== https://witness.example\n"
	ok(t, os.WriteFile(s.PolicyPath(), []byte(own+yours+"\n"+added), 0o600))
	if path := may[string](t)(s.RenewNotes("math")); path != s.NotePath("math") {
		t.Errorf("they are in %s", path)
	}
	second := may[NoteKey](t)(ReadNoteKey(s.NotePath("math")))
	if second.Log == first.Log || second.Witness == first.Witness {
		t.Error("renewed keys are those of before")
	}
	policy := string(may[[]byte](t)(os.ReadFile(s.PolicyPath())))
	for _, line := range strings.Split(own, "\n") {
		key := line[strings.LastIndex(line, " ")+1:]
		if !strings.HasPrefix(line, "#") && strings.Contains(key, "+") && !strings.Contains(policy, key) {
			t.Errorf("the policy has lost %s", key)
		}
	}
	for _, want := range []string{added, "group .hubs any math math.1\n",
		"group .market any treasury .hubs\nquorum"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %q:\n%s", want, policy)
		}
	}
	mine := "group both all .market\nquorum both\n"
	ok(t, os.WriteFile(s.PolicyPath(), []byte(own+yours+"\n"+mine), 0o600))
	may[string](t)(s.RenewNotes("treasury"))
	policy = string(may[[]byte](t)(os.ReadFile(s.PolicyPath())))
	if strings.Count(policy, "\nquorum ") != 1 || !strings.HasSuffix(policy, mine) {
		t.Errorf("an operator's quorum line:\n%s", policy)
	}
	// that library wants a URL of each witness
	lines := strings.Split(policy, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "witness ") {
			lines[i] += " https://a.example"
		}
	}
	if _, err := witness.ParsePolicy([]byte(strings.Join(lines, "\n"))); err != nil {
		t.Errorf("%v:\n%s", err, policy)
	}

	_, err := s.RenewNotes("nobody")
	if !errors.Is(err, ErrNoName) {
		t.Errorf("notes of nobody: %v", err)
	}
	may[string](t)(s.Add(bus.RoleClient, bus.IDs{Name: "alice"}, now, Valid))
	_, err = s.RenewNotes("alice")
	want(t, "a client's", err, "only a treasury or a hub")
}

// A store that was made before there were note keys gets them at the next look.
func TestNoteKeysThatAreMissing(t *testing.T) {
	s, now := store(t), time.Now()
	ids := bus.IDs{Name: "math", Domain: "math"}
	may[string](t)(s.Ensure(bus.RoleHub, ids, now))
	ok(t, os.RemoveAll(s.Dir+"/notes"))
	n := may[names](t)(readNames(s.Dir))
	n.Names["math"].Notes = nil
	ok(t, writeNames(s.Dir, n))
	may[string](t)(s.Ensure(bus.RoleHub, ids, now))
	may[NoteKey](t)(ReadNoteKey(s.NotePath("math")))
}

// A file of note keys that is damaged, or open to others, is refused by name, and no error shows what is in
// it.
func TestNoteKeysThatAreNone(t *testing.T) {
	s := store(t)
	may[string](t)(s.Add(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}, time.Now(), Valid))
	path := s.NotePath("math")
	good := string(may[[]byte](t)(os.ReadFile(path)))
	for _, c := range []struct{ what, text, says string }{
		{"empty", "", "want two lines"},
		{"half of it", strings.SplitAfter(good, "\n")[0], "want two lines"},
		{"another thing", "hello world\n", "it is damaged"},
		{"cut", good[:len(good)-20], "it is damaged"},
	} {
		ok(t, os.WriteFile(path, []byte(c.text), 0o600))
		_, err := ReadNoteKey(path)
		want(t, c.what, err, c.says)
		if strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	ok(t, os.WriteFile(path, []byte(good), 0o600))
	ok(t, os.Chmod(path, 0o644))
	_, err := ReadNoteKey(path)
	want(t, "open to all", err, "chmod 600")
	_, err = ReadNoteKey(path + "x")
	want(t, "none", err, "no such file")
}
