package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/natsauth"
	"souk/cmd/local"
	"souk/integration/lab/bench/floor"
	"souk/integration/lab/load/proc"
)

// Bars of the gateway, in multiples of what net/http takes of the same alone. The design has them in times,
// of the machine that it was made on: 0.4 and 2 ms to a first token, 100 us a whole answer, 20 us an event.
const (
	gatewayWholeLimit = 2.5  // of 40 us
	gatewayEventLimit = 1.67 // of 12 us
	overTLSLimit      = 1.7
)

// gatewayBars measure what HTTP adds to the market, by the gateway of `souk up` and by one that is a process
// of its own, and what TLS adds to a request of the bus.
func gatewayBars(ctx context.Context, o Options) ([]Bar, error) {
	var overTLS turns
	_, err := repeat(o, "requests over TLS",
		func() ([]float64, error) { return nil, tlsCosts(ctx, o.Tasks, &overTLS) })
	if err != nil {
		return nil, err
	}
	var whole wholes
	_, err = repeat(o, "whole answers over HTTP", func() ([]float64, error) {
		return o.inPlace(ctx, "instant", func(p place) ([]float64, error) {
			return nil, p.withGateway(ctx, o, local.Engine{}, 16, 16,
				func(_ *local.Market, g *httpDoor) error { return whole.measure(ctx, g, o.Tasks) })
		})
	})
	if err != nil {
		return nil, err
	}
	first, err := repeat(o, "first tokens over HTTP", func() ([]float64, error) {
		return o.inPlace(ctx, "instant", func(p place) ([]float64, error) {
			return p.firstTokens(ctx, o, max(200, o.Tasks/8))
		})
	})
	if err != nil {
		return nil, err
	}
	return []Bar{
		overTLS.bar("a request of the bus over TLS, CPU", overTLSLimit, "without", "us",
			"3 KB there and back, on both sides and in the server, by one caller over loopback TCP"),
		whole.alone.bar("gateway: CPU per whole answer of 3 KB", gatewayWholeLimit, "net/http", "us",
			"its own process alone; the base is half of what net/http takes of the same on both sides, in turn"),
		whole.often.bar("gateway: the same, of net/http as often", gatewayWholeLimit, "net/http", "us",
			"the base again, but asked as often a second as the gateway, each answer as late: whoever has less "+
				"to do than it can wakes for each request"),
		{Name: "gateway: whole answers", Asked: "2,000 a second on two cores", Limit: 2000, AtLeast: true,
			Measured: median(whole.rate), Unit: "a second", Runs: whole.rate,
			Note: fmt.Sprintf("64 callers; the market in this process, gateway and engine beside it, all on "+
				"this machine's cores: %.0f us of processor time each", median(whole.all))},
		{Name: "gateway: first token beyond bus/client, p50", Asked: "0.4 ms", Limit: 0.4,
			Measured: median(first[0]), Unit: "ms", Runs: first[0],
			Note: fmt.Sprintf("`souk up`, asked by this process over HTTP and by bus/client in turn, whose p50 "+
				"is %.2f ms, and the engine directly, %.2f ms", median(first[4]), median(first[5]))},
		{Name: "gateway: the same, p99", Asked: "2 ms", Limit: 2, Measured: median(first[1]), Unit: "ms",
			Runs: first[1]},
		{Name: "gateway: the same, beyond the engine, p50", Asked: "1 ms", Limit: 1,
			Measured: median(first[2]), Unit: "ms", Runs: first[2], Note: "over HTTP, less the engine directly"},
		{Name: "gateway: the same, p99 of that", Asked: "4 ms", Limit: 4, Measured: median(first[3]), Unit: "ms",
			Runs: first[3]},
		{Name: "gateway: as a process of its own, p50", Asked: "0.4 ms", Limit: 0.4,
			Measured: median(first[6]), Unit: "ms", Runs: first[6],
			Note: "beyond bus/client, beside `souk up`"},
		{Name: "gateway: the same, p99 of that", Asked: "2 ms", Limit: 2, Measured: median(first[7]), Unit: "ms",
			Runs: first[7]},
	}, nil
}

// httpDoor is a gateway that is a process of its own.
type httpDoor struct {
	url, key string
	model    string // "": any
	pid      int
	web      *http.Client
}

// withGateway runs f with a market in this process and a gateway beside it.
func (p place) withGateway(ctx context.Context, o Options, e local.Engine, agents, slots int,
	f func(*local.Market, *httpDoor) error) error {
	return p.inMarket(ctx, e, agents, slots, func(m *local.Market) (err error) {
		creds, err := m.Keys.Ensure(bus.RoleGateway, bus.IDs{Name: "beside"}, time.Now())
		if err != nil {
			return err
		}
		key, err := putKey(ctx, m.Registry, "dev")
		if err != nil {
			return err
		}
		return p.besideGateway(ctx, o, m.State, creds, key, func(g *httpDoor) error { return f(m, g) })
	})
}

// putKey makes a key of a client, as an operator does.
func putKey(ctx context.Context, r bus.Registry, client string) (key string, err error) {
	id := "bench_" + client
	key = bus.NewSecret(id, sha256.Sum256([]byte(id)))
	entry, err := bus.EncodeEntry(&bus.APIKey{ID: id, Client: client, Open: 4096,
		Hashes: []bus.KeyHash{{SHA256: bus.HashKey(key)}}})
	if err != nil {
		return "", err
	}
	return key, r.Put(ctx, bus.APIKeyKey(id), entry)
}

// besideGateway runs f beside a gateway that is a process of its own, of a market that runs already.
func (p place) besideGateway(ctx context.Context, o Options, of local.State, creds, key string,
	f func(*httpDoor) error) (err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		return err
	}
	at := l.Addr().String()
	l.Close()
	file := filepath.Join(p.dir, "gateway.yaml")
	text := fmt.Sprintf("listen: %s\nmarket: {nats: '%s', etcd: ['%s'], creds: '%s'}\n"+
		"health: {listen: '127.0.0.1:0'}\n", at, of.NATS, strings.TrimPrefix(of.Etcd, "https://"), creds)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, filepath.Join(o.Bin, "gateway"), "--config", file)
	var said bytes.Buffer
	c.Stderr = &said
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	if err := c.Start(); err != nil {
		return err
	}
	defer func() {
		c.Process.Signal(syscall.SIGTERM)
		if wrong := c.Wait(); wrong != nil {
			err = errors.Join(err, fmt.Errorf("gateway: %w: %s", wrong, &said))
		}
	}()
	g := newDoor("http://"+at, key, c.Process.Pid)
	defer g.web.CloseIdleConnections()
	if err := g.await(ctx, 20*time.Second); err != nil {
		return err
	}
	return f(g)
}

// await waits until it answers.
func (g *httpDoor) await(ctx context.Context, within time.Duration) error {
	for end := time.Now().Add(within); ; <-time.After(20 * time.Millisecond) {
		_, err := g.ask(ctx, taskTokens, nil)
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// long makes the body of a request some 3 KB.
var long = strings.Repeat("What would you carry home from there, and why? ", 58)

// ask asks for a whole answer, or, where each is given, for a stream: it is called with each event that has
// tokens, and with how many.
func (g *httpDoor) ask(ctx context.Context, tokens int, each func(int)) (ttft time.Duration, err error) {
	text := bytes.Replace(body(numbers.Add(1), tokens), []byte("Question"), []byte(long+"Question"), 1)
	if each == nil {
		text = bytes.Replace(text, []byte(`"stream":true`), []byte(`"stream":false`), 1)
	}
	if g.model != "" {
		text = append([]byte(`{"model":"`+g.model+`",`), text[1:]...)
	}
	begun := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions",
		bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+g.key)
	r.Header.Set("Content-Type", "application/json")
	a, err := g.web.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(a.Body, 1000))
		return 0, fmt.Errorf("gateway: %s: %s", a.Status, said)
	}
	if each == nil {
		_, err = io.Copy(io.Discard, a.Body)
		return time.Since(begun), err
	}
	lines := bufio.NewReader(a.Body)
	for {
		line, err := lines.ReadSlice('\n')
		if n := tokensOf(line); n > 0 {
			if each(n); ttft == 0 {
				ttft = time.Since(begun)
			}
		}
		switch {
		case err == io.EOF && ttft == 0:
			return 0, errors.New("gateway: a stream without content")
		case err == io.EOF:
			return ttft, nil
		case err != nil:
			return 0, err
		}
	}
}

// bare is net/http alone: a server in this process that answers with what it is told to.
func bare(answer http.HandlerFunc) (g *httpDoor, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	s := &http.Server{Handler: answer}
	go s.Serve(l)
	g = newDoor("http://"+l.Addr().String(), "", os.Getpid())
	return g, func() {
		g.web.CloseIdleConnections()
		s.Close()
	}, nil
}

// wholeOf answers as a gateway does, as far as bytes go.
func wholeOf(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, strings.Repeat("x", 700))
}

// wholes measures whole answers, in microseconds of processor time: of the gateway, beside half of what
// net/http alone takes for the same on both sides, and beside that at the same rate.
type wholes struct {
	alone, often turns
	rate, all    []float64 // answers a second, and all processor time for one
}

const wholesTurns = 12 // of each run

// measure asks for so many whole answers, a part by each in turn.
func (x *wholes) measure(ctx context.Context, g *httpDoor, n int) error {
	part := max(n/8, taskCallers)
	alone, end, err := bare(wholeOf)
	if err != nil {
		return err
	}
	defer end()
	var wait time.Duration // of an answer, where as many come as by the gateway
	often, endOften, err := bare(func(w http.ResponseWriter, r *http.Request) {
		follow.Pause(r.Context(), wait)
		wholeOf(w, r)
	})
	if err != nil {
		return err
	}
	defer endOften()
	ask := func(g *httpDoor) (cost, took time.Duration, err error) {
		begun, started := cpu(), time.Now()
		err = callers(ctx, taskCallers, part, func(ctx context.Context) error {
			_, err := g.ask(ctx, taskTokens, nil)
			return err
		})
		return cpu() - begun, time.Since(started), err
	}
	each := func(d time.Duration) float64 { return micros(d) / float64(part) }
	for i := range wholesTurns + 1 { // the first warms up
		own, err1 := proc.CPU(g.pid)
		used, took, err2 := ask(g)
		after, err3 := proc.CPU(g.pid)
		wait = took * taskCallers / time.Duration(part)
		base, _, err4 := ask(alone)
		late, _, err5 := ask(often)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			return err
		}
		if i > 0 {
			x.alone.add(each(after-own), each(base/2))
			x.often.add(each(after-own), each(late/2))
			x.rate = append(x.rate, float64(part)/took.Seconds())
			x.all = append(x.all, each(used+after-own))
		}
	}
	return nil
}

// firstTokens asks `souk up` over HTTP and by bus/client, and its engine directly, in turn, and the same with
// a gateway beside it that is a process of its own. It returns, in milliseconds, what HTTP adds to the first
// token, p50 and p99, what is added to the engine's own, likewise, p50 of bus/client and of the engine, and
// what HTTP adds by the other gateway.
func (p place) firstTokens(ctx context.Context, o Options, n int) (x []float64, err error) {
	err = p.withMarketUp(ctx, o, func(own *httpDoor) error {
		data := filepath.Join(p.dir, upData)
		state, err := local.ReadState(data)
		if err != nil {
			return err
		}
		link, err := local.Reach{Data: data}.Dial(bus.RoleClient, local.FirstClient)
		if err != nil {
			return err
		}
		defer link.Close()
		engine := newDoor(p.url, "", 0)
		engine.model = "tiny"
		defer engine.web.CloseIdleConnections()
		if x, err = own.firstBeside(ctx, link, engine, n); err != nil {
			return err
		}
		keys, err := natsauth.Open(natsauth.Dir(data))
		if err != nil {
			return err
		}
		creds, err := keys.Ensure(bus.RoleGateway, bus.IDs{Name: "beside"}, time.Now())
		if err != nil {
			return err
		}
		return p.besideGateway(ctx, o, state, creds, own.key, func(g *httpDoor) error {
			y, err := g.firstBeside(ctx, link, engine, n)
			if err == nil {
				x = append(x, y[:2]...)
			}
			return err
		})
	})
	return x, err
}

// firstBeside asks over HTTP, by bus/client and the engine directly, in turn. It returns, in milliseconds,
// what HTTP adds to the first token by bus/client, p50 and p99, and to the engine's, and p50 of these two.
func (g *httpDoor) firstBeside(ctx context.Context, m asker, engine *httpDoor, n int) ([]float64, error) {
	var over, least, direct []time.Duration
	for i := range n + n/10 {
		a, err := g.ask(ctx, taskTokens, func(int) {})
		if err != nil {
			return nil, err
		}
		t := task(taskTokens)
		t.Body = bytes.Replace(t.Body, []byte("Question"), []byte(long+"Question"), 1)
		b, err := m.Ask(ctx, t)
		if err != nil || b.Result.Code != "" {
			return nil, fmt.Errorf("%w: %s %s", err, b.Result.Code, b.Result.Message)
		}
		c, err := engine.ask(ctx, taskTokens, func(int) {})
		if err != nil {
			return nil, err
		}
		if i >= n/10 { // the first tenth warms up
			over, least, direct = append(over, a), append(least, b.TTFT), append(direct, c)
		}
	}
	ms := func(ds []time.Duration, q float64) float64 { return micros(quantile(ds, q)) / 1000 }
	return []float64{ms(over, 0.5) - ms(least, 0.5), ms(over, 0.99) - ms(least, 0.99),
		ms(over, 0.5) - ms(direct, 0.5), ms(over, 0.99) - ms(direct, 0.99), ms(least, 0.5),
		ms(direct, 0.5)}, nil
}

// tlsCosts adds to the turns of a request of 3 KB over TLS and of one without what each takes of the
// processor, in microseconds.
func tlsCosts(ctx context.Context, n int, to *turns) error {
	dir, err := os.MkdirTemp("", "lab-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, err := natsauth.ServerCert(dir, nil, time.Now())
	if err != nil {
		return err
	}
	server, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return err
	}
	client, err := natsauth.TLSOf(natsauth.Files{CA: files.CA})
	if err != nil {
		return err
	}
	secure, err := floor.NewEchoOver(&tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{server}}, client)
	if err != nil {
		return err
	}
	defer secure.Close()
	plain, err := floor.NewEchoOver(nil, nil)
	if err != nil {
		return err
	}
	defer plain.Close()
	data := make([]byte, 3<<10)
	const turns = 40
	for i := range turns + 1 { // the first warms up
		var us [2]float64
		for j, e := range []*floor.Echo{secure, plain} {
			begun := cpu()
			for range n / turns {
				if err := e.Ask(ctx, data); err != nil {
					return err
				}
			}
			us[j] = micros(cpu()-begun) / float64(n/turns)
		}
		if i > 0 {
			to.add(us[0], us[1])
		}
	}
	return nil
}

// tokensOf counts the tokens of an event: in the engine's prose each word is one, with the space before it,
// and each period.
func tokensOf(event []byte) int {
	_, text, ok := bytes.Cut(event, []byte(`"content":"`))
	text, _, _ = bytes.Cut(text, []byte(`"`))
	if !ok || len(text) == 0 {
		return 0
	}
	n := bytes.Count(text, []byte(" ")) + bytes.Count(text, []byte("."))
	if text[0] != ' ' && text[0] != '.' {
		n++ // an answer's first word
	}
	return n
}
