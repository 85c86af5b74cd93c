package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/client"
)

// instant is a market whose engines take next to no time.
var instant = strings.NewReplacer("speedup: 20", "speedup: 2000", "slots: 8", "slots: 600",
	"dev: 10", "dev: 100000").Replace(one)

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// body is a request of some 3 KB.
func body(more string) string {
	return strings.Replace(chat(more), "What is a souk?", strings.Repeat("What is a souk? ", 180), 1)
}

func (h *house) client(b testing.TB) *client.Client {
	cl, err := h.Link.Client("dev")
	if err != nil {
		b.Fatal(err)
	}
	return cl
}

// ask has a task answered by bus/client, up to its first chunk or to its end.
func ask(b testing.TB, cl *client.Client, text string, whole bool) (chunks int) {
	s, err := cl.Submit(b.Context(), bus.Task{Kind: bus.KindChat, Body: []byte(text)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for {
		if _, err := s.Next(b.Context()); err == io.EOF {
			return chunks
		} else if err != nil {
			b.Fatal(err)
		}
		if chunks++; !whole {
			return chunks
		}
	}
}

// over has the same answered over HTTP.
func (h *house) over(b testing.TB, text string, whole bool) (events int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r, err := http.DefaultClient.Do(h.request(ctx, "POST", "/v1/chat/completions", text, h.key))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadString('\n')
		if strings.HasPrefix(line, "data: {") || strings.HasPrefix(line, "{") {
			events++
		}
		if err == io.EOF || events > 0 && !whole {
			return events
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// How much later the first token comes over HTTP than by bus/client: both in turn, so that whatever else the
// machine does is in both.
func BenchmarkFirstToken(b *testing.B) {
	h := start(b, instant)
	cl := h.client(b)
	text := body(`,"stream":true`)
	var direct, http []time.Duration
	for range 20 {
		ask(b, cl, text, true)
		h.over(b, text, true)
	}
	for b.Loop() {
		begun := time.Now()
		ask(b, cl, text, false)
		direct = append(direct, time.Since(begun))
		begun = time.Now()
		h.over(b, text, false)
		http = append(http, time.Since(begun))
	}
	slices.Sort(direct)
	slices.Sort(http)
	for _, q := range []int{50, 99} {
		at := min(len(http)-1, len(http)*q/100)
		b.ReportMetric(float64((http[at] - direct[at]).Microseconds()), fmt.Sprintf("p%d-added-us", q))
		b.ReportMetric(float64(direct[at].Microseconds()), fmt.Sprintf("p%d-client-us", q))
	}
	b.ReportMetric(0, "ns/op")
}

// bare returns a function that asks net/http alone for an answer of one object, on both sides.
func bare(b testing.TB, text string) func() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, strings.Repeat("x", 700))
	}))
	b.Cleanup(s.Close)
	return func() {
		r, err := http.Post(s.URL, "application/json", strings.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
}

// The processor time of a whole answer: by bus/client, by a gateway, and of net/http alone, server and client
// together, in turn. What HTTP adds is the second less the first; the gateway's own is that less the third.
func BenchmarkWhole(b *testing.B) {
	h := start(b, instant)
	cl := h.client(b)
	text := body(``)
	alone := bare(b, text)
	ways := []func(){func() { ask(b, cl, text, true) }, func() { h.over(b, text, true) }, alone}
	var used [3]time.Duration
	for b.Loop() {
		for i, do := range ways {
			begun := cpu()
			for range 10 {
				do()
			}
			used[i] += cpu() - begun
		}
	}
	for i, name := range []string{"client", "http", "nethttp"} {
		b.ReportMetric(float64(used[i].Microseconds())/float64(b.N)/10, name+"-us-cpu")
	}
	b.ReportMetric(0, "ns/op")
}

// What lines and traces cost of the processor time of a whole answer over HTTP, in turns beside none.
func BenchmarkSight(b *testing.B) {
	text, traces := body(``), `traces: {file: "`+filepath.Join(b.TempDir(), "spans")+`%d"}`+"\n"
	with := func(requests, more string) *house {
		gateway := "gateway: {requests: {log: " + requests + "}, "
		return start(b, strings.Replace(instant, "gateway: {", gateway, 1)+more)
	}
	names := []string{"none", "lines", "traces1%", "none-again", "traces100%"}
	houses := []*house{with("off", ""), with("all", ""), with("off", fmt.Sprintf(traces, 1)), with("off", "")}
	b.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	houses = append(houses, with("off", fmt.Sprintf(traces, 100)))
	used := make([][]float64, len(houses)) // us for a whole answer, by turn
	for turn := 0; b.Loop(); turn++ {
		for i := range houses {
			i = (i + turn) % len(houses) // nobody always goes first
			begun := cpu()
			for range 10 {
				houses[i].over(b, text, true)
			}
			used[i] = append(used[i], float64((cpu()-begun).Microseconds())/10)
		}
	}
	median := func(of []float64) float64 { slices.Sort(of); return of[len(of)/2] }
	for i, name := range names[1:] {
		ratios := make([]float64, len(used[0]))
		for turn := range ratios {
			ratios[turn] = 100 * (used[i+1][turn]/used[0][turn] - 1)
		}
		b.ReportMetric(median(ratios), name+"-%")
	}
	b.ReportMetric(median(used[0]), "us-cpu")
	b.ReportMetric(0, "ns/op")
}

// The processor time of a stream of 200 tokens beside many others, by bus/client and over HTTP. How many
// chunks they come in depends on how busy the machine is.
func BenchmarkEvents(b *testing.B) {
	const streams = 200
	h := start(b, strings.Replace(instant, "speedup: 2000", "speedup: 2", 1))
	cl := h.client(b)
	text := strings.Replace(chat(`,"stream":true,"ignore_eos":true`), `"max_tokens":20`, `"max_tokens":200`, 1)
	for name, do := range map[string]func() int{"client": func() int { return ask(b, cl, text, true) },
		"http": func() int { return h.over(b, text, true) }} {
		b.Run(name, func(b *testing.B) {
			var mu sync.Mutex
			total, spent := 0, time.Duration(0)
			for b.Loop() {
				begun := cpu()
				var all sync.WaitGroup
				for range streams {
					all.Go(func() {
						n := do()
						mu.Lock()
						defer mu.Unlock()
						total += n
					})
				}
				all.Wait()
				spent += cpu() - begun
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/streams, "us-cpu/stream")
			b.ReportMetric(float64(total)/float64(b.N)/streams, "events/stream")
		})
	}
}
