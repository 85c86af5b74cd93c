package vllm

import (
	"context"
	"encoding/binary"
	"net"
	"syscall"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"souk/agentd/kvevent"
	"souk/agentd/vllm/zmtp"
)

// cpu returns the processor time that this process has used, in ns.
func cpu() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// What it costs to hear, order and decode a batch: of a block that an answer filled, and of a prefill of 8192
// tokens in blocks of 16, each with the removal that made room for it. The publisher's writing is included.
func BenchmarkEvents(b *testing.B) {
	for name, blocks := range map[string]int{"1 block": 1, "512 blocks": 512} {
		b.Run(name, func(b *testing.B) {
			endpoint := "ipc://" + b.TempDir() + "/kv"
			l, err := zmtp.Listen(endpoint)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go publishBatches(b, l.Accept, batchOf(b, blocks), b.N)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			n, before := 0, cpu()
			err = Events(ctx, kvevent.Source{Endpoint: endpoint}, func(u kvevent.Update) {
				if n += len(u.Batch.Events); n >= b.N*(blocks+1) {
					cancel()
				}
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/batch")
			b.ReportMetric(float64(cpu()-before)/float64(b.N*blocks), "cpu-ns/block")
		})
	}
}

// publishBatches publishes a batch n times to the first who subscribes.
func publishBatches(b *testing.B, accept func() (net.Conn, error), payload []byte, n int) {
	nc, err := accept()
	if err != nil {
		return
	}
	c, err := zmtp.Meet(nc, "PUB")
	if err != nil {
		b.Error(err)
		return
	}
	defer c.Close()
	if _, err := c.Read(); err != nil { // what it subscribes to
		b.Error(err)
		return
	}
	for seq := range n {
		if c.Write(nil, binary.BigEndian.AppendUint64(nil, uint64(seq)), payload) != nil {
			return
		}
	}
	_, _ = c.Read() // until it leaves
}

// batchOf removes so many blocks, one an event, and stores as many.
func batchOf(b *testing.B, blocks int) []byte {
	type object = map[string]any
	var events, hashes, tokens []any
	for i := range blocks {
		hash := uint64(i)*0x9e3779b97f4a7c15 | 1<<63
		hashes = append(hashes, hash)
		for j := range 16 {
			tokens = append(tokens, (i*7919+j*104729)%150000)
		}
		events = append(events, object{"type": "BlockRemoved", "block_hashes": []any{hash + 1},
			"medium": "GPU", "group_idx": 0})
	}
	events = append(events, object{"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": nil,
		"token_ids": tokens, "block_size": 16, "lora_id": nil, "medium": "GPU", "lora_name": nil,
		"extra_keys": make([]any, blocks), "group_idx": 0, "kv_cache_spec_kind": "full_attention"})
	out, err := msgpack.Marshal([]any{1795175367.03, events, 0})
	if err != nil {
		b.Fatal(err)
	}
	return out
}
