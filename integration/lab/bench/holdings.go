package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"souk/agentd/holdings"
	"souk/agentd/kvevent"
	"souk/bus"
)

// holdingsBars measure what an agent says of what its engine holds, whose cache is full: while nothing is
// asked there, and while it computes prompts as fast as it can; and what it takes to know it.
func holdingsBars(_ context.Context, o Options) ([]Bar, error) {
	x, err := repeat(o, "holdings", func() ([]float64, error) {
		quiet, _, err := prefills(0)
		if err != nil {
			return nil, err
		}
		busy, core, err := prefills(prefillRate)
		return []float64{quiet / 1000, busy / 1000, core}, err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		{Name: "agentd: what it says of holdings, idle", Measured: median(x[0]), Unit: "KB/s", Runs: x[0],
			Note: "670,000 tokens in the cache; all of it is said once a minute"},
		{Name: "agentd: the same, at full prefill", Asked: "at most 4 KB/s", Limit: 4, Measured: median(x[1]),
			Unit: "KB/s", Runs: x[1], Note: "16,000 tokens a second are computed, prompts of 4,000; a thousand " +
				"such agents at 50 hubs say a thousand times as much, of which each hub hears a fiftieth"},
		{Name: "agentd: events and holdings at full prefill", Asked: "under 1 % of a core", Limit: 1,
			Measured: median(x[2]), Unit: "%", Runs: x[2],
			Note: "events decoded, prefixes tied, what has changed encoded; without sockets"},
	}, nil
}

const (
	prefillRate  = 16_000  // tokens a second
	prefillCache = 670_000 // tokens
	prefillBlock = 16
	prefillOne   = 4_000 // tokens of a prompt
)

// prefills has an engine compute prompts for some minutes, each once, so many tokens a second, where what was
// computed first makes room. It returns the bytes a second that its agent says, and the share of a core in
// per cent that this takes.
func prefills(rate int) (bytes, core float64, err error) {
	const seconds, blocks = 180, prefillOne / prefillBlock
	const room = prefillCache / prefillOne
	s := holdings.New(prefillBlock, prefillCache, 1, [32]byte{1})
	var decoder kvevent.Decoder
	now := time.Unix(1_800_000_000, 0)
	s.Listen()
	s.Restarted()
	s.NewHub()
	r := rand.New(rand.NewPCG(1, 3))
	serve := func(i int) (spent time.Duration, err error) {
		p, ids := prefillPrompt(r)
		payload := prefillBatch(i, room, ids, blocks)
		before := cpu()
		b, err := decoder.Decode(payload)
		if len(b.Events) == 0 || b.Bad+b.Unknown > 0 {
			return 0, fmt.Errorf("events of a prompt: %d, %d bad: %w", len(b.Events), b.Bad, err)
		}
		s.Apply(b)
		s.Prompt(&p, ids, "")
		return cpu() - before, err
	}
	say := func() (n int, spent time.Duration, err error) {
		before := cpu()
		said, _ := s.Take(now)
		for i := range said {
			said[i].Agent, said[i].Boot = "agent-1", 1
			m, err := bus.Encode(&said[i])
			if err != nil {
				return 0, 0, err
			}
			n += len(m)
		}
		return n, cpu() - before, nil
	}
	n := 0
	for ; n < room; n++ {
		if _, err := serve(n); err != nil {
			return 0, 0, err
		}
	}
	if _, _, err := say(); err != nil {
		return 0, 0, err
	}
	sum, spent := 0, time.Duration(0)
	for tick := range 4 * seconds {
		now = now.Add(time.Second / 4)
		for ; rate > 0 && (n-room)*prefillOne < rate*(tick+1)/4; n++ {
			took, err := serve(n)
			if err != nil {
				return 0, 0, err
			}
			spent += took
		}
		bytes, took, err := say()
		if err != nil {
			return 0, 0, err
		}
		sum, spent = sum+bytes, spent+took
	}
	return float64(sum) / seconds, 100 * spent.Seconds() / seconds, nil
}

// prefillPrompt is a prompt that nobody had before.
func prefillPrompt(r *rand.Rand) (p bus.Prompt, ids []uint32) {
	for i := range prefillOne {
		ids = append(ids, r.Uint32N(150_000))
		if p.Bytes += 4; p.Bytes%bus.PrefixEvery == 0 || i == prefillOne-1 {
			p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: r.Uint64()})
		}
	}
	p.Tokens, p.Messages = prefillOne, 1
	return p, ids
}

// prefillBatch makes the engine's batch of events for its i-th prompt, and for the one evicted for it:
// msgpack, each event an array.
func prefillBatch(i, room int, ids []uint32, blocks int) []byte {
	text := func(b []byte, s string) []byte { return append(append(b, 0xa0|byte(len(s))), s...) }
	list := func(b []byte, n int) []byte { return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n)) }
	name := func(b []byte, prompt, block int) []byte {
		hash := (uint64(prompt)<<16 | uint64(block)) * 0x9e3779b97f4a7c15
		return binary.BigEndian.AppendUint64(append(b, 0xcf), hash)
	}
	gone := 0
	if i >= room {
		gone = blocks
	}
	b := list([]byte{0x92, 1}, gone+1)
	for at := range gone {
		b = text(append(b, 0x93), "BlockRemoved")
		b = text(name(append(b, 0x91), i+1-room, blocks-1-at), "GPU")
	}
	b = list(text(append(b, 0x95), "BlockStored"), blocks)
	for at := range blocks {
		b = name(b, i+1, at)
	}
	b = list(append(b, 0xc0), len(ids))
	for _, id := range ids {
		b = binary.BigEndian.AppendUint32(append(b, 0xce), id)
	}
	return append(b, prefillBlock)
}
