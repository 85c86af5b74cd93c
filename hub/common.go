package hub

import "souk/hub/prefix"

// commons are what most agents of a model hold of the prompt of a task, as it was last asked for.
type commons struct {
	task     *task
	nano     int64
	prefixes map[string]int32 // by model
	depths   []int32
}

// common is how many prefixes of t's prompt at least four fifths of the agents of a model hold. That much
// leads it to none of them: else a system prompt that all tasks begin with would lead them all to whoever had
// it first.
func (n *Node) common(t *task, model string) int32 {
	c := &n.commons
	if c.task != t || c.nano != n.nano || c.prefixes == nil {
		if c.prefixes == nil {
			c.prefixes = map[string]int32{}
		}
		c.task, c.nano = t, n.nano
		clear(c.prefixes)
	}
	prefixes, ok := c.prefixes[model]
	if !ok {
		s := &n.round
		s.depths, c.depths = n.prefixes.Depths(s.depths, t.msg.Prompt.Prefixes), c.depths[:0]
		for _, a := range n.roster {
			if a.joined && a.reg.Model == model {
				c.depths = append(c.depths, s.depths[a.place])
			}
		}
		prefixes = prefix.Common(c.depths)
		c.prefixes[model] = prefixes
	}
	return prefixes
}

// own is how many tokens of t's prompt an agent holds beyond what most agents of its model do.
func (n *Node) own(t *task, a *agent) int {
	p := &t.msg.Prompt
	return a.cache.Beyond(p, n.common(t, a.reg.Model), a.predictor.Tokens(p.Tokens))
}
