package vllmsim

import (
	"cmp"
	"errors"
	"fmt"
)

// Version is the vLLM version whose wire the stand-in has.
const Version = "0.32.0"

// Config configures a stand-in. Zero fields take vLLM's default, or the profile's.
type Config struct {
	Model   string  // served model name; default "tiny"
	Profile Profile // default Instant
	Speedup float64 // engine seconds in a second; default 1

	Pooling bool // it embeds and scores texts (--runner pooling), and generates nothing

	MaxModelLen      int    // tokens, prompt and output; default 8192
	MaxNumSeqs       int    // sequences that run at once
	NumGPUBlocks     int    // KV blocks, one of which is reserved
	BlockSize        int    // tokens in a block; default 16
	MaxNumQueuedReqs int    // running and waiting requests beyond which a new one gets 503; 0 is no limit
	NoPromptDetails  bool   // without --enable-prompt-tokens-details: no cached_tokens
	APIKey           string // guards /v1
	MaxBody          int64  // bytes of a request; default 32 MiB, so that a mistake cannot fill the memory

	Answers      Answers // known dialogues
	AnswerTokens int     // mean length of other answers; default 128
	Seed         uint64  // of answers and noise
	Admin        bool    // serve /sim/fault and /sim/cache

	KVEvents KVEvents // what is published of the cache

	Adapters Adapters // LoRA
}

const maxSpeedup = 1e6

func (c Config) withDefaults() Config {
	if c.Profile.Name == "" {
		c.Profile = Instant
	}
	p := &c.Profile
	c.Model, c.Speedup, c.MaxBody = cmp.Or(c.Model, "tiny"), cmp.Or(c.Speedup, 1), cmp.Or(c.MaxBody, 32<<20)
	c.MaxModelLen, c.MaxNumSeqs = cmp.Or(c.MaxModelLen, 8192), cmp.Or(c.MaxNumSeqs, p.MaxNumSeqs, 256)
	p.MaxNumBatchedTokens = cmp.Or(p.MaxNumBatchedTokens, 8192)
	c.BlockSize, c.AnswerTokens = cmp.Or(c.BlockSize, 16), cmp.Or(c.AnswerTokens, 128)
	c.NumGPUBlocks = cmp.Or(c.NumGPUBlocks, p.NumGPUBlocks, 16384)
	return c
}

// Validate says what is wrong with a Config that has its defaults.
func (c Config) Validate() error {
	positive := []struct {
		name string
		n    int
	}{
		{"max-model-len", c.MaxModelLen}, {"max-num-seqs", c.MaxNumSeqs},
		{"block-size", c.BlockSize}, {"num-gpu-blocks-override", c.NumGPUBlocks},
		{"answer-tokens", c.AnswerTokens},
	}
	for _, p := range positive {
		if p.n < 1 {
			return fmt.Errorf("%s is %d; it must be at least 1", p.name, p.n)
		}
	}
	switch {
	case c.BlockSize > 64:
		return fmt.Errorf("block-size is %d; it must be at most 64", c.BlockSize)
	case !(c.Speedup > 0 && c.Speedup <= maxSpeedup):
		return fmt.Errorf("speedup is %v; it must be above 0 and at most %v", c.Speedup, float64(maxSpeedup))
	case c.MaxNumQueuedReqs < 0:
		return errors.New("max-num-queued-reqs must not be negative")
	case (c.NumGPUBlocks-1)*c.BlockSize < c.MaxModelLen:
		return fmt.Errorf("max-model-len is %d, but %d blocks of %d tokens (one is reserved) hold only %d: "+
			"raise num-gpu-blocks-override or lower max-model-len",
			c.MaxModelLen, c.NumGPUBlocks, c.BlockSize, (c.NumGPUBlocks-1)*c.BlockSize)
	}
	return errors.Join(c.Adapters.Validate(c.Model), c.KVEvents.Validate())
}
