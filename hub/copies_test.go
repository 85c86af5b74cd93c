package hub

import (
	"fmt"
	"slices"

	"souk/bus"
)

// Copies judges what rounds and quotes read of every agent, and stands beside it, copied from what it says:
// it is what it was copied from. What there was to judge is counted.
func (n *Node) Copies(seen map[string]int) error {
	var wrong error
	same := func(a *agent, what string, got, want any) {
		if got != want && wrong == nil {
			wrong = fmt.Errorf("%s of %s is %v, want %v", what, a.id, got, want)
		}
	}
	places := map[int32]string{}
	for i, a := range n.roster {
		if i > 0 && n.roster[i-1].id >= a.id {
			return fmt.Errorf("the roster is out of order at %s", a.id)
		}
		same(a, "place", a.place, int32(a.cache.Place()))
		if other, ok := places[a.place]; ok {
			return fmt.Errorf("%s and %s have one place", other, a.id)
		}
		places[a.place] = a.id
		if a.along.Stands(a.alongAt) {
			same(a, "line", a.along, a.predictor.Line())
			seen["line"]++
		}
		same(a, "line by which it is forecast", a.line(), a.predictor.Line())
		if a.stuck < 0 || a.excess < 0 {
			return fmt.Errorf("%s has %d stuck, %d in excess", a.id, a.stuck, a.excess)
		}
		if a.reg.Agent == "" {
			continue
		}
		if a.reg.State != bus.StateReady {
			seen["draining"]++
		}
		if a.reg.Model == "mistral" {
			seen["other model"]++
		}
		same(a, "model", a.model, a.reg.Model)
		same(a, "context", a.context, a.reg.MaxModelLen)
		same(a, "parses", a.parses, slices.Contains(a.reg.Features, bus.Parsers))
		same(a, "text", a.text, slices.Contains(a.reg.Features, bus.Text))
		same(a, "listed", a.listed, a.reg.State == bus.StateReady)
		_, class := a.reg.Seller()
		same(a, "class", a.class, class)
		same(a, "scores", a.scores, fmt.Sprint(a.reg.Domains, a.rated))
		if k := a.kind; k != nil && k.line == a.line() {
			seen["kind"]++
			a.kind = nil
			same(a, "kind", n.kind(a), k)
		}
	}
	return wrong
}
