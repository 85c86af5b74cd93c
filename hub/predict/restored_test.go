package predict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fleetOf is a hub's agents with all that may become of them: they turn, change their class, are alone,
// are hinted at and warmed up; and clients of several kinds, roles and sessions ask.
type fleetOf struct {
	*rand.Rand
	l    Learned
	slow []float64
}

var fleetKeys = []Key{{Model: "llama", Hardware: "h100", Context: 8192}, {Model: "qwen"},
	{Model: "qwen", Context: 9}}

func newFleetOf(seed uint64) *fleetOf {
	f := &fleetOf{Rand: rand.New(rand.NewPCG(seed, 21)),
		l: Learned{Classes: NewClasses(trees), Outputs: NewOutputs(trees)}}
	for i := range 7 {
		m := NewMeans()
		f.l.Classes.Enter(fleetKeys[i%2], m)
		f.l.Agents = append(f.l.Agents, Learner{fmt.Sprint("agent-", i), fleetKeys[i%2].Model, m})
		f.slow = append(f.slow, 1)
	}
	return f
}

// goes on, and tells all that is said meanwhile. Events come once in so many tasks.
func (f *fleetOf) goes(tasks, events int) (says []string) {
	for range tasks {
		i := f.IntN(len(f.l.Agents))
		m := f.l.Agents[i].Means
		switch f.IntN(events) {
		case 0:
			f.l.Classes.Enter(fleetKeys[f.IntN(3)], m)
		case 1:
			f.l.Classes.Leave(m)
		case 3:
			f.slow[i] = []float64{1, 1, 3, 12}[f.IntN(4)]
		}
		x := Features{Prompt: 1 + f.IntN(4000), MaxTokens: 1 + f.IntN(1000),
			Load: Load{Left: time.Duration(f.IntN(1e9)), Decoding: f.IntN(16), Resident: f.IntN(50_000)}}
		x.Counted, x.Cached = x.Prompt, f.IntN(x.Prompt)
		u := float64(x.Prompt-x.Cached) / 1000
		to := m.Forecast(x)
		took := 20*(1+10*f.Float64()) + 90*u + float64(x.Decoding)
		took *= f.slow[i] * (0.9 + 0.2*f.Float64())
		o := Observation{Prompt: x.Prompt, Cached: x.Cached, Output: f.IntN(x.MaxTokens + 1),
			Cut: f.IntN(9) == 0, TTFT: time.Duration(took * 1e6), ITL: time.Duration(f.Int64N(4e7)),
			WarmUp: f.IntN(20) == 0, Said: to}
		m.Learn(x, o)
		s := Source{Client: fmt.Sprint("c", f.IntN(5)), Role: fmt.Sprint("r", f.IntN(30)),
			Session: uint64(f.IntN(9)), Prompt: x.Prompt, Turn: f.IntN(5), Most: x.MaxTokens}
		f.l.Outputs.Learn(s, o.Output, 400)
		says = append(says, fmt.Sprint(i, to, m.Typical(), m.SlowestITL(),
			m.Line().ITL(), m.OwnITL(), m.Line().Tokens(77), m.Line().Usual(400), m.Half(to.TTFT),
			m.Line().Work(500, 500), f.l.Outputs.Expect(s, 400),
			f.l.Classes.Len()))
		most, known := m.SlowestToken(x.Load)
		late, knows := m.LatestFirst(to.TTFT)
		watch, sees := m.Watch(to.TTFT)
		says = append(says, fmt.Sprint(most, known, late, knows, watch, sees, f.l.Classes.rests,
			f.l.Classes.open()))
	}
	return says
}

// Whatever has become of agents and of whoever asks, a hub that was started again says of them what it would
// have said, to the last bit, and of each what it would have said of that one.
func TestWhateverBecameOfThemTheSameIsSaidOnceRestored(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range uint64(4) {
		through, broken := newFleetOf(seed+n), newFleetOf(seed+n)
		for part := range 8 {
			events := []int{1 << 30, 1 << 30, 1 << 30, 300}[part%4]
			a, b := through.goes(400, events), broken.goes(400, events)
			for i := range a {
				if a[i] != b[i] {
					t.Fatalf("part %d: it says\n%s, and had it not been started again\n%s", part, b[i], a[i])
				}
			}
			data, err := written(&broken.l)
			if err != nil {
				t.Fatal(err)
			}
			l, err := readLearned(data)
			if err != nil {
				t.Fatal(err)
			}
			same := func(x, y Learner) bool { return x.ID == y.ID && x.Model == y.Model }
			if !slices.EqualFunc(l.Agents, broken.l.Agents, same) {
				t.Fatalf("%+v are read of %+v", l.Agents, broken.l.Agents)
			}
			broken.l = *l
		}
	}
}
