package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/likeness"
)

// Answer is the outcome of one turn.
type Answer struct {
	Text   string
	Result bus.Result
	TTFT   time.Duration // from asking to the first text, as the client saw it; 0 if there was none

	// how good it is by the answer that was recorded, 0 to 1; nil where none was, or it did not end well
	Quality *float64
}

// Market asks one task and returns when its answer has ended. A refusal is a Result with a code, not
// an error; an error means that the market could not be spoken to.
type Market func(ctx context.Context, t bus.Task) (Answer, error)

// Config says how dialogues are played.
type Config struct {
	Clients     []Client // dialogue i is asked by client i modulo their number
	Concurrency int      // dialogues under way at a time, at least 1
	MaxTokens   int      // of one answer; 0: the market's default
	Model       string   // "" = any
	Run         string   // begins every session's id, so that two replays do not share sessions
	Retries     int      // of a turn that was refused for now (Result.RetryMS > 0)

	// Arrivals, if not nil, says when each dialogue begins, counted from the start; Concurrency still holds.
	Arrivals []time.Duration
	// Turn, if not nil, is called after every turn, from many goroutines.
	Turn func(d Dialogue, c Client, a Answer)
	// Judge, if not nil, is called with every answer that has a Quality, likewise.
	Judge func(a Answer)
}

// MaxRetryWait bounds how long a player waits before it asks a refused turn again.
const MaxRetryWait = 2 * time.Second

// Played says how far a replay came.
type Played struct {
	Dialogues int // played to their last turn
	BrokenOff int // ended early by a refusal, or by ctx
}

// Play asks every dialogue's turns in order, feeding back the answers received, and returns when all have
// ended. The first error of market ends the replay.
func Play(ctx context.Context, ds []Dialogue, cfg Config, market Market) (Played, error) {
	if len(cfg.Clients) == 0 || cfg.Concurrency < 1 {
		return Played{}, errors.New("a replay needs at least one client and a concurrency of at least 1")
	}
	if cfg.Arrivals != nil && len(cfg.Arrivals) != len(ds) {
		return Played{}, fmt.Errorf("%d arrivals for %d dialogues", len(cfg.Arrivals), len(ds))
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		next = make(chan int)
		mu   sync.Mutex
		done Played
		wg   sync.WaitGroup
	)
	for range min(cfg.Concurrency, len(ds)) {
		wg.Go(func() {
			for i := range next {
				whole, err := playOne(ctx, ds[i], i, cfg, market)
				if err != nil {
					stop(fmt.Errorf("dialogue %s: %w", ds[i].ID, err))
				}
				mu.Lock()
				if whole {
					done.Dialogues++
				} else {
					done.BrokenOff++
				}
				mu.Unlock()
			}
		})
	}
	begin := time.Now()
	for i := range ds {
		if cfg.Arrivals != nil && !follow.Pause(ctx, time.Until(begin.Add(cfg.Arrivals[i]))) {
			break
		}
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return done, context.Cause(ctx)
}

// Message is a message of an OpenAI chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Chat is the body of a streamed chat, in the form of OpenAI's API.
type Chat struct {
	Model     string    `json:"model,omitempty"`
	Messages  []Message `json:"messages"`
	MaxTokens int       `json:"max_tokens,omitempty"`
	Whole     bool      `json:"ignore_eos,omitempty"` // it has MaxTokens, whatever the engine would say
	Stream    bool      `json:"stream"`
}

// playOne asks one dialogue's turns; whole says that the last one was answered.
func playOne(ctx context.Context, d Dialogue, i int, cfg Config, market Market) (whole bool, err error) {
	client := cfg.Clients[i%len(cfg.Clients)]
	var said []Message
	if d.System != "" {
		said = append(said, Message{"system", d.System})
	}
	hub := ""
	for turn, t := range d.Turns {
		said = append(said, Message{"user", t.User})
		body, err := json.Marshal(Chat{cfg.Model, said, cfg.MaxTokens, false, true})
		if err != nil {
			return false, err
		}
		task := bus.Task{
			Client: client.ID, Kind: bus.KindChat, Body: body, Stream: true, Terms: client.Terms,
			MaxTokens: cfg.MaxTokens,
			Model:     cfg.Model, Session: fmt.Sprintf("%s-%d", cfg.Run, i), Turn: turn, Run: cfg.Run,
			Hub: hub,
		}
		a, err := ask(ctx, task, cfg, market, func(a Answer) {
			if t.Answer != "" && a.Result.Code == "" {
				quality := likeness.Judge(a.Text, t.Answer)
				if a.Quality = &quality; cfg.Judge != nil {
					cfg.Judge(a)
				}
			}
			if cfg.Turn != nil {
				cfg.Turn(d, client, a)
			}
		})
		if err != nil || a.Result.Code != "" {
			return false, err
		}
		said = append(said, Message{"assistant", a.Text})
		hub = a.Result.Hub
	}
	return true, nil
}

// ask asks a turn, again while it is refused for now; every attempt is told to each.
func ask(ctx context.Context, t bus.Task, cfg Config, market Market, each func(Answer)) (Answer, error) {
	for try := 0; ; try++ {
		a, err := market(ctx, t)
		if ctx.Err() != nil {
			return a, nil // whoever stopped the replay knows why
		}
		if err != nil {
			return a, err
		}
		each(a)
		if a.Result.Code == "" || a.Result.RetryMS <= 0 || try >= cfg.Retries {
			return a, nil
		}
		wait := min(time.Duration(a.Result.RetryMS)*time.Millisecond, MaxRetryWait)
		if !follow.Pause(ctx, wait) {
			return a, nil
		}
	}
}
