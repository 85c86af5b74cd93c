package virtual

import (
	"errors"
	"fmt"
	"time"

	"souk/market"
)

// Setting is everything that a run consists of, except the policy.
type Setting struct {
	Engines int
	Engine  EngineConfig
	Fleet   []FleetEngine // the engines, where they differ: as many
	Scripts []*Script
	Pools   []Pool // engines whose prompts others compute

	Callers int             // each plays one dialogue after another, turn by turn
	Crews   []Crew          // instead: so many from some moments on
	Rate    float64         // instead: dialogues that begin in a second, at random (Poisson)
	Clients int             // with Rate, so many clients begin them in turn; 0: each is of its own
	Already int             // with Rate, dialogues under way when it begins, somewhere in their middle
	Groups  int             // cache groups that callers are put into in turn; 0: all share one; or Own
	Arrive  []time.Duration // instead: when dialogues begin, as recorded
	Think   time.Duration   // mean pause before the next question, exponential; 0: none
	Hurried bool            // nobody pauses as long as was recorded
	Sigma   float64         // instead of exponential: log-normal, of the same mean, with this sigma
	// callers share so many dialogues, and each asks the one that was asked longest ago
	Ring   int
	Midway bool    // the first dialogue of each caller goes on from somewhere in its middle
	Timed  float64 // every turn is asked when that was recorded, so many times as fast
	// where Timed has more than Tasks, it begins with a turn that the seed chooses
	Anywhere bool

	Warm    time.Duration // what is asked before then does not count
	Patient time.Duration // how long a task waits for a slot, where that is longer than is usual
	Returns bool          // callers that are told when to come back do
	Stays   bool          // a dialogue goes on after a turn that was refused, so that who asks what is given
	Quiet   time.Duration // agents say no more often than that how they are, if that is longer than usual
	Context int           // tokens that a prompt and its answer may have; 0: 8192

	Tasks  int           // asked in all; the run ends when all are answered
	Length time.Duration // instead of Tasks: nobody asks after that
	// nobody asks any more once it returns true, though there are fewer Tasks; nil: it never does
	Enough func() bool

	// tokens of reasoning that each answer begins with and later prompts leave out: what is cached of an
	// answer is found by nobody
	Thought int

	Slow  []Slowdown // engines that are slower than the others for some time
	Flood Flood      // one client that asks far more than the others, beside them

	Say Terms // what callers say of what answers are worth; "": nothing
	// what they say instead, given the lengths of prompt and answer; nil: as Say has it
	State  func(prompt, output int) market.Terms
	Teller Teller // says it in their place, and in that of owners; nil: all tell the truth
	OneKey bool   // all callers share a client
	Keys   []int  // instead: so many callers are a client, so many the next
	Seed   uint64

	usual market.Credits // what a request costs on the mean: see [Setting.card]; 0: not asked for yet

	Hop    time.Duration // how long a message takes
	Scrape time.Duration // how often the engines' metrics are read
}

// Own is the number of groups where each caller is its own.
const Own = -1

// Alone returns how long the engine that served a request would have taken for what it did not find of the
// prompt in its cache, had it had nothing else to do.
func (s *Setting) Alone(r *Request) time.Duration {
	c := s.engine(r.Engine)
	return c.alone(r.Prompt, r.Cached)
}

// group is a caller's cache group.
func (s *Setting) group(caller int) int {
	switch {
	case s.Groups == Own:
		return caller + 1
	case s.Groups > 1:
		return caller % s.Groups
	}
	return 0
}

// Slowdown is an engine whose steps take several times as long between two times.
type Slowdown struct {
	Engine   int
	From, To time.Duration
	Times    int64
}

// Flood is a client that begins dialogues at random, so many in a second.
type Flood struct {
	From, To time.Duration
	Rate     float64
}

// Flooder is the caller of a flood.
const Flooder = 1_000_000

func (s *Setting) validate() error {
	switch {
	case s.Engines < 1 || len(s.Scripts) == 0:
		return errors.New("virtual: a run needs an engine and a dialogue")
	case len(s.Fleet) > 0 && len(s.Fleet) != s.Engines:
		return fmt.Errorf("virtual: a fleet of %d for %d engines", len(s.Fleet), s.Engines)
	case s.Tasks < 1 && s.Length <= 0:
		return errors.New("virtual: a run needs an end: a number of tasks, or a length")
	case s.Callers < 1 && len(s.Crews) == 0 && s.Rate <= 0 && len(s.Arrive) == 0 && s.Timed <= 0:
		return errors.New("virtual: nobody asks: callers, rate or arrivals are needed")
	case !s.crewsFollow():
		return errors.New("virtual: crews follow one another, and none has fewer than no callers")
	case s.Groups < Own:
		return fmt.Errorf("virtual: %d cache groups", s.Groups)
	case s.Scrape <= 0:
		return errors.New("virtual: engines are looked at in an interval above 0")
	}
	for e := range s.Engines {
		c := s.engine(e)
		capacity := (c.Blocks - 1) * c.BlockSize
		if c.Slots < 1 || c.MaxBatched < c.Slots {
			return fmt.Errorf("virtual: %d slots and %d tokens in a step: each slot needs one", c.Slots,
				c.MaxBatched)
		}
		for i, d := range s.Scripts {
			if last := d.turns[len(d.turns)-1]; last.prompt+last.output > capacity {
				return fmt.Errorf("virtual: dialogue %d has %d tokens, engine %d's cache room for %d", i,
					last.prompt+last.output, e, capacity)
			}
		}
	}
	return s.validatePools()
}
