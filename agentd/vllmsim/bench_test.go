package vllmsim

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkStream is one request by real HTTP, read to its end, on an engine that takes no time: what the
// stand-in adds to a measurement, the client's half of the work included.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct{ prompt, output int }{{200, 1}, {200, 100}, {2000, 100}} {
		b.Run(fmt.Sprintf("%d+%d", c.prompt, c.output), func(b *testing.B) {
			s := start(b, Config{MaxModelLen: 32768})
			body := fmt.Sprintf(`{"model":"tiny","messages":[{"role":"user","content":%q}],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`,
				strings.Repeat("What do people in this city think about the weather? ", c.prompt/10),
				c.output)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			b.ReportAllocs()
			b.SetParallelism(32)
			before := cpu()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, err := client.Post(s.URL()+"/v1/chat/completions", "application/json",
						strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					_, err = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
					if err != nil || r.StatusCode != 200 {
						b.Errorf("%s, %v", r.Status, err)
						return
					}
				}
			})
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// BenchmarkRelay is 300 streams at once, a token each 10 ms: what a token costs, the reader's half included.
func BenchmarkRelay(b *testing.B) {
	const streams = 300
	s := start(b, Config{Profile: Steady})
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Go on."}],"max_tokens":%d,"ignore_eos":true,"stream":true}`, max(1, b.N/streams))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	b.ReportAllocs()
	before := cpu()
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			r, err := client.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			_, err = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/1000/float64(b.N), "cpu-us/token")
}

// cpu returns the processor time of this process, which varies less than wall time on a shared machine.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStep is one step of an engine with many running sequences.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newPlayer(Instant, 1)
			for range n {
				p.send(100, 1<<30, p.zero)
			}
			out := make([]*sequence, 0, n)
			b.ReportAllocs()
			for i := range b.N {
				if i%2000 == 1999 { // before the cache is full
					b.StopTimer()
					p = newPlayer(Instant, 1)
					for range n {
						p.send(100, 1<<30, p.zero)
					}
					b.StartTimer()
				}
				_, out = p.e.step(p.zero.Add(time.Duration(i)), out[:0])
			}
		})
	}
}

// BenchmarkEncode is the tokenizer on prose, code and other scripts.
func BenchmarkEncode(b *testing.B) {
	for name, text := range map[string]string{"prose": prosePiece, "code": codePiece, "mixed": mixedPiece} {
		b.Run(name, func(b *testing.B) {
			var out []uint32
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				out = Tokens().Encode(out[:0], text)
			}
		})
	}
}
