package vllm

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"souk/agentd"
	"souk/bus/bustest"
	"souk/market"
)

// An engine that says which tokens there are is believed these, whatever its usage says; one that does not is
// believed its usage, and one that says neither what was relayed.
func TestUsageIsWhatTheIDsSay(t *testing.T) {
	const ids = role + word + finish // 3 tokens of the prompt, and 3 of the answer
	none := strings.NewReplacer(`,"prompt_token_ids":[1,2,3]`, "", `,"token_ids":[7]`, "",
		`,"token_ids":[8,2]`, "")
	part := strings.NewReplacer(`,"token_ids":[7]`, "")
	for _, c := range []struct {
		name, events           string
		prompt, output, cached int // by its usage
		want                   market.Usage
		differs                bool
	}{
		{"the same", ids, 3, 3, 2, market.Usage{Prompt: 3, Cached: 2, Output: 3}, false},
		{"zero", ids, 0, 0, 0, market.Usage{Prompt: 3, Output: 3}, true},
		{"half", ids, 3, 1, 1, market.Usage{Prompt: 3, Cached: 1, Output: 3}, true},
		{"five times", ids, 15, 15, 12, market.Usage{Prompt: 3, Cached: 3, Output: 3}, true},
		{"beyond all bounds", ids, 1 << 29, 3, 0, market.Usage{Prompt: 3, Output: 3}, true},
		{"no ids", none.Replace(ids), 15, 15, 12, market.Usage{Prompt: 15, Cached: 12, Output: 15}, false},
		{"no ids of some tokens", part.Replace(ids), 3, 15, 0, market.Usage{Prompt: 3, Output: 15}, false},
		{"no usage", ids, -1, 0, 0, market.Usage{Prompt: 3, Output: 3}, false},
	} {
		usage := fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,`+
			`"prompt_tokens_details":{"cached_tokens":%d}}}`+"\n\n", c.prompt, c.output, c.cached)
		if c.prompt < 0 {
			usage = ""
		}
		e := engineAt(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, c.events, usage, done)
		}).URL)
		got := ask(t, e, hello)
		if got.Err != nil || got.Answer.Usage != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got.Answer.Usage, got.Err, c.want)
		}
		var said *market.Usage
		if c.differs {
			said = &market.Usage{Prompt: min(c.prompt, 1<<24), Cached: c.cached, Output: c.output}
		}
		if !reflect.DeepEqual(got.Answer.Said, said) {
			t.Errorf("%s: the engine said %+v, want %+v", c.name, got.Answer.Said, said)
		}
		run := agentd.NewRun(bustest.Dispatch("h"), "a", "tiny", 16)
		if end := run.End(got.Answer, nil); !reflect.DeepEqual(end.Completion.Said, said) {
			t.Errorf("%s: its hub hears %+v", c.name, end.Completion.Said)
		}
	}
}
