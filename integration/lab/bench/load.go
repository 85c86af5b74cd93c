package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/natsbus"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/integration/lab/bench/floor"
	"souk/market"
)

// marketOf is a market with n agents of slots each in front of one engine of a URL.
func marketOf(ctx context.Context, dir string, engine local.Engine, n, slots int) (*local.Market, error) {
	return marketOver(ctx, dir, engine, n, slots, nil)
}

// marketOver starts a market whose parts are connected by a function of the caller's.
func marketOver(ctx context.Context, dir string, engine local.Engine, n, slots int,
	connect func(natsbus.Config) (*natsbus.Bus, error)) (*local.Market, error) {
	return local.Start(ctx, local.Options{Dir: dir, Config: configOf(engine, n, slots), Connect: connect})
}

// configOf is a market with n agents of slots each, all with engines alike.
func configOf(engine local.Engine, n, slots int) local.Config {
	cfg := local.Config{
		Listen:  "127.0.0.1:0",
		Speedup: 1,
		Domains: []local.Domain{{Name: "general", General: true, Labels: labels}},
		Clients: map[string]market.Credits{"dev": 1_000_000 * market.Credit},
	}
	for i := range n {
		cfg.Agents = append(cfg.Agents, local.Agent{
			ID: fmt.Sprintf("agent-%d", i+1), PriceRow: local.DefaultRow, Slots: slots,
			Scores: []local.Score{{Domain: "general", Score: 0.7}}, Engine: engine,
		})
	}
	return cfg
}

var labels = []string{"general", "humanities", "social", "law", "medicine", "math", "science", "finance",
	"code"}

// body is a chat with a prompt of some sixty tokens. No two are alike, so that nothing is served from memory.
func body(n int64, maxTokens int) []byte {
	return fmt.Appendf(make([]byte, 0, 320), `{"messages":[`+
		`{"role":"system","content":"You are a helpful assistant. Answer briefly, and say so where you `+
		`do not know."},{"role":"user","content":"Question %d: which of the goods on the market of `+
		`Marrakesh would you carry home, and why would you?"}],`+
		`"max_tokens":%d,"ignore_eos":true,"stream":true}`, n, maxTokens)
}

var numbers atomic.Int64

func task(maxTokens int) bus.Task {
	return bus.Task{Client: "dev", Kind: bus.KindChat, Stream: true, Body: body(numbers.Add(1), maxTokens)}
}

// asker is a market in this process, a link to one of processes, or a floor.
type asker interface {
	Ask(context.Context, bus.Task) (replay.Answer, error)
	AskWith(context.Context, bus.Task, func(bus.Chunk)) (replay.Answer, error)
}

// ask asks one task and fails on any refusal: a bench measures answers.
func ask(ctx context.Context, m asker, maxTokens int) (ttft time.Duration, r bus.Result, err error) {
	a, err := m.Ask(ctx, task(maxTokens))
	if err == nil && a.Result.Code != "" {
		err = fmt.Errorf("%s: %s", a.Result.Code, a.Result.Message)
	}
	return a.TTFT, a.Result, err
}

// callers runs f from so many goroutines until it was called n times in all.
func callers(ctx context.Context, many, n int, f func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := f(ctx); err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// taskTokens is the length of an answer where tasks are counted.
const taskTokens = 16

// taskCallers is the number of callers that ask at once where tasks are counted.
const taskCallers = 64

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// place is the setting in which a market and a floor are measured in turn: a directory for their journals,
// and one engine for both.
type place struct {
	dir, url string
}

// inPlace runs f beside an engine of a profile, which is a process of its own.
func (o Options) inPlace(ctx context.Context, profile string, f func(place) ([]float64, error)) ([]float64,
	error) {
	dir, err := os.MkdirTemp("", "lab-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	engine, url, err := o.startEngine(ctx, profile)
	if err != nil {
		return nil, err
	}
	defer engine.stop()
	return f(place{dir, url})
}

// inMarket runs f with a market of so many agents, in this process.
func (p place) inMarket(ctx context.Context, e local.Engine, agents, slots int,
	f func(*local.Market) error) (err error) {
	e.URL = p.url
	m, err := marketOf(ctx, filepath.Join(p.dir, fmt.Sprintf("market-%d", numbers.Add(1))), e, agents, slots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Err(), m.Close()) }()
	return f(m)
}

// onFloor runs f with a floor of so many agents, in this process. Samples of a profile that are the floor's
// are labelled so.
func (p place) onFloor(ctx context.Context, agents int, f func(*floor.Floor) error) (err error) {
	pprof.Do(ctx, pprof.Labels("relay", "floor"), func(context.Context) {
		var fl *floor.Floor
		if fl, err = floor.Start(p.url, p.dir, agents); err == nil {
			err = errors.Join(f(fl), fl.Close())
		}
	})
	return err
}

// around measures the floor, then what f measures, then the floor again, and puts the mean of both before the
// figures of f: so a machine that grows slower or faster meanwhile does it to both.
func (p place) around(ctx context.Context, agents int, measure func(asker) (float64, error),
	f func() ([]float64, error)) ([]float64, error) {
	var sum float64
	once := func() error {
		return p.onFloor(ctx, agents, func(fl *floor.Floor) error {
			x, err := measure(fl)
			sum += x
			return err
		})
	}
	if err := once(); err != nil {
		return nil, err
	}
	figures, err := f()
	if err == nil {
		err = once()
	}
	return append([]float64{sum / 2}, figures...), err
}

// perTask is the processor time of this process for one task, in microseconds.
func perTask(ctx context.Context, m asker, tasks int) (us float64, err error) {
	one := func(ctx context.Context) error {
		_, _, err := ask(ctx, m, taskTokens)
		return err
	}
	if err := callers(ctx, taskCallers, tasks/4, one); err != nil { // warm up: connections, buffers
		return 0, err
	}
	begin := cpu()
	err = callers(ctx, taskCallers, tasks, one)
	return micros(cpu()-begin) / float64(tasks), err
}

// addedTTFT measures what a market and a floor add to the first token, uncontended, against their engine
// asked directly in turn with them.
func (p place) addedTTFT(ctx context.Context, tasks int, p50 *turns) (x []float64, err error) {
	const agents = 16
	err = p.inMarket(ctx, local.Engine{}, agents, 4, func(m *local.Market) error {
		return p.onFloor(ctx, agents, func(fl *floor.Floor) error {
			x, err = inTurn(ctx, m, fl, p.url, tasks, p50)
			return err
		})
	})
	return x, err
}

// inTurn asks through a market, asks its engine, and asks through a floor, each in turn. It adds to the turns
// what market and floor added to the first token, p50 of every twenty tasks, and returns, in milliseconds,
// p99 of both, and p50 of the engine alone.
func inTurn(ctx context.Context, m, fl asker, url string, tasks int, p50 *turns) ([]float64, error) {
	const together = 20
	market, least, direct := make([]time.Duration, 0, tasks), make([]time.Duration, 0, tasks),
		make([]time.Duration, 0, tasks)
	ms := func(ds []time.Duration, q float64) float64 { return micros(quantile(ds, q)) / 1000 }
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	defer web.CloseIdleConnections()
	for i := range tasks + tasks/10 {
		a, _, err := ask(ctx, m, taskTokens)
		if err != nil {
			return nil, err
		}
		b, err := directTTFT(ctx, web, url)
		if err != nil {
			return nil, err
		}
		c, _, err := ask(ctx, fl, taskTokens)
		if err != nil {
			return nil, err
		}
		if i >= tasks/10 { // the first tenth warms up
			market, least, direct = append(market, a-b), append(least, c-b), append(direct, b)
		}
	}
	for from := 0; from+together <= tasks; from += together {
		to := from + together
		p50.add(ms(slices.Clone(market[from:to]), 0.5), ms(slices.Clone(least[from:to]), 0.5))
	}
	return []float64{ms(market, 0.99), ms(least, 0.99), ms(direct, 0.5)}, nil
}

// directTTFT asks the engine itself and returns the time to the first event with content.
func directTTFT(ctx context.Context, web *http.Client, url string) (time.Duration, error) {
	begun := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions",
		bytes.NewReader(body(numbers.Add(1), taskTokens)))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := web.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return 0, fmt.Errorf("engine: %s: %s", response.Status, b)
	}
	var ttft time.Duration
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		if ttft == 0 && strings.Contains(line, `"content":"`) && !strings.Contains(line, `"content":""`) {
			ttft = time.Since(begun)
		}
		if err == io.EOF {
			if ttft == 0 {
				return 0, errors.New("engine: an answer without content")
			}
			return ttft, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// relaying holds the costs of relaying.
type relaying struct {
	us       float64 // processor time of this process for a token, microseconds
	rate     float64 // tokens a second
	messages float64 // for a token
}

// perToken measures so many streams at once. It fails if any token is missing.
func perToken(ctx context.Context, m asker, streams, tokens int) (relaying, error) {
	var got, messages atomic.Int64
	begin, started := cpu(), time.Now()
	err := callers(ctx, streams, streams, func(ctx context.Context) error {
		next, n := uint64(0), 0
		a, err := m.AskWith(ctx, task(tokens), func(c bus.Chunk) {
			if c.Seq != next {
				n = -1 << 30
			}
			next, n = c.Seq+1, n+c.Count
		})
		switch {
		case err != nil:
			return err
		case a.Result.Code != "":
			return fmt.Errorf("%s: %s", a.Result.Code, a.Result.Message)
		case n != tokens || a.Result.Usage.Output != tokens || a.Result.Chunks != next:
			return fmt.Errorf("%d tokens in %d chunks arrived, %d in %d were sent", n, next,
				a.Result.Usage.Output, a.Result.Chunks)
		}
		got.Add(int64(n))
		messages.Add(int64(next))
		return nil
	})
	used, took, all := cpu()-begin, time.Since(started), float64(got.Load())
	return relaying{micros(used) / all, all / took.Seconds(), float64(messages.Load()) / all}, err
}
