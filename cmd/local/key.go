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
)

// FirstClient has money and a key from the start, where the configuration names it.
const FirstClient = "dev"

// NewKey makes a key of a client and writes what is to be known of it into the registry. The key itself is
// returned and nowhere kept.
func NewKey(ctx context.Context, r bus.Registry, k bus.APIKey) (secret string, err error) {
	if k.ID == "" {
		k.ID = strings.ToLower(rand.Text()[:10])
	}
	secret = randomSecret(k.ID)
	k.Hashes = []bus.KeyHash{{SHA256: bus.HashKey(secret)}}
	return secret, putKey(ctx, r, &k)
}

func randomSecret(id string) string {
	var random [32]byte
	rand.Read(random[:]) // it never fails: see crypto/rand
	return bus.NewSecret(id, random)
}

func putKey(ctx context.Context, r bus.Registry, k *bus.APIKey) error {
	value, err := bus.EncodeEntry(k)
	if err != nil {
		return err
	}
	return r.Put(ctx, bus.APIKeyKey(k.ID), value)
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

// RotateKey gives a key a new secret. The one before is good for some time yet.
func RotateKey(ctx context.Context, r bus.Registry, id string, keep time.Duration) (secret string,
	err error) {
	all, err := r.Get(ctx, bus.APIKeyKey(id))
	if err != nil {
		return "", err
	}
	for _, kv := range all {
		if bus.LastElement(kv.Key) != id {
			continue
		}
		var k bus.APIKey
		if err := bus.DecodeEntry(kv.Value, &k); err != nil {
			return "", fmt.Errorf("key %s: %w", id, err)
		}
		secret = randomSecret(id)
		k.Rotate(secret, max(1, time.Now().Add(keep).UnixMilli()))
		return secret, putKey(ctx, r, &k)
	}
	return "", fmt.Errorf("key %s: %w", id, ErrNoKey)
}

// WriteKey keeps a key in a file for its owner's eyes alone, whole or not at all.
func WriteKey(path, secret string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary := path + ".new"
	// whoever made a file of that name could read the key in it
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// ReadKey reads a file that WriteKey wrote.
func ReadKey(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

// firstKey makes the first client's key, unless the one in its file is good.
func (m *Market) firstKey(ctx context.Context, r bus.Registry) error {
	m.keyFile = m.dir.Key(FirstClient)
	if secret, err := ReadKey(m.keyFile); err == nil {
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
	secret, err := NewKey(ctx, r, bus.APIKey{Client: FirstClient})
	if err != nil {
		return err
	}
	return WriteKey(m.keyFile, secret)
}
