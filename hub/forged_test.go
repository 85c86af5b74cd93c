package hub_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/market"
)

// One forged message of each kind, with each of its numbers at the bustest.Extremes, is said to a hub. Then
// its agents, its client and its treasury go on. When an agent that is no longer heard would count as silent,
// tasks are served.
func TestOneForgedMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const after, within = 8 * time.Second, 12 * time.Second
	forgeries := map[string]func(h *house, d bus.Dispatch) bus.Message{
		"summary": func(h *house, d bus.Dispatch) bus.Message {
			return &bus.Summary{Agent: "a-1", Boot: 1, Seq: 9, State: bus.StateReady, Slots: 2, InFlight: 1,
				Price: card(1, 1, 4)}
		},
		"holdings": func(h *house, d bus.Dispatch) bus.Message {
			return &bus.Holdings{Agent: "a-1", Boot: 1, Seq: 9, Base: 9, Parts: 1, Life: 1, Coverage: 1,
				Blocks:   9,
				Evidence: bus.EvidenceEvents, Add: []byte("holds!")}
		},
		"completion": func(h *house, d bus.Dispatch) bus.Message {
			return completion("a-1", d, market.Usage{Prompt: 100, Output: 10})
		},
		"reply": func(h *house,
			d bus.Dispatch) bus.Message {
			return &bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold}
		},
		"cancel": func(h *house,
			d bus.Dispatch) bus.Message {
			return &bus.Cancel{Client: "ann", Sender: "ann", Task: "t-0"}
		},
		"feedback": func(h *house, d bus.Dispatch) bus.Message {
			return &bus.Feedback{Client: "ann", Sender: "ann", Task: "t-0", Quality: 1}
		},
		"task": func(h *house, d bus.Dispatch) bus.Message {
			return h.task("eve", "t-0", worth(market.Credit),
				func(m *bus.Task) { m.DeadlineMS = h.now.Add(time.Minute).UnixMilli() })
		},
		"resume": func(h *house, d bus.Dispatch) bus.Message {
			return h.task("ann", "t-0",
				func(m *bus.Task) { m.Attempt, m.Resume = 1, &bus.Resume{Agent: "a-1", Seq: 3} })
		},
		"ask": func(h *house, d bus.Dispatch) bus.Message {
			return &bus.Ask{Agent: "a-1", Class: "llama", Epoch: 1, Amount: 5,
				Nonce: []byte("0123456789abcdef")}
		},
		"funds": func(h *house, d bus.Dispatch) bus.Message {
			return &bus.FundsReply{ID: "hub-math-7-99", Returned: 3,
				Grants: []bus.Grant{{Number: 9, Client: "ann", Hub: "hub-math", Amount: 5}}}
		},
	}
	tried := 0
	for kind, forge := range forgeries {
		paths := []string{"as it is"}
		sample := forge(newHouse(t, nil), bus.Dispatch{Hold: "hub-math/1/0"})
		bustest.Numbers(reflect.ValueOf(sample), "",
			func(path string, _ func(int64)) { paths = append(paths, path) })
		for _, path := range paths {
			for _, n := range bustest.Extremes {
				tried++
				h := newHouse(t, nil)
				h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
				h.seq = 6
				h.must(h.summary("a-1", nil))
				h.must(h.step(h.task("ann", "t-0")))
				first := h.take("ann", "t-0")
				forged := forge(h, first)
				bustest.Numbers(reflect.ValueOf(forged), "", func(at string, set func(int64)) {
					if at == path {
						set(n)
					}
				})
				if forged.Validate() != nil {
					continue // no codec lets it in
				}
				h.step(forged)
				h.step(&bus.DispatchReply{Agent: "a-1", Boot: first.Boot, Hold: first.Hold})
				h.step(completion("a-1", first, market.Usage{Prompt: 100, Output: 10}))
				begun, served := h.now, false
				for i := 1; !served && h.now.Sub(begun) < within; i++ {
					h.pass(500 * time.Millisecond)
					if i%2 == 0 {
						h.summary("a-1", func(s *bus.Summary) { s.Price, s.Slots = card(1, 1, 4), 2 })
					}
					if h.now.Sub(begun) < after {
						continue
					}
					id := fmt.Sprint("t-", i)
					h.must(h.step(h.task("ann", id)))
					h.pass(50 * time.Millisecond)
					for _, d := range h.dispatched {
						if d.Task.Client == "ann" && d.Task.ID == id {
							h.serve(h.take("ann", id), market.Usage{Prompt: 100, Output: 10})
							served = true
							break
						}
					}
				}
				if !served {
					t.Errorf("%s%s = %d: no task is served within %v (%s)", kind, path, n, within,
						h.answerTo("inbox.ann.t-3"))
				}
			}
		}
	}
	if tried < 400 {
		t.Errorf("only %d messages were tried", tried)
	}
}

// A grant of a number that cannot be leaves a gap before it, and no more is asked for while there is one: it
// is forgotten when the treasury says itself what it gave.
func TestOneForgedGrant(t *testing.T) {
	h := newHouse(t, nil)
	h.join("a-1", "llama", 2, 0.9, card(1, 1, 4))
	h.silent = true
	h.must(h.step(h.task("ann", "t-1")))
	f := h.pending[len(h.pending)-1]
	h.pending, h.silent = nil, false
	forged := bus.Grant{Number: 1 << 50, Client: "ann", Hub: f.Request.Hub, Amount: 5}
	h.must(h.step(&bus.FundsReply{ID: f.Request.ID, Client: "ann", Grants: []bus.Grant{forged}}))
	h.pass(3 * time.Second)
	h.must(h.step(h.task("ann", "t-2")))
	h.pass(time.Second)
	if got := h.running(); got == "" {
		t.Errorf("nothing runs; t-1 is answered %q, t-2 %q", h.answerTo("inbox.ann.t-1"),
			h.answerTo("inbox.ann.t-2"))
	}
}
