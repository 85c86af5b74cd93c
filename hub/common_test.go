package hub

import (
	"fmt"
	"testing"
	"time"

	"souk/bus"
)

// A system prompt that most agents of a model hold is nobody's: it counts as cached everywhere, and leads a
// new dialogue nowhere. A dialogue's own text leads to whoever has it, and agents of other models do not
// count.
func TestASharedSystemPromptMakesNobodyHome(t *testing.T) {
	const system, agents = 6144, 8
	prompt := func(session, turns int) *bus.Prompt {
		p := &bus.Prompt{Messages: 2 * turns, Bytes: system}
		for at := 512; at <= system; at += 512 {
			p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: at, Hash: uint64(at)})
		}
		for turn := range turns {
			p.Bytes += 400
			p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: uint64(1e6*session + turn)})
		}
		p.Tokens = p.Bytes / 4
		return p
	}
	h := newHouse(t, nil)
	for i := range agents {
		h.join(fmt.Sprint("a-", i), "llama", 1, 0.8, card(1, 1, 4))
	}
	for i := range agents {
		h.join(fmt.Sprint("b-", i), "qwen", 1, 0.8, card(1, 1, 4))
	}
	look := func(p *bus.Prompt) (homes []string, warm int) {
		h.now = h.now.Add(time.Millisecond)
		h.n.Tick(h.now)
		k := &task{msg: &bus.Task{Prompt: *p}}
		for _, a := range h.n.roster {
			if h.n.own(k, a) >= 32 {
				homes = append(homes, a.id)
			}
			if a.expect(k).cached >= 1500 {
				warm++
			}
		}
		return homes, warm
	}
	for i := range agents {
		p := prompt(i, 1)
		h.n.lookup(fmt.Sprint("a-", i)).cache.Served(nil, uint64(i+1), p, p.Tokens, 10, -1)
		homes, warm := look(prompt(100, 1))
		want := i + 1
		if want >= 7 { // of eight
			want = 0
		}
		if len(homes) != want || warm != i+1 {
			t.Errorf("%d agents have the system prompt: it leads a new dialogue to %v, and is cached at %d",
				i+1,
				homes, warm)
		}
	}
	for i := range agents {
		if homes, _ := look(prompt(i, 2)); len(homes) != 1 || homes[0] != fmt.Sprint("a-", i) {
			t.Errorf("dialogue %d is led to %v", i, homes)
		}
	}
}
