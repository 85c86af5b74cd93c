// Package clock plays the traces of package virtual by the clock: on stand-in engines over HTTP, behind the
// whole market in this process or behind a router that follows a rule. What comes of it differs from run to
// run, and is there to be held against the figures of virtual time.
package clock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/follow"
	"souk/bus/openai"
	"souk/cmd/local"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Play plays one run of a setting whose callers ask one question after another; see [virtual.CrowdOptions].
func Play(ctx context.Context, s virtual.Setting, rule string, named bool) (f virtual.Measures, err error) {
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
	answers := vllmsim.Answers{}
	for caller := range questions {
		questions[caller] = s.Questions(caller, plays)
		for _, q := range questions[caller] {
			answers.Add(q.Messages(), q.Answer())
		}
	}
	urls, closeAll, err := engines(&s, answers)
	defer closeAll()
	if err != nil {
		return f, err
	}
	var ask func(context.Context, *virtual.Request) error
	var end func() error
	if rule == virtual.MarketName {
		ask, end, err = throughMarket(ctx, &s, urls, named)
	} else {
		ask, end, err = throughRouter(&s, urls, rule)
	}
	if err != nil {
		return f, err
	}
	all, err := play(ctx, &s, questions, ask)
	if err = errors.Join(err, end()); err != nil {
		return f, err
	}
	return s.Measure(all), nil
}

// engines are stand-ins of the setting's size.
func engines(s *virtual.Setting, answers vllmsim.Answers) (urls []string, closeAll func(), err error) {
	var all []*vllmsim.Server
	closeAll = func() {
		for _, e := range all {
			_ = e.Close()
		}
	}
	profile := s.Engine.Profile
	profile.MaxNumBatchedTokens = s.Engine.MaxBatched
	for i := range s.Engines {
		e, err := vllmsim.New(vllmsim.Config{Profile: profile, MaxNumSeqs: s.Engine.Slots,
			NumGPUBlocks: s.Engine.Blocks, BlockSize: s.Engine.BlockSize, Answers: answers,
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

// play has every caller ask its questions until enough were asked in all. They come back in the order in
// which they were asked.
func play(ctx context.Context, s *virtual.Setting, questions [][]*virtual.Request,
	ask func(context.Context, *virtual.Request) error) (all []*virtual.Request, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begun := time.Now()
	var mu sync.Mutex
	next := func(q *virtual.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(all) >= s.Tasks {
			return false
		}
		q.ID, q.Arrived = len(all), time.Since(begun)
		all = append(all, q)
		return true
	}
	var callers sync.WaitGroup
	for _, own := range questions {
		callers.Go(func() {
			refused := 0 // the play of which a question was refused: its caller begins another
			for _, q := range own {
				if q.Play == refused {
					continue
				}
				if !follow.Pause(ctx, q.Think) || !next(q) {
					return
				}
				if err := ask(ctx, q); err != nil {
					stop(fmt.Errorf("caller %d: %w", q.Caller, err))
				}
				q.Done = time.Since(begun)
				q.First += q.Arrived
				if q.Refused {
					refused = q.Play
				}
			}
		})
	}
	callers.Wait()
	return all, context.Cause(ctx)
}

// labels lists every domain that the classifier knows: one hub takes everything.
var labels = []string{"general", "humanities", "social", "law", "medicine", "math", "science", "finance",
	"code"}

// throughMarket brings a market up whose agents have the engines. ask fills in what came of a request, First
// counted from when it was asked.
func throughMarket(ctx context.Context, s *virtual.Setting, urls []string, named bool) (
	ask func(context.Context, *virtual.Request) error, end func() error, err error) {
	const domain = "general"
	dir, err := os.MkdirTemp("", "lab-crowd-")
	if err != nil {
		return nil, nil, err
	}
	cfg := local.Config{Listen: "127.0.0.1:0", Speedup: 1, Clients: map[string]market.Credits{},
		Domains: []local.Domain{{Name: domain, General: true, Labels: labels}}}
	at := map[string]int{}
	for i, url := range urls {
		id := fmt.Sprintf("%s-%d", domain, i+1)
		at[id] = i
		cfg.Agents = append(cfg.Agents, local.Agent{ID: id, Price: virtual.Card, Slots: s.Engine.Slots,
			Scores: []local.Score{{Domain: domain, Score: virtual.Score}}, Engine: local.Engine{URL: url}})
	}
	name := func(q *virtual.Request) string { return fmt.Sprintf("caller-%d", q.Caller) }
	for caller := range s.Callers {
		cfg.Clients[name(&virtual.Request{Caller: caller})] = 1000 * market.Credit
	}
	m, err := local.Start(ctx, local.Options{Dir: dir, Config: cfg})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	end = func() error { return errors.Join(m.Err(), m.Close(), os.RemoveAll(dir)) }
	for caller := range s.Callers { // rules know of no groups: so all share one here
		client := name(&virtual.Request{Caller: caller})
		if _, err := local.JoinGroup(ctx, m.Registry(), client, "all", false); err != nil {
			return nil, nil, errors.Join(err, end())
		}
	}
	ask = func(ctx context.Context, q *virtual.Request) error {
		t, _, refusal := openai.DecodeRequest(q.Body(named), nil, name(q), []byte(dir))
		if refusal != nil {
			return refusal
		}
		if !named {
			t.Session = "" // the door reads one from how the dialogue begins
		}
		t.ID = "" // the client's own
		a, err := m.AskWith(ctx, *t, func(bus.Chunk) {})
		if err != nil {
			return err
		}
		r := &a.Result
		q.First, q.Refused = a.TTFT, r.Code != ""
		if q.Refused {
			return nil
		}
		if err := served(q, r.Usage, at[r.Agent]); err != nil {
			return fmt.Errorf("%w; it ends by %q at %s, billed %+v, receipt %+v", err, r.Finish, r.Agent, r.Billed,
				r.Receipt)
		}
		return nil
	}
	return ask, end, nil
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
