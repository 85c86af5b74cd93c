// Package serve runs a [witness.Party] beside the writer of a journal, which never waits for it: it reads the
// journal back, signs how far it is, and keeps what was signed and cosigned.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/metrics"
	"souk/bus/regular"
	"souk/ledger/checkpoint"
	"souk/ledger/tree"
	"souk/ledger/witness"
)

// Tree is the Merkle tree of a journal, as ledger/journal makes it. For one goroutine at a time.
type Tree interface {
	witness.Tree
	// Grow reads back what was made durable since.
	Grow(stop <-chan struct{}) (tree.Head, error)
	// Recheck reads back, beside the other methods, what Grow was spared by hashes beside the log.
	Recheck(stop <-chan struct{}) error
	// Keep keeps a checkpoint of the tree as Grow has returned it, now or lately.
	Keep(note []byte) error
	Close() error
}

// Config of a Keeper.
type Config struct {
	Log, Witness string // secret keys
	Policy       string // file of the market's policy; it is read again when it changes
	State        string // file of what is cosigned, outside the journals that are
	Tree         Tree
	Last         []byte // the newest checkpoint that is kept; empty: none is
	Other        error  // what Grow returns of a journal that is not the one that was signed
	One          bool   // it speaks with one other; see [witness.Config]
	Logger       *slog.Logger
	Journal      string        // its name, for Meter
	Meter        metrics.Meter // of how far it is signed; nil: nobody collects that
}

// signAfter is how long frames wait for a checkpoint that covers them.
const signAfter = time.Second

// lookAgain is how soon the policy's file is looked at again.
const lookAgain = time.Second

// Keeper signs a journal, and is a witness of others. A nil one does neither, and has nobody wait.
type Keeper struct {
	cfg    Config
	log    *slog.Logger
	client *http.Client       // for public witnesses
	ends   context.CancelFunc // of what it has begun
	done   sync.WaitGroup
	stand  atomic.Pointer[stand]
	read   atomic.Bool   // the journal was, once: the first time may take long
	news   chan struct{} // something was written
	told   chan struct{} // something was signed

	mu     sync.Mutex
	party  *witness.Party
	other  string // origin of whom it speaks with, where that is one
	policy []byte
	looked time.Time // when that was read
	unsaid bool      // the party's state is not durable yet
	unkept []byte    // the last that was signed, as long as it cannot be kept
	lacks  string
	said   map[string]string // what was logged last, by whom it is about
	asked  map[string]*asking
}

// stand says why the journal is not led.
type stand struct {
	why   string
	waits bool
}

// New returns a keeper that has read nothing of the journal yet.
func New(cfg Config) (*Keeper, error) {
	client := &http.Client{Timeout: askWithin, // it goes where it is sent and no farther
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	k := &Keeper{cfg: cfg, client: client, news: make(chan struct{}, 1),
		told: make(chan struct{}, 1), said: map[string]string{}, asked: map[string]*asking{}}
	policy, err := regular.Read(cfg.Policy, checkpoint.MaxPolicy)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	state, err := regular.Read(cfg.State, witness.MaxState)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", cfg.State, err)
	}
	k.party, err = witness.New(witness.Config{Log: cfg.Log, Witness: cfg.Witness, Policy: policy,
		Tree: cfg.Tree, State: state, Last: cfg.Last, One: cfg.One})
	if err != nil {
		return nil, fmt.Errorf("checkpoints (policy %s, state %s): %w", cfg.Policy, cfg.State, err)
	}
	k.log = cfg.Logger.With("journal", k.party.Origin) // one process may have several
	if k.policy = policy; cfg.One {
		k.other = k.party.Sees()
	}
	k.stand.Store(&stand{"the journal is being read back, as it is to be signed", true})
	return k, nil
}

// Begin signs what is written from now on, until Close.
func (k *Keeper) Begin() {
	ctx, end := context.WithCancel(context.Background())
	k.ends = end
	k.observe()
	k.done.Go(func() {
		k.mu.Lock()
		k.sign(ctx.Done())
		k.mu.Unlock()
		k.run(ctx)
	})
	k.done.Go(func() { k.recheck(ctx) })
	k.done.Go(func() { k.submit(ctx) })
}

// Close signs what nothing covers yet, and ends. The journal has its last frame by then, and is open still.
func (k *Keeper) Close() error {
	if k == nil {
		return nil
	}
	if k.ends != nil {
		k.ends()
		k.done.Wait()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read.Load() { // else it never was led
		k.sign(nil)
	}
	k.save()
	return k.cfg.Tree.Close()
}

// Wrote has what was appended signed soon.
func (k *Keeper) Wrote() {
	if k == nil {
		return
	}
	select {
	case k.news <- struct{}{}:
	default:
	}
}

func (k *Keeper) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	due := false
	for {
		select {
		case <-k.news:
			if !due {
				due = true
				timer.Reset(signAfter)
			}
		case <-timer.C:
			due = false
			k.mu.Lock()
			k.sign(ctx.Done())
			k.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// sign reads back what was written, and signs it. The lock is held.
func (k *Keeper) sign(stop <-chan struct{}) {
	head, err := k.cfg.Tree.Grow(stop)
	var n []byte
	switch {
	case err == nil:
		k.read.Store(true)
		n, err = k.party.Sign(head)
	case k.cfg.Other != nil && errors.Is(err, k.cfg.Other):
		k.read.Store(true)
		k.party.IsOther(err.Error())
		err = nil
	}
	if n != nil {
		k.unkept = n
	}
	if k.unkept != nil && err == nil {
		if err = k.cfg.Tree.Keep(k.unkept); err == nil {
			k.unkept = nil
			select {
			case k.told <- struct{}{}:
			default:
			}
		}
	}
	if k.lacks = ""; err != nil {
		k.lacks = err.Error()
	}
	if k.note("", k.lacks) {
		k.log.Error("the journal is not signed", "err", k.lacks)
	}
	k.stands()
}

// recheck has a journal not be led any more that was changed before the checkpoint from which it is read.
func (k *Keeper) recheck(ctx context.Context) {
	err := k.cfg.Tree.Recheck(ctx.Done())
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && errors.Is(err, k.cfg.Other) {
		k.party.IsOther(err.Error())
		k.stands()
	} else if err != nil && ctx.Err() == nil {
		k.log.Error("the journal is not compared with its checkpoints", "err", err)
	}
}

// stands notes why the journal is not led. The lock is held.
func (k *Keeper) stands() {
	now := &stand{k.party.Doubt, false}
	if k.note("doubt", now.why) {
		k.log.Error("the journal is not led any more", "why", now.why)
	}
	switch {
	case now.why != "":
	case !k.read.Load():
		now = &stand{"the journal could not be read back: " + k.lacks, true}
	default:
		now = &stand{k.party.Waits(), true}
	}
	k.stand.Store(now)
}

// note reports whether something is to be logged: it was not said before. The lock is held.
func (k *Keeper) note(about, text string) bool {
	was := k.said[about]
	k.said[about] = text
	return text != "" && text != was
}

// Say returns what the keeper of another journal of the market is told; nil where that is nothing. What is
// said to be cosigned is durable.
func (k *Keeper) Say(journal string) *bus.Attest {
	if k == nil || !k.read.Load() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sign(nil); !k.save() {
		return nil
	}
	peer := k.party.Market + journal
	if k.cfg.One {
		peer = k.other
	}
	a, err := k.party.Say(peer)
	if k.note("say "+journal, text(err)) {
		k.log.Error("a checkpoint is not proven to go on the one before", "to", journal, "err", err)
	}
	return a
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// save makes durable what was cosigned. The lock is held.
func (k *Keeper) save() bool {
	if !k.unsaid {
		return true
	}
	err := regular.Replace(k.cfg.State, k.party.State())
	k.unsaid = err != nil
	if k.note("state", text(err)) {
		k.log.Error("nothing is cosigned: what was cosigned cannot be kept", "file", k.cfg.State, "err", err)
	}
	return err == nil
}

// Hear takes in what the keeper of another journal of the market says; who carries it knows that it is he.
// One that speaks with one other takes his word for his name.
func (k *Keeper) Hear(journal string, a *bus.Attest) {
	if k == nil || a == nil || !k.read.Load() {
		return // it is asked again
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.refresh(now)
	peer := k.party.Market + journal
	if k.cfg.One {
		peer, k.other = a.Of, a.Of
	}
	o, err := k.party.Hear(peer, a, now)
	if k.unsaid = k.unsaid || o.State; o.Keep != nil {
		if err := k.cfg.Tree.Keep(o.Keep); k.note("keep", text(err)) {
			k.log.Error("a checkpoint that was cosigned is not kept", "by", peer, "err", err)
		}
	}
	if k.note("hear "+journal, text(err)) {
		k.log.Warn("what another says of checkpoints is not believed", "who", peer, "err", err)
	}
	if k.note("why "+journal, a.Why) {
		k.log.Warn("the journal's last checkpoint is not cosigned", "by", peer, "why", a.Why)
	}
	k.stands()
}

// refresh reads the policy again where it changed. The lock is held.
func (k *Keeper) refresh(now time.Time) {
	if now.Sub(k.looked) < lookAgain {
		return
	}
	k.looked = now
	policy, err := regular.Read(k.cfg.Policy, checkpoint.MaxPolicy)
	if err == nil && string(policy) != string(k.policy) {
		if err = k.party.SetPolicy(policy); err == nil {
			k.policy = policy
		}
	}
	if k.note("policy", text(err)) {
		k.log.Error("the policy's file is not taken; the one before stays", "file", k.cfg.Policy, "err", err)
	}
}

// Stands returns why the journal is not led: it is not the one that was signed, or, if waits, a witness is to
// say first what it knows of it. "": it may be led.
func (k *Keeper) Stands() (why string, waits bool) {
	if k == nil {
		return "", false
	}
	s := k.stand.Load()
	return s.why, s.waits
}

// Alone has the journal be led without the word of a witness.
func (k *Keeper) Alone() {
	if k != nil {
		k.mu.Lock()
		k.party.Alone()
		k.stands()
		k.mu.Unlock()
	}
}

// Unready says which journals were signed as two, by their checkpoints, or are not proven to be one; "": none
// that this one is a witness of.
func (k *Keeper) Unready() string {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.party.Amiss()
	if len(all) == 0 {
		return ""
	}
	more := ""
	if len(all) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(all)-1)
	}
	return fmt.Sprintf("%s%s: they are in %s", all[0], more, k.cfg.State)
}

// what an operator sees of how a journal is signed; label journal is its name
var (
	families = metrics.Set{Labels: []string{"journal"}}

	signedRecords = families.Gauge("souk_checkpoint_signed_records", "Records that the journal's newest "+
		"checkpoint covers.")
	cosignedRecords = families.Gauge("souk_checkpoint_cosigned_records", "Of these, those that the witness that is "+
		"farthest has cosigned.")
	uncosigned = families.Gauge("souk_checkpoint_uncosigned_seconds", "For how long something that is signed has not "+
		"been cosigned; 0: all is. More than a minute is undecided to who audits.")
	contradicted = families.Gauge("souk_checkpoint_contradicted", "1 where a journal that this process is a witness of was "+
		"signed twice in one place, or by its own proof does not go on what was signed, else 0.")
)

// observe has a collector read them. While the journal is read back, which may take long, it has the last.
func (k *Keeper) observe() {
	var signed, cosigned int64
	var since time.Time // that not all is cosigned, or that some more was
	amiss := false
	families.Observe(k.cfg.Meter, func(say metrics.Say) {
		if k.mu.TryLock() {
			before := cosigned
			signed, cosigned = k.party.Progress()
			amiss = len(k.party.Amiss()) > 0
			k.mu.Unlock()
			switch {
			case cosigned >= signed:
				since = time.Time{}
			case since.IsZero() || cosigned > before:
				since = time.Now()
			}
		}
		say(signedRecords, float64(signed))
		say(cosignedRecords, float64(cosigned))
		behind := 0.0
		if !since.IsZero() {
			behind = time.Since(since).Seconds()
		}
		say(uncosigned, behind)
		say(contradicted, metrics.Bool(amiss))
	}, k.cfg.Journal)
}
