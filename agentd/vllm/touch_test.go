package vllm

import (
	"context"
	"encoding/json"
	"testing"

	"souk/agentd"
	"souk/agentd/vllmsim"
	"souk/bus"
)

// A touch by the tokens of prompt and answer finds all that the engine holds of them, keeps it from being
// dropped first, and finds nothing under another salt.
func TestATouchKeepsWhatItFinds(t *testing.T) {
	s, err := vllmsim.New(vllmsim.Config{NumGPUBlocks: 40, MaxModelLen: 512, AnswerTokens: 40})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	e := New(agentd.EngineConfig{URL: s.URL()})
	t.Cleanup(e.Close)
	ask := func(r agentd.Request) (agentd.Answer, []uint32) {
		t.Helper()
		var ids []uint32
		a, err := e.Complete(context.Background(), r, func(c agentd.Chunk) error {
			ids = append(append(ids, c.PromptIDs...), c.Tokens...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return a, ids
	}
	turn := func(text, salt string) []uint32 {
		t.Helper()
		body, _ := json.Marshal(map[string]any{"prompt": text, "cache_salt": "mine", "ignore_eos": true})
		_, ids := ask(agentd.Request{Kind: bus.KindCompletion, Model: "tiny", MaxTokens: 40, Body: body,
			Salt: salt})
		return ids
	}
	many := func(c string) string {
		text := ""
		for len(text) < 700 {
			text += c + " is a word of many, "
		}
		return text
	}
	first := turn(many("one"), "a")
	other := turn(many("two"), "a")
	touch := func(ids []uint32, salt string) agentd.Answer {
		t.Helper()
		a, _ := ask(agentd.Request{Kind: bus.KindCompletion, Model: "tiny", MaxTokens: 1, IDs: ids,
			Salt: salt})
		return a
	}
	want := (len(first) - 1) / 16 * 16
	if a := touch(first, "a"); a.Usage.Cached < want-16 || a.Usage.Prompt != len(first) ||
		a.Usage.Output != 1 {
		t.Fatalf("found %+v of %d tokens", a.Usage, len(first))
	}
	turn(many("three"), "a") // pushes out what was used longest ago, which is not what was touched
	kept, lost := touch(first, "a").Usage.Cached, touch(other, "a").Usage.Cached
	if kept < want-16 || lost >= want-16 {
		t.Errorf("%d of %d tokens are left that were touched, %d of others", kept, want, lost)
	}
	if a := touch(first, "b"); a.Usage.Cached != 0 {
		t.Errorf("under another salt %d tokens are found", a.Usage.Cached)
	}
}
