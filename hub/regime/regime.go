// Package regime tells how full a domain is, and by which parameters a toll follows that. Package router has
// the toll, the one door through which a regime acts on a round.
package regime

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Params are the two parameters by which a router follows its load (anarchy, section 6).
type Params struct {
	// of the softmax by which a lone task's agent is drawn, in units of a mean cost; 0: the best
	Temperature float64 `yaml:"temperature"`
	// weight, 0 to 1, of the money that a cached prefix saves; what it saves in time is part of the value
	Overlap float64 `yaml:"overlap"`
}

// Default leaves rounds as they are.
func Default() Params { return Params{Temperature: 0, Overlap: 1} }

// MaxTemperature is the temperature at which agents are drawn nearly evenly.
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

// Seed returns the seed of a round's draws: a hash of what was before the round, and of no bid in it.
func Seed(prev [32]byte, number uint64) [32]byte {
	b := append(prev[:], "toll"...)
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, number))
}
