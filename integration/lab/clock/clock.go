// Package clock plays the traces of package virtual by the clock: on stand-in engines over HTTP, behind the
// whole market in this process or behind a router that follows a rule. What comes of it differs from run to
// run, and is there to be held against the figures of virtual time.
package clock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus/follow"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Play plays one run of a setting whose callers ask one question after another; see [virtual.CrowdOptions].
// It is played on the servers, or without any on stand-ins.
func Play(ctx context.Context, servers *Servers, s virtual.Setting, rule string, named bool) (
	f virtual.Measures, err error) {
	if s.Callers < 1 || s.Tasks < 1 {
		return f, errors.New("by the clock there are callers, who ask a number of tasks in all")
	}
	if s.Groups != 0 {
		return f, errors.New("by the clock all callers share one cache group: take @ from the trace's name, or " +
			"leave --real out")
	}
	// Three times what each asks if all ask as much, and then none is left with nothing to ask. A dialogue
	// has four questions or more.
	plays := 1 + 3*s.Tasks/s.Callers/4
	questions := make([][]*virtual.Request, s.Callers)
	for caller := range questions {
		questions[caller] = s.Questions(caller, plays)
	}
	if servers != nil {
		return servers.play(ctx, s, questions, rule, named)
	}
	answers := vllmsim.Answers{}
	for _, own := range questions {
		for _, q := range own {
			answers.Add(q.Messages(), q.Answer())
		}
	}
	urls, closeAll, err := engines(&s, answers)
	defer closeAll()
	if err != nil {
		return f, err
	}
	r := run{s: &s, questions: questions, named: named, send: plain,
		task: func(q *virtual.Request) []byte { return q.Body(named) }}
	all, err := r.play(ctx, urls, rule)
	if err != nil {
		return f, err
	}
	return s.Measure(all), nil
}

// run plays a rule or the market once, on one set of engines.
type run struct {
	s         *virtual.Setting
	questions [][]*virtual.Request // of each caller
	named     bool
	send      func(*virtual.Request) []byte // a request's body, as a router gets it
	task      func(*virtual.Request) []byte // and as a market does

	// what readies a question for being asked, false where it cannot be; nil: they are ready
	ready func(context.Context, *virtual.Request) (bool, error)
	amid  func() // is called when two fifths of the tasks were asked; nil: nothing is
	lost  int    // tasks whose engine went away
}

// play puts a market or a router before engines, and plays. Lost tasks are not among those that come back.
func (r *run) play(ctx context.Context, urls []string, rule string) (all []*virtual.Request, err error) {
	var ask func(context.Context, *virtual.Request) error
	var end func() error
	if rule == virtual.MarketName {
		ask, end, err = r.throughMarket(ctx, urls)
	} else {
		ask, end, err = throughRouter(ctx, r.s, urls, rule, r.send)
	}
	if err != nil {
		return nil, err
	}
	all, err = r.ask(ctx, ask)
	if err = errors.Join(err, end()); err != nil {
		return nil, err
	}
	return all, nil
}

// engines are stand-ins of the setting's size.
func engines(s *virtual.Setting, answers vllmsim.Answers) (urls []string, closeAll func(), err error) {
	var all []*vllmsim.Server
	closeAll = func() {
		for _, e := range all {
			_ = e.Close()
		}
	}
	for i := range s.Engines {
		of, _ := s.Nth(i)
		of.Profile.MaxNumBatchedTokens = of.MaxBatched
		e, err := vllmsim.New(vllmsim.Config{Profile: of.Profile, MaxNumSeqs: of.Slots,
			NumGPUBlocks: of.Blocks, BlockSize: of.BlockSize, Answers: answers,
			Seed: s.Seed<<8 + uint64(i)})
		if err != nil {
			return nil, closeAll, err
		}
		all = append(all, e)
		if err := e.Start("127.0.0.1:0"); err != nil {
			return nil, closeAll, err
		}
		urls = append(urls, e.URL())
	}
	return urls, closeAll, nil
}

// ask has every caller ask its questions until enough were asked in all. They come back in the order in which
// they were asked.
func (r *run) ask(ctx context.Context, ask func(context.Context, *virtual.Request) error) (
	all []*virtual.Request, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begun := time.Now()
	var mu sync.Mutex
	lost := map[*virtual.Request]bool{}
	next := func(q *virtual.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(all) >= r.s.Tasks {
			return false
		}
		if len(all) == r.s.Tasks*2/5 && r.amid != nil {
			go r.amid()
		}
		q.ID, q.Arrived = len(all), time.Since(begun)
		all = append(all, q)
		return true
	}
	var callers sync.WaitGroup
	for _, own := range r.questions {
		callers.Go(func() {
			refused := 0 // the play of which a question was refused: its caller begins another
			for _, q := range own {
				if q.Play == refused {
					continue
				}
				if r.ready != nil {
					if fits, err := r.ready(ctx, q); err != nil {
						stop(err)
						return
					} else if !fits {
						refused = q.Play
						continue
					}
				}
				if !follow.Pause(ctx, q.Think) || !next(q) {
					return
				}
				err := ask(ctx, q)
				q.Done = time.Since(begun)
				q.First += q.Arrived
				switch {
				case errors.Is(err, errLost) && r.ready != nil && ctx.Err() == nil:
					mu.Lock()
					lost[q] = true
					mu.Unlock()
				case err != nil:
					stop(fmt.Errorf("caller %d: %w", q.Caller, err))
				case q.Refused:
					refused = q.Play
				}
			}
		})
	}
	callers.Wait()
	r.lost = len(lost)
	return slices.DeleteFunc(all, func(q *virtual.Request) bool { return lost[q] }), context.Cause(ctx)
}

// served writes down who served a request, and what its engine counted. It is an error if that is not what
// was asked: then the figures would be of something else.
func served(q *virtual.Request, u market.Usage, engine int) error {
	if u.Prompt != q.Prompt || u.Output != q.Output {
		return fmt.Errorf("turn %d of play %d has %d and %d tokens; its engine counts %d and %d", q.Turn,
			q.Play, q.Prompt, q.Output, u.Prompt, u.Output)
	}
	q.Cached, q.Engine = u.Cached, engine
	return nil
}
