package market

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"sync"

	"souk/market/flow"
)

// Among plans of equal weight that serve as many, the one is taken in which the most tasks begin; then those
// with the smaller turns; then a hash decides, by a seed that no client chooses. Each is a level of bits of
// what package flow sums up. One exchange moves at most one task for each seat, and one more: so each level
// is worth more than all that such an exchange changes below it. Where many seats leave no room for that,
// above a thousand, a turn is worth more than the hash of one task alone; above ten thousands turns are not
// looked at.
const (
	turnBits  = 10
	roomBits  = 3 // the first of the hash where a round is planned: see [Cutter.Cut]
	leastHash = 6 // bits of the hash that are left below turns
)

// FullRoom is the room of an agent that runs nothing.
const FullRoom = 1<<roomBits - 1

// preference weighs a task in a seat among equals.
type preference struct {
	begin, turn uint64 // what a seat of now is worth, and each turn that a task is before the last
	width, hash int    // bits that count, of 64 the highest, and bits of the hash
}

func preferenceOf(seats int) preference {
	p := preference{width: flow.TieBits(seats)}
	step := bits.Len(uint(seats + 1))
	p.begin, p.hash = 1<<(p.width-1), p.width-1-step
	if below := p.hash - turnBits - step; below >= leastHash {
		p.turn, p.hash = 1<<(below+step), below
	} else if below := p.hash - turnBits; below >= 0 {
		p.turn, p.hash = 1<<below, below
	}
	return p
}

// of is 64 bits for a task in a seat; later: that is to come.
func (p *preference) of(t *Task, later bool, hash uint64) uint64 {
	x := hash >> (64 - p.hash)
	if !later {
		x += p.begin + p.turn*uint64(MaxTurn-t.Turn)
	}
	return x << (64 - p.width)
}

// lotBytes are the first of Prev, by which lots fall. The others are a hash of what the round before says of
// others' prompts, cached parts among it: a guess of that could be tried on a lot that fell.
const lotBytes = 16

// tieKeys derives the tie-break's hash of (task, agent, seat) from the round itself, so that no client can
// choose among plans of equal welfare: the seed is a hash of every input and the lot, which a hub draws. Keys
// of tasks and of seats are mixed by a product of 128 bits: sums f(task) + g(seat) are the same for all.
type tieKeys struct {
	r          *Round
	prefer     preference
	seats      []seat
	seed       [32]byte
	buf        []byte
	task, seat [][2]uint64 // each made once it is asked for; 0, 0 before that
}

// canonicals is the memory of rounds that are written to be hashed alone.
var canonicals = sync.Pool{New: func() any { return new([]byte) }}

func (r *Round) tieKeys(seats []seat) tieKeys {
	written, drawn := canonicals.Get().(*[]byte), *r
	clear(drawn.Prev[lotBytes:])
	*written = drawn.AppendCanonical(append((*written)[:0], "souk tie-break 1\n"...))
	seed := sha256.Sum256(*written)
	canonicals.Put(written)
	return tieKeys{r: r, prefer: preferenceOf(len(seats)), seats: seats, seed: seed,
		task: make([][2]uint64, len(r.Tasks)), seat: make([][2]uint64, len(seats))}
}

// ties returns the tie-break's hash, whose keys are made once it is asked: few rounds have a tie.
func (r *Round) ties(seats []seat) func(task, seat int32) uint64 {
	var keys tieKeys
	return func(task, seat int32) uint64 {
		if keys.task == nil {
			keys = r.tieKeys(seats)
		}
		return keys.hash(task, seat)
	}
}

// hash is 64 bits for a task in a seat, by which equals are told apart.
func (k *tieKeys) hash(task, seat int32) uint64 {
	key := func(of *[2]uint64, kind byte, id string, seat int32) [2]uint64 {
		if *of == [2]uint64{} {
			k.buf = append(append(k.buf[:0], k.seed[:]...), kind, byte(seat>>8), byte(seat))
			k.buf = append(k.buf, id...)
			sum := sha256.Sum256(k.buf)
			*of = [2]uint64{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
		}
		return *of
	}
	at := k.seats[seat]
	t := key(&k.task[task], 't', string(k.r.Tasks[task].ID), 0)
	s := key(&k.seat[seat], 'a', string(k.r.Agents[at.agent].Agent), at.at)
	hi, lo := bits.Mul64(t[0]^s[0], t[1]+s[1])
	x := mixed(hi ^ lo ^ t[1] ^ bits.RotateLeft64(s[0], 32))
	return k.prefer.of(&k.r.Tasks[task], k.r.Agents[at.agent].Seats[at.at].Later, x)
}

// mixed spreads what differs over all bits.
func mixed(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
