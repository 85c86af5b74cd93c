package virtual

import "souk/agentd/kvevent"

// Watch has the agents hear what becomes of the blocks of their engines, where these say so.
func (m *Market) Watch(engines []*Engine) {
	if !m.Events {
		return
	}
	for _, a := range m.agents {
		e := engines[a.i]
		size := e.Cache.Size
		e.Cache.Forgotten = func(hash uint64) {
			a.blocks.Events = append(a.blocks.Events,
				kvevent.Event{Kind: kvevent.Removed, Blocks: []kvevent.Key{kvevent.Key(hash)}})
		}
		e.Stored = func(j *Job, from, to int) {
			event := kvevent.Event{Kind: kvevent.Stored, BlockSize: size, HasParent: from > 0,
				Tokens: tokens(j.Hashes[from:to], size)}
			if from > 0 {
				event.Parent = kvevent.Key(j.Hashes[from-1])
			}
			for _, hash := range j.Hashes[from:to] {
				event.Blocks = append(event.Blocks, kvevent.Key(hash))
			}
			a.blocks.Events = append(a.blocks.Events, event)
		}
	}
}

// tokens makes up the tokens of blocks, which are known by their hashes alone: others for each block.
func tokens(blocks []uint64, size int) []uint32 {
	ids := make([]uint32, 0, len(blocks)*size)
	for _, hash := range blocks {
		for i := range size {
			ids = append(ids, uint32(hash>>16)+uint32(i)*uint32(hash|1))
		}
	}
	return ids
}

// hear has an agent take in what its engine has published.
func (m *Market) hear(a *seller) {
	if len(a.blocks.Events) > 0 {
		a.core.Events(kvevent.Update{Batch: a.blocks})
		a.blocks.Events = nil
	}
}
