package holdings

import (
	"testing"

	"souk/agentd/kvevent"
	"souk/bus"
)

// A prompt of a thousand blocks that the engine stores, is asked for again, and gives up.
func BenchmarkBlocks(b *testing.B) {
	const block, blocks = 16, 1000
	s := New(block, 2*blocks*block, 1, [32]byte{1})
	s.Listen()
	s.Restarted()
	ids, names := make([]uint32, block*blocks), make([]kvevent.Key, blocks)
	for i := range names {
		names[i] = kvevent.Key(i + 1)
	}
	p := bus.Prompt{Bytes: 4 * len(ids), Tokens: len(ids)}
	for n := 0; b.Loop(); n++ {
		ids[0] = uint32(n)
		s.Apply(kvevent.Batch{Events: []kvevent.Event{
			{Kind: kvevent.Stored, BlockSize: block, Blocks: names, Tokens: ids}}})
		s.Prompt(&p, ids, "")
		s.Prompt(&p, ids, "")
		s.Apply(kvevent.Batch{Events: []kvevent.Event{{Kind: kvevent.Removed, Blocks: names}}})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/blocks, "ns/block")
}
