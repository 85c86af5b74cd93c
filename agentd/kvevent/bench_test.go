package kvevent

import (
	"fmt"
	"testing"
)

// Decoding and ordering what an engine publishes: of a prefill of 16 blocks of 16 tokens, and the removals
// that it took, as one batch; per block stored, with the block that made room for it.
func BenchmarkPrefill(b *testing.B) {
	for _, blocks := range []int{1, 16, 512} {
		for _, form := range []string{"map", "array"} {
			b.Run(fmt.Sprintf("%s/%d", form, blocks), func(b *testing.B) {
				payload := prefill(b, blocks, form == "array")
				var o Order
				var d Decoder
				b.SetBytes(int64(len(payload)))
				b.ReportAllocs()
				for i := range b.N {
					out := o.Live(uint64(i), payload)
					if len(out.Apply) != 1 {
						b.Fatal("not applied")
					}
					if got, err := d.Decode(out.Apply[0]); err != nil || len(got.Events) != blocks+1 {
						b.Fatal(got, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks), "ns/block")
			})
		}
	}
}

// prefill is a batch that removes so many blocks, one an event, and stores as many, in one.
func prefill(b *testing.B, blocks int, arrays bool) []byte {
	var events, hashes, tokens, keys []any
	for i := range blocks {
		hash := uint64(i)*0x9e3779b97f4a7c15 | 1<<63
		hashes, keys = append(hashes, hash), append(keys, nil)
		for j := range 16 {
			tokens = append(tokens, (i*7919+j*104729)%150000)
		}
		if arrays {
			events = append(events, []any{"BlockRemoved", []any{hash + 1}, "GPU", 0})
		} else {
			events = append(events, dict{"type": "BlockRemoved", "block_hashes": []any{hash + 1},
				"medium": "GPU", "group_idx": 0})
		}
	}
	if arrays {
		events = append(events, []any{"BlockStored", hashes, nil, tokens, 16, nil, "GPU", nil, keys, 0,
			"full_attention"})
	} else {
		events = append(events, dict{"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": nil,
			"token_ids": tokens, "block_size": 16, "lora_id": nil, "medium": "GPU", "lora_name": nil,
			"extra_keys": keys, "group_idx": 0, "kv_cache_spec_kind": "full_attention"})
	}
	return encoded(b, []any{1795175367.03, events, 0})
}
