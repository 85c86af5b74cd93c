package forecast

import (
	"math"
	"testing"
)

// What chance leaves of cost, worked out once more from what came alone, without the numbers by which lengths
// are drawn: a role's level, and how much sessions and answers vary about it, are those of the whole stream,
// seen afterwards. Where the hub believes too little of what is cached, that is none of chance's.
func TestChanceOfCost(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	short := Streams[0] // with this seed the mirror, which is a twentieth smaller, forgets what is there
	type seen struct {
		role          int
		logs, outputs []float64
	}
	var order []*seen
	sessions := map[int]*seen{}
	cost, off, belief := 0.0, 0.0, 0.0
	r := Run{Stream: short, Seed: 2, Agents: 4, Tasks: 24_000, Explore: 0.05}
	r.Ended = func(t *Task, _ []Expected) {
		s := sessions[t.Session]
		if s == nil {
			s = &seen{role: t.Role}
			sessions[t.Session], order = s, append(order, s)
		}
		s.outputs = append(s.outputs, float64(t.Output))
		s.logs = append(s.logs, math.Log(float64(t.Output)-0.5))
		cost, off = cost+t.Cost, off+math.Abs(t.least-t.Cost)
		belief += math.Abs(price(t, t.Believed, float64(t.Output)) - t.Cost)
	}
	if err := r.Play(t.Context()); err != nil {
		t.Fatal(err)
	}
	if belief/cost < 0.004 {
		t.Fatalf("what is believed costs %.4f: nothing is forgotten", belief/cost)
	}
	// variance within sessions, then between them, then each role's level
	squares, degrees := 0.0, 0.0
	mean := map[*seen]float64{}
	for _, s := range order {
		for _, x := range s.logs {
			mean[s] += x / float64(len(s.logs))
		}
		for _, x := range s.logs {
			squares += (x - mean[s]) * (x - mean[s])
		}
		degrees += float64(len(s.logs) - 1)
	}
	within := squares / degrees
	level, weight := map[int]float64{}, map[int]float64{}
	for _, s := range order {
		w := 1 / (0.1 + within/float64(len(s.logs)))
		level[s.role], weight[s.role] = level[s.role]+w*mean[s], weight[s.role]+w
	}
	between := 0.0
	for _, s := range order {
		d := mean[s] - level[s.role]/weight[s.role]
		between += (d*d - within/float64(len(s.logs))) / float64(len(order))
	}
	tokens, missed := 0.0, 0.0
	for _, s := range order {
		at, sure := level[s.role]/weight[s.role]/between, 1/between
		for i, x := range s.logs {
			missed += math.Abs(math.Exp(at/sure) + 0.5 - s.outputs[i])
			tokens += s.outputs[i]
			at, sure = at+x/within, sure+1/within
		}
	}
	const out = 50_000 // nano-credits a thousand tokens: a credit / 20 a million
	again := missed * out / 1000 / cost
	t.Logf("chance: %.4f by how lengths are drawn, %.4f by what came; belief %.4f", off/cost, again, belief/cost)
	if math.Abs(off/cost-again) > 0.002 {
		t.Errorf("chance leaves %.4f of cost, by what came %.4f", off/cost, again)
	}
}
