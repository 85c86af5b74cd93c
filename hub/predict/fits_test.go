package predict

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What a line says of a task is kept by who asks often, until Fits changes. So whatever happens, of an agent
// or of others of its class, where Fits is as it was, all is said as it was; and Fits never comes back to
// what it was. What was read from a file goes on so.
func TestFitsTellWhenALineSaysOtherwise(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	e := engine{r}
	type says struct {
		first  time.Duration
		work   float64
		output int
		tokens int
		delay  Delay
	}
	asked := []Features{cold, warm, {Prompt: 90, MaxTokens: 9},
		{Prompt: 30_000, Cached: 100, MaxTokens: 3000}}
	for range 20 {
		cs := NewClasses(trees)
		keys := []Key{{Model: "llama"}, {Model: "qwen"}}
		var all []*Means
		for i := range 4 {
			all = append(all, NewMeans())
			cs.Enter(keys[i%2], all[i])
		}
		slow := make([]float64, len(all))
		was := make([]map[uint64][]says, len(all)) // by Fits
		latest := make([]uint64, len(all))
		for i := range all {
			slow[i], was[i] = 1, map[uint64][]says{}
		}
		for range 600 {
			i := r.IntN(len(all))
			m := all[i]
			switch op := r.IntN(60); op {
			case 0:
				cs.Enter(keys[r.IntN(2)], m)
			case 1:
				cs.Leave(m)
			case 3:
				slow[i] = []float64{1, 1, 4, 12}[r.IntN(4)]
			default:
				f, o := e.task()
				o.TTFT = time.Duration(float64(o.TTFT) * slow[i])
				o.WarmUp = op == 4
				m.Learn(f, o)
			}
			for i, m := range all {
				var now []says
				for _, f := range asked {
					x := says{tokens: m.Line().Tokens(f.Prompt),
						delay: m.Delay(Load{Left: time.Second, Waiting: 2, Decoding: 3, Resident: 4000})}
					x.first, x.work, x.output = m.Line().Idle(f)
					now = append(now, x)
				}
				fits := m.Line().Fits()
				before, known := was[i][fits]
				switch {
				case fits < latest[i]:
					t.Fatalf("agent %d: fitted %d times, and %d before", i, fits, latest[i])
				case !known:
					was[i][fits] = now
				default:
					for k := range now {
						if now[k] != before[k] {
							t.Fatalf("agent %d, fitted %d times as before, says %+v, and said %+v", i, fits,
								now[k], before[k])
						}
					}
				}
				latest[i] = fits
			}
		}
	}
}
