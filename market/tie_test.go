package market

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/market/flow"
)

// Of all assignments of greatest welfare, Clear takes the one that serves most and then has the greatest sum
// of hash bits: found here by trying every assignment.
func TestTiesAgainstBruteForce(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 60))
	ties := 0
	for n := range times(2000) {
		r := randomRound(rng, 5, 3, []int64{2, 3, 5}[n%3])
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		best, count := bestByHash(&r)
		var got []int32
		var l layout
		l.of(&r)
		for range r.Tasks {
			got = append(got, -1)
		}
		for _, p := range placesOf(&r, &o) {
			got[p.task] = l.first[p.agent] + int32(p.seat)
		}
		if !slices.Equal(got, best) {
			t.Fatalf("seed %d, round %d: took %v, want %v of %d equally good\n%+v", seed, n, got, best, count,
				r)
		}
		if count > 1 {
			ties++
		}
	}
	if ties == 0 {
		t.Error("no ties: the test sees nothing")
	}
}

// Who of equals is served falls by the salt of the round before, and not by what that round says: of what
// others were expected to find cached nobody learns by a lot.
func TestLotsTellNothingOfEarlierRounds(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 61))
	lots := 0
	for n := range times(2000) {
		r := randomRound(rng, 5, 3, 2)
		if n%10 == 9 {
			r = postedRound(rng, 5, 3, 2)
		}
		outcome := func() string {
			whole, said := r, ""
			if r.Rule.Pricing != PricingPosted {
				k, err := new(Cutter).Cut(&whole, make([]time.Duration, len(r.Edges)), FullShare, nil, 0, nil)
				if err != nil {
					t.Fatal(err)
				}
				said = fmt.Sprint(k.Tasks, k.At)
			}
			o, err := Clear(r)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%s %+v", said, o)
		}
		before := outcome()
		r.Prev[lotBytes+rng.IntN(len(r.Prev)-lotBytes)]++
		if after := outcome(); after != before {
			t.Fatalf("seed %d, round %d: after a round that says something else\n%s\nis\n%s", seed, n, before, after)
		}
		if r.Prev[rng.IntN(lotBytes)]++; outcome() != before {
			lots++
		}
	}
	if lots == 0 {
		t.Error("no lots: the test sees nothing")
	}
}

// Of agents that are as good to those who come the emptiest have them, each its first; and of those that are
// as full whichever a lot names.
func TestTheEmptiestOfEqualsHasIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 62))
	const agents = 6
	named := map[AgentID]int{}
	for n := range 300 {
		r := Round{Domain: "math", Rule: taskRule}
		room := make([]uint8, agents)
		for i := range agents {
			r.Agents = append(r.Agents, Supply{Agent: AgentID(rune('a' + i)),
				Seats: []Seat{{Slots: 1}, {Slots: 1, In: time.Millisecond}}})
			room[i] = uint8(i)
		}
		rng.Shuffle(agents, func(i, j int) { room[i], room[j] = room[j], room[i] })
		if n%3 == 0 {
			room = slices.Repeat([]uint8{FullRoom}, agents)
		}
		come := 1 + n%2
		for k := range come {
			id := string(rune('a' + k))
			r.Tasks = append(r.Tasks, Task{ID: TaskID(id), Client: id, Second: Credit})
			for i := range agents {
				r.Edges = append(r.Edges, Edge{Task: k, Agent: i, Value: Credit, Cost: Credit / 2})
			}
		}
		binary.LittleEndian.PutUint64(r.Prev[:], rng.Uint64())
		keeps := make([]time.Duration, len(r.Edges))
		if _, err := new(Cutter).Cut(&r, keeps, FullShare, room, 0, nil); err != nil {
			t.Fatal(err)
		}
		o, err := Clear(r)
		if err != nil || len(o.Awards) != come {
			t.Fatalf("%v: %v", o, err)
		}
		for _, a := range o.Awards {
			if at := int(a.Agent[0] - 'a'); n%3 == 0 {
				named[a.Agent]++
			} else if int(room[at]) < agents-come {
				t.Fatalf("of room %v agent %d has a task of %d", room, at, come)
			}
		}
	}
	if len(named) < agents {
		t.Errorf("of equals only %v are named", named)
	}
}

// bestByHash tries every assignment; count is how many have the greatest welfare.
func bestByHash(r *Round) (best []int32, count int) {
	var l layout
	l.of(r)
	keys := r.tieKeys(l.seats)
	shift := 64 - flow.TieBits(len(l.seats))
	free := slices.Clone(l.slots)
	at := make([]int32, len(r.Tasks))
	type score struct {
		welfare, served int64
		hash            uint64
	}
	most := score{welfare: -1}
	var try func(t int, s score)
	try = func(t int, s score) {
		if t == len(at) {
			if s.welfare > most.welfare {
				count = 0
			}
			if s.welfare >= most.welfare {
				count++
			}
			if s.welfare > most.welfare || s.welfare == most.welfare &&
				(s.served > most.served || s.served == most.served && s.hash > most.hash) {
				most, best = s, slices.Clone(at)
			}
			return
		}
		at[t] = -1
		try(t+1, s)
		for e := l.off[t]; e < l.off[t+1]; e++ {
			if a := l.seat[e]; free[a] > 0 {
				free[a]--
				at[t] = a
				try(t+1, score{s.welfare + l.weight[e], s.served + 1, s.hash + keys.hash(int32(t), a)>>shift})
				free[a]++
				at[t] = -1
			}
		}
	}
	try(0, score{})
	return best, count
}

// Of equally good plans that serve as many, the one is taken in which the most begin, and of those the one in
// which the smallest turns do: found here by trying every plan.
func TestTurns(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 61))
	moved := 0
	for n := range times(2000) {
		r := randomRound(rng, 5, 3, []int64{2, 3}[n%2])
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		got := [4]int{int(o.Welfare), len(o.Awards) + len(o.Planned), len(o.Awards)}
		for _, p := range placesOf(&r, &o) {
			if p.award != nil {
				got[3] -= r.Tasks[p.task].Turn
			}
		}
		best, least := bestByTurn(&r)
		if got != best {
			t.Fatalf("seed %d, round %d: welfare, served, begun and turns are %v, want %v\n%+v\n%+v", seed, n, got,
				best, r, o)
		}
		if least != best {
			moved++
		}
	}
	if moved == 0 {
		t.Error("all plans had the same turns: the test sees nothing")
	}
}

// bestByTurn tries every plan: what the best has, and what the worst of those that serve as many.
func bestByTurn(r *Round) (best, least [4]int) {
	var l layout
	l.of(r)
	free := slices.Clone(l.slots)
	best[0] = -1
	var try func(t int, s [4]int)
	try = func(t int, s [4]int) {
		if t == len(r.Tasks) {
			switch {
			case slices.Compare(s[:2], best[:2]) > 0:
				best, least = s, s
			case slices.Equal(s[:2], best[:2]) && slices.Compare(s[:], best[:]) > 0:
				best = s
			case slices.Equal(s[:2], best[:2]) && slices.Compare(s[:], least[:]) < 0:
				least = s
			}
			return
		}
		try(t+1, s)
		for e := l.off[t]; e < l.off[t+1]; e++ {
			a := l.seat[e]
			if free[a] == 0 {
				continue
			}
			free[a]--
			x := [4]int{s[0] + int(l.weight[e]), s[1] + 1, s[2], s[3]}
			if !l.later[a] {
				x[2], x[3] = x[2]+1, x[3]-r.Tasks[t].Turn
			}
			try(t+1, x)
			free[a]++
		}
	}
	try(0, [4]int{})
	return best, least
}

// What decides between equals stays within its bits, and each level is worth more than all below it that one
// exchange changes, at every number of seats.
func TestPreference(t *testing.T) {
	for _, seats := range []int{1, 2, 3, 100, 1000, 1400, 3000, 16_000, MostSeats} {
		p := preferenceOf(seats)
		first, last := &Task{}, &Task{Turn: MaxTurn}
		chain := uint64(seats + 1)
		value := func(t *Task, later bool, hash uint64) uint64 {
			return p.of(t, later, hash) >> (64 - p.width)
		}
		all := ^uint64(0)
		if p.of(first, false, all)<<p.width != 0 || p.hash < leastHash && seats < 3000 {
			t.Errorf("%d seats: %+v", seats, p)
		}
		if value(last, false, 0) <= chain*(value(first, false, all)-value(last, false, 0)) ||
			value(last, false, 0) <= chain*value(last, true, all) {
			t.Errorf("%d seats: to begin is worth too little: %+v", seats, p)
		}
		if seats > 1000 {
			chain = 1
		}
		if p.turn <= chain*value(first, true, all) && seats < MostSeats {
			t.Errorf("%d seats: a turn is worth too little: %+v", seats, p)
		}
		t.Logf("%d seats: turns %v, %d bits of hash", seats, p.turn > 0, p.hash)
	}
}
