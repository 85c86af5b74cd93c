package bus

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// plain is a prompt whose prefixes have the hashes of their texts.
func plain(hashes ...uint64) (p Prompt) {
	for i, h := range hashes {
		p.Prefixes = append(p.Prefixes, PrefixHash{100 * (i + 1), h})
		p.Digests = binary.BigEndian.AppendUint64(append(p.Digests, make([]byte, DigestBytes-8)...), h)
	}
	p.Bytes, p.Tokens = 100*len(hashes), 25*len(hashes)
	return p
}

// firstNames returns the names that a prompt's first prefix has.
func (p *Prompt) firstNames() []uint64 {
	all := []uint64{p.Prefixes[0].Hash}
	if p.Former != nil {
		all = append(all, p.Former.At(0))
	}
	if p.Next != nil {
		all = append(all, p.Next.At(0))
	}
	return all
}

// A prefix is hashed as SHA-256 of the key and its text's digest, and nothing else of it.
func TestNamesOfPrefixes(t *testing.T) {
	key := bytes.Repeat([]byte{3}, 32)
	keys := PrefixKeys{Keys: []PrefixKey{{Key: key}}}
	p := plain(5, 6)
	keys.Name(&p, time.Unix(100, 0))
	for i, h := range []uint64{5, 6} {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(append(slices.Clone(key),
			make([]byte, DigestBytes-8)...), h))
		if p.Prefixes[i] != (PrefixHash{100 * (i + 1), binary.BigEndian.Uint64(sum[:])}) {
			t.Errorf("prefix %d is %+v", i, p.Prefixes[i])
		}
	}
	if p.Former != nil || p.Next != nil || p.Digests != nil {
		t.Errorf("other names: %v, %v, %v", p.Former, p.Next, p.Digests)
	}
	var none Prompt
	if keys.Name(&none, time.Unix(100, 0)); none.Prefixes != nil {
		t.Errorf("%+v", none)
	}
}

// Doors that come and go make a new key for each day, two of which are there at most. Any two of them whose
// clocks differ by less than an hour have a name in common for each prefix, as each of them has with itself a
// moment later, so that nobody who keeps to Former and Next loses a text.
func TestKeysTurn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var keys *PrefixKeys
	now := time.Unix(1_800_000_000, 0)
	begun, made, both := now, 0, 0
	fresh := func() []byte {
		key := make([]byte, 32)
		for i := range key {
			key[i] = byte(r.Uint32())
		}
		return key
	}
	before := plain(7)
	const day = 24 * time.Hour // that the doors have seen it
	for range 3000 {
		if next := keys.After(now, day, fresh(), fresh()); next != nil {
			if err := next.Validate(); err != nil {
				t.Fatal(err)
			}
			if keys != nil && !bytes.Equal(next.Salt, keys.Salt) {
				t.Fatal("with a new key of prefixes, salts are others, and every cache is empty")
			}
			keys = next
			made++
		}
		if again := keys.After(now, day, fresh(), fresh()); again != nil {
			t.Fatalf("a key was made, and then %v", again)
		}
		here, there := plain(7), plain(7)
		keys.Name(&here, now)
		keys.Name(&there, now.Add(time.Duration(r.Int64N(int64(2*time.Hour)))-time.Hour))
		if here.Former != nil && here.Next != nil {
			t.Fatal("names of three keys")
		}
		if len(here.firstNames()) > 1 {
			both++
		}
		for _, other := range []Prompt{there, before} {
			if common := slices.ContainsFunc(here.firstNames(), func(name uint64) bool {
				return slices.Contains(other.firstNames(), name)
			}); !common && made > 1 && other.Prefixes[0].Hash != before.Prefixes[0].Hash {
				t.Fatalf("%v after the beginning %v and %v have no name in common", now.Sub(begun),
					here.firstNames(), other.firstNames())
			}
		}
		before = here
		now = now.Add(time.Duration(r.Int64N(int64(30 * time.Minute))))
	}
	days := now.Sub(begun).Hours() / 24
	// a key is made up to half an hour late here, and is due that much later
	if float64(made) < days*24/24.5 || float64(made) > days+2 || both == 0 {
		t.Errorf("%d keys in %.1f days, %d of 3000 prompts have two names", made, days, both)
	}
	now = now.Add(1000 * time.Hour) // no door was there
	if keys.After(now, day/8, fresh(), fresh()) != nil {
		t.Error("a key is made by who has hardly seen the one before")
	}
	old := keys.Keys[len(keys.Keys)-1]
	keys = keys.After(now, day, fresh(), fresh())
	p, q := plain(7), plain(7)
	(&PrefixKeys{Keys: []PrefixKey{old}}).Name(&q, now)
	if keys.Name(&p, now); p.Prefixes[0] != q.Prefixes[0] {
		t.Error("after a pause a key counts that others may not have heard of")
	}
}

// One door of four has a clock that is wrong: by hours, weeks or years, ahead or behind. Keys still
// turn every day or so, for all that never sooner than in hours, and at the others no text that is
// asked for all the time is ever without a name in common with what it had a moment before.
func TestOneDoorsClockIsWrong(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	const hour = time.Hour
	for _, wrong := range []time.Duration{2 * hour, 10 * hour, 40 * hour, 500 * hour, 90000 * hour} {
		for _, wrong := range []time.Duration{wrong, -wrong} {
			var keys *PrefixKeys
			now := time.Unix(1_800_000_000, 0)
			since, turned, before, turns := now, now, plain(7), 0
			var last uint64
			for range 20000 {
				door := r.IntN(4)
				clock := now.Add(time.Duration(door-1) * 20 * time.Minute)
				if door == 3 {
					clock = now.Add(wrong)
				}
				key := make([]byte, 32)
				binary.BigEndian.PutUint64(key, r.Uint64())
				if next := keys.After(clock, now.Sub(since), key, key); next != nil {
					if err := next.Validate(); err != nil {
						t.Fatal(err)
					}
					keys, since = next, now
				}
				here := plain(7)
				keys.Name(&here, now.Add(time.Duration(r.IntN(3)-1)*20*time.Minute))
				if !slices.ContainsFunc(here.firstNames(), func(name uint64) bool {
					return last == 0 || slices.Contains(before.firstNames(), name)
				}) {
					t.Fatalf("%v: a text has lost its name %v after the key before turned", wrong,
						now.Sub(turned))
				}
				at := plain(7)
				if keys.Name(&at, now); at.Prefixes[0].Hash != last {
					if passed := now.Sub(turned); turns > 0 && passed < 4*hour {
						t.Fatalf("%v: a key was in use for %v", wrong, passed)
					}
					last, turned, turns = at.Prefixes[0].Hash, now, turns+1
				}
				if passed := now.Sub(turned); passed > 36*hour {
					t.Fatalf("%v: a key is in use for %v", wrong, passed)
				}
				before = here
				now = now.Add(time.Duration(r.Int64N(int64(4 * time.Minute))))
			}
			if turns < 20 {
				t.Errorf("%v: %d keys in %v", wrong, turns, now.Sub(time.Unix(1_800_000_000, 0)))
			}
		}
	}
}

// Names under the next key become a prompt's own, and those it had its former ones.
func TestAPromptTurns(t *testing.T) {
	p := plain(1, 2)
	was := p
	p.Next = Hashes{7: 3, 15: 4}
	p.Turn()
	if fmt.Sprint(p.Prefixes, p.Former, p.Next) != "[{100 3} {200 4}] [0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 2] []" ||
		fmt.Sprint(was.Prefixes) != "[{100 1} {200 2}]" {
		t.Errorf("%+v; it was %+v", p, was)
	}
	again := p
	p.Turn()
	if fmt.Sprint(p) != fmt.Sprint(again) {
		t.Errorf("without other names: %+v", p)
	}
	for _, names := range []Hashes{{7: 1}, {23: 1}, {14: 1}} {
		for _, p := range []Prompt{{Bytes: 200, Prefixes: was.Prefixes, Former: names},
			{Bytes: 200, Prefixes: was.Prefixes, Next: names}} {
			if m := (&Task{Client: "ann", ID: "t", Prompt: p}); m.Validate() == nil {
				t.Errorf("%d bytes of the hashes of 2 prefixes are taken", len(names))
			}
		}
	}
}

// However keys are printed, nothing of them is seen; what is no entry says what is wrong with it.
func TestKeysAreNotShown(t *testing.T) {
	key := []byte("canary-canary-canary-canary-can.")
	keys := &PrefixKeys{Keys: []PrefixKey{{From: 1, Key: key}}, Salt: key}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "keys", keys, "all", keys.Keys, "key", keys.Keys[0])
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		fmt.Fprintf(&log, format+format+format, keys, *keys, keys.Keys[0])
	}
	value, err := EncodeEntry(keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{`{"keys":[]}`, `{"keys":[{"from":1,"key":"Y2FuYXJ5"}]}`, `{"keys":1}`,
		strings.Replace(string(value), `"salt"`, `"pepper"`, 1),
		strings.Replace(string(value), `"from":1`, `"from":-1`, 1),
		strings.Replace(string(value), `"from"`, `"form`, 1), string(value[:len(value)-1]),
		strings.Replace(string(value), `":"`, `":"!`, 1)} {
		if err := DecodeEntry([]byte(wrong), new(PrefixKeys)); err == nil {
			t.Errorf("%s is taken", wrong)
		} else {
			fmt.Fprintln(&log, err)
		}
	}
	encoded, _ := json.Marshal(key)
	for _, secret := range []string{"canary", fmt.Sprintf("%x", "canary"), "99 97 110 97",
		strings.Trim(string(encoded), `"`)} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%q is shown:\n%s", secret, log.String())
		}
	}
	back := new(PrefixKeys)
	if err := DecodeEntry(value, back); err != nil || !bytes.Equal(back.Keys[0].Key, key) {
		t.Error(err)
	}
}

// What a door does for each prefix: ns/op is of one.
func BenchmarkNamesOfPrefixes(b *testing.B) {
	keys := (*PrefixKeys)(nil).After(time.Unix(0, 0), 0, make([]byte, 32), make([]byte, 32))
	const prefixes = 800
	p := plain(make([]uint64, prefixes)...)
	digests := p.Digests
	for n := 0; n < b.N; n += prefixes {
		p.Digests = digests
		keys.Name(&p, time.Unix(1, 0))
	}
}
