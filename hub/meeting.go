package hub

import (
	"souk/hub/fleet"
	"souk/hub/forecast"
	"souk/hub/prefix"
	"souk/hub/turn"
)

// meeting brings tasks and agents together: what each would need, cost and be worth on each, and so what a
// round is made of. It reads what its rooms know, and changes none of it, so that a copy of it serves a
// quote.
type meeting struct {
	cfg       Config // what is in force
	turn      turn.Turn
	fleet     *fleet.Room[*agent]
	forecasts *forecast.Room
	prefixes  *prefix.Index // what agents are believed to hold
	round     scratch
	plan      planning
}
