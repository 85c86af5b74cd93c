package conformance

import (
	"context"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"souk/agentd"
	"souk/agentd/kvevent"
	"souk/agentd/vllm"
	"souk/bus/bustest"
)

// chained is a block as its tokens and those before it make it.
type chained struct {
	parent kvevent.Key
	first  bool
	space  kvevent.Space
	tokens string
}

// cacheView follows a server's cache by its events.
type cacheView struct {
	mu      sync.Mutex
	blocks  map[chained]kvevent.Key
	copies  map[kvevent.Key]int
	stored  map[kvevent.Key]int // times
	resets  int
	blind   string
	cleared int
	spaces  map[kvevent.Space]bool
	wrong   int // events that were not understood, and removals of what was not there
}

func (v *cacheView) take(u kvevent.Update) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if u.Restarted || u.Blind {
		v.blocks, v.copies = map[chained]kvevent.Key{}, map[kvevent.Key]int{}
		v.stored, v.spaces = map[kvevent.Key]int{}, map[kvevent.Space]bool{}
		v.resets++
		if v.blind = ""; u.Blind {
			v.blind = u.Why
		}
	}
	v.wrong += u.Batch.Unknown + u.Batch.Bad
	for _, e := range u.Batch.Events {
		switch e.Kind {
		case kvevent.Cleared:
			clear(v.copies)
			v.cleared++
		case kvevent.Removed:
			for _, k := range e.Blocks {
				if v.copies[k]--; v.copies[k] < 0 {
					v.wrong++
				}
				if v.copies[k] <= 0 {
					delete(v.copies, k)
				}
			}
		case kvevent.Stored:
			at := chained{parent: e.Parent, first: !e.HasParent, space: e.Space}
			v.spaces[e.Space] = true
			for i, k := range e.Blocks {
				at.tokens = packed(e.Tokens[i*e.BlockSize : (i+1)*e.BlockSize])
				v.blocks[at] = k
				v.copies[k]++
				v.stored[k]++
				at = chained{parent: k, space: e.Space}
			}
		}
	}
}

func packed[T int | uint32](tokens []T) string {
	var b []byte
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return string(b)
}

// holds are the blocks of a prompt from its first on, as many as are held; space is that of the first.
func (v *cacheView) holds(prompt []int, block int, space kvevent.Space) (keys []kvevent.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := chained{first: true, space: space}
	for i := 0; i+block <= len(prompt); i += block {
		at.tokens = packed(prompt[i : i+block])
		k, ok := v.blocks[at]
		if !ok || v.copies[k] == 0 {
			break
		}
		keys = append(keys, k)
		at = chained{parent: k}
	}
	return keys
}

// times counts how often each block was published as stored.
func (v *cacheView) times() map[kvevent.Key]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.stored)
}

// held says how many copies of each block are believed to be there.
func (v *cacheView) held() map[kvevent.Key]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.copies)
}

// told is why not all is known; empty: it is.
func (v *cacheView) told() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.blind
}

// seen are the spaces of the blocks that were stored.
func (v *cacheView) seen() map[kvevent.Space]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.spaces)
}

// listen hears a server until stop, and waits until it is told where the server's life stands.
func (s *suite) listen(t *testing.T) (v *cacheView, stop func()) {
	t.Helper()
	v = &cacheView{}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		vllm.New(agentd.EngineConfig{URL: s.url, APIKey: s.APIKey, KVEvents: s.Events}).Events(ctx, v.take)
	})
	bustest.Eventually(t, "the publisher is heard", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.resets > 0
	})
	return v, func() { cancel(); done.Wait() }
}

// kvEvents: what a server publishes of its cache is what cached_tokens says of it, block by block; a hit is
// not published; who comes late knows the same; a salt keeps apart; a reset clears.
func (s *suite) kvEvents(t *testing.T) {
	if r, b := s.do(t, s.request(t.Context(), t, "GET", "/kv_event_sources", nil)); s.Events.Endpoint == "" &&
		(r.StatusCode != 200 || string(b) == "{}") {
		t.Skipf("the server publishes no events: %d %s", r.StatusCode, b)
	}
	v, stop := s.listen(t)
	defer func() { stop() }()
	seed := rand.Uint64()
	t.Logf("seed %d, blind %q", seed, v.told())
	random := rand.New(rand.NewPCG(seed, 0))
	words := s.vocabulary(t)
	prompt := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = words[random.IntN(len(words))]
		}
		return out
	}
	b := s.block
	ask := func(salt string, prompt []int) (cached int) {
		t.Helper()
		body := object{"prompt": prompt, "max_tokens": 1}
		if salt != "" {
			body["cache_salt"] = salt
		}
		usage := s.ask(t, "/v1/completions", body)
		return number(dig(usage, "usage", "prompt_tokens_details", "cached_tokens"))
	}
	known := func(prompt []int, space kvevent.Space) []kvevent.Key {
		t.Helper()
		bustest.Eventually(t, "its blocks are published", func() bool {
			return len(v.holds(prompt, b, space)) == len(prompt)/b
		})
		return v.holds(prompt, b, space)
	}
	p := prompt(4*b + b/2)
	ask("", p)
	first := known(p, kvevent.Space{})
	ask("", p)
	q := prompt(2 * b)
	ask("", q) // published after whatever the hit would have been
	known(q, kvevent.Space{})
	for k, n := range v.times() {
		if n != 1 && slices.Contains(first, k) {
			t.Errorf("block %x was published %d times", k, n)
		}
	}
	// Prompts that share beginnings: what is believed before is what is found.
	all := [][]int{p, q}
	for range 30 {
		from := all[random.IntN(len(all))]
		next := slices.Concat(from[:random.IntN(len(from)+1)], prompt(1+random.IntN(3*b)))
		believed := min(len(v.holds(next, b, kvevent.Space{})), (len(next)-1)/b) * b
		if cached := ask("", next); cached != believed && !s.NoDetails {
			t.Errorf("%d tokens: %d cached, %d believed", len(next), cached, believed)
		}
		known(next, kvevent.Space{})
		all = append(all, next)
	}
	plain := v.seen()
	ask(fresh(t), p)
	bustest.Eventually(t, "the salt's space", func() bool { return len(v.seen()) > len(plain) })
	for space := range v.seen() {
		if !plain[space] && slices.Equal(known(p, space), first) {
			t.Error("a salt makes no other blocks")
		}
	}
	stop()
	late, stopLate := s.listen(t)
	stop = stopLate
	bustest.Eventually(t, "the same for who comes late", func() bool {
		return maps.Equal(late.held(), v.held()) || late.told() != ""
	})
	for k, n := range late.held() {
		if n > v.copies[k] {
			t.Errorf("who comes late believes %d copies of %x, want %d", n, k, v.copies[k])
		}
	}
	v = late
	r, _ := s.do(t, s.request(t.Context(), t, "POST", "/reset_prefix_cache", nil))
	if r.StatusCode == 200 {
		ask("", q)
		bustest.Eventually(t, "all is cleared", func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.cleared > 0
		})
		if known(q, kvevent.Space{}); len(v.held()) > len(q)/b+1 {
			t.Errorf("%d blocks believed after a reset", len(v.held()))
		}
	} else {
		t.Logf("/reset_prefix_cache: %s", r.Status)
	}
	stop()
	if v.wrong > 0 {
		t.Errorf("%d events were not understood, or took what was not there", v.wrong)
	}
}
