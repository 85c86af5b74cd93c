package hub

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/openai"
	"souk/ledger"
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
// separator of messages in it beside two messages, and marks that meet late, as those of texts with equal
// hashes do.
func TestPromptsThatMeetLate(t *testing.T) {
	const long = 4096 // of canonical text: where prompts began to be told apart by their beginnings
	text := strings.Repeat("x", long-len("user\na\x1euser\n\x1e"))
	marks := func(first uint64) func(*bus.Task) {
		return func(m *bus.Task) {
			m.Prompt = bus.Prompt{Bytes: 2 * long, Messages: 2, Tokens: long / 2,
				Marks: []bus.Mark{{Bytes: 100, Hash: first}, {Bytes: 200, Hash: first}, {Bytes: 2 * long,
					Hash: 7}}}
		}
	}
	for name, tasks := range map[string]func(h *house) []*bus.Task{
		"a separator in a text": func(h *house) []*bus.Task {
			return []*bus.Task{h.parsed("ann", "one", "a\x1euser\n"+text), h.parsed("bob", "two", "a", text)}
		},
		"equal hashes": func(h *house) []*bus.Task {
			return []*bus.Task{h.task("ann", "one", worth(market.Credit), marks(1)), h.task("bob", "two",
				worth(market.Credit), marks(2))}
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

// A hub goes on from a journal with rounds in bundles, as hubs wrote it when they still made them.
func TestAnOldJournalWithBundlesIsReplayed(t *testing.T) {
	text, err := os.ReadFile("../ledger/testdata/bundles.frames")
	if err != nil {
		t.Fatal(err)
	}
	n, err := NewNode(testConfig(), [32]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, n: n, now: start.Add(time.Hour), replica: ledger.NewBook(), holds: map[string]bool{},
		prepaid: map[string]market.Credits{"ann": market.Credit}}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		data, err := base64.RawStdEncoding.DecodeString(fields[2])
		h.must(err)
		f, err := ledger.DecodeFrame(data)
		h.must(err)
		h.must(n.Replay(f))
		h.must(h.replica.ApplyFrame(f))
		h.frames = append(h.frames, f)
	}
	h.must(n.Restore())
	h.must(n.Lead(h.now, 9))
	h.run()
	h.join("a-0", "llama", 4, 0.8, card(10, 1, 4))
	h.must(h.step(h.task("ann", "next", worth(market.Credit/10))))
	if d := h.take("ann", "next"); d.Round != 4 {
		t.Errorf("served in round %d, want 4, behind the three of the journal", d.Round)
	}
	h.audited()
}
