package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"souk/bus"
	"souk/cmd/local"
	"souk/integration/lab/load/proc"
)

const (
	gatewayStreams   = 500
	gatewayPerSecond = 50 // tokens of each

	eventEvery = time.Second / gatewayPerSecond
)

// eventBars measure many streams over HTTP at once, beside what the market and a bare relay do with them.
func eventBars(ctx context.Context, o Options) ([]Bar, error) {
	x, err := repeat(o, fmt.Sprintf("%d streams over HTTP", gatewayStreams), func() ([]float64, error) {
		engine, url, err := o.startChild(ctx, "souk", "engine", "--profile", "steady", "--port", "0",
			"--speedup", fmt.Sprint(gatewayPerSecond/100.0))
		if err != nil {
			return nil, err
		}
		defer engine.stop()
		dir, err := os.MkdirTemp("", "lab-bench-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		var x []float64
		// each token as it comes, so that each event is due at a time of its own
		err = place{dir, url}.withGateway(ctx, o, local.Engine{RelayEvery: 1}, 8, gatewayStreams/8+1,
			func(m *local.Market, g *httpDoor) (err error) {
				x, err = g.streams(ctx, m, engine.pid(), url,
					int(min(o.Streaming, 10*time.Second).Seconds()*gatewayPerSecond))
				return err
			})
		return x, err
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		ratio(fmt.Sprintf("gateway: CPU per event, %d streams", gatewayStreams), gatewayEventLimit, "net/http",
			"us", x[0], x[1], fmt.Sprintf("its own process alone; %.0f events a second; the base is half of "+
				"what net/http takes of the same on both sides", median(x[2]))),
		{Name: "gateway: delay of an event, p99", Asked: "30 ms", Limit: 30, Measured: median(x[3]),
			Unit: "ms", Runs: x[3],
			Note: fmt.Sprintf("%d streams of %d tokens a second, of which an engine says one each at one "+
				"moment; each token behind the earliest of its stream, counted from the stream's first; market, "+
				"engine and readers kept %.0f %% of all cores busy meanwhile", gatewayStreams, gatewayPerSecond,
				median(x[5]))},
		{Name: "the same streams by bus/client", Measured: median(x[6]), Unit: "ms", Runs: x[6],
			Note: fmt.Sprintf("with %.0f %% of all cores busy", median(x[7]))},
		{Name: "the same streams by a bare relay", Measured: median(x[8]), Unit: "ms", Runs: x[8],
			Note: fmt.Sprintf("net/http between the engine and its readers, no market; with %.0f %% of all "+
				"cores busy", median(x[9]))},
		{Name: "gateway: resident memory then", Asked: "under 120 MB", Limit: 120, Measured: median(x[4]),
			Unit: "MB", Runs: x[4]},
	}, nil
}

// lateness records how late tokens of many streams are, each counted by itself: an event may have brought
// several.
type lateness struct {
	mu     sync.Mutex
	all    []time.Duration
	events int
}

// stream begins to measure one stream: next is to be called with each event, and how many tokens it has, end
// after the last.
func (l *lateness) stream() (next func(now time.Time, tokens int), end func()) {
	var at []time.Duration // of each token, since the first was due
	var first time.Time
	events := 0
	return func(now time.Time, tokens int) {
			if at == nil {
				first = now
			}
			for range tokens {
				at = append(at, now.Sub(first)-time.Duration(len(at))*eventEvery)
			}
			events++
		}, func() {
			earliest := time.Duration(0)
			for _, d := range at {
				earliest = min(earliest, d)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, d := range at {
				l.all = append(l.all, d-earliest)
			}
			l.events += events
		}
}

// p99 returns how late tokens are, in milliseconds.
func (l *lateness) p99() float64 { return micros(quantile(l.all, 0.99)) / 1000 }

// read is the reading of one stream over HTTP.
func (l *lateness) read(g *httpDoor, tokens int) func(context.Context) error {
	return func(ctx context.Context) error {
		next, end := l.stream()
		defer end()
		came := 0
		_, err := g.ask(ctx, tokens, func(n int) {
			came += n
			next(time.Now(), n)
		})
		if err == nil && came != tokens {
			err = fmt.Errorf("a stream of %d tokens instead of %d", came, tokens)
		}
		return err
	}
}

// used is the processor time of this process and of others.
func used(pids ...int) (all time.Duration, err error) {
	all = cpu()
	for _, pid := range pids {
		d, wrong := proc.CPU(pid)
		all, err = all+d, errors.Join(err, wrong)
	}
	return all, err
}

// busy runs f, and returns how busy it kept this machine, in per cent of all cores.
func busy(f func() error, pids ...int) (float64, error) {
	before, err1 := used(pids...)
	begun := time.Now()
	err2 := f()
	took := time.Since(begun)
	after, err3 := used(pids...)
	share := float64(after-before) / float64(took) / float64(runtime.NumCPU())
	return 100 * share, errors.Join(err1, err2, err3)
}

// streams reads many streams at once. It returns the processor time of the gateway for an event, half of what
// net/http alone takes of one, both in microseconds, the events of a second, how late they are, p99, in
// milliseconds, the gateway's memory in MB, and how busy the machine was; and how late events are, and how
// busy it is, where bus/client reads them, and where a bare relay passes them on.
func (g *httpDoor) streams(ctx context.Context, m *local.Market, engine int, url string,
	tokens int) ([]float64, error) {
	all := func(read func(context.Context) error) func() error {
		return func() error { return callers(ctx, gatewayStreams, gatewayStreams, read) }
	}
	var late, market, relayed, alone lateness
	own, err1 := proc.CPU(g.pid)
	started := time.Now()
	load, err2 := busy(all(late.read(g, tokens)), g.pid, engine)
	took := time.Since(started)
	after, err3 := proc.CPU(g.pid)
	rss, err4 := proc.RSS(g.pid)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	inMarket, err := busy(all(func(ctx context.Context) error {
		next, end := market.stream()
		defer end()
		_, err := m.AskWith(ctx, task(tokens/2), func(c bus.Chunk) {
			if c.Count > 0 {
				next(time.Now(), c.Count)
			}
		})
		return err
	}), engine)
	if err != nil {
		return nil, err
	}
	relay, end, err := bare(passOn(url))
	if err != nil {
		return nil, err
	}
	inRelay, err := busy(all(relayed.read(relay, tokens/2)), engine)
	end()
	if err != nil {
		return nil, err
	}
	few := min(tokens, 4*gatewayPerSecond)
	writer, end, err := bare(metronome(few))
	if err != nil {
		return nil, err
	}
	defer end()
	begun := cpu()
	err = all(alone.read(writer, few))()
	base := (cpu() - begun) / 2
	n := float64(late.events)
	return []float64{micros(after-own) / n, micros(base) / float64(alone.events), n / took.Seconds(),
		late.p99(), float64(rss) / (1 << 20), load, market.p99(), inMarket, relayed.p99(), inRelay}, err
}

// metronome answers with so many events.
func metronome(events int) http.HandlerFunc {
	chunk := []byte(`data: {"id":"chatcmpl-abcdefghijklmnopqrstuvwxyz","object":"chat.completion.chunk","created":1,` +
		`"model":"gpt-oss-20b","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` +
		"\n\n")
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		tick := time.NewTicker(eventEvery)
		defer tick.Stop()
		for range events {
			<-tick.C
			w.Write(chunk)
			w.(http.Flusher).Flush()
		}
	}
}

// passOn answers with what an engine says, as it comes.
func passOn(url string) http.HandlerFunc {
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: gatewayStreams}}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, url+r.URL.Path,
			bytes.NewReader(body))
		if err != nil {
			panic(err) // the engine's own address
		}
		ask.Header.Set("Content-Type", "application/json")
		a, err := web.Do(ask)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer a.Body.Close()
		w.WriteHeader(a.StatusCode)
		room := make([]byte, 4<<10)
		for {
			n, err := a.Body.Read(room)
			if n > 0 {
				w.Write(room[:n])
				w.(http.Flusher).Flush()
			}
			if err != nil {
				return
			}
		}
	}
}
