package bench

import "time"

// reference is a fixed piece of work for the processor alone, of the kind that solving, reading and counting
// are made of: the shortest ways between places, by relaxing every pair over every third, and a walk through
// a table that no near cache holds. It allocates nothing. A machine's speed is measured by it where no
// engine, bus or disk takes part.
type reference struct {
	lengths, ways [places * places]int64
	table         [tableSize]uint32
	at            uint32
}

const (
	places    = 16
	tableSize = 1 << 17 // half a megabyte
	hops      = 1024
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

// beside calls f and loops in turn, and returns how long one call and one loop took.
func (r *reference) beside(least time.Duration, f func() error) (call, loop time.Duration, err error) {
	call, loops, err := inTurns(least, f, r.loop)
	return call, loops[0], err
}

// inTurns calls f and each reference in turn, for the same processor time and for at least so much of f, and
// returns how long one call of each took: medians of all turns, so that a moment in which something else has
// the processor counts as one turn of many.
func inTurns(least time.Duration, f func() error, references ...func() int64) (call time.Duration,
	each []time.Duration, err error) {
	var calls []time.Duration
	others := make([][]time.Duration, len(references))
	each = make([]time.Duration, len(references))
	for spent := time.Duration(0); spent < least; {
		n, begun, used := 0, cpu(), time.Duration(0)
		for ; used < turn; used = cpu() - begun {
			if err := f(); err != nil {
				return 0, each, err
			}
			n++
		}
		calls = append(calls, used/time.Duration(n))
		for i, do := range references {
			others[i] = append(others[i], timed(used, do))
		}
		spent += used
	}
	for i := range each {
		each[i] = quantile(others[i], 0.5)
	}
	return quantile(calls, 0.5), each, nil
}

// timed measures one call, by as many calls as take at least so long.
func timed(least time.Duration, do func() int64) time.Duration {
	n, begun, used := 0, cpu(), time.Duration(0)
	for ; used < least; used = cpu() - begun {
		for range 16 {
			do()
			n++
		}
	}
	return used / time.Duration(n)
}

// turn is the least time of one: all shall see the same machine, and reading its clock be nothing.
const turn = 5 * time.Millisecond
