package bench

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"souk/bus"
	"souk/hub/prefix"
)

// beliefBars measure what a hub believes that agents hold: how long it takes to find a round's prompts there,
// to hear of a prefix, and how much memory an agent takes; and what naming a prompt's prefixes takes a door.
func beliefBars(_ context.Context, o Options) ([]Bar, error) {
	loops := newReference()
	x, err := repeat(o, "belief", func() (x []float64, err error) {
		for _, f := range []struct {
			do   func() error
			each float64 // of these in a call
		}{{lookUps(false), 1}, {lookUps(true), 1}, {hears(), 2 * heardPrefixes}, {serves(), servedPrefixes},
			{named(), beliefPrefixes}} {
			call, loop, err := loops.beside(200*time.Millisecond, f.do)
			if err != nil {
				return nil, err
			}
			x = append(x, micros(call)/f.each, micros(loop))
		}
		return append(x, agentMemory()), nil
	})
	if err != nil {
		return nil, err
	}
	const looked = "0.2 ms are asked; 16 prompts of 800 prefixes, of which 100 agents hold 40 to 800"
	return []Bar{
		ratio("belief: a round in what was served", lookLimit, "loop", "us", x[0], x[1], looked),
		ratio("belief: a round in what agents say", lookLimit, "loop", "us", x[2], x[3], looked),
		ratio("belief: a prefix that an agent says", prefixLimit, "loop", "us", x[4], x[5],
			"a million a second are asked; in messages of 600, one goes as another comes"),
		ratio("belief: a prefix that an agent has served", prefixLimit, "loop", "us", x[6], x[7],
			"likewise; in prompts of 240, the oldest go"),
		ratio("door: a prefix under the key of the day", nameLimit, "loop", "us", x[8], x[9],
			"0.1 us are asked: SHA-256 of one block"),
		{Name: "belief: memory of an agent", Asked: "under 1 MB", Limit: 1, Measured: median(x[10]),
			Unit: "MB", Runs: x[10], Note: "all that limits let be remembered, said and served"},
	}, nil
}

// Limits, in multiples of the loop, which takes some 20 us on the design's machine.
const (
	lookLimit      = 10
	prefixLimit    = 0.05
	nameLimit      = 0.008
	beliefPrefixes = 800
	heardPrefixes  = 300
	servedPrefixes = 240
)

// hashed makes a prompt of so many prefixes; the first common ones are the same in all such prompts.
func hashed(seed uint64, common, prefixes int) (p bus.Prompt) {
	r, all := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(0, 2))
	for i := range prefixes {
		from := r
		if i < common {
			from = all
		}
		p.Bytes += bus.PrefixEvery
		p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: from.Uint64()})
	}
	p.Tokens = p.Bytes / 4
	return p
}

func packed(prefixes []bus.PrefixHash) (list []byte) {
	for _, m := range prefixes {
		list = bus.AppendShortHash(list, bus.ShortHash(m.Hash))
	}
	return list
}

// sayAll has an agent say all that it holds.
func sayAll(b *prefix.Cache, list []byte) {
	b.Reported(&bus.Holdings{Seq: 1, Base: 1, Parts: 1, Coverage: 0.95, Evidence: bus.EvidenceEvents,
		Add: list})
}

func serve(b *prefix.Cache, session uint64, p *bus.Prompt) {
	b.Served(b.Sent(p, p.Tokens, 0, 0), session, p, p.Tokens, 100, -1)
}

// lookUps finds the prompts of a round with 100 agents.
func lookUps(says bool) func() error {
	const agents, dialogues, common = 100, 8, 40
	x, r := prefix.NewIndex(prefix.DefaultLimits()), rand.New(rand.NewPCG(1, 2))
	x.Advance(1)
	for i := range agents {
		b := x.New(16, 0)
		var list []byte
		for k := range dialogues {
			p := hashed(uint64(i*dialogues+k+1), common, 100+r.IntN(beliefPrefixes-100))
			if list = append(list, packed(p.Prefixes)...); !says {
				serve(b, 0, &p)
			}
		}
		if says {
			sayAll(b, list)
		}
	}
	var tasks [16]bus.Prompt
	for i := range tasks {
		tasks[i] = hashed(1+r.Uint64N(agents*dialogues), common, beliefPrefixes)
	}
	var depths []int32
	return func() error {
		for i := range tasks {
			depths = x.Depths(depths, tasks[i].Prefixes)
		}
		return nil
	}
}

// hears has agents say that they hold some prefixes, and no longer some others.
func hears() func() error {
	x := prefix.NewIndex(prefix.DefaultLimits())
	x.Advance(1)
	var agents [20]*prefix.Cache
	for i := range agents {
		agents[i] = x.New(16, 0)
		sayAll(agents[i], nil)
	}
	var lists [64][]byte
	for i := range lists {
		p := hashed(uint64(i+1), 0, heardPrefixes)
		lists[i] = packed(p.Prefixes)
	}
	n := 0
	return func() error {
		k := n / len(agents)
		h := bus.Holdings{Seq: uint64(k + 2), Base: 1, Coverage: 0.95, Evidence: bus.EvidenceEvents,
			Add: lists[k%len(lists)]}
		if k >= 8 {
			h.Drop = lists[(k-8)%len(lists)]
		}
		agents[n%len(agents)].Reported(&h)
		n++
		return nil
	}
}

// serves has agents serve prompts, each of which takes the place of another.
func serves() func() error {
	x := prefix.NewIndex(prefix.DefaultLimits())
	var agents [20]*prefix.Cache
	for i := range agents {
		agents[i] = x.New(16, 1<<20)
	}
	var prompts [1000]bus.Prompt
	for i := range prompts {
		prompts[i] = hashed(uint64(i+1), 40, servedPrefixes)
	}
	n := 0
	return func() error {
		serve(agents[n%len(agents)], uint64(n), &prompts[n%len(prompts)])
		n++
		return nil
	}
}

// named has a door name the prefixes of a prompt.
func named() func() error {
	now := time.Unix(1_800_000_000, 0)
	keys := (*bus.PrefixKeys)(nil).After(now, 0, make([]byte, 32), make([]byte, 32))
	p := hashed(1, 0, beliefPrefixes)
	digests := make([]byte, bus.DigestBytes*len(p.Prefixes))
	return func() error {
		p.Digests = digests
		keys.Name(&p, now)
		return nil
	}
}

// agentMemory returns the MB that a hub keeps of an agent which says as much as is remembered, and has served
// as much. A thousand tasks a second are served: what was served lately is listed apart for a while.
func agentMemory() float64 {
	const agents = 20
	limits := prefix.DefaultLimits()
	x := prefix.NewIndex(limits)
	x.Advance(1)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, now := heap(), int64(1)
	for i := range uint64(agents) {
		b := x.New(16, 0)
		p := hashed(1<<32+i, 0, limits.Reported)
		sayAll(b, packed(p.Prefixes))
		for k := range uint64(3 * limits.Sessions) {
			p := hashed(2<<32+i<<16+k, 0,
				limits.Hashes/limits.Sessions)
			now += int64(time.Millisecond)
			x.Advance(now)
			serve(b, k+1, &p)
		}
	}
	took := float64(heap()-before) / agents / (1 << 20)
	runtime.KeepAlive(x)
	return took
}
