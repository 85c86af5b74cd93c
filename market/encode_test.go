package market

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"souk/bus/bustest/golden"
)

func TestEncodingRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 20))
	for range 300 {
		r := randomRound(rng, 8, 5, 5)
		rng.Uint64()
		r.Prev = [32]byte{1, byte(rng.Uint32())}
		data := r.AppendCanonical(nil)
		got, err := DecodeRound(data)
		if err != nil || !cmp.Equal(got, r) {
			t.Fatalf("seed %d: %v\n%s", seed, err, cmp.Diff(r, got))
		}
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeOutcome(o.AppendCanonical(nil))
		if err != nil || !cmp.Equal(back, o) {
			t.Fatalf("seed %d: %v\n%s", seed, err, cmp.Diff(o, back))
		}
		// Every shorter text is refused, and so is a longer one.
		cut := rng.IntN(len(data))
		if _, err := DecodeRound(data[:cut]); !errors.Is(err, ErrEncoding) {
			t.Fatalf("seed %d: %d of %d bytes: %v", seed, cut, len(data), err)
		}
		if _, err := DecodeRound(append(data, 0)); !errors.Is(err, ErrEncoding) {
			t.Fatalf("seed %d: one byte more: %v", seed, err)
		}
	}
}

// The bytes of a small round and its outcome.
func TestBytesOfARound(t *testing.T) {
	r := Round{Domain: "math", Number: 300, Prev: [32]byte{31: 7},
		Rule: Rule{Pricing: PricingVCG, Settle: SettleMetered, Clarke: ClarkeTask}, Fee: 2,
		Tasks: []Task{{ID: "c/1", Client: "c"}}, Agents: []Supply{{"a", []Seat{{Slots: 1}, {2, 5, true}}}},
		Edges: []Edge{{0, 0, 100, 30, -1, 0}}}
	golden.Check(t, "round", hex.EncodeToString(r.AppendCanonical(nil)))
	o, err := Clear(r)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "outcome", hex.EncodeToString(o.AppendCanonical(nil)))
}

func errorOf[T any](decode func([]byte) (T, error)) func([]byte) error {
	return func(data []byte) error { _, err := decode(data); return err }
}

// There is one version of each encoding; the error for any other names both.
func TestOtherVersionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		data   []byte
		decode func([]byte) error
	}{
		"round":   {(&Round{}).AppendCanonical(nil), errorOf(DecodeRound)},
		"outcome": {(&Outcome{}).AppendCanonical(nil), errorOf(DecodeOutcome)},
		"epoch":   {(&Epoch{}).AppendCanonical(nil), errorOf(DecodeEpoch)},
		"tariff":  {(&Tariff{}).AppendCanonical(nil), errorOf(DecodeTariff)},
	} {
		if err := c.decode(c.data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, version := range []byte{0, c.data[0] + 1, 255} {
			c.data[0] = version
			want := fmt.Sprintf("version %d, and this release of souk reads version 1 alone", version)
			if err := c.decode(c.data); !errors.Is(err, ErrEncoding) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of version %d: %v", name, version, err)
			}
			c.data[0] = 1
		}
	}
}

func FuzzDecodeRound(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 21))
	for range 8 {
		r := randomRound(rng, 5, 4, 6)
		f.Add(r.AppendCanonical(nil))
	}
	more := randomRound(rng, 5, 4, 6)
	more = asPosted(more)
	more.Rule.Instead = PricingVCG
	f.Add(more.AppendCanonical(nil))
	for n := range 30 {
		odd := oddRound(rng, n)
		f.Add(odd.AppendCanonical(nil))
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{1, 0x80, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeRound(data)
		if err != nil {
			return
		}
		if !bytes.Equal(r.AppendCanonical(nil), data) {
			t.Fatal("a second encoding of the same round")
		}
		if r.Validate() != nil {
			return
		}
		o, err := Clear(r)
		if err != nil {
			t.Fatalf("Validate passes it, Clear does not: %v", err)
		}
		if err := Check(r, o); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzCheck reads a round and an outcome from hostile bytes: Check and Explain may refuse them, never panic.
func FuzzCheck(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 22))
	for n := range 8 {
		r := randomRound(rng, 5, 4, 6)
		o, _ := Clear(r)
		f.Add(r.AppendCanonical(nil), o.AppendCanonical(nil))
		odd := oddRound(rng, n)
		o, _ = Clear(odd)
		f.Add(odd.AppendCanonical(nil), o.AppendCanonical(nil))
	}
	f.Fuzz(func(t *testing.T, round, outcome []byte) {
		o, err := DecodeOutcome(outcome)
		if err != nil {
			return
		}
		if !bytes.Equal(o.AppendCanonical(nil), outcome) {
			t.Fatal("a second encoding of the same outcome")
		}
		r, err := DecodeRound(round)
		if err != nil {
			return
		}
		if x, err := Explain(r, o); err == nil && x.String() == "" {
			t.Fatal("nothing to say")
		}
	})
}
