package virtual

import (
	"math"
	"math/rand/v2"
	"time"
)

// together is the time within which all callers of a closed loop begin.
const together = 20 * time.Millisecond

// begin plans the first questions.
func (r *run) begin() {
	switch {
	case r.Timed > 0:
		r.timed()
	case r.Ring > 0:
		for place := range r.Ring {
			lots := r.lots(place)
			r.ring = append(r.ring, r.dialogue(place, lots))
		}
		for caller := range r.Callers {
			r.goRound(begins(r.lots(caller)))
		}
	case len(r.Crews) > 0:
		r.hire()
	case r.Callers > 0:
		for caller := range r.Callers {
			lots := r.lots(caller)
			r.play(begins(lots), caller, lots)
		}
	case r.Rate > 0:
		r.already()
		r.arrive(0)
	default:
		for caller, at := range r.Arrive {
			r.play(at, caller, r.lots(caller))
		}
	}
}

func begins(lots *rand.Rand) time.Duration { return time.Duration(lots.Int64N(int64(together))) }

// lots is a caller's source of random numbers, which is the same under any policy. It decides which dialogues
// the caller plays, how long it thinks, and what an answer is worth to it.
func (s *Setting) lots(caller int) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, mix(uint64(caller))))
}

// Questions returns a caller's questions in the first plays of a closed loop, turn by turn. They are for
// replays by the clock; Think of each is how long the caller thinks before it.
func (s *Setting) Questions(caller, plays int) (out []*Request) {
	lots := s.lots(caller)
	think := begins(lots)
	for n := range plays {
		play := caller*plays + n + 1
		script := s.Scripts[lots.IntN(len(s.Scripts))]
		hashes := script.blocksOf(play, 0, s.Engine.BlockSize, s.group(caller), nil)
		for turn := range script.turns {
			q := &Request{Caller: caller, Play: play, Turn: turn, Group: s.group(caller), Think: think,
				script: script, lots: lots, Job: Job{Hashes: hashes}}
			s.ask(q)
			out = append(out, q)
			think = s.thinks(lots)
		}
	}
	return out
}

// ask fills in what is asked, and what the answer is worth.
func (s *Setting) ask(q *Request) {
	t := q.script.turns[q.Turn]
	q.Prompt, q.Output, q.Engine = t.prompt, t.output+s.Thought, Wait
	q.Terms, q.Temper = s.terms(q)
	q.asked = q.script.asked
}

// thinks returns how long a caller thinks before its next question.
func (s *Setting) thinks(lots *rand.Rand) time.Duration {
	if s.Think <= 0 {
		return 0
	}
	if s.Sigma > 0 {
		return time.Duration(math.Exp(s.Sigma*lots.NormFloat64()-s.Sigma*s.Sigma/2) * float64(s.Think))
	}
	return time.Duration(lots.ExpFloat64() * float64(s.Think))
}

// arrive plans the arrivals of an open loop, one by one.
func (r *run) arrive(at time.Duration) {
	at += time.Duration(r.random.ExpFloat64() / r.Rate * 1e9)
	r.asking++
	r.add(at, func(now time.Duration) {
		r.asking--
		if !r.over(now) {
			caller := r.plays
			if r.Clients > 0 {
				caller %= r.Clients
			}
			r.play(now, caller, r.lots(r.plays))
			r.arrive(now)
		}
	})
}

// already has dialogues go on that began before: within the time that a task then has, by how many of them
// there are and how many come in a second.
func (r *run) already() {
	turns := 0
	for _, x := range r.Scripts {
		turns += len(x.turns)
	}
	within := float64(r.Already) / (r.Rate * float64(turns) / float64(len(r.Scripts)))
	for range r.Already {
		lots := r.lots(r.plays)
		r.play(time.Duration(within*lots.Float64()*float64(time.Second)), r.plays, lots)
	}
}

// flood plans what a flood asks, one by one.
func (r *run) flood(at time.Duration, random *rand.Rand) {
	at += time.Duration(random.ExpFloat64() / r.Flood.Rate * 1e9)
	if at >= r.Flood.To {
		return
	}
	r.asking++
	r.add(at, func(now time.Duration) {
		r.asking--
		r.play(now, Flooder, r.lots(Flooder+r.plays))
		r.flood(now, random)
	})
}

// over reports whether nothing more is asked.
func (r *run) over(now time.Duration) bool {
	if r.Enough != nil && r.Enough() {
		return true
	}
	if r.Tasks > 0 {
		return len(r.all) >= r.Tasks
	}
	return now >= r.Length
}

// play has a caller begin a dialogue.
func (r *run) play(at time.Duration, caller int, lots *rand.Rand) {
	r.plays++
	play := r.plays
	script := r.Scripts[lots.IntN(len(r.Scripts))]
	q := &Request{Caller: caller, Play: play, script: script, lots: lots}
	if r.Midway && play <= r.Callers || play <= r.Already {
		q.Turn = lots.IntN(len(script.turns))
	}
	r.turn(at, q)
}

// dialogue is the first question of a new dialogue.
func (r *run) dialogue(caller int, lots *rand.Rand) *Request {
	r.plays++
	return &Request{Caller: caller, Play: r.plays, script: r.Scripts[lots.IntN(len(r.Scripts))], lots: lots}
}

// goRound has the next dialogue of the ring asked.
func (r *run) goRound(at time.Duration) {
	q := r.ring[0]
	r.ring = r.ring[1:]
	r.turn(at, q)
}

// rest puts the dialogue of an answer back into the ring, or a new one.
func (r *run) rest(q *Request) {
	next := &Request{Caller: q.Caller, Play: q.Play, Turn: q.Turn + 1, script: q.script, lots: q.lots,
		Job: Job{Hashes: q.Hashes}}
	if q.Refused || next.Turn == len(q.script.turns) {
		next = r.dialogue(q.Caller, q.lots)
	}
	r.ring = append(r.ring, next)
}

// timed plans all turns when they were recorded.
func (r *run) timed() {
	begins := r.stretch()
	for i, script := range r.Scripts {
		r.plays++
		for turn, t := range script.turns {
			if t.at < begins {
				continue
			}
			r.turn(time.Duration(float64(t.at-begins)/r.Timed), &Request{Caller: i, Play: r.plays, Turn: turn,
				script: script, lots: r.lots(i)})
		}
	}
}
