package knowing

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"souk/agentd/holdings"
	"souk/agentd/kvevent"
	"souk/agentd/vllmsim/kv"
	"souk/bus"
	"souk/hub/prefix"
)

// turned holds the share of what an engine found that a hub had believed to be there, before the key of
// prefixes turned, while it did, and for some hours after that; and the share of tasks in that time of which
// it believed too much.
type turned struct{ before, while, after, over float64 }

// turnKey runs dialogues through two doors whose clocks are most of an hour apart, over the time when the key
// of prefixes turns. The hub believes an agent's word where it says what its engine holds, else what was
// served there.
func turnKey(seed uint64, says, both bool) turned {
	r := rand.New(rand.NewPCG(seed, 1))
	const blocks = 4000
	e := &engine{kv.New(blocks, block), map[uint64][]uint32{}, map[uint64]uint64{}, map[uint64]bool{}}
	s := holdings.New(block, (blocks-1)*block, seed, [32]byte{1})
	s.Listen()
	s.Restarted()
	x := prefix.NewIndex(prefix.DefaultLimits())
	b := x.New(block, (blocks-1)*block)
	begun := time.Unix(1_800_000_000, 0)
	due := begun.Add(24 * time.Hour)
	keys := (*bus.PrefixKeys)(nil).After(begun, 0, bytes.Repeat([]byte{1}, 32), make([]byte, 32))
	now := due.Add(-6 * time.Hour)
	sessions := make([][]turn, 24)
	var found, right [3]float64
	tasks, over := 0, 0
	for now.Before(due.Add(6 * time.Hour)) {
		if next := keys.After(now, 24*time.Hour, bytes.Repeat([]byte{2}, 32), nil); next != nil {
			keys = next
		}
		k := r.IntN(len(sessions))
		if len(sessions[k]) == 0 || len(sessions[k]) > 30 {
			sessions[k] = []turn{{seed: uint64(r.IntN(3)), tokens: 300}}
		}
		dialogue := append(sessions[k], turn{r.Uint64(), 10 + r.IntN(100)})
		p, ids := read(dialogue)
		keys.Name(&p, now.Add(time.Duration(r.IntN(2)*50-25)*time.Minute))
		if !both {
			p.Former, p.Next = nil, nil
		}
		x.Resolve(&p)
		_, cached := b.ExpectAt(&p, b.Depth(&p), p.Tokens)
		answer := turn{r.Uint64(), 10 + r.IntN(60)}
		_, whole := read(append(dialogue[:len(dialogue):len(dialogue)], answer))
		events, hit := e.serve(whole, len(ids))
		run := b.Sent(&p, len(ids), answer.tokens, now.UnixNano())
		b.Served(run, uint64(k+1), &p, len(ids), answer.tokens, hit)
		s.Apply(kvevent.Batch{Events: events})
		s.Prompt(&p, ids, "")
		sessions[k] = append(dialogue, answer)
		at := 1
		if left := due.Sub(now); left > 30*time.Minute {
			at = 0
		} else if left < -30*time.Minute {
			at = 2
		}
		tasks++
		found[at], right[at] = found[at]+float64(hit), right[at]+float64(min(cached, hit))
		if cached > hit+2*block {
			over++
		}
		for range 4 {
			now = now.Add(5 * time.Second)
			x.Advance(now.UnixNano())
			out, _ := s.Take(now)
			for i := range out {
				if says && b.Reported(&out[i]) {
					panic("it is asked to say all again")
				}
			}
		}
	}
	if says != b.Rules() {
		panic("it is not believed as it should be")
	}
	return turned{right[0] / found[0], right[1] / found[1], right[2] / found[2],
		float64(over) / float64(tasks)}
}

// While the key of prefixes turns, and afterwards, a hub believes as much of what an engine holds as before,
// by what the agent says and by what it served, though doors' clocks differ by most of an hour. Without the
// hashes under both keys it would not.
func TestAKeyThatTurnsLosesNoBelief(t *testing.T) {
	for _, says := range []bool{true, false} {
		got, alone := turnKey(1, says, true), turnKey(1, says, false)
		t.Logf("the agent says what it holds %v: %+v; with hashes under one key %+v", says, got, alone)
		if got.before < 0.85 || got.while < got.before-0.02 || got.after < got.before-0.02 ||
			got.over > 0.01 {
			t.Errorf("the agent says what it holds %v: %+v", says, got)
		}
		if alone.while > got.while-0.1 {
			t.Errorf("with hashes under one key: %+v: the test shows nothing", alone)
		}
	}
}
