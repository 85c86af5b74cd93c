package hub

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/openai"
	"souk/market"
)

// parsed is a task as the door reads it from a body.
func (h *house) parsed(client, id string, messages ...string) *bus.Task {
	h.t.Helper()
	var chat []map[string]string
	for _, text := range messages {
		chat = append(chat, map[string]string{"role": "user", "content": text})
	}
	body, err := json.Marshal(map[string]any{"messages": chat, "souk": map[string]any{"task": id,
		"terms": map[string]any{"worth": 1}}})
	if err != nil {
		h.t.Fatal(err)
	}
	m, _, bad := openai.DecodeRequest(body, nil, client, []byte("key"))
	if bad != nil {
		h.t.Fatal(bad)
	}
	m.Inbox = "inbox." + client + "." + id
	return m
}

// Whatever clients make equal, in text or in the hash of it, a round of both is cleared: a message with the
// separator of messages in it beside two messages, and prefixes that meet late, as those of texts with equal
// hashes do.
func TestPromptsThatMeetLate(t *testing.T) {
	const long = 4096 // of canonical text: where prompts began to be told apart by their beginnings
	text := strings.Repeat("x", long-len("user\na\x1euser\n\x1e"))
	prefixes := func(first uint64) func(*bus.Task) {
		return func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 2 * long, Messages: 2, Tokens: long / 2,
				Prefixes: []bus.PrefixHash{{Bytes: 100, Hash: first}, {Bytes: 200, Hash: first},
					{Bytes: 2 * long,
						Hash: 7}}}
		}
	}
	for name, tasks := range map[string]func(h *house) []*bus.Task{
		"a separator in a text": func(h *house) []*bus.Task {
			return []*bus.Task{h.parsed("ann", "one", "a\x1euser\n"+text), h.parsed("bob", "two", "a", text)}
		},
		"equal hashes": func(h *house) []*bus.Task {
			return []*bus.Task{h.task("ann", "one", worth(market.Credit), prefixes(1)), h.task("bob", "two",
				worth(market.Credit), prefixes(2))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, func(c *Config) { c.Batch.Eager = false })
			for i := range 2 {
				h.join(fmt.Sprint("a-", i), "llama", 4, 0.8, card(10, 1, 4))
			}
			for _, m := range tasks(h) {
				h.must(h.step(m))
			}
			h.pass(20 * time.Millisecond)
			if got := len(h.dispatched); got != 2 {
				t.Errorf("%d tasks are served, want both", got)
			}
			for _, d := range h.dispatched {
				h.serve(d, market.Usage{Prompt: 1100, Output: 10})
			}
		})
	}
}
