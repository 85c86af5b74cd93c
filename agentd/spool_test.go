package agentd

import (
	"errors"
	"strings"
	"testing"

	"souk/bus"
	"souk/market"
)

func report(hold string) Report {
	return Report{"math", bus.Completion{Agent: "a1", Boot: 7, Hold: hold, Client: "ann", Task: "t-" + strings.ReplaceAll(hold, "/", "-"), Outcome: bus.OutcomeDone,
		Finish: "stop", Usage: market.Usage{Prompt: 20, Cached: 16, Output: 3}, Relayed: 3, Cost: 1234}}
}

func holds(left []Report) string {
	var out []string
	for _, r := range left {
		out = append(out, r.Completion.Hold)
	}
	return strings.Join(out, " ")
}

func FuzzReadSpool(f *testing.F) {
	text := []byte(SpoolHead("a1"))
	f.Add(text)
	for _, hold := range []string{"j/1/0", "j/1/1"} {
		r := report(hold)
		text, _ = AppendReport(text, &r)
	}
	f.Add(text)
	f.Add(AppendDone(text, "j/1/0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		left, whole, err := ReadSpool(data, "a1", 3)
		if errors.Is(err, ErrForeign) && whole == 0 && len(left) == 0 {
			return
		}
		if whole > len(data) || (err == nil) != (whole == len(data)) || len(left) > 3 {
			t.Fatalf("%d of %d bytes, %d completions, %v", whole, len(data), len(left), err)
		}
		again, n, err := ReadSpool(data[:whole], "a1", 3)
		if err != nil || n != whole || holds(again) != holds(left) {
			t.Fatalf("what is whole is not: %v", err)
		}
		for _, r := range left {
			if r.Completion.Agent != "a1" || r.Completion.Validate() != nil || !bus.ValidID(r.Domain) {
				t.Fatalf("%+v", r)
			}
		}
	})
}
