// Package load puts a running market under load, and measures what its clients see and what its processes
// use.
package load

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"souk/bus"
	"souk/cmd/replay"
)

// Arrivals yields when tasks are sent in an open loop, counted from the start, for so long: a Poisson process
// of rate tasks a second, which during ramp rises to it in a straight line. The same seed gives the same
// times.
func Arrivals(seed uint64, rate float64, ramp, duration time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		random := rand.New(rand.NewPCG(seed, 0x6c6f6164))
		// Arrivals of a process of rate 1 are put where the integral of the rate reaches them: rate t²/2ramp
		// at first, then rate (t - ramp/2).
		rising := ramp.Seconds()
		for n := random.ExpFloat64(); ; n += random.ExpFloat64() {
			t := n/rate + rising/2
			if n < rate*rising/2 {
				t = math.Sqrt(2 * rising * n / rate)
			}
			at := time.Duration(t * float64(time.Second))
			if at >= duration || !yield(at) {
				return
			}
		}
	}
}

// Shape holds what all questions have in common.
type Shape struct {
	Clients   []replay.Client
	Model     string // "" = any
	MaxTokens int    // of an answer; 0: the market's default
	Whole     bool   // answers have MaxTokens, whatever the engine would say: ignore_eos
	Run       string // begins every session's id
}

// Questions are the turns of dialogues, each with the recorded answers before it, so that no question waits
// for an answer: all first turns, then all second ones, and so on. A dialogue ends where an answer was not
// recorded.
type Questions struct {
	shape Shape
	turns []turn
}

type turn struct {
	dialogue, number int
	body             []byte
}

// NewQuestions prepares questions from dialogues.
func NewQuestions(ds []replay.Dialogue, s Shape) (*Questions, error) {
	if len(s.Clients) == 0 {
		return nil, fmt.Errorf("a load needs at least one client")
	}
	q := &Questions{shape: s}
	said := make([][]replay.Message, len(ds))
	for number, more := 0, true; more; number++ {
		more = false
		for i, d := range ds {
			if number >= len(d.Turns) || number > 0 && d.Turns[number-1].Answer == "" {
				continue
			}
			if number == 0 && d.System != "" {
				said[i] = append(said[i], replay.Message{Role: "system", Content: d.System})
			}
			if number > 0 {
				said[i] = append(said[i],
					replay.Message{Role: "assistant", Content: d.Turns[number-1].Answer})
			}
			said[i] = append(said[i], replay.Message{Role: "user", Content: d.Turns[number].User})
			body, err := json.Marshal(replay.Chat{Model: s.Model, Messages: said[i], MaxTokens: s.MaxTokens,
				Whole: s.Whole, Stream: true})
			if err != nil {
				return nil, err
			}
			q.turns, more = append(q.turns, turn{i, number, body}), true
		}
	}
	if len(q.turns) == 0 {
		return nil, fmt.Errorf("no dialogue has a turn")
	}
	return q, nil
}

// Task is question n, from 0.
func (q *Questions) Task(n int) bus.Task {
	t, pass := q.turns[n%len(q.turns)], n/len(q.turns)
	c := q.shape.Clients[(t.dialogue+pass)%len(q.shape.Clients)]
	return bus.Task{
		Client: c.ID, Kind: bus.KindChat, Body: t.body, Stream: true, Terms: c.Terms,
		MaxTokens: q.shape.MaxTokens, Model: q.shape.Model,
		Session: fmt.Sprintf("%s-%d-%d", q.shape.Run, pass, t.dialogue), Turn: t.number, Run: q.shape.Run,
	}
}
