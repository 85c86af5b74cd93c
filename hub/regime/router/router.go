// Package router charges a round as the router of a paper draws (anarchy, section 6): by the toll of an edge,
// which is at most zero, never a function of a bid, and charged.
package router

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"souk/bus/exact"
	"souk/hub/regime"
	"souk/market"
)

// Router is a hub's Toll. It remembers nothing.
type Router struct{}

// Draw implements regime.Toll by a number from the Gumbel distribution: who adds such draws to utilities and
// takes the best has drawn from their softmax.
func (Router) Draw(seed [32]byte, task, agent string) float64 {
	var d xxhash.Digest
	d.ResetWithSeed(binary.BigEndian.Uint64(seed[:]))
	d.Write(seed[:])
	d.WriteString(task)
	d.Write([]byte{0})
	d.WriteString(agent)
	// The middle of one of 2^53 equal parts of (0, 1), so that both logarithms are of something.
	u := (float64(d.Sum64()>>11) + 0.5) / (1 << 53)
	return -exact.Ln(-exact.Ln(u))
}

// Of implements regime.Toll (mechanism, 8):
//
//	temperature * scale * (draw - most) - (1 - overlap) * saved
//
// It is from -[market.MaxWorth] to 0.
func (Router) Of(p regime.Params, scale market.Credits, draw, most float64,
	saved market.Credits) market.Credits {
	// The conversions keep the compiler from fusing a product into the sum: elsewhere that rounds otherwise.
	nano := float64(p.Temperature*float64(max(0, scale))*(draw-most)) - float64((1-p.Overlap)*float64(max(0,
		saved)))
	if nano >= 0 || math.IsNaN(nano) {
		return 0
	}
	toll, err := market.Quantise(nano / float64(market.Credit))
	if err != nil {
		return -market.MaxWorth
	}
	return max(toll, -market.MaxWorth)
}
