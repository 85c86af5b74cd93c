package router

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"souk/bus/bustest/golden"
	"souk/hub/regime"
	"souk/market"
)

// A regime's tolls are the same to the nano-credit on every machine.
func TestSameTollsOnEveryMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 29))
	h := sha256.New()
	for n := range uint64(20_000) {
		seed := regime.Seed([32]byte{1}, n)
		a, b := r.Draw(seed, "ann/t", "a-1"), r.Draw(seed, "ann/t", "a-2")
		p := params(4*rng.Float64(), rng.Float64())
		fmt.Fprintln(h, int64(r.Of(p, market.Credits(rng.Int64N(1<<40)), a, max(a, b),
			market.Credits(rng.Int64N(1<<40)))))
	}
	golden.Check(t, "tolls", fmt.Sprintf("%x", h.Sum(nil)))
}
