package congest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// numbers are what is kept of a line.
func (c *Line) numbers() []*float64 {
	return []*float64{&c.n, &c.x, &c.xx, &c.y, &c.xy, &c.output.n, &c.output.x}
}

// Append appends what was seen of an agent.
func (a *Agent) Append(dst []byte) []byte {
	dst = append(dst, byte(a.seen))
	for _, x := range a.line.numbers() {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*x))
	}
	return dst
}

var errShort = errors.New("what is known of how load slows an agent ends too early")

// Read reads what Append wrote at the beginning of data, and returns the rest. On an error nothing was read.
func Read(data []byte) (Agent, []byte, error) {
	var a Agent
	numbers := a.line.numbers()
	if len(data) < 1+8*len(numbers) {
		return Agent{}, data, errShort
	}
	rest := data[1:]
	a.seen = min(int(data[0]), enough)
	for _, x := range numbers {
		*x = math.Float64frombits(binary.LittleEndian.Uint64(rest))
		if !(*x >= 0 && *x <= 1e30) {
			return Agent{}, data, fmt.Errorf("what is known of how load slows an agent: %v is not from 0 to 1e30",
				*x)
		}
		rest = rest[8:]
	}
	return a, rest, nil
}
