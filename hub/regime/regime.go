// Package regime tells how full a domain is, and by which parameters a toll follows that. Package router has
// the toll, the one door through which a regime acts on a round.
package regime

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
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

// Ln is the natural logarithm of a positive number, to the last bit but one, and the same on every machine:
// math.Log is assembly on some and has its products fused into sums on others. The method is FreeBSD's
// e_log.c: x = 2^k (1+f), and a polynomial in s = f/(2+f).
func Ln(x float64) float64 {
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f, e = 2*f, e-1
	}
	f--
	k := float64(e)
	s := f / (2 + f)
	s2 := s * s
	s4 := s2 * s2
	horner := func(c ...float64) (y float64) {
		for _, a := range c {
			y = float64(y*s4) + a
		}
		return y
	}
	r := float64(s2*horner(1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01,
		6.666666666666735130e-01)) +
		float64(s4*horner(1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01))
	half := float64(0.5 * f * f)
	const high, low = 6.93147180369123816490e-01, 1.90821492927058770002e-10 // of ln 2
	return float64(k*high) - ((half - (float64(s*(half+r)) + float64(k*low))) - f)
}
