package conformance

import (
	"strconv"
	"testing"
)

// mostBlocks is how many blocks a cache may have that a test fills.
const mostBlocks = 1024

// room is how many blocks of the cache requests can use; it skips the test where that is too many to fill.
func (s *suite) room(t *testing.T) int {
	t.Helper()
	if s.NoDetails {
		t.Skip("the server does not report cached_tokens")
	}
	blocks, err := strconv.Atoi(s.scrape(t).label("vllm:cache_config_info", "num_gpu_blocks"))
	if err != nil || blocks > mostBlocks {
		t.Skipf("the cache has %d blocks: more than %d are not filled; start it with "+
			"--num-gpu-blocks-override 64 and as long a --max-model-len", blocks, mostBlocks)
	}
	return blocks - 1
}

// prompts makes prompts of so many blocks and a token, that share nothing.
func (s *suite) prompts(t *testing.T) func(blocks int) []int {
	words := s.vocabulary(t)
	made := 0
	return func(blocks int) []int {
		made++
		out := make([]int, blocks*s.block+1)
		for i := range out {
			out[i] = words[(made+i*i+i)%len(words)]
		}
		for i, n := 0, made; i < 8; i, n = i+1, n/2 { // they differ from the first tokens on
			out[i] = words[n%2]
		}
		return out
	}
}

// with asks for one token after a prompt, by a priority, and returns how much of it was in the cache.
func (s *suite) with(t *testing.T, priority int, salt string, prompt []int) int {
	t.Helper()
	v := s.ask(t, "/v1/completions", object{"prompt": prompt, "max_tokens": 1, "cache_salt": salt,
		"priority": priority})
	return number(dig(v, "usage", "prompt_tokens_details", "cached_tokens"))
}

// touches: what is asked for again, for one token, stays when other prompts need the room, all of it or as
// much as was touched; what is not touched goes, the end of a prompt first. A priority keeps nothing: what
// was computed at a very good one goes when others come at a bad one.
func (s *suite) touches(t *testing.T) {
	room := s.room(t)
	salt, prompt := fresh(t), s.prompts(t)
	part := room / 4
	full := part * s.block
	fill := func(priority, blocks int) {
		for n := blocks; n > 0; {
			k := min(n, part)
			s.with(t, priority, salt, prompt(k))
			n -= k
		}
	}
	fill(0, room)
	kept, lost := prompt(part), prompt(part)
	s.with(t, 0, salt, kept)
	s.with(t, 0, salt, lost)
	if got := s.with(t, 0, salt, kept); got != full {
		t.Fatalf("a touch at once finds %d of %d tokens", got, full)
	}
	fill(0, room-part-1) // and the block of the last token
	if got := s.with(t, 0, salt, kept); got != full {
		t.Errorf("of what was touched %d of %d tokens are left", got, full)
	}
	if got := s.with(t, 0, salt, lost); got != 0 {
		t.Errorf("of what was not touched %d tokens are left", got)
	}

	half := prompt(part)
	s.with(t, 0, salt, half)
	s.with(t, 0, salt, prompt(part))
	want := part / 2 * s.block
	s.with(t, 0, salt, half[:want+1])
	fill(0, room-part)
	if got := s.with(t, 0, salt, half); got != want {
		t.Errorf("of a prompt of which %d tokens were touched %d are left", want, got)
	}

	first := prompt(part)
	s.with(t, -100, salt, first)
	fill(100, room)
	if got := s.with(t, -100, salt, first); got != 0 {
		t.Errorf("of a prompt of priority -100 %d tokens are left after others of 100", got)
	}
}
