package bench

import (
	"context"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/cmd/local"
	"souk/integration/lab/bench/floor"
)

// quoteBars measure what a quote costs: whoever asks in time, its hub in processor time, and rounds in the
// time for which they may have to wait for one.
func quoteBars(ctx context.Context, o Options) ([]Bar, error) {
	x, err := repeat(o, "quotes", func() ([]float64, error) {
		return o.inPlace(ctx, "instant", func(p place) ([]float64, error) {
			return p.quotes(ctx, max(400, o.Tasks/4))
		})
	})
	if err != nil {
		return nil, err
	}
	bars := []Bar{
		ratio("quote, p50", quoteP50Limit, "two requests", "ms", x[0], x[1],
			fmt.Sprintf("16 agents; asked by a client over NATS, through the door and its hub; p99 %.2f ms; the "+
				"bar of the design is 2 ms", median(x[2]))),
	}
	references := newSolving()
	var shares, waits []float64 // of the worst
	for _, c := range []struct {
		name    string
		agents  int
		waiting int
		limit   float64
	}{
		{"hub: CPU per quote, 16 agents", 16, 0, quoteLimit},
		{"hub: the same, 1,000 agents", 1000, 0, quoteFleetLimit},
		{"hub: the same, 64 full agents, 512 waiting", 64, 512, quoteFullLimit},
	} {
		var longest []float64
		x, err := repeat(o, c.name, func() ([]float64, error) {
			d, err := quoting(c.agents, c.waiting)
			if err != nil {
				return nil, err
			}
			asked, err := d.quoteRequests(64)
			if err != nil {
				return nil, err
			}
			var each []time.Duration
			figures, err := references.beside(200*time.Millisecond, func() error {
				begun := cpu()
				err := d.quote(asked[len(each)%len(asked)])
				each = append(each, cpu()-begun)
				return err
			})
			longest = append(longest, micros(quantile(each, 0.99))/1000)
			return figures, err
		})
		if err != nil {
			return nil, err
		}
		bars = append(bars, references.ratio(c.name, c.limit, x, "read, answered and written; no wires"))
		for i := range longest {
			if share := x[0][i] * 100 / 1e4; i == len(shares) {
				shares, waits = append(shares, share), append(waits, longest[i])
			} else {
				shares[i], waits[i] = max(shares[i], share), max(waits[i], longest[i])
			}
		}
	}
	part, err := quoteOfRound(o)
	if err != nil {
		return nil, err
	}
	return append(bars, part,
		Bar{Name: "hub: 100 quotes a second", Asked: "at most 5 % of a core", Limit: 5, Unit: "%",
			Measured: median(shares), Runs: shares, Note: "the dearest of those three hubs"},
		Bar{Name: "hub: what a quote keeps a round, p99", Asked: "at most 1 ms", Limit: 1, Unit: "ms",
			Measured: median(waits), Runs: waits, Note: "a turn waits for one quote at most; likewise"}), nil
}

// Bars in multiples, those of a hub in searches: what the rows measured when they were written, and a fifth
// more.
const (
	quoteP50Limit   = 7
	quoteLimit      = 0.49
	quoteFleetLimit = 1.41
	quoteFullLimit  = 1.32
)

// quoteOfRound measures a quote beside those who wait, by a round of these.
func quoteOfRound(o Options) (Bar, error) {
	const turns, each = 10, 32
	x, err := repeat(o, "a quote and a round", func() ([]float64, error) {
		c, err := newCrowd(8, 8, 512, sessions)
		if err != nil {
			return nil, err
		}
		asked, err := c.quoteRequests(each)
		if err != nil {
			return nil, err
		}
		var quotes, rounds []float64
		for range turns {
			used, _, err := c.round()
			if err == nil {
				err = c.fill(c.waiting)
			}
			if err != nil {
				return nil, err
			}
			begun := cpu()
			for _, data := range asked {
				if err := c.quote(data); err != nil {
					return nil, err
				}
			}
			quotes, rounds = append(quotes, micros(cpu()-begun)/each), append(rounds, micros(used))
		}
		return []float64{median(quotes), median(rounds)}, nil
	})
	if err != nil {
		return Bar{}, err
	}
	return ratio("hub: CPU per quote, 512 waiting for 64 seats", 0.1, "a round", "us", x[0], x[1],
		"by the round that gives all seats away"), nil
}

// quoting is a hub that has served all its sessions, and before whose agents so many wait.
func quoting(agents, waiting int) (*desk, error) {
	if waiting > 0 {
		c, err := newCrowd(agents, 8, waiting, sessions)
		if err == nil {
			err = c.fill(waiting)
		}
		if err != nil {
			return nil, err
		}
		return c.desk, nil
	}
	d, err := newDesk(agents, 8)
	if err == nil {
		_, _, err = d.lives(2 * sessions)
	}
	return d, err
}

// quoteRequests are the bytes of questions about so many tasks.
func (d *desk) quoteRequests(n int) (all [][]byte, err error) {
	for range n {
		d.asked++
		t := d.next()
		t.Body = nil // as the door leaves it out
		data, err := bus.Encode(t)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// quote has the hub read a question, and say the quote.
func (d *desk) quote(asked []byte) error {
	t := new(bus.Task)
	if err := bus.Decode(asked, t); err != nil {
		return err
	}
	q := d.node.Quote(d.now, t)
	if q.Code != "" || len(q.Models) != 1 {
		return fmt.Errorf("quote %+v", q)
	}
	_, err := bus.Encode(q)
	return err
}

// quotes asks a market for quotes, and in turn makes two requests of the same bytes to one who answers at
// once, for a quote is a request within a request. It returns p50 of both, and p99 of quotes, in
// milliseconds.
func (p place) quotes(ctx context.Context, n int) (x []float64, err error) {
	err = p.inMarket(ctx, local.Engine{}, 16, 4, func(m *local.Market) error {
		c, err := m.Link.Client("dev")
		if err != nil {
			return err
		}
		echo, err := floor.NewEcho()
		if err != nil {
			return err
		}
		defer echo.Close()
		var quotes, requests []time.Duration
		for i := range n + n/10 {
			t := task(taskTokens)
			begun := time.Now()
			q, err := c.Quote(ctx, t)
			if err != nil {
				return fmt.Errorf("quote: %w: %+v", err, q)
			}
			middle := time.Now()
			data, err := bus.Encode(&t)
			for range 2 {
				if err == nil {
					err = echo.Ask(ctx, data)
				}
			}
			if err != nil {
				return err
			}
			if i >= n/10 { // the first tenth warms up
				quotes, requests = append(quotes, middle.Sub(begun)), append(requests, time.Since(middle))
			}
			follow.Pause(ctx, 5*time.Millisecond) // a hub gives 200 a second
		}
		ms := func(ds []time.Duration, q float64) float64 { return micros(quantile(ds, q)) / 1000 }
		x = []float64{ms(quotes, 0.5), ms(requests, 0.5), ms(quotes, 0.99)}
		return nil
	})
	return x, err
}
