package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/bus/client"
	"souk/cmd/replay"
	"souk/integration/lab/virtual"
)

// Airline are the tools of tau-bench's airline: those that read, and those that write.
func Airline() map[string]client.Tool {
	all := map[string]client.Tool{"transfer_to_human_agents": {}}
	for _, name := range []string{"get_user_details", "get_reservation_details", "search_direct_flight",
		"search_onestop_flight", "list_all_airports", "calculate", "think"} {
		all[name] = client.Tool{Keep: time.Hour}
	}
	for _, name := range []string{"book_reservation", "cancel_reservation", "send_certificate",
		"update_reservation_baggages", "update_reservation_flights", "update_reservation_passengers"} {
		all[name] = client.Tool{Writes: []string{"get_user_details", "get_reservation_details",
			"search_direct_flight", "search_onestop_flight"}}
	}
	return all
}

// MemoRules are ways to remember results of tools.
var MemoRules = []string{"none", "memo", "memo, constant", "each conversation, nothing declared",
	"by tool and arguments alone"}

// toolsOf returns a rule's description of the tools.
func toolsOf(rule string) map[string]client.Tool {
	all := Airline()
	switch rule {
	case "none", "memo, constant": // of each it is said that it is not remembered
		for name := range all {
			all[name] = client.Tool{}
		}
	case "each conversation, nothing declared": // what is not known to read may write
		for name, of := range all {
			if of.Keep == 0 {
				delete(all, name)
			}
		}
	case "by tool and arguments alone": // no call writes
		for name := range all {
			all[name] = client.Tool{Keep: time.Hour}
		}
	}
	return all
}

// MemoFigures counts over the calls of one in five of the conversations.
type MemoFigures struct {
	Calls, Hits int
	Old         int // hits whose result a call since then may have changed
}

// PlayMemo has the calls of the recorded conversations whose number leaves that rest by five.
func PlayMemo(rule string, rest int) (f MemoFigures, err error) {
	all, err := replay.BundledSet("tau.jsonl.gz")
	if err != nil {
		return f, err
	}
	tools, truth := toolsOf(rule), Airline()
	m := client.NewMemo(client.MemoConfig{Tools: tools})
	for i, d := range all {
		if i%5 != rest {
			continue
		}
		scope := d.ID
		if rule == "by tool and arguments alone" {
			scope = "all"
		}
		// what was called, in this conversation, since the last call that may have changed it
		fresh := map[string]bool{}
		for _, x := range d.Turns {
			var calls []struct {
				Function struct{ Name, Arguments string }
			}
			if json.Unmarshal([]byte(x.Answer), &calls) != nil {
				continue // it calls nothing
			}
			for _, c := range calls {
				name, args := c.Function.Name, c.Function.Arguments
				of, ok := truth[name]
				if !ok {
					return f, fmt.Errorf("memo: tool %q is not known", name)
				}
				called := false
				tool := func(context.Context) ([]byte, error) { called = true; return []byte("{}"), nil }
				if _, err := m.Call(context.Background(), scope, name, []byte(args), tool); err != nil {
					return f, err
				}
				if f.Calls++; !called {
					if f.Hits++; !fresh[name+args] {
						f.Old++
					}
				}
				fresh[name+args] = true
				for key := range fresh {
					changed := func(tool string) bool { return strings.HasPrefix(key, tool) }
					if slices.ContainsFunc(of.Writes, changed) {
						delete(fresh, key)
					}
				}
			}
		}
	}
	return f, nil
}

// memoPage is the section about it.
func memoPage() (text string, gain virtual.Estimate, err error) {
	text = `
## memo

A program remembers results of tools by name, arguments and conversation, and forgets what a call is declared to
change (` + "`client.Memo`" + `). Here are the calls of tau-bench's airline agent in the recorded conversations:
how many are answered without the tool, and how many of these by a result that may be old. ± is over five parts of
the conversations. Nothing is remembered unless a program declares its tools.

| rule | calls | answered without the tool % | perhaps old % |
|---|---|---|---|
`
	for _, rule := range MemoRules {
		var hits, old []float64
		calls := 0
		for rest := range 5 {
			f, err := PlayMemo(rule, rest)
			if err != nil {
				return "", gain, err
			}
			calls += f.Calls
			hits = append(hits, 100*float64(f.Hits)/float64(f.Calls))
			old = append(old, 100*float64(f.Old)/float64(f.Calls))
		}
		h, o := virtual.NewEstimate(hits), virtual.NewEstimate(old)
		if rule == "memo" {
			gain = h
		}
		text += fmt.Sprintf("| %s | %d | %.1f ± %.1f | %.1f ± %.1f |\n", rule, calls, h.Mean, h.Within, o.Mean, o.Within)
	}
	return text, gain, nil
}
