package hub

import (
	"fmt"

	"souk/bus"
)

// Copies judges what rounds and quotes read of every agent, and stands beside it, copied from what it says:
// it is what it was copied from. What there was to judge is counted.
func (n *Node) Copies(seen map[string]int) error {
	var wrong error
	same := func(a *agent, what string, got, want any) {
		if got != want && wrong == nil {
			wrong = fmt.Errorf("%s of %s is %v, want %v", what, a.ID(), got, want)
		}
	}
	places := map[int32]string{}
	for i, a := range n.fleet.All() {
		if i > 0 && n.fleet.All()[i-1].ID() >= a.ID() {
			return fmt.Errorf("the roster is out of order at %s", a.ID())
		}
		same(a, "place", a.Forecast.Place, int32(a.Forecast.Cache.Place()))
		if other, ok := places[a.Forecast.Place]; ok {
			return fmt.Errorf("%s and %s have one place", other, a.ID())
		}
		places[a.Forecast.Place] = a.ID()
		if a.Reg().Agent == "" {
			continue
		}
		if a.Reg().State != bus.StateReady {
			seen["draining"]++
		}
		if a.Reg().Model == "mistral" {
			seen["other model"]++
		}
		same(a, "model", a.Reg().Model, a.Reg().Model)
		_, class := a.Reg().Seller()
		same(a, "class", a.Seller().Class, class)
		rated, scores := a.Forecast.Answers.Rated()
		same(a, "scores", scores, fmt.Sprint(a.Reg().Domains, rated))
		c := n.Forecasts.Of(&a.Forecast)
		same(a, "line", c.Line, a.Forecast.Line())
		seen["class"]++
		a.Forecast.Anew()
		same(a, "class", n.Forecasts.Of(&a.Forecast), c)
	}
	return wrong
}
