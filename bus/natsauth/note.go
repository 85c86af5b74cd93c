package natsauth

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"souk/bus"
	"souk/bus/regular"
)

// The keys by which journals are signed lie outside the journals' directory, below the folder of keys:
//
//	notes/NAME.key    what a treasury or hub signs its own checkpoints and cosigns others' with
//	policy            whose checkpoints count, and who cosigns them (C2SP tlog-policy); no secret
const (
	notesDir   = "notes"
	policyFile = "policy"
)

// yours begins the part of the policy that nobody but an operator changes.
const yours = "# Below nothing is written over: more witnesses, groups, a quorum line instead of the one above"

// maxPolicy bounds the file of a policy.
const maxPolicy = 1 << 20

// NoteKey holds the private keys of a treasury or hub, as golang.org/x/mod/sumdb/note writes them: one signs
// the checkpoints of its journal, whose origin is the key's name; the other cosigns those of others.
type NoteKey struct{ Log, Witness string }

// String keeps secrets from being shown.
func (NoteKey) String() string { return "note key" }

// GoString does likewise.
func (k NoteKey) GoString() string { return k.String() }

// noteKeys are the public halves.
type noteKeys struct {
	Log     string `json:"log"`
	Witness string `json:"witness"`
}

// NotePath returns the file of a name's note keys.
func (s *Store) NotePath(name string) string { return filepath.Join(s.Dir, notesDir, name+".key") }

// PolicyPath returns the file of the market's policy.
func (s *Store) PolicyPath() string { return filepath.Join(s.Dir, policyFile) }

// NotesBeside are the files of note keys and policy that lie beside a file of creds where all were made;
// empty where there are none.
func NotesBeside(creds string) (key, policy string) {
	dir, name := filepath.Split(creds)
	dir = filepath.Clean(dir)
	id, ok := strings.CutSuffix(name, ".creds")
	s := Store{Dir: filepath.Dir(dir)}
	if !ok || filepath.Base(dir) != credsDir || absent(s.NotePath(id)) {
		return "", ""
	}
	return s.NotePath(id), s.PolicyPath()
}

// ReadNoteKey reads a file of note keys. One that others can read is refused.
func ReadNoteKey(path string) (k NoteKey, err error) {
	text, err := readSecret(path, 4<<10)
	if err != nil {
		return k, fmt.Errorf("note key %w", err)
	}
	lines := strings.Fields(string(text))
	if len(lines) != 2 {
		return k, fmt.Errorf("note key %s: want two lines, the log's key and the witness's: it is damaged, or "+
			"something else", path)
	}
	for _, l := range lines {
		if _, err := fnote.NewSignerForCosignatureV1(l); err != nil { // it reads either algorithm
			return k, fmt.Errorf("note key %s: %w: it is damaged, or something else", path, err)
		}
	}
	return NoteKey{lines[0], lines[1]}, nil
}

// origin names the journal of a name in its checkpoints. Two markets have different ones, whatever their
// journals are called.
func (s *Store) origin(name string) string {
	return "souk-" + strings.ToLower(s.account[1:9]) + "/" + name
}

// RenewNotes makes new note keys of a treasury or hub. Those before stay in the policy, for what they signed.
func (s *Store) RenewNotes(id string) (path string, err error) {
	err = s.update(func(n names) error {
		e, err := n.user(id)
		if err != nil {
			return err
		}
		if !notarial(e) {
			return fmt.Errorf("%s: only a treasury or a hub has note keys, and it is %s", id, e.owner())
		}
		return s.noteKeys(n, id)
	})
	return s.NotePath(id), err
}

// notarial reports whether a name has a journal, and so keys to sign it.
func notarial(e *name) bool {
	return e.Of == "" && (e.Role == bus.RoleTreasury || e.Role == bus.RoleHub)
}

// noted reports whether a name has the note keys that it is to have.
func noted(e *name) bool {
	return e == nil || !notarial(e) || len(e.Notes) > 0
}

// notes makes the note keys that are missing, and the policy. The lock is held.
func (s *Store) notes(n names) error {
	for id, e := range n.Names {
		if !noted(e) {
			if err := s.noteKeys(n, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteKeys makes keys of a name: one seed serves one algorithm. The public halves are written down before
// anybody can sign with the others.
func (s *Store) noteKeys(n names, id string) error {
	origin := s.origin(id)
	log, signs, err := note.GenerateKey(nil, origin)
	if err != nil {
		return err
	}
	witness, cosigns, err := WitnessKey(nil, origin)
	if err != nil {
		return err
	}
	if err := makeDir(filepath.Join(s.Dir, notesDir)); err != nil {
		return err
	}
	n.Names[id].Notes = append(n.Names[id].Notes, noteKeys{signs, cosigns})
	if err := writeNames(s.Dir, n); err != nil {
		return err
	}
	return writeFile(s.NotePath(id), []byte(log+"\n"+witness+"\n"))
}

// WitnessKey makes a key for cosignatures alone: its secret and its public text, as note.GenerateKey does for
// a writer's.
func WitnessKey(rand io.Reader, name string) (witness, cosigns string, err error) {
	seed, plain, err := note.GenerateKey(rand, name)
	if err != nil {
		return "", "", err
	}
	if cosigns, err = fnote.VKeyToCosignatureV1(plain); err != nil {
		return "", "", err
	}
	secret, err := base64.StdEncoding.DecodeString(strings.SplitN(seed, "+", 5)[4]) // it may hold a plus
	if err != nil {
		return "", "", err
	}
	const cosignatureV1 = 4 // the algorithm, before the seed
	secret[0] = cosignatureV1
	public := strings.SplitN(cosigns, "+", 3)
	return strings.Join([]string{"PRIVATE", "KEY", public[0], public[1],
		base64.StdEncoding.EncodeToString(secret)}, "+"), cosigns, nil
}

// writePolicy writes the market's policy where it is to change: the treasury's journal is cosigned by any
// hub, a hub's by the treasury. What an operator has added stays. The lock is held.
func (s *Store) writePolicy(n names) error {
	was, err := regular.Read(s.PolicyPath(), maxPolicy)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_, added, _ := strings.Cut(string(was), yours+"\n")
	text := policyOf(n, added)
	if text == "" || bytes.Equal(was, []byte(text)) {
		return nil
	}
	return writeFile(s.PolicyPath(), []byte(text))
}

// policyOf is the text of the policy; "" where nothing is signed.
func policyOf(n names, added string) string {
	var logs, witnesses strings.Builder
	var hubs, all []string
	for _, id := range slices.SortedFunc(maps.Keys(n.Names), func(a, b string) int {
		// the treasury first
		return cmp.Or(-cmp.Compare(n.Names[a].Role, n.Names[b].Role), cmp.Compare(a, b))
	}) {
		e := n.Names[id]
		for i, k := range slices.Backward(e.Notes) { // the key in use first
			name := id
			if earlier := len(e.Notes) - 1 - i; earlier > 0 {
				name = fmt.Sprintf("%s.%d", id, earlier)
			}
			fmt.Fprintf(&logs, "log %s\n", k.Log)
			fmt.Fprintf(&witnesses, "witness %s %s\n", name, k.Witness)
			if e.Role == bus.RoleHub {
				hubs = append(hubs, name)
			} else {
				all = append(all, name)
			}
		}
	}
	if logs.Len() == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Whose checkpoints count in this market, and who cosigns them: the treasury's any hub, a\n" +
		"# hub's the treasury; what a journal's own keeper cosigns does not count (C2SP tlog-policy).\n")
	b.WriteString(logs.String() + witnesses.String())
	if len(hubs) > 0 {
		fmt.Fprintf(&b, "group .hubs any %s\n", strings.Join(hubs, " "))
		all = append(all, ".hubs")
	}
	fmt.Fprintf(&b, "group .market any %s\n", strings.Join(all, " "))
	if !strings.Contains("\n"+added, "\nquorum") {
		b.WriteString("quorum .market\n")
	}
	b.WriteString(yours + "\n" + added)
	return b.String()
}
