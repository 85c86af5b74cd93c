package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"souk/bus/metrics"
	"souk/bus/natsauth"
	"souk/ledger/journal"
	keeper "souk/ledger/witness/serve"
)

// Checkpoints says by which keys a journal is signed, and whose signatures count.
type Checkpoints struct {
	// files of note keys and of the market's policy, as souk auth makes them; empty: those beside the creds,
	// and where there are none, nothing is signed
	Key    string `yaml:"key"`
	Policy string `yaml:"policy"`
}

// CheckpointsExample is the section as --help shows it.
const CheckpointsExample = `# checkpoints:                    # keys by which journals are signed; default: what lies beside the creds
#   key: /etc/souk/NAME.key       # DATA/auth/notes/NAME.key of souk auth
#   policy: /etc/souk/policy      # DATA/auth/policy: whose signatures count
`

// Validate wants both files, or neither.
func (c Checkpoints) Validate() error {
	if (c.Key == "") != (c.Policy == "") {
		return errors.New("checkpoints.key: it goes with checkpoints.policy: name both files, or neither")
	}
	return nil
}

// Keeper signs a journal, and is a witness of others, until it is closed, before the journal is; nil where
// there are no keys. creds is the file by which the process is known, state the file of what it has
// cosigned. one says that it speaks with one other keeper of a journal.
func (c Checkpoints) Keeper(j *journal.Journal, name, creds, state string, one bool,
	log *slog.Logger, meter metrics.Meter) (*keeper.Keeper, error) {
	if c == (Checkpoints{}) {
		c.Key, c.Policy = natsauth.NotesBeside(creds)
	}
	if c == (Checkpoints{}) {
		log.Warn("the journal is not signed, and whoever can write it can change what was: give the process "+
			"DATA/auth/notes/NAME.key and DATA/auth/policy, which souk auth add makes, beside its creds or by "+
			"checkpoints.key and checkpoints.policy", "journal", name)
		return nil, nil
	}
	keys, err := natsauth.ReadNoteKey(c.Key)
	if err != nil {
		return nil, err
	}
	of := "nobody"
	if s, err := note.NewSigner(keys.Log); err == nil {
		of = s.Name()
	}
	if !strings.HasSuffix(of, "/"+name) {
		return nil, fmt.Errorf("note key %s: it is not of journal %s, but of %s", c.Key, name, of)
	}
	t, err := j.Tree()
	if err != nil {
		return nil, err
	}
	cfg := keeper.Config{Log: keys.Log, Witness: keys.Witness, Policy: c.Policy, State: state, Tree: t,
		Other: journal.ErrOther, One: one, Logger: log, Journal: name, Meter: meter}
	if kept := t.Kept; len(kept) > 0 {
		cfg.Last = kept[len(kept)-1].Note
	}
	k, err := keeper.New(cfg)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	k.Begin()
	return k, nil
}
