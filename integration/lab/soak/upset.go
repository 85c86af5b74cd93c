package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"souk/bus/follow"
	"souk/integration/lab/fleet"
)

// upset is something that went wrong with an agent, until all was known again.
type upset struct {
	what         string
	began, ended time.Time
}

// upsets has things go wrong until load ends, and looks each time whether all is known again.
func (b *belief) upsets(ctx, load context.Context) error {
	r := rand.New(rand.NewPCG(b.Seed, 1))
	kinds := []func(context.Context, int, *rand.Rand) (string, error){b.killEngine, b.empty, b.killEngine,
		b.lose, b.killNode}
	for n := 0; follow.Pause(load, time.Duration((0.5+r.Float64())*float64(b.Every))); n++ {
		if err := b.collect(ctx); err != nil {
			return err
		}
		agent := 1 + r.IntN(beliefAgents)
		began := time.Now()
		what, err := kinds[n%len(kinds)](ctx, agent, r)
		if err != nil {
			return err
		}
		b.r.Happened[what]++
		b.still.Lock()
		err = b.look(ctx)
		follow.Pause(ctx, hubHears)
		b.still.Unlock()
		name := fmt.Sprintf("agent-%d", agent)
		b.upset[name] = append(b.upset[name], upset{what, began, time.Now()})
		fmt.Fprintf(b.Progress, "%s %d; known again after %.1f s\n", what, agent, time.Since(began).Seconds())
		if err != nil {
			return err
		}
	}
	return b.collect(ctx)
}

func (b *belief) killEngine(ctx context.Context, n int, r *rand.Rand) (string, error) {
	return "kill -9 of engine", b.again(ctx, b.f.Part(fmt.Sprintf("engine-%d", n)),
		time.Duration(r.Int64N(int64(min(3*time.Second, b.Every)))))
}

func (b *belief) killNode(ctx context.Context, n int, r *rand.Rand) (string, error) {
	return "kill -9 of node", b.again(ctx, b.f.Part(fmt.Sprintf("agentd-%d", n)),
		time.Duration(r.Int64N(int64(min(time.Second, b.Every)))))
}

// again kills a part and starts it after a while.
func (b *belief) again(ctx context.Context, p *fleet.Part, away time.Duration) error {
	if err := p.Kill(); err != nil {
		return fmt.Errorf("%w: it had ended by itself:\n%s", err, p.Tail(20))
	}
	follow.Pause(ctx, away)
	if err := p.Start(); err != nil {
		return err
	}
	up, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return p.Ready(up)
}

// empty has an engine drop its cache: it does so only while nothing runs.
func (b *belief) empty(ctx context.Context, n int, _ *rand.Rand) (string, error) {
	b.still.Lock()
	defer b.still.Unlock()
	var done struct{ Success bool }
	for end := time.Now().Add(agreeWithin); !done.Success; {
		if err := b.engine(ctx, n, http.MethodPost, "/reset_prefix_cache", "", &done); err != nil {
			return "", err
		}
		if !done.Success && (time.Now().After(end) || !follow.Pause(ctx, 50*time.Millisecond)) {
			return "", fmt.Errorf("engine %d runs something, and nobody asks", n)
		}
	}
	// it reports that with the next step
	return "emptied cache of engine", b.engine(ctx, n, http.MethodPost, "/v1/completions",
		`{"prompt": [300], "max_tokens": 2, "ignore_eos": true}`, nil)
}

// lose has some of what an engine publishes be lost on the way. What comes behind it is heard, and so the
// gap is.
func (b *belief) lose(ctx context.Context, n int, r *rand.Rand) (string, error) {
	err := b.engine(ctx, n, http.MethodPost, "/sim/fault", `{"events": "lost", "times": 1000}`, nil)
	if err != nil {
		return "", err
	}
	for i := range 4 {
		if i == 3 {
			if err := b.engine(ctx, n, http.MethodPost, "/sim/fault", `{"heal": true}`, nil); err != nil {
				return "", err
			}
		}
		ids := strings.Repeat(fmt.Sprint(300+r.IntN(1000), ","), 2*beliefBlock)
		if err := b.engine(ctx, n, http.MethodPost, "/v1/completions",
			fmt.Sprintf(`{"prompt": [%s300], "max_tokens": 1}`, ids), nil); err != nil {
			return "", err
		}
	}
	return "lost events of engine", nil
}

// engine asks an engine.
func (b *belief) engine(ctx context.Context, n int, method, path, body string, into any) error {
	at := b.f.Part(fmt.Sprintf("engine-%d", n)).Health
	r, err := http.NewRequestWithContext(ctx, method, "http://"+at+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 16<<20))
	switch {
	case err != nil:
		return err
	case a.StatusCode != http.StatusOK:
		return fmt.Errorf("engine %d: %s: %s: %s", n, path, a.Status, bytes.TrimSpace(text))
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}
