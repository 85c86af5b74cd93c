package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"souk/bus/embedded"
	"souk/bus/natsbus"
	"souk/cmd/local"
)

// keysLimit bounds how much dearer a market with keys may be, as a multiple of one without.
const keysLimit = 1.05

// keysPairs is how often a market with keys and one without are measured in a run.
const keysPairs = 32

// keysBars measure what it costs that a market asks who is there: a market of this process beside one whose
// parts are connected by a server that knows no keys, in turn.
func keysBars(ctx context.Context, o Options) ([]Bar, error) {
	const agents, streams, tokens = 8, 300, 50
	var task, first, token turns
	_, err := repeat(o, "tasks with keys and without", func() ([]float64, error) {
		return o.inPlace(ctx, "instant", func(p place) ([]float64, error) {
			return nil, p.withoutKeys(ctx, agents, 16, func(m asker) ([]float64, error) {
				us, err1 := perTask(ctx, m, max(taskCallers, o.Tasks/16))
				ttft, err2 := firstToken(ctx, m, 50)
				return []float64{us, ttft}, errors.Join(err1, err2)
			}, &task, &first)
		})
	})
	if err != nil {
		return nil, err
	}
	_, err = repeat(o, "tokens with keys and without", func() ([]float64, error) {
		return o.inPlace(ctx, "steady", func(p place) ([]float64, error) {
			return nil, p.withoutKeys(ctx, agents, streams/agents+1, func(m asker) ([]float64, error) {
				r, err := perToken(ctx, m, streams, tokens)
				return []float64{r.us}, err
			}, &token)
		})
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		task.bar("keys: CPU per task, 64 callers", keysLimit, "without keys", "us",
			fmt.Sprintf("two markets in this process, in turn, %d times a run; one's NATS server asks nobody "+
				"who is there; so below", keysPairs)),
		first.bar("keys: first token, p50", keysLimit, "without keys", "ms", "uncontended"),
		token.bar("keys: CPU per relayed token, 300 streams", keysLimit, "without keys", "us", ""),
	}, nil
}

// withoutKeys measures a market and one without keys in turn, and adds each figure to the turns of its own.
func (p place) withoutKeys(ctx context.Context, agents, slots int,
	measure func(asker) ([]float64, error), to ...*turns) (err error) {
	server, err := embedded.StartNATS(embedded.NATSConfig{})
	if err != nil {
		return err
	}
	defer server.Close()
	open := func(c natsbus.Config) (*natsbus.Bus, error) {
		c.InProcess, c.Creds = server, nil
		return natsbus.Connect(c)
	}
	var markets [2]*local.Market
	for i, connect := range []func(natsbus.Config) (*natsbus.Bus, error){nil, open} {
		dir := filepath.Join(p.dir, fmt.Sprintf("market-%d", numbers.Add(1)))
		var m *local.Market
		if m, err = marketOver(ctx, dir, local.Engine{URL: p.url}, agents, slots, connect); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Err(), m.Close()) }()
		markets[i] = m
	}
	for turn := range keysPairs + 1 {
		order := []int{0, 1}
		if turn%2 == 1 {
			slices.Reverse(order)
		}
		var figures [2][]float64
		for _, i := range order {
			if figures[i], err = measure(markets[i]); err != nil {
				return err
			}
		}
		for k, t := range to {
			if turn > 0 { // the first warms up
				t.add(figures[0][k], figures[1][k])
			}
		}
	}
	return nil
}

// firstToken measures a market's time to a first token, in milliseconds, p50.
func firstToken(ctx context.Context, m asker, n int) (float64, error) {
	var all []time.Duration
	for range n {
		ttft, _, err := ask(ctx, m, taskTokens)
		if err != nil {
			return 0, err
		}
		all = append(all, ttft)
	}
	return micros(quantile(all, 0.5)) / 1000, nil
}
