package prefix

import (
	"math/rand/v2"
	"testing"
)

// What lies beyond some prefixes is what is believed to be there less what stands before them: all of it
// beyond none, nothing beyond as many as are held, and less the further.
func TestBeyondSomePrefixes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		b := NewIndex(DefaultLimits()).New(16, 0)
		var messages []string
		for i := range 1 + r.IntN(6) {
			messages = append(messages, text(byte(i), 16*(1+r.IntN(30))))
		}
		all := chat(messages...)
		served := chat(messages[:1+r.IntN(len(messages))]...)
		serve(b, 1, &served, served.Tokens, 0, 0)
		cached, depth, before := overlap(b, &all), int(b.Depth(&all)), 0
		if depth != len(served.Prefixes) {
			t.Fatalf("%d prefixes of %d are held", depth, len(served.Prefixes))
		}
		for prefixes := range len(all.Prefixes) + 1 {
			got, want := b.Beyond(&all, int32(prefixes), all.Tokens), cached
			if prefixes > 0 {
				want = max(0, cached-all.Prefixes[prefixes-1].Bytes/4)
			}
			if got != want || prefixes > 0 && got > before {
				t.Fatalf("beyond %d of %d prefixes are %d tokens of %d, want %d", prefixes, depth, got, cached, want)
			}
			before = got
		}
	}
}
