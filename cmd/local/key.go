package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/natsauth"
	"souk/bus/regular"
	"souk/market"
)

// FirstClient has money and a key from the start, where the configuration names it.
const FirstClient = "dev"

// KeyMaxPrice is the default bound on the price of a new key's request, against runaways. Tasks without terms
// cost at most 42 times the card (admission.Terms), so it is above the most that tasks of a card of two cents
// can cost.
const KeyMaxPrice = market.Credit

// Treasurer sets what of one client's money another may have, or with an amount of 0 ends that.
type Treasurer func(ctx context.Context, of, client, every string, amount market.Credits) error

// NewKey makes a key of a client and writes what is to be known of it into the registry. The key itself is
// returned and nowhere kept. A key with a budget is a client of its own; the treasury hears of it first.
func NewKey(ctx context.Context, r bus.Registry, bank Treasurer, k bus.APIKey) (secret string, err error) {
	if k.ID == "" {
		k.ID = newKeyID()
	}
	secret = randomSecret(k.ID)
	k.Hashes = []bus.KeyHash{{SHA256: bus.HashKey(secret)}}
	if k.Budget == nil {
		return secret, putKey(ctx, r, &k, 0)
	}
	k.Client = bus.BudgetClient(k.Budget.Of, k.ID)
	if err := putBudget(ctx, r, bank, k); err != nil {
		return "", fmt.Errorf("no key is made: %w", err)
	}
	return secret, nil
}

// newKeyID is an id for a key.
func newKeyID() string { return strings.ToLower(rand.Text()[:10]) }

// undoWithin bounds how long a key that could not be made is taken away.
const undoWithin = 5 * time.Second

// putBudget writes a key with a budget. Until the treasury has said that the budget is set the key is good
// for nothing, but listed: wherever this breaks off, to revoke it brings the money back.
func putBudget(ctx context.Context, r bus.Registry, bank Treasurer, k bus.APIKey) error {
	expires := k.ExpiresMS
	k.ExpiresMS = 1
	unasked := func(context.Context, string, string, string, market.Credits) error { return nil }
	err := putKey(ctx, r, &k, 0)
	switch {
	case errors.Is(err, bus.ErrExists):
		return err
	case err != nil: // it may be there all the same; nothing was asked of the treasury
		return errors.Join(err, takeAway(ctx, r, unasked, &k))
	}
	if err = bank(ctx, k.Budget.Of, k.Client, k.Budget.Every, k.Budget.Amount); err == nil {
		var kv bus.KV
		if kv, err = getKey(ctx, r, k.ID); err == nil {
			k.ExpiresMS = expires
			err = putKey(ctx, r, &k, kv.Rev)
		}
	}
	if err == nil {
		return nil
	}
	if refusedBudget(err) {
		bank = unasked
	}
	return errors.Join(err, takeAway(ctx, r, bank, &k))
}

// takeAway undoes a key with a budget that was half made, whether or not ctx has ended.
func takeAway(ctx context.Context, r bus.Registry, bank Treasurer, k *bus.APIKey) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
	defer cancel()
	err := RevokeKey(ctx, r, bank, k.ID)
	if errors.Is(err, ErrNoKey) { // it never was, or somebody revoked it before the treasury heard of it
		err = bank(ctx, k.Budget.Of, k.Client, "", 0)
	}
	if err != nil {
		err = fmt.Errorf("key %s may be listed: once the market is well, `souk key revoke %s` brings back what "+
			"it may have (%w)", k.ID, k.ID, err)
	}
	return err
}

// refusedBudget reports whether the treasury has said, or cannot have heard, that a budget is to be set.
func refusedBudget(err error) bool {
	var refused *bus.Error
	code := bus.CodeOf(err)
	return errors.Is(err, bus.ErrNoResponders) || errors.Is(err, ErrUnmade) || errors.As(err, &refused) &&
		code != bus.CodeAllotmentPending && code != bus.CodeUnavailable && code != bus.CodeUnknown
}

func randomSecret(id string) string {
	var random [32]byte
	rand.Read(random[:]) // it never fails: see crypto/rand
	return bus.NewSecret(id, random)
}

// putKey writes a key that is as it was at a revision.
func putKey(ctx context.Context, r bus.Registry, k *bus.APIKey, rev int64) error {
	value, err := bus.EncodeEntry(k)
	if err != nil {
		return err
	}
	return changed(k.ID, r.Swap(ctx, bus.APIKeyKey(k.ID), rev, value))
}

// changed says what it means that a key is not as it was.
func changed(id string, err error) error {
	if errors.Is(err, bus.ErrExists) {
		return fmt.Errorf("key %s: somebody made, changed or revoked it just now, and nothing was done; look "+
			"with `souk key list` (%w)", id, err)
	}
	return err
}

// Keys lists the keys of the registry, by id. One that cannot be read has its id alone.
func Keys(ctx context.Context, r bus.Registry) (keys []bus.APIKey, err error) {
	all, err := r.Get(ctx, bus.KeysPrefix)
	for _, kv := range all {
		var k bus.APIKey
		if bus.DecodeEntry(kv.Value, &k) != nil {
			k = bus.APIKey{ID: bus.LastElement(kv.Key)}
		}
		keys = append(keys, k)
	}
	return keys, err
}

// ErrNoKey marks an id that no key of the registry has.
var ErrNoKey = errors.New("there is no such key")

// RotateKey gives a key a new secret. The one before is good for some time yet; one before that is not.
func RotateKey(ctx context.Context, r bus.Registry, id string, keep time.Duration) (secret string,
	err error) {
	kv, err := getKey(ctx, r, id)
	if err != nil {
		return "", err
	}
	var k bus.APIKey
	if err := bus.DecodeEntry(kv.Value, &k); err != nil {
		return "", fmt.Errorf("key %s: %w", id, err)
	}
	now := time.Now()
	if k.Expired(now.UnixMilli()) {
		return "", fmt.Errorf("key %s: its time is over, and a new secret would be good for nothing: make "+
			"another key by `souk key new`", id)
	}
	secret = randomSecret(id)
	k.Rotate(secret, max(1, now.Add(keep).UnixMilli()))
	return secret, putKey(ctx, r, &k, kv.Rev)
}

// getKey finds a key's entry.
func getKey(ctx context.Context, r bus.Registry, id string) (bus.KV, error) {
	if err := bus.CheckID("key", id); err != nil {
		return bus.KV{}, err
	}
	kv, err := follow.Get(ctx, r, bus.APIKeyKey(id))
	if err == nil && kv.Value == nil {
		err = fmt.Errorf("key %s: %w; `souk key list` lists them", id, ErrNoKey)
	}
	return kv, err
}

// RevokeKey takes a key away. One that is changed meanwhile is taken away all the same: a key that is to go
// is not to live on under a new secret. Of one with a budget the rest goes back; until the treasury has heard
// so, the key stays listed, and is good for nothing.
func RevokeKey(ctx context.Context, r bus.Registry, bank Treasurer, id string) error {
	for {
		kv, err := getKey(ctx, r, id)
		if err != nil {
			return err
		}
		var k bus.APIKey
		if bus.DecodeEntry(kv.Value, &k) != nil || k.Budget == nil {
			if err = r.Swap(ctx, kv.Key, kv.Rev, nil); errors.Is(err, bus.ErrExists) {
				continue
			}
			return err
		}
		if k.ExpiresMS != 1 {
			k.ExpiresMS = 1
			if err := putKey(ctx, r, &k, kv.Rev); err != nil && !errors.Is(err, bus.ErrExists) {
				return err
			}
			continue
		}
		err = bank(ctx, k.Budget.Of, k.Client, "", 0)
		if err != nil && bus.CodeOf(err) != bus.CodeUnknownClient { // the treasury never heard of it
			return fmt.Errorf("key %s is good for nothing any more, but the rest of its budget is not back: "+
				"revoke it once more (%w)", id, err)
		}
		if _, err := LeaveGroup(ctx, r, k.Client); err != nil { // there is no such client any more
			return err
		}
		if err := r.Swap(ctx, kv.Key, kv.Rev, nil); !errors.Is(err, bus.ErrExists) {
			return err
		}
	}
}

// WriteKey keeps a key in a file for its owner's eyes alone, whole or not at all.
func WriteKey(path, secret string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return regular.Replace(path, []byte(secret+"\n"))
}

// maxKey bounds the file of a key, in bytes.
const maxKey = 4 << 10

// ReadKey reads a file that WriteKey wrote.
func ReadKey(path string) (string, error) {
	b, err := regular.Read(path, maxKey)
	return strings.TrimSpace(string(b)), err
}

// firstKey makes the first client's key, unless the one in its file is good. A file that others can read is
// refused, since they could have taken it.
func (m *Market) firstKey(ctx context.Context, r bus.Registry) error {
	m.KeyFile = m.dir.Key(FirstClient)
	if err := regular.Check(m.KeyFile); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if info, err := os.Stat(m.KeyFile); err == nil && info.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("key %s: %w (mode %v): chmod 600 it; if they may have read it, have `souk key rotate` "+
			"give it a new secret, with --keep 0s and --file %s", m.KeyFile, natsauth.ErrOpen,
			info.Mode().Perm(), m.KeyFile)
	}
	if secret, err := ReadKey(m.KeyFile); err == nil {
		keys, err := Keys(ctx, r)
		if err != nil {
			return err
		}
		id, _ := bus.KeyID(secret)
		for _, k := range keys {
			if k.ID == id && k.Client == FirstClient && k.Admits(secret, time.Now().UnixMilli()) {
				return nil
			}
		}
	}
	most := KeyMaxPrice
	secret, err := NewKey(ctx, r, nil, bus.APIKey{Client: FirstClient, MaxPrice: &most})
	if err != nil {
		return err
	}
	return WriteKey(m.KeyFile, secret)
}
