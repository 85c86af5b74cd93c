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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/cmd/local"
	"souk/integration/load/proc"
	"souk/integration/replay"
	"souk/market"
)

// marketOf is a market with n agents of slots each in front of one engine of a URL.
func marketOf(ctx context.Context, dir string, engine local.Engine, n, slots int) (*local.Market, error) {
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
	return local.Start(ctx, local.Options{Dir: dir, Config: cfg})
}

var labels = []string{"general", "humanities", "social", "law", "medicine", "math", "science", "finance", "code"}

// body is a chat with a prompt of some sixty tokens. No two are alike, so that nothing is served from memory.
func body(n int64, maxTokens int) []byte {
	return fmt.Appendf(make([]byte, 0, 320), `{"messages":[`+
		`{"role":"system","content":"You are a helpful assistant. Answer briefly, and say so where you do not know."},`+
		`{"role":"user","content":"Question %d: which of the goods on the market of Marrakesh would you carry home, and why would you?"}],`+
		`"max_tokens":%d,"ignore_eos":true,"stream":true}`, n, maxTokens)
}

var numbers atomic.Int64

func task(maxTokens int) bus.Task {
	return bus.Task{Client: "dev", Kind: bus.KindChat, Stream: true, Body: body(numbers.Add(1), maxTokens)}
}

// asker is a market in this process, or a link to one of processes.
type asker interface {
	Ask(context.Context, bus.Task) (replay.Answer, error)
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

// perTask is the processor time of a whole market for one task, in microseconds, and that of the engine.
func perTask(ctx context.Context, exe string, tasks int) (us, engineUS float64, err error) {
	return inMarket(ctx, exe, local.Engine{Profile: "instant"}, 8, 16, func(m *local.Market, engine *child) (a, b float64, err error) {
		one := func(ctx context.Context) error {
			_, _, err := ask(ctx, m, taskTokens)
			return err
		}
		if err := callers(ctx, 64, tasks/4, one); err != nil { // warm up: connections, buffers
			return 0, 0, err
		}
		before, err := proc.CPU(engine.pid())
		if err != nil {
			return 0, 0, err
		}
		begin := cpu()
		if err := callers(ctx, 64, tasks, one); err != nil {
			return 0, 0, err
		}
		used := cpu() - begin
		after, err := proc.CPU(engine.pid())
		return micros(used) / float64(tasks), micros(after-before) / float64(tasks), err
	})
}

// taskTokens is the length of an answer where tasks are counted.
const taskTokens = 16

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// inMarket runs f in front of an engine of a profile, in a process of its own.
func inMarket(ctx context.Context, exe string, e local.Engine, agents, slots int, f func(*local.Market, *child) (float64, float64, error)) (a, b float64, err error) {
	dir, err := os.MkdirTemp("", "lab-bench-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	engine, url, err := startChild(ctx, exe, "engine", "--profile", e.Profile, "--port", "0")
	if err != nil {
		return 0, 0, err
	}
	defer engine.stop()
	e.Profile, e.URL = "", url
	m, err := marketOf(ctx, dir, e, agents, slots)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, m.Err(), m.Close()) }()
	return f(m, engine)
}

// addedTTFT measures what the market adds to the first token, uncontended, against the same engine asked directly in
// turn with it, in milliseconds; and a bare append and sync beside them.
func addedTTFT(ctx context.Context, exe string, tasks int) (t ttft, err error) {
	dir, err := os.MkdirTemp("", "lab-bench-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir)
	engine, url, err := startChild(ctx, exe, "engine", "--profile", "instant", "--port", "0")
	if err != nil {
		return t, err
	}
	defer engine.stop()
	m, err := marketOf(ctx, dir, local.Engine{URL: url}, 16, 4)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, m.Err(), m.Close()) }()
	return inTurn(ctx, m, url, dir, tasks, nil)
}

// inTurn asks through a market, asks its engine, syncs a record in dir, and, unless it is nil, makes a trip over the bus, each in turn.
func inTurn(ctx context.Context, m asker, url, dir string, tasks int, trip func(context.Context) error) (t ttft, err error) {
	disk, err := newAppender(dir, 2*tasks, roundBytes)
	if err != nil {
		return t, err
	}
	defer disk.close()
	through, direct, bare, trips := make([]time.Duration, 0, tasks), make([]time.Duration, 0, tasks), make([]time.Duration, 0, tasks), make([]time.Duration, 0, tasks)
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	for i := range tasks + tasks/10 {
		a, _, err := ask(ctx, m, taskTokens)
		if err != nil {
			return t, err
		}
		b, err := directTTFT(ctx, web, url)
		if err != nil {
			return t, err
		}
		c, err := disk.append()
		if err != nil {
			return t, err
		}
		begun := time.Now()
		if trip != nil {
			if err := trip(ctx); err != nil {
				return t, err
			}
		}
		d := time.Since(begun)
		if i >= tasks/10 { // the first tenth warms up
			through, direct, bare, trips = append(through, a), append(direct, b), append(bare, c), append(trips, d)
		}
	}
	added := make([]time.Duration, len(through))
	for i := range through {
		added[i] = through[i] - direct[i]
	}
	ms := func(ds []time.Duration, q float64) float64 { return micros(quantile(ds, q)) / 1000 }
	return ttft{ms(added, 0.5), ms(added, 0.99), ms(bare, 0.5), ms(bare, 0.99), ms(direct, 0.5), ms(trips, 0.5)}, nil
}

// ttft is what addedTTFT measured, in milliseconds.
type ttft struct{ added50, added99, fsync50, fsync99, direct50, trip50 float64 }

// roundBytes is about the size of a frame with a round of one task and its hold.
const roundBytes = 1024

// directTTFT asks the engine itself and returns the time to the first event with content.
func directTTFT(ctx context.Context, web *http.Client, url string) (time.Duration, error) {
	begun := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body(numbers.Add(1), taskTokens)))
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

// relaying is what relaying cost.
type relaying struct {
	us       float64 // processor time for a token, microseconds
	rate     float64 // tokens a second
	messages float64 // for a token
}

// perToken measures the market relaying so many streams at once, each read at most once in every; 0: as it is by default. It
// fails if any token is missing.
func perToken(ctx context.Context, exe string, streams, tokens int, every time.Duration) (r relaying, err error) {
	_, _, err = inMarket(ctx, exe, local.Engine{Profile: "steady", RelayEvery: every}, 8, (streams+7)/8, func(m *local.Market, _ *child) (float64, float64, error) {
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
				return fmt.Errorf("%d tokens in %d chunks arrived, %d in %d were sent", n, next, a.Result.Usage.Output, a.Result.Chunks)
			}
			got.Add(int64(n))
			messages.Add(int64(next))
			return nil
		})
		used, took, all := cpu()-begin, time.Since(started), float64(got.Load())
		r = relaying{micros(used) / all, all / took.Seconds(), float64(messages.Load()) / all}
		return 0, 0, err
	})
	return r, err
}
