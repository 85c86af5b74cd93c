package hub

import (
	"sort"

	"github.com/cespare/xxhash/v2"

	"souk/bus"
	"souk/market"
)

// Tasks of one round that begin alike are worth more together: the first on an agent computes what they share, the others find it
// there. That holds where nobody has computed it yet; so a prefix makes a bundle once, the first time that it comes from several
// tasks of one round. No bid has a say in it, and the round's record says which tasks it was.

// textPerToken is how many bytes of text are counted as a token of a long prefix: roughly what tokenizers make of English.
const textPerToken = 4

// prefixKey names the first bundle_tokens of a prompt, to the next mark, for a model: two prompts with one key share them. 0 is for none.
func (n *Node) prefixKey(m *bus.Task) uint64 {
	p := &m.Prompt
	least := n.cfg.BundleTokens * textPerToken
	i := sort.Search(len(p.Marks), func(i int) bool { return p.Marks[i].Bytes >= least })
	if least == 0 || i == len(p.Marks) {
		return 0
	}
	return p.Marks[i].Hash ^ xxhash.Sum64String(m.Model)
}

// bundle puts the tasks in scratch that share a long prefix, new to the hub, together, and notes what each will then find computed.
func (n *Node) bundle() []market.Bundle {
	s := &n.round
	if n.cfg.BundleTokens == 0 || n.cfg.Pricing == market.PricingPosted || len(s.tasks) < 2 {
		return nil
	}
	s.prefixes = s.prefixes[:0]
	some := false
	for _, t := range s.tasks {
		key := n.prefixKey(t.msg)
		if _, known := n.prefixes.get(key); known {
			key = 0
		}
		s.prefixes = append(s.prefixes, key)
		some = some || key != 0
	}
	if !some {
		return nil
	}
	room := 0
	for _, free := range s.free {
		room = max(room, free)
	}
	bundles := market.Bundles(s.prefixes, room)
	for _, b := range bundles {
		first := s.tasks[b.Tasks[0]].msg.Prompt.Marks
		marks := len(first)
		for _, j := range b.Tasks[1:] {
			marks = min(marks, alike(first, s.tasks[j].msg.Prompt.Marks))
		}
		for _, j := range b.Tasks {
			s.tasks[j].siblings, s.tasks[j].shared = len(b.Tasks), first[marks-1].Bytes
		}
	}
	return bundles
}

// apart undoes what bundle noted.
func (n *Node) apart() {
	for _, t := range n.round.tasks {
		t.siblings, t.shared = 0, 0
	}
}

// alike is how many marks two prompts share.
func alike(a, b []bus.Mark) int {
	return sort.Search(min(len(a), len(b)), func(i int) bool { return a[i] != b[i] })
}

// among is how much of t's prompt an agent will have computed, where cached is what it holds already and the prompt has so many
// tokens: beside that, of what t shares with its bundle all but its own part.
func (t *task) among(cached, tokens int) int {
	if t.siblings < 2 || t.msg.Prompt.Bytes <= 0 {
		return cached
	}
	shared := int(int64(tokens) * int64(t.shared) / int64(t.msg.Prompt.Bytes))
	return market.Usage{Prompt: tokens, Cached: cached}.InBundle(min(shared, tokens-1), t.siblings).Cached
}

// bundlesOf are the bundles by the round's own tasks, or false where one of them lost a task that no agent may serve, so that what
// its others were quoted does not hold.
func (s *scratch) bundlesOf(bundles []market.Bundle, tasks []*task) ([]market.Bundle, bool) {
	at := make(map[*task]int, len(tasks))
	for j, t := range tasks {
		at[t] = j
	}
	out := make([]market.Bundle, len(bundles))
	for i, b := range bundles {
		for _, j := range b.Tasks {
			k, ok := at[s.tasks[j]]
			if !ok {
				return nil, false
			}
			out[i].Tasks = append(out[i].Tasks, k)
		}
	}
	return out, true
}
