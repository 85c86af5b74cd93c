package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/membus"
	"souk/bus/natsauth"
	"souk/market"
)

// Who has laid a file or a link where a key is about to be written does not get to read the key.
func TestWriteKeyTakesNoFileThatIsThere(t *testing.T) {
	dir := t.TempDir()
	path, mine := filepath.Join(dir, "key"), filepath.Join(dir, "mine")
	for name, lay := range map[string]func() error{
		"link": func() error { return os.Symlink(mine, path+".new") },
		"file": func() error { return os.WriteFile(path+".new", nil, 0o666) },
	} {
		if err := lay(); err != nil {
			t.Fatal(err)
		}
		open, _ := os.Open(path + ".new")
		if err := WriteKey(path, "secret"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(mine); err == nil {
			t.Errorf("%s: the key is in a file of somebody else", name)
		}
		if open != nil {
			if n, _ := open.Read(make([]byte, 1)); n != 0 {
				t.Errorf("%s: who had opened it reads the key", name)
			}
			open.Close()
		}
		if secret, err := ReadKey(path); err != nil || secret != "secret" {
			t.Errorf("%s: %q, %v", name, secret, err)
		}
	}
}

// A first key that others can read is refused at the start, as creds are, and none of it is shown. Its owner
// closes it, or gives the key another secret, in a file that is closed.
func TestFirstKeyThatOthersCanRead(t *testing.T) {
	m := &Market{dir: &Dir{Path: t.TempDir()}}
	r := membus.New(1).Registry()
	if err := m.firstKey(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	secret, err := ReadKey(m.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o644, 0o602} {
		if err := os.Chmod(m.KeyFile, mode); err != nil {
			t.Fatal(err)
		}
		err := m.firstKey(t.Context(), r)
		if !errors.Is(err, natsauth.ErrOpen) || !strings.Contains(err.Error(), m.KeyFile) ||
			!strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), secret) {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o600} { // a group may be let in, as with creds
		if err := os.Chmod(m.KeyFile, mode); err != nil {
			t.Fatal(err)
		}
		if err := m.firstKey(t.Context(), r); err != nil {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if again, err := ReadKey(m.KeyFile); err != nil || again != secret {
		t.Errorf("the key is another: %v", err)
	}
}

// meanwhile is a registry in which something happens between a look and the change that is made of it.
type meanwhile struct {
	bus.Registry
	do func()
}

func (m *meanwhile) Get(ctx context.Context, prefix string) ([]bus.KV, error) {
	kvs, err := m.Registry.Get(ctx, prefix)
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return kvs, err
}

// A key that is revoked while its secret is replaced is gone, and stays so whoever comes first; of two new
// secrets at the same moment one is the key's.
func TestRotateAndRevokeAtOnce(t *testing.T) {
	ctx := t.Context()
	there := membus.New(1).Registry()
	list := func() (ids string) {
		keys, err := Keys(ctx, there)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			ids += k.ID + " "
		}
		return ids
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := NewKey(ctx, there, nil, bus.APIKey{ID: "k1", Client: "ann"})
	must(err)
	r := &meanwhile{Registry: there, do: func() { must(RevokeKey(ctx, there, nil, "k1")) }}
	if _, err := RotateKey(ctx, r, "k1", time.Hour); !errors.Is(err, bus.ErrExists) {
		t.Errorf("a key that was revoked meanwhile gets a new secret: %v", err)
	}
	if got := list(); got != "" {
		t.Errorf("it is there: %s", got)
	}
	if err := RevokeKey(ctx, there, nil, "k1"); !errors.Is(err, ErrNoKey) {
		t.Errorf("revoked twice: %v", err)
	}

	_, err = NewKey(ctx, there, nil, bus.APIKey{ID: "k2", Client: "ann"})
	must(err)
	var won string
	r.do = func() { won, err = RotateKey(ctx, there, "k2", time.Hour); must(err) }
	if _, err := RotateKey(ctx, r, "k2", time.Hour); !errors.Is(err, bus.ErrExists) {
		t.Errorf("two new secrets at once: %v", err)
	}
	keys, err := Keys(ctx, there)
	must(err)
	if len(keys) != 1 || !keys[0].Admits(won, time.Now().UnixMilli()) {
		t.Errorf("who was told that it has the new secret has it not: %+v", keys)
	}
	r.do = func() { _, err = RotateKey(ctx, there, "k2", time.Hour); must(err) }
	must(RevokeKey(ctx, r, nil, "k2"))
	if got := list(); got != "" {
		t.Errorf("revoked while it got a new secret it is there: %s", got)
	}
	if _, err := NewKey(ctx, there, nil, bus.APIKey{ID: "k3", Client: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, err := NewKey(ctx, there, nil, bus.APIKey{ID: "k3", Client: "eve"}); !errors.Is(err,
		bus.ErrExists) {
		t.Errorf("a key under the id of another: %v", err)
	}
}

// A key with a budget is made when the treasury knows of it, and revoked at once, though the treasury may be
// away: then it stays listed until the rest has gone back.
func TestTheKeyOfABudget(t *testing.T) {
	ctx, r := t.Context(), membus.New(1).Registry()
	var said []string
	away := false
	bank := func(_ context.Context, of, client, every string, amount market.Credits) error {
		if away {
			return bus.ErrNoResponders
		}
		said = append(said, fmt.Sprint(of, " ", client, " ", every, " ", amount))
		return nil
	}
	k := bus.APIKey{ID: "k1", Budget: &bus.KeyBudget{Of: "ann", Amount: 5 * market.Credit, Every: "month"}}
	away = true
	if _, err := NewKey(ctx, r, bank, k); !errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("made without the treasury: %v", err)
	}
	away = false
	long := k
	long.Budget = &bus.KeyBudget{Of: strings.Repeat("a", 63), Amount: 1}
	if _, err := NewKey(ctx, r, bank, long); err == nil || len(said) > 0 {
		t.Errorf("a client with too long a name: %v, %v", err, said)
	}
	secret, err := NewKey(ctx, r, bank, k)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKey(ctx, r, bank, k); !errors.Is(err, bus.ErrExists) {
		t.Errorf("made twice: %v", err)
	}
	keys, err := Keys(ctx, r)
	if err != nil || len(keys) != 1 || keys[0].Client != "ann-k1" || !keys[0].Admits(secret, 2) {
		t.Fatalf("%+v, %v", keys, err)
	}
	away = true
	if err := RevokeKey(ctx, r, bank, "k1"); !errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("revoked without the treasury: %v", err)
	}
	keys, err = Keys(ctx, r)
	if err != nil || len(keys) != 1 || keys[0].Admits(secret, time.Now().UnixMilli()) {
		t.Errorf("it is good still: %+v, %v", keys, err)
	}
	away = false
	if err := RevokeKey(ctx, r, bank, "k1"); err != nil {
		t.Error(err)
	}
	if keys, err = Keys(ctx, r); err != nil || len(keys) != 0 {
		t.Errorf("it is listed still: %+v, %v", keys, err)
	}
	if want := []string{"ann ann-k1 month 5", "ann ann-k1  0"}; !slices.Equal(said, want) {
		t.Errorf("the treasury heard %q, want %q", said, want)
	}
}

// A key whose time is over gets no new secret: that would be shown as a key, and be good for nothing.
func TestRotateAnExpiredKey(t *testing.T) {
	ctx, r := t.Context(), membus.New(1).Registry()
	if _, err := NewKey(ctx, r, nil, bus.APIKey{ID: "k1", Client: "ann",
		ExpiresMS: time.Now().Add(-time.Second).UnixMilli()}); err != nil {
		t.Fatal(err)
	}
	_, err := RotateKey(ctx, r, "k1", time.Hour)
	if err == nil || !strings.Contains(err.Error(), "souk key new") {
		t.Errorf("%v", err)
	}
}

// Whatever breaks off while a key with a budget is made, no money lies with a client of which no key is
// listed: either nothing is left, or there is a key that is good for nothing, and to revoke it brings the
// money back.
func TestAKeyOfABudgetThatIsHalfMade(t *testing.T) {
	ended := func(context.Context, string, string, string, market.Credits) error { return nil }
	for _, c := range []struct {
		name string
		bank func(stop func(), cut *membus.Registry, set bool) error // what comes of a question
		list int
	}{
		{"interrupted once the treasury has heard", func(stop func(), _ *membus.Registry, set bool) error {
			if set {
				stop()
			}
			return nil
		}, 0},
		{"the treasury heard, and its answer is lost", func(_ func(), _ *membus.Registry, set bool) error {
			if set {
				return context.DeadlineExceeded
			}
			return nil
		}, 0},
		{"the treasury heard, and is away", func(func(), *membus.Registry, bool) error {
			return context.DeadlineExceeded
		}, 1},
		{"the registry is away", func(_ func(), cut *membus.Registry, set bool) error {
			cut.Away(set)
			return nil
		}, 1},
		{"revoked before the treasury has heard of it", func(_ func(), cut *membus.Registry, set bool) error {
			if set {
				return RevokeKey(t.Context(), cut, ended, "k1")
			}
			return nil
		}, 0},
		{"refused", func(func(), *membus.Registry, bool) error {
			return &bus.Error{Code: bus.CodeInsufficientFunds, Message: "none"}
		}, 0},
	} {
		ctx, stop := context.WithCancel(t.Context())
		cut := membus.New(1).Registry()
		r := heeding{cut}
		set := false
		bank := func(ctx context.Context, _, _, _ string, amount market.Credits) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := c.bank(stop, cut, amount > 0)
			var refused *bus.Error
			if !errors.As(err, &refused) && (amount > 0 || err == nil) {
				set = amount > 0
			}
			return err
		}
		k := bus.APIKey{ID: "k1", Budget: &bus.KeyBudget{Of: "ann", Amount: market.Credit}}
		if _, err := NewKey(ctx, r, bank, k); err == nil {
			t.Errorf("%s: it is made", c.name)
		}
		stop()
		cut.Away(false)
		keys, err := Keys(t.Context(), r)
		if err != nil || len(keys) != c.list || len(keys) == 0 && set {
			t.Errorf("%s: %d keys are listed, the budget is set: %v, %v", c.name, len(keys), set, err)
		}
		for _, k := range keys {
			if err := RevokeKey(t.Context(), r, ended, k.ID); err != nil || !k.Expired(2) {
				t.Errorf("%s: good still: %v, revoked: %v", c.name, !k.Expired(2), err)
			}
		}
	}
}

// A key that was written, though the command was interrupted before it heard so, is not listed for ever.
func TestAKeyOfABudgetIsWrittenUnheard(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	there := membus.New(1).Registry()
	bank := func(context.Context, string, string, string, market.Credits) error {
		t.Error("the treasury is asked")
		return nil
	}
	k := bus.APIKey{ID: "k1", Budget: &bus.KeyBudget{Of: "ann", Amount: market.Credit}}
	if _, err := NewKey(ctx, heeding{unheard{there, stop}}, bank, k); !errors.Is(err, context.Canceled) {
		t.Errorf("made: %v", err)
	}
	if keys, err := Keys(t.Context(), there); err != nil || len(keys) != 0 {
		t.Errorf("it is listed: %+v, %v", keys, err)
	}
}

// unheard is a registry whose first answer to a change is lost, as whoever asked is interrupted.
type unheard struct {
	bus.Registry
	stop func()
}

func (u unheard) Swap(ctx context.Context, key string, rev int64, value []byte) error {
	err := u.Registry.Swap(ctx, key, rev, value)
	if u.stop(); rev == 0 {
		return context.Canceled
	}
	return err
}

// heeding is a registry that heeds contexts, as those over a network do.
type heeding struct{ bus.Registry }

func (h heeding) Swap(ctx context.Context, key string, rev int64, value []byte) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return h.Registry.Swap(ctx, key, rev, value)
}
