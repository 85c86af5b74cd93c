// Package knowing holds what hubs believe of engines against what engines hold.
package knowing

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"souk/agentd/holdings"
	"souk/agentd/kvevent"
	"souk/agentd/vllmsim/kv"
	"souk/bus"
	"souk/hub/prefix"
)

const block = 16

// engine is the stand-in's cache, which says what it stores and removes.
type engine struct {
	*kv.Cache
	known  map[uint64][]uint32 // tokens of every block that ever was
	parent map[uint64]uint64
	held   map[uint64]bool
}

// serve computes a prompt and an answer, and returns what happened to blocks, and how many tokens it found.
func (e *engine) serve(ids []uint32, prompt int) (events []kvevent.Event, cached int) {
	var chain []uint64
	at := uint64(0)
	for i := 0; i+block <= len(ids); i += block {
		up := at
		at = kv.Chain(at, ids[i:i+block])
		e.known[at], e.parent[at] = ids[i:i+block], up
		chain = append(chain, at)
	}
	cached = min(e.Match(chain), (prompt-1)/block) * block
	e.Put(chain)
	var removed kvevent.Event
	removed.Kind = kvevent.Removed
	for h := range e.held {
		if e.Match([]uint64{h}) == 0 {
			removed.Blocks = append(removed.Blocks, kvevent.Key(h))
			delete(e.held, h)
		}
	}
	if len(removed.Blocks) > 0 {
		events = append(events, removed)
	}
	for _, h := range chain {
		if !e.held[h] && e.Match([]uint64{h}) == 1 {
			e.held[h] = true
			events = append(events, kvevent.Event{Kind: kvevent.Stored, Blocks: []kvevent.Key{kvevent.Key(h)},
				Parent: kvevent.Key(e.parent[h]), HasParent: e.parent[h] != 0, Tokens: e.known[h],
				BlockSize: block})
		}
	}
	return events, cached
}

// turn is a message: some bytes for each of its tokens.
type turn struct {
	seed   uint64
	tokens int
}

const bytesEach = 4

// read returns a dialogue's prompt as a door makes it, and its token ids as an engine has them.
func read(turns []turn) (p bus.Prompt, ids []uint32) {
	p.Messages = len(turns)
	hash := uint64(0)
	for _, t := range turns {
		for i := range t.tokens {
			var b [24]byte
			binary.LittleEndian.PutUint64(b[:], hash)
			binary.LittleEndian.PutUint64(b[8:], t.seed)
			binary.LittleEndian.PutUint64(b[16:], uint64(i))
			hash = xxhash.Sum64(b[:])
			ids = append(ids, uint32(xxhash.Sum64(b[8:])))
			p.Bytes += bytesEach
			if i+1 == t.tokens || p.Bytes%bus.PrefixEvery == 0 {
				p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: hash})
				p.Digests = binary.BigEndian.AppendUint64(append(p.Digests, make([]byte,
					bus.DigestBytes-8)...), hash)
			}
		}
	}
	p.Tokens = len(ids)
	return p, ids
}

// Under events a hub that has sent nothing itself, and so has only an agent's word, never believes more than
// the engine holds and a block, once what has changed was said; and it believes nearly all of it, through
// evictions and restarts.
func TestUnderEventsBeliefIsTheTruth(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	const blocks = 2000
	fresh := func() *engine {
		return &engine{kv.New(blocks, block), map[uint64][]uint32{}, map[uint64]uint64{}, map[uint64]bool{}}
	}
	e := fresh()
	s := holdings.New(block, (blocks-1)*block, seed, [32]byte{1})
	s.Listen()
	s.Restarted()
	x := prefix.NewIndex(prefix.DefaultLimits())
	b := x.New(block, (blocks-1)*block)
	now := time.Unix(1_800_000_000, 0)
	sessions := make([][]turn, 60)
	tasks, truth, believed, right := 0, 0, 0, 0
	for range 2500 {
		k := r.IntN(len(sessions))
		if len(sessions[k]) == 0 || len(sessions[k]) > 16 {
			sessions[k] = []turn{{seed: uint64(r.IntN(3)), tokens: 300}} // a system prompt of many
		}
		dialogue := append(sessions[k], turn{r.Uint64(), 10 + r.IntN(200)})
		p, ids := read(dialogue)
		answer := turn{r.Uint64(), 10 + r.IntN(100)}
		_, whole := read(append(dialogue[:len(dialogue):len(dialogue)], answer))
		_, cached := b.ExpectAt(&p, b.Depth(&p), p.Tokens)
		events, found := e.serve(whole, len(ids))
		if cached > found+block {
			t.Fatalf("task %d: %d tokens are believed to be cached, %d are", tasks, cached, found)
		}
		tasks, truth, believed, right = tasks+1, truth+found, believed+cached, right+min(cached, found)
		s.Apply(kvevent.Batch{Events: events})
		s.Prompt(&p, ids, "")
		sessions[k] = append(dialogue, answer)
		if r.IntN(700) == 0 { // it is started again
			e = fresh()
			s.Restarted()
		}
		for range 3 { // there is time to say so
			now = now.Add(300 * time.Millisecond)
			x.Advance(now.UnixNano())
			out, _ := s.Take(now)
			for i := range out {
				if b.Reported(&out[i]) {
					t.Fatal("it is asked to say all again")
				}
			}
		}
	}
	t.Logf("%d tasks: %d tokens were found, %d believed to be there, %d of them", tasks, truth, believed,
		right)
	if float64(right) < 0.85*float64(truth) || !b.Rules() {
		t.Errorf("of %d tokens that were found %d were believed to be; rules: %v", truth, right, b.Rules())
	}
}

// Bytes a second that agents say of their holdings, on the wire: of one that does nothing, of one that
// computes 16,000 tokens a second of new text, and what a hub hears of its 20 of 1,000 at 50 hubs.
func BenchmarkHoldingsBytes(b *testing.B) {
	for _, c := range []struct {
		name   string
		agents int
		blocks int // new ones, each 100 ms
	}{{"idle", 1, 0}, {"full_prefill", 1, 100}, {"hub_of_20_at_full_prefill", 20, 100},
		{"1000_at_full_prefill", 1000, 100}} {
		b.Run(c.name, func(b *testing.B) {
			const seconds = 120
			bytes := 0
			measured := min(c.agents, 20) // alike but for their seeds
			for b.Loop() {
				bytes = 0
				for a := range measured {
					bytes += said(b, uint64(a), c.blocks, seconds)
				}
				bytes = bytes * c.agents / measured
			}
			b.ReportMetric(float64(bytes)/seconds, "B/s")
		})
	}
}

func said(b *testing.B, seed uint64, blocks, seconds int) (bytes int) {
	const capacity = 670_000 / block
	s := holdings.New(block, capacity*block, seed, [32]byte{1})
	s.Listen()
	s.Restarted()
	r := rand.New(rand.NewPCG(seed, 2))
	now := time.Unix(1_800_000_000, 0)
	var stored []kvevent.Key
	for range 10 * seconds {
		now = now.Add(100 * time.Millisecond)
		if blocks > 0 {
			p, ids := read([]turn{{r.Uint64(), blocks * block}})
			var e kvevent.Event
			e.Kind, e.BlockSize, e.Tokens = kvevent.Stored, block, ids
			for range blocks {
				e.Blocks = append(e.Blocks, kvevent.Key(r.Uint64()))
			}
			batch := kvevent.Batch{Events: []kvevent.Event{e}}
			stored = append(stored, e.Blocks...)
			if n := len(stored) - capacity; n > 0 {
				batch.Events = append(batch.Events, kvevent.Event{Kind: kvevent.Removed, Blocks: stored[:n]})
				stored = stored[n:]
			}
			s.Apply(batch)
			s.Prompt(&p, ids, "")
		}
		out, _ := s.Take(now)
		for i := range out {
			out[i].Agent, out[i].Boot = "agent-1", now.UnixMilli()
			data, err := bus.Encode(&out[i])
			if err != nil {
				b.Fatal(err)
			}
			bytes += len(data) + len(bus.HoldingsSubject("general", out[i].Agent)) + 16 // what NATS adds
		}
	}
	return bytes
}
