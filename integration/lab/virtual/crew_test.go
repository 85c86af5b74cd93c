package virtual

import (
	"testing"
	"time"

	"souk/agentd/vllmsim"
)

// As many tasks are in flight as there are callers, from moment to moment; who is one too many plays its
// dialogue to its end, and all prompts of a template are alike.
func TestCrews(t *testing.T) {
	profile, err := vllmsim.ProfileNamed("rtxpro6000-llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	s := Setting{Engines: 2, Engine: EngineConfig{Profile: profile, Slots: 64, MaxBatched: 2048,
		Blocks: 4096, BlockSize: 16}, Hop: time.Millisecond, Scrape: time.Second, Seed: 3,
		Scripts: NewTemplates([]Template{{Prompt: 128, Output: 60}, {Prompt: 128, Output: 50}}, 16),
		Crews:   append(Ramp(0, 10*time.Second, 0, 4), Crew{20 * time.Second, 12}, Crew{40 * time.Second, 2}),
		Length:  time.Minute}
	p, err := NewRule("least-loaded", 1)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := Run(s, p)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]int{time.Second: 1, 6 * time.Second: 3, 19 * time.Second: 4,
		30 * time.Second: 12, 50 * time.Second: 2} {
		n := 0
		for _, r := range all {
			if r.Arrived <= at && r.Done > at {
				n++
			}
		}
		if n != want && n != want-1 { // one may be between two dialogues
			t.Errorf("%d tasks are in flight after %v, want %d", n, at, want)
		}
	}
	cached := 0
	for _, r := range all {
		if r.Cached == 112 {
			cached++
		}
	}
	if len(all)-cached > 12 {
		t.Errorf("%d of %d prompts found all but their last block", cached, len(all))
	}
}
