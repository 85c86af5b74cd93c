package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/bus/follow"
	"souk/bus/openai"
)

// keyring has the keys of the registry, and what each of them has in hand here.
type keyring struct {
	c   Config
	log *slog.Logger

	mu    sync.Mutex
	keys  map[string]*key
	wrong *bounded.Cache[string, string, bus.Bucket] // wrong keys, by address

	looks chan struct{} // full while as many keys are looked up as may be at once
}

// key is an API key with its limits, which outlive changes of what the registry says.
type key struct {
	*bus.APIKey // never changed: another takes its place
	rate        bus.Bucket
	counts      bus.Bucket // bytes whose tokens are counted for nothing
	open        int
	coming      atomic.Int64 // bytes that its requests take until they are answers
}

// take reports whether one more may pass where so many may in a second, and as many at once, and else how
// long to wait.
func take(b *bus.Bucket, now time.Time, rate float64) (wait time.Duration, ok bool) {
	return b.Take(now, bus.Rate{Each: rate, Burst: max(1, rate)}, 1, 0)
}

// maxAddresses bounds how many addresses are remembered for their wrong keys.
const maxAddresses = 4096

func newKeyring(c Config, log *slog.Logger) *keyring {
	return &keyring{c: c, log: log, keys: map[string]*key{},
		wrong: bounded.New[string, string, bus.Bucket](maxAddresses, 0), looks: make(chan struct{}, maxLooks)}
}

// set takes in a key's entry of the registry. One that cannot be read counts as gone.
func (r *keyring) set(kv bus.KV) {
	id := bus.LastElement(kv.Key)
	var k bus.APIKey
	err := bus.DecodeEntry(kv.Value, &k)
	if err == nil && k.ID != id {
		err = fmt.Errorf("it says that it is key %.80q", k.ID)
	}
	if err != nil {
		r.log.Warn("a key in the registry cannot be used: make it anew", "key", id, "err", err)
		r.drop(id)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.keys[id]
	if to == nil {
		to = &key{}
		r.keys[id] = to
	}
	to.APIKey = &k
}

func (r *keyring) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, id)
}

// admitted is the key that a request came with, and which of its secrets.
type admitted struct {
	*key
	hash string
}

// shown is a secret as a request brought it, and what is worked out of it.
type shown struct {
	secret, id, hash string
	whole            bool // it has an id, and is well-formed
}

func show(secret string) *shown {
	p := &shown{secret: secret, hash: bus.HashKey(secret)}
	p.id, p.whole = bus.KeyID(secret)
	return p
}

// admit returns the key that a request came with. Where it came from is asked for a wrong one alone.
func (r *keyring) admit(now time.Time, p *shown, from func() string) (*key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.keys[p.id]; p.whole && k != nil && k.AdmitsHash(p.hash, now.UnixMilli()) {
		return k, nil
	}
	address := from()
	b, _ := r.wrong.Add(address, address)
	if wait, ok := take(b, now, float64(r.c.WrongKeys)); !ok {
		return nil, again(openai.CodeRateLimited, wait, "too many wrong keys come from this address: wait, "+
			"and check the key")
	}
	why := "the key is not known here: it has expired, was revoked or belongs to another market"
	switch {
	case p.secret == "":
		why = "no key: send the header Authorization: Bearer " + bus.KeyPrefix + "..."
	case !strings.HasPrefix(p.secret, bus.KeyPrefix): // of another server, as in OPENAI_API_KEY
		why = "that is no key of this market: its keys begin with " + bus.KeyPrefix +
			", and `souk key new` makes them"
	case !p.whole:
		why = "that is no key of this market: a key is whole only with its last character"
	}
	return nil, &bus.Error{Code: openai.CodeInvalidKey, Message: why}
}

const (
	maxLooks = 4           // keys that are looked up in the registry at once
	late     = time.Second // how long changes of the registry may take to come here
)

// await returns the key of a secret that was refused because it was made a moment ago: the registry has it,
// and its change is not here yet. It is nil for every other secret. Only what comes by that change is
// believed: a revocation may come right behind it.
func (r *keyring) await(ctx context.Context, registry bus.Registry, p *shown) *key {
	select {
	case r.looks <- struct{}{}:
		defer func() { <-r.looks }()
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	admits := func(k *bus.APIKey) bool { return k.AdmitsHash(p.hash, time.Now().UnixMilli()) }
	var k bus.APIKey
	kv, err := follow.Get(ctx, registry, bus.APIKeyKey(p.id))
	if err != nil || kv.Value == nil || bus.DecodeEntry(kv.Value, &k) != nil || !admits(&k) {
		return nil
	}
	look := time.Tick(5 * time.Millisecond)
	for {
		r.mu.Lock()
		k := r.keys[p.id]
		good := k != nil && admits(k.APIKey)
		r.mu.Unlock()
		if good {
			return k
		}
		select {
		case <-look:
		case <-ctx.Done():
			return nil
		}
	}
}

// begin counts an answer as open, if the key may have one more.
func (r *keyring) begin(now time.Time, k *key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.Rate > 0 {
		if wait, ok := take(&k.rate, now, k.Rate); !ok {
			return again(openai.CodeRateLimited, wait, "the key may ask %v times a second: wait", k.Rate)
		}
	}
	most := r.c.MaxOpenKey
	if k.Open > 0 {
		most = k.Open
	}
	if k.open >= most {
		return again(bus.CodeTooManyTasks, time.Second, "%d answers of this key are open, its limit here: "+
			"wait for one to end", k.open)
	}
	k.open++
	return nil
}

// countRate is the bytes a second of a key whose tokens are counted, beyond as many as one body may have: at
// most a tenth of a processor.
const countRate = 4 << 20

// counted counts a body of so many bytes whose tokens are to be counted, if the key may have that now.
func (r *keyring) counted(now time.Time, k *key, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait, ok := k.counts.Take(now, bus.Rate{Each: countRate, Burst: bus.MaxLarge}, float64(n), 0); !ok {
		return again(openai.CodeRateLimited, wait, "tokens are counted of %d bytes a second for a key: wait",
			countRate)
	}
	return nil
}

// good reports whether a secret that was admitted is good still: it may have been revoked or replaced since.
func (r *keyring) good(now time.Time, k admitted) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[k.ID] == k.key && k.AdmitsHash(k.hash, now.UnixMilli())
}

func (r *keyring) end(k *key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k.open--
}

// about returns a key's entry as of now: it may change at any time.
func (r *keyring) about(k *key) *bus.APIKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return k.APIKey
}
