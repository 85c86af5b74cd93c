package bench

import "time"

// reference is a fixed piece of work for the processor alone, of the kind that solving, reading and counting are made of: the
// shortest ways between places, by relaxing every pair over every third, and a walk through a table that no near cache holds. It
// allocates nothing, and is what a machine's speed is measured by where no engine, bus or disk takes part.
type reference struct {
	lengths, ways [places * places]int64
	table         [tableSize]uint32
	at            uint32
}

const (
	places    = 24
	tableSize = 1 << 17 // half a megabyte
	hops      = 256
)

func newReference() *reference {
	r := &reference{}
	for i := range r.lengths {
		r.lengths[i] = int64(1 + (i*7919+i/places*104729)%1000)
	}
	for i := range r.table { // one cycle through all of it: the multiplier is 1 modulo 4, the increment odd
		r.table[i] = uint32((i*1664525 + 1013904223) % tableSize)
	}
	return r
}

// loop does the work once and returns what it came to.
func (r *reference) loop() (sum int64) {
	r.ways = r.lengths
	d := &r.ways
	for k := 0; k < places*places; k += places {
		for i := 0; i < places*places; i += places {
			over := d[i+k/places]
			for j := range places {
				if way := over + d[k+j]; way < d[i+j] {
					d[i+j] = way
				}
			}
		}
	}
	for i := range d {
		sum += d[i]
	}
	for range hops {
		r.at = r.table[r.at]
	}
	return sum
}

// beside calls f and loops in turn, for the same processor time and for at least so much of each, and returns how long one call and
// one loop took.
func (r *reference) beside(least time.Duration, f func() error) (call, loop time.Duration, err error) {
	var inCalls, inLoops time.Duration
	calls, loops := 0, 0
	for inCalls < least || inLoops < least {
		begun := cpu()
		for slice := time.Duration(0); slice < loopSlice; slice = cpu() - begun {
			if err := f(); err != nil {
				return 0, 0, err
			}
			calls++
		}
		middle := cpu()
		inCalls += middle - begun
		for end := middle; end-middle < middle-begun; end = cpu() {
			for range 16 {
				r.loop()
				loops++
			}
		}
		inLoops += cpu() - middle
	}
	return inCalls / time.Duration(calls), inLoops / time.Duration(loops), nil
}

// loopSlice is the least of one turn: often enough that both see the same machine, and long enough that reading its clock is nothing.
const loopSlice = 10 * time.Millisecond
