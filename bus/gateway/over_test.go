package gateway

import (
	"testing"

	"souk/bus"
	"souk/bus/openai"
	"souk/market"
)

// What is paid is known once all tasks have ended. A refusal that said that the request may come again says
// so no more where any of them is paid, and it is for good; but another secret of a key may be good.
func TestARefusalIsReckoned(t *testing.T) {
	paid := []*bus.Result{nil, {Cost: 3, Premium: 1}, {Cost: 2}}
	for _, c := range []struct {
		name    string
		why     *refusal
		results []*bus.Result
		code    bus.Code
		paid    market.Credits
		last    bool
	}{
		{"nothing is paid", refuse(bus.CodeNoRoom, "full"), []*bus.Result{nil, {}}, bus.CodeNoRoom, 0, false},
		{"some of it is", refuse(bus.CodeNoRoom, "full"), paid, bus.CodeCancelled, 6, true},
		{"some clients repeat whatever an agent has done", refuse(bus.CodeAgentFailed, "lies"), paid,
			bus.CodeCancelled, 6, true},
		{"it was not to come again", refuse(bus.CodeTimeout, "late"), paid, bus.CodeTimeout, 6, true},
		{"by a secret that is good no more", errRevoked(), paid, openai.CodeInvalidKey, 6, false},
	} {
		r := (&answer{results: c.results}).reckoned(c.why)
		if r.code != c.code || r.paid != c.paid || r.last != c.last {
			t.Errorf("%s: %s, %s paid, for good: %v", c.name, r.code, r.paid, r.last)
		}
	}
}
