package prefix

import "souk/bus"

// Expect is ExpectAt of all that an agent is believed to hold.
func (b *Cache) Expect(p *bus.Prompt, estimate int) (tokens, cached int) {
	return b.ExpectAt(p, b.Depth(p), estimate)
}
