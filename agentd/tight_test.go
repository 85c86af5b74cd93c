package agentd

import (
	"testing"

	"souk/bus"
)

// Where the context may have room for less than max_tokens behind the prompt, the engine counts that first,
// if it can.
func TestATightPromptIsCounted(t *testing.T) {
	a := Agent{info: Info{MaxModelLen: 100, Template: &bus.Template{Fixed: 1, Each: 1, Wide: 1}}}
	d := bus.Dispatch{Hold: "h", MaxTokens: 50, Tight: true, PromptMost: 100, Task: bus.Task{Client: "c",
		ID: "t", Kind: bus.KindChat, Prompt: bus.Prompt{Tokens: 90, Text: 300, Pieces: 1}}}
	loose, open, picture, rest := d, d, d, d
	loose.Tight, open.Open, picture.Task.Prompt.Loose = false, true, bus.LooseMedia
	for i, c := range []struct {
		d    bus.Dispatch
		want int
	}{{d, 100}, {loose, 0}, {open, 0}, {picture, 0}} {
		if r := a.Request(&c.d); r.Context != c.want || r.Count != (c.want > 0) {
			t.Errorf("%d: counted %v, with a context of %d, want %d", i, r.Count, r.Context, c.want)
		}
	}
	a.info.Template = nil
	if r := a.Request(&rest); r.Count {
		t.Error("an engine is to count that cannot")
	}
}
