package knowing

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/vmihailenco/msgpack/v5"

	"souk/agentd/holdings"
	"souk/agentd/kvevent"
	"souk/bus"
	"souk/hub/prefix"
)

// plainEngine is an engine's cache written as plainly as can be: physical blocks, each with the name of the
// text that it ends, or none; those that no request needs lie in a list, whose first goes next. So one text
// may be held twice. What happens is published in batches, of either encoding.
type plainEngine struct {
	r      *rand.Rand
	names  []uint64 // by physical block; 0: none
	refs   []int
	free   []int // physical blocks, what goes next first
	open   []*request
	events []any
	seq    uint64
	log    []published // published in this life
	asMaps bool
}

type request struct {
	session  int
	prompt   bus.Prompt
	ids      []uint32 // of the prompt, then of the answer
	asked    int      // of these, of the prompt
	blocks   []int
	computed int // blocks that have names
	cached   int
	left     int // steps
}

type published struct {
	seq     uint64
	payload []byte
}

func newPlainEngine(r *rand.Rand, blocks int) *plainEngine {
	e := &plainEngine{r: r, names: make([]uint64, blocks), refs: make([]int, blocks), asMaps: r.IntN(2) == 0}
	for i := range blocks {
		e.free = append(e.free, i)
	}
	return e
}

// chainOf names the full blocks of some tokens.
func chainOf(ids []uint32) (names []uint64) {
	at := uint64(0)
	for i := 0; i+block <= len(ids); i += block {
		b := binary.LittleEndian.AppendUint64(nil, at)
		for _, id := range ids[i : i+block] {
			b = binary.LittleEndian.AppendUint32(b, id)
		}
		at = xxhash.Sum64(b) | 1
		names = append(names, at)
	}
	return names
}

// held returns how many tokens of a text are in whole blocks of the cache, from its beginning.
func (e *plainEngine) held(ids []uint32) int {
	for i, name := range chainOf(ids) {
		if !slices.Contains(e.names, name) {
			return i * block
		}
	}
	return len(ids) / block * block
}

// begin takes in a request, if there is room for all of it.
func (e *plainEngine) begin(q *request) bool {
	names := chainOf(q.ids)
	need := (len(q.ids) + block - 1) / block
	var found []int
	for _, name := range names[:min(len(names), (q.asked-1)/block)] {
		i := slices.Index(e.names, name)
		if i < 0 {
			break
		}
		found = append(found, i)
	}
	spare := 0
	for _, i := range e.free {
		if !slices.Contains(found, i) {
			spare++
		}
	}
	if spare < need-len(found) {
		return false
	}
	for _, i := range found {
		if e.refs[i]++; e.refs[i] == 1 {
			e.free = slices.Delete(e.free, slices.Index(e.free, i), slices.Index(e.free, i)+1)
		}
	}
	q.blocks, q.cached, q.computed = found, len(found)*block, len(found)
	for len(q.blocks) < need {
		i := e.free[0]
		e.free = e.free[1:]
		if e.names[i] != 0 {
			e.events = append(e.events, e.event("BlockRemoved", []uint64{e.names[i]}, 0, nil))
			e.names[i] = 0
		}
		e.refs[i] = 1
		q.blocks = append(q.blocks, i)
	}
	e.open = append(e.open, q)
	return true
}

// step computes some blocks of each request, and returns those that are answered.
func (e *plainEngine) step() (done []*request) {
	for _, q := range slices.Clone(e.open) {
		names := chainOf(q.ids)
		to := min(len(names), q.computed+1+e.r.IntN(12))
		if to > q.computed {
			parent := uint64(0)
			if q.computed > 0 {
				parent = names[q.computed-1]
			}
			for i := q.computed; i < to; i++ {
				e.names[q.blocks[i]] = names[i]
			}
			e.events = append(e.events, e.event("BlockStored", names[q.computed:to], parent,
				q.ids[q.computed*block:to*block]))
			q.computed = to
		}
		if q.left--; q.computed == len(names) && q.left <= 0 {
			for _, i := range slices.Backward(q.blocks) {
				if e.refs[i]--; e.refs[i] == 0 {
					e.free = append(e.free, i)
				}
			}
			e.open = slices.DeleteFunc(e.open, func(o *request) bool { return o == q })
			done = append(done, q)
		}
	}
	return done
}

func (e *plainEngine) event(kind string, names []uint64, parent uint64, ids []uint32) any {
	var hashes []any
	for _, n := range names {
		if e.asMaps {
			hashes = append(hashes, n)
		} else {
			hashes = append(hashes, int64(n))
		}
	}
	var up any
	if parent != 0 {
		up = parent
	}
	switch {
	case e.asMaps && kind == "BlockStored":
		m := map[string]any{"type": kind, "block_hashes": hashes, "token_ids": ids, "block_size": block}
		if up != nil {
			m["parent_block_hash"] = up
		}
		return m
	case e.asMaps:
		return map[string]any{"type": kind, "block_hashes": hashes}
	case kind == "BlockStored":
		return []any{kind, hashes, up, ids, block, nil, "GPU"}
	}
	return []any{kind, hashes, "GPU"}
}

// publish says what has happened, if anything has.
func (e *plainEngine) publish(t *testing.T) (out []published) {
	if len(e.events) == 0 {
		return nil
	}
	payload, err := msgpack.Marshal([]any{1.5, e.events})
	if err != nil {
		t.Fatal(err)
	}
	e.events = nil
	e.log = append(e.log, published{e.seq, payload})
	e.seq++
	return e.log[len(e.log)-1:]
}

// follower is the path from an engine to a hub: the agent's events and state, and the hub's.
type follower struct {
	t       *testing.T
	r       *rand.Rand
	e       *plainEngine
	order   kvevent.Order
	decoder kvevent.Decoder
	s       *holdings.State
	b       *prefix.Cache
	x       *prefix.Index
	now     time.Time
	bad     bool        // messages are lost, doubled, cut and late
	late    []published // on their way
	told    []bus.Holdings
	heard   int // messages, since nothing is lost any more
	blinds  int
	keep    int // batches that the replay has
}

func (f *follower) chance(n int) bool { return f.bad && f.r.IntN(n) == 0 }

func (f *follower) apply(out kvevent.Out) {
	switch out.Reset {
	case kvevent.Restarted:
		f.decoder = kvevent.Decoder{}
		f.s.Listen()
		f.s.Restarted()
	case kvevent.Blind:
		f.decoder = kvevent.Decoder{}
		f.s.Blind()
		f.blinds++
	}
	for _, p := range out.Apply {
		b, err := f.decoder.Decode(p)
		if err != nil || b.Lost {
			f.s.Blind()
			f.blinds++
			continue
		}
		f.s.Apply(b)
	}
	if !out.Ask {
		return
	}
	log := f.e.log[max(0, len(f.e.log)-f.keep):]
	for _, h := range log {
		if h.seq >= out.From && f.order.Asking {
			f.live()
			if f.chance(60) {
				f.apply(f.order.ReplayEnd(false)) // it falls silent
				return
			}
			f.apply(f.order.Replayed(h.seq, h.payload))
		}
	}
	if f.order.Asking {
		f.apply(f.order.ReplayEnd(true))
	}
}

// live hands on what was published, or not.
func (f *follower) live() {
	late := f.late
	f.late = nil
	for _, h := range late {
		switch {
		case f.chance(8):
		case f.chance(8):
			f.late = append(f.late, h)
		default:
			payload := h.payload
			if f.chance(200) && len(payload) > 10 {
				payload = payload[:f.r.IntN(len(payload))]
			}
			f.apply(f.order.Live(h.seq, payload))
			if f.chance(10) {
				f.apply(f.order.Live(h.seq, payload))
			}
		}
	}
}

// speak hands on what the agent says to the hub, or not.
func (f *follower) speak() {
	f.now = f.now.Add(time.Duration(100+f.r.IntN(400)) * time.Millisecond)
	f.x.Advance(f.now.UnixNano())
	out, _ := f.s.Take(f.now)
	f.told = append(f.told, out...)
	for len(f.told) > 0 {
		h := f.told[0]
		f.told = f.told[1:]
		if f.chance(12) {
			continue
		}
		f.heard++
		h.Agent, h.Boot = "a", 1
		data, err := bus.Encode(&h)
		if err != nil {
			f.t.Fatal(err)
		}
		var read bus.Holdings
		if err := bus.Decode(data, &read); err != nil {
			f.t.Fatal(err)
		}
		for range 1 + f.r.IntN(2) {
			if f.b.Reported(&read) && !f.chance(4) {
				f.s.Asked()
			}
		}
	}
}

// Whatever is lost, doubled, late, cut or replayed between an engine and its hub, and whoever starts again:
// once all is quiet a hub believes at most what the engine holds and a block, and nearly all of it where its
// agent was not blind at last.
func TestWhateverIsLostBeliefIsTheTruthOrLess(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(3) {
		lossy(t, rand.New(rand.NewPCG(seed, round)))
	}
}

func lossy(t *testing.T, r *rand.Rand) {
	const blocks = 400
	f := &follower{t: t, r: r, e: newPlainEngine(r, blocks), now: time.Unix(1_800_000_000, 0), bad: true,
		order: kvevent.Order{Replay: r.IntN(4) > 0}, keep: 5 + r.IntN(200)}
	listens := func() {
		f.s = holdings.New(block, blocks*block, r.Uint64(), [32]byte{1})
		f.order, f.decoder = kvevent.Order{Replay: f.order.Replay}, kvevent.Decoder{}
		f.late, f.told = nil, nil
		f.s.NewHub()
		f.apply(f.order.Joined())
	}
	f.x = prefix.NewIndex(prefix.DefaultLimits())
	f.x.Advance(f.now.UnixNano())
	f.b = f.x.New(block, blocks*block)
	listens()
	sessions := make([][]turn, 12)
	type textOf struct {
		p   bus.Prompt
		ids []uint32
	}
	var texts []textOf
	checks, truth, believed, sure := 0, 0, 0, 0
	step := func() {
		if len(f.e.open) < 3 && r.IntN(2) == 0 {
			k := r.IntN(len(sessions))
			busy := slices.ContainsFunc(f.e.open, func(q *request) bool { return q.session == k })
			if !busy {
				if len(sessions[k]) == 0 || len(sessions[k]) > 10 {
					sessions[k] = []turn{{seed: uint64(r.IntN(2)), tokens: 150}}
				}
				dialogue := append(slices.Clone(sessions[k]), turn{r.Uint64(), 10 + r.IntN(150)})
				p, ids := read(dialogue)
				answer := turn{r.Uint64(), 5 + r.IntN(60)}
				_, whole := read(append(slices.Clone(dialogue), answer))
				if f.e.begin(&request{session: k, prompt: p, ids: whole, asked: len(ids),
					left: 1 + r.IntN(4)}) {
					sessions[k] = append(dialogue, answer)
					texts = append(texts, textOf{p, ids})
					if len(texts) > 60 {
						texts = texts[1:]
					}
				}
			}
		}
		done := f.e.step()
		f.late = append(f.late, f.e.publish(t)...)
		f.live()
		for _, q := range done {
			ids := q.ids[:q.asked]
			f.s.Prompt(&q.prompt, ids, "")
		}
		f.speak()
	}
	for range 12 {
		f.bad = true
		for range 20 + r.IntN(80) {
			step()
			switch r.IntN(300) {
			case 0: // the engine starts again
				f.e = newPlainEngine(r, blocks)
				f.late = nil
				f.apply(f.order.Joined())
			case 1: // the agent does
				f.b.Drop()
				f.b = f.x.New(block, blocks*block)
				listens()
			case 2: // their connection does
				f.late = nil
				f.apply(f.order.Joined())
			}
		}
		f.bad, f.heard = false, 0
		for range 40 { // what comes shows what was missed
			step()
		}
		for len(f.e.open) > 0 {
			step()
		}
		// Who hears anything sees what was missed before it, and asks for all. Where nothing changes any
		// more, all is said within 72 seconds.
		for n := 0; n < 12 || f.heard == 0; n++ {
			f.live()
			f.now = f.now.Add(time.Second)
			f.speak()
		}
		for _, x := range texts {
			depth := f.b.Depth(&x.p)
			at := 0
			if depth > 0 {
				at = x.p.Prefixes[depth-1].Bytes / bytesEach / block * block // as it is counted on
			}
			held := f.e.held(x.ids)
			if checks++; at > held+block {
				t.Errorf("%d tokens of %d are believed to be held, %d are", at, len(x.ids), held)
			}
			if f.s.Coverage() > 0.9 {
				truth, believed, sure = truth+held, believed+min(held, at), sure+1
			}
		}
	}
	t.Logf("%d texts, %d of them where the agent knows nearly all: %d of %d tokens; blind %d times, replay %v",
		checks, sure, believed, truth, f.blinds, f.order.Replay)
	if float64(believed) < 0.85*float64(truth) {
		t.Errorf("of %d tokens that are held %d are believed to be", truth, believed)
	}
}
