package openai

import (
	"fmt"
	"testing"

	"souk/bus"
)

// An engine's cache is not found by the text alone: a salt, a length to cut at and a template's arguments
// make another prompt of it. Such prompts share no mark with one another, nor with the text as it is, so that
// what is believed to be cached of this text is not believed of them. A switch of thinking counts too: some
// templates write it at the beginning.
func TestMarksAreOfWhatACacheIsFoundBy(t *testing.T) {
	const chat = `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]%s}`
	const completion = `{"prompt":"Once upon a time"%s}`
	for _, body := range []string{chat, completion} {
		seen := map[bus.Mark]string{}
		for _, more := range []string{
			``, `,"cache_salt":"a"`, `,"cache_salt":"b"`, `,"truncate_prompt_tokens":7`,
			`,"truncate_prompt_tokens":8`,
			`,"chat_template_kwargs":{"enable_thinking":false}`, `,"reasoning_effort":"low"`,
			`,"add_special_tokens":false`,
			`,"chat_template_kwargs":{"date_string":"1"}`, `,"chat_template_kwargs":{"date_string":"2"}`,
			`,"cache_salt":"a","truncate_prompt_tokens":7`, `,"cache\u005fsalt":"c"`,
		} {
			p, err := Measure([]byte(fmt.Sprintf(body, more)))
			if err != nil {
				t.Fatalf("%s: %v", more, err)
			}
			for _, m := range p.Marks {
				if other, ok := seen[m]; ok {
					t.Errorf("%q and %q share the mark of byte %d", other, more, m.Bytes)
				}
				seen[m] = more
			}
		}
		for _, more := range []string{
			`,"cache_salt":null`, `,"temperature":1`,
		} {
			p, err := Measure([]byte(fmt.Sprintf(body, more)))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range p.Marks {
				if other, ok := seen[m]; !ok || other != "" {
					t.Errorf("%q has other marks than the text alone", more)
				}
			}
		}
	}
}
