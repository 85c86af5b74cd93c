package market

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// Ground holds the inputs of a round's tolls, from which the next prices a second are learned, too.
// Prices and tolls follow from that and from the rounds before: see [Rates]. A round whose slots cost
// nothing, and of which nobody wants one more, has none: its Loads are nil.
type Ground struct {
	At   int64  // Unix milliseconds, at least 0, by a clock that nobody sets: when its tolls were made
	Lost uint32 // what of a seat to come is lost until it comes, on the mean, of [FullShare]
	// of those that run something, the agent where a slot costs least: everybody would pay that, so nobody
	// does; without a name nothing is left off
	Common  AgentID
	Service time.Duration // of that agent
	Refused []string      // clients whose tasks were refused of late: see [Refuses]
	Loads   []Load        // one for each of Round.Agents
	Stays   []Stay        // one for each of Round.Edges
}

// MostRefused bounds the clients that a ground names.
const MostRefused = 3

// Refuses reports whether what everybody would pay is charged at an agent: whether of the refused clients,
// but for the one named, two had tasks that might have gone there, by its bits, and were told after a wait
// that they are not worth a slot. Who is served where others are refused has what these would have had. One
// client alone moves no toll so, and its own tasks move none of what it is charged.
func Refuses(refused []string, there uint8, but string) bool {
	clients := 0
	for i, c := range refused {
		if there>>i&1 != 0 && c != but && !slices.Contains(refused[:i], c) {
			clients++
		}
	}
	return clients > 1
}

// common returns what everybody would pay and nobody does at an agent, where a second of the least of slots
// costs so much, had a client not been there; "": all are there.
func (g *Ground) common(l *Load, second Credits, but string) Credits {
	if Refuses(g.Refused, l.Refused, but) {
		return 0
	}
	return PerSecond(second, g.Service)
}

// Load is the price of an agent's slot, with its inputs.
type Load struct {
	Second  Credits       // what a second of a slot costs, by rounds before
	Service time.Duration // for which tasks keep a slot by themselves, on the mean, in whole milliseconds
	Running int
	Spare   bool  // the plan leaves a slot free
	Refused uint8 // bits of Ground.Refused, the first the lowest: their tasks might have gone there
}

// Stay is a task's use of an agent.
type Stay struct {
	Service time.Duration // for which it keeps its slot by itself, in whole milliseconds
	Prefill time.Duration // for which its prompt is computed, in whole steps of [PrefillStep]
	Mine    int           // tasks of its client that run there
}

// PrefillStep is the precision of prefills in a record.
const PrefillStep = 100 * time.Microsecond

// WholeService is a service as a record says it.
func WholeService(d time.Duration) time.Duration {
	return max(0, min(d, MaxIn)).Truncate(time.Millisecond)
}

// WholePrefill is a prefill as a record says it.
func WholePrefill(d time.Duration) time.Duration { return max(0, min(d, MaxIn)).Truncate(PrefillStep) }

// Keeps returns the time for which a task keeps slots from others: its own, and those of all who run there
// while its prompt is computed.
func (s Stay) Keeps(running int) time.Duration {
	return s.Service + time.Duration(running)*min(s.Prefill, MaxIn/1024)
}

// Toll returns a slot's cost to others, at least 0, at a price a second, less what everybody would pay.
func (s Stay) Toll(second Credits, running int, common Credits) Credits {
	return min(max(0, PerSecond(second, s.Keeps(running))-common), MaxWorth)
}

// AppendCanonical appends the bytes of a round's ground to b: its loads, a list of: second; service in
// milliseconds; 16 times those running, twice refused, and 1 where a slot is spare. If there are any, at,
// lost, common string, service in milliseconds, a list of refused string follow, and of each edge: service in
// milliseconds, prefill in steps of 100 us, mine.
func (g *Ground) AppendCanonical(b []byte) []byte {
	b = appendCount(b, len(g.Loads))
	if len(g.Loads) == 0 {
		return b
	}
	for _, l := range g.Loads {
		b = binary.AppendUvarint(b, uint64(l.Second))
		b = binary.AppendUvarint(b, uint64(l.Service/time.Millisecond))
		running := 16*uint64(l.Running) + 2*uint64(l.Refused)
		if l.Spare {
			running++
		}
		b = binary.AppendUvarint(b, running)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(g.At)), uint64(g.Lost))
	b = binary.AppendUvarint(appendString(b, string(g.Common)), uint64(g.Service/time.Millisecond))
	b = appendCount(b, len(g.Refused))
	for _, c := range g.Refused {
		b = appendString(b, c)
	}
	for _, s := range g.Stays {
		b = binary.AppendUvarint(b, uint64(s.Service/time.Millisecond))
		b = binary.AppendUvarint(b, uint64(s.Prefill/PrefillStep))
		b = binary.AppendUvarint(b, uint64(s.Mine))
	}
	return b
}

// Ground reads what [Ground.AppendCanonical] wrote of a round, into one whose memory is used again.
func (d *Decoder) Ground(r *Round, g *Ground) {
	loads, stays := g.Loads[:0], g.Stays[:0]
	*g = Ground{Loads: loads, Stays: stays, Refused: g.Refused[:0]}
	n := d.Count(3)
	if n > 0 && n != len(r.Agents) {
		d.Fail("what slots cost is not of the round's agents")
	}
	if n == 0 || d.Fault != "" {
		return
	}
	whole := func(most int64) int64 { // a number of units, at most so many
		x := d.Uvarint()
		if x > uint64(most) {
			d.Fail("a number beyond all bounds")
			return 0
		}
		return int64(x)
	}
	span := func(unit time.Duration) time.Duration { return time.Duration(whole(int64(MaxIn/unit))) * unit }
	g.Loads, g.Stays = resize(loads, n), resize(stays, len(r.Edges))
	for i := range g.Loads {
		l := &g.Loads[i]
		*l = Load{Second: Credits(whole(int64(MaxWorth))), Service: span(time.Millisecond)}
		running := whole(16*MaxSlots + 15)
		l.Running, l.Refused, l.Spare = int(running>>4), uint8(running>>1&7), running&1 != 0
	}
	g.At, g.Lost, g.Common = whole(math.MaxInt64), uint32(whole(FullShare)), AgentID(d.Text())
	g.Service = span(time.Millisecond)
	switch n := d.Count(1); n {
	case 0:
	case MostRefused - 1, MostRefused:
		for range n {
			g.Refused = append(g.Refused, d.Text())
		}
	default:
		d.Fail("refused clients are two or three")
	}
	for i := range g.Stays {
		g.Stays[i] = Stay{span(time.Millisecond), span(PrefillStep), int(whole(MaxSlots))}
		if d.Fault != "" {
			return
		}
	}
}
