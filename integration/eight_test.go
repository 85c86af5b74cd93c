package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/cmd/replay"
)

// eight is a market of eight like agents, with no more slots than there are clients: a slow machine may make
// one of them look slower than the others, and with slots to spare nobody would ask that one again.
func eight() string {
	var b strings.Builder
	b.WriteString(`
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
speedup: 1
clients: {dev: 1000}
agents:
`)
	for i := range 8 {
		fmt.Fprintf(&b, "  - {id: agent-%d, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: "+
			"[{domain: general, score: 0.7}], slots: 2, engine: {profile: steady}}\n", i+1)
	}
	return b.String()
}

// noMarket are refusals for want of a market. A machine that stands still for longer than leases live has
// none for a while, and then a question that was refused before any of its answer came is put again; any
// other answer counts as it is.
var noMarket = []bus.Code{bus.CodeNoHub, bus.CodeUnavailable, bus.CodeUnknownModel, bus.CodeDraining}

// One engine of eight fails under 16 clients, in each of the ways in which they do, and comes back: no client
// sees an error, a gap or a short answer. `lab bench` measures the same with 32 clients, for longer, with a
// process for each part.
func TestOneEngineOfEightFails(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	const clients, each, tokens = 16, 4, 30
	inject := func(f vllmsim.Fault) func(*testing.T, *vllmsim.Server) {
		return func(t *testing.T, s *vllmsim.Server) {
			if err := s.Inject(f); err != nil {
				t.Error(err)
			}
		}
	}
	for _, way := range []struct {
		name string
		fail func(*testing.T, *vllmsim.Server)
	}{
		{"refused", func(t *testing.T, s *vllmsim.Server) {
			if err := s.Restart(time.Second); err != nil {
				t.Error(err)
			}
		}},
		{"silent", inject(vllmsim.Fault{Kind: vllmsim.Hang})},
		{"503", inject(vllmsim.Fault{Kind: vllmsim.Status, Code: 503})},
		{"cut half-way", inject(vllmsim.Fault{Kind: vllmsim.Reset, After: tokens / 2})},
	} {
		t.Run(way.name, func(t *testing.T) {
			m := start(t, eight())
			first := m.Engine("agent-1")
			var answered, known, hit atomic.Int64
			var failing atomic.Bool
			var all sync.WaitGroup
			var mu sync.Mutex
			var wrong []string
			not := func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				wrong = append(wrong, fmt.Sprintf(format, args...))
			}
			stood := standstill(t)
			enough := time.Now().Add(30 * time.Second)
			ask := func(question string) {
				next := uint64(0)
				once := func() (replay.Answer, error) {
					return m.AskWith(t.Context(), chat(question, func(b *bus.Task) {
						b.Body = []byte(strings.Replace(string(b.Body), `"max_tokens":40`,
							fmt.Sprintf(`"max_tokens":%d,"ignore_eos":true`, tokens), 1))
					}), func(c bus.Chunk) {
						if c.Seq != next {
							not("%s: chunk %d where %d was due", question, c.Seq, next)
						}
						next = c.Seq + 1
					})
				}
				a, err := once()
				for try := 0; err == nil && next == 0 && slices.Contains(noMarket, a.Result.Code) &&
					stood() > 2*time.Second && try < 100; try++ {
					<-time.After(100 * time.Millisecond)
					a, err = once()
				}
				r := a.Result
				if err != nil || r.Code != "" || r.Usage.Output != tokens || r.Chunks != next {
					not("%s: %v, %s %s: %d tokens, %d of %d chunks", question, err, r.Code, r.Message,
						r.Usage.Output, next, r.Chunks)
				}
				if r.Receipt != nil && len(r.Receipt.Earlier) > 0 {
					hit.Add(1)
				}
				if r.Agent == "agent-1" {
					known.Add(1) // and so is its pace, by which silence is judged
				}
				switch n := answered.Add(1); {
				case n%clients != 0 || known.Load() == 0:
				case hit.Load() > 0:
					first.Heal()
				case failing.CompareAndSwap(false, true):
					all.Go(func() {
						way.fail(t, first)
						failing.Store(way.name != "refused") // that one is over when it returns
					})
				}
			}
			for c := range clients {
				all.Go(func() {
					for n := 0; n < each || hit.Load() == 0 && time.Now().Before(enough); n++ {
						ask(fmt.Sprintf("question %d of client %d", n, c))
					}
				})
			}
			all.Wait()
			if len(wrong) > 0 {
				t.Errorf("of %d answers %d are wrong; the machine stood still for %v at most\n%s",
					answered.Load(), len(wrong), stood(), strings.Join(wrong[:min(10, len(wrong))], "\n"))
			}
			if hit.Load() == 0 {
				t.Error("the failing engine was asked nothing, so nothing was shown")
			}
			t.Logf("%d of %d answers came from another agent than first asked", hit.Load(), answered.Load())
		})
	}
}
