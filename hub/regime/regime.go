// Package regime acts on a round through the one door that there is for it, the toll of an edge: at most zero, never a
// function of a bid, and charged.
package regime

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"souk/market"
)

// Params are the two parameters by which a router follows its load (anarchy, section 6).
type Params struct {
	Temperature float64 `yaml:"temperature"` // of the softmax by which a lone task's agent is drawn, in units of a mean cost; 0: the best
	Overlap     float64 `yaml:"overlap"`     // weight, 0 to 1, of the money that a cached prefix saves; what it saves in time is part of the value
}

// Default leaves rounds as they are.
func Default() Params { return Params{Temperature: 0, Overlap: 1} }

// MaxTemperature is where agents are drawn as good as evenly.
const MaxTemperature = 100

// Validate judges parameters. An overlap weight above 1 would be a bonus, which nobody pays for.
func (p Params) Validate() error {
	switch {
	case !(p.Temperature >= 0 && p.Temperature <= MaxTemperature):
		return fmt.Errorf("temperature: %v is not from 0 to %d", p.Temperature, MaxTemperature)
	case !(p.Overlap >= 0 && p.Overlap <= 1):
		return fmt.Errorf("overlap: %v is not from 0 to 1; a toll is never above zero", p.Overlap)
	}
	return nil
}

// Idle reports whether every toll would be 0.
func (p Params) Idle() bool { return p.Temperature == 0 && p.Overlap == 1 }

// Seed is that of a round's draws: a hash of what was before the round, and of no bid in it.
func Seed(prev [32]byte, number uint64) [32]byte {
	b := append(prev[:], "toll"...)
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, number))
}

// Draw is a number from the Gumbel distribution for a task on an agent: who adds such draws to utilities and takes the best
// has drawn from their softmax.
func Draw(seed [32]byte, task, agent string) float64 {
	var d xxhash.Digest
	d.ResetWithSeed(binary.BigEndian.Uint64(seed[:]))
	d.Write(seed[:])
	d.WriteString(task)
	d.Write([]byte{0})
	d.WriteString(agent)
	// The middle of one of 2^53 equal parts of (0, 1), so that both logarithms are of something.
	u := (float64(d.Sum64()>>11) + 0.5) / (1 << 53)
	return -math.Log(-math.Log(u))
}

// Toll is what an agent's edge of a task bears (mechanism, 8):
//
//	temperature * scale * (draw - most) - (1 - overlap) * saved
//
// scale is a mean cost of the round, draw the agent's and most the largest of the task's draws, saved the cost that the
// cached prefix avoids there. It is from -[market.MaxWorth] to 0. scale, draws and saved must be the same whatever
// clients bid.
func (p Params) Toll(scale market.Credits, draw, most float64, saved market.Credits) market.Credits {
	nano := p.Temperature*float64(max(0, scale))*(draw-most) - (1-p.Overlap)*float64(max(0, saved))
	if nano >= 0 || math.IsNaN(nano) {
		return 0
	}
	toll, err := market.Quantise(nano / float64(market.Credit))
	if err != nil {
		return -market.MaxWorth
	}
	return max(toll, -market.MaxWorth)
}
