package predict

import (
	"math"
	"slices"
	"testing"
	"time"
)

// Of an engine that takes ten times as long, from one answer to the next, forecasts are near what it does
// within twenty answers, and so they are of one that is as fast again: of one alone, of one of a class, and
// of a class that turns together. Whoever does not turn is forecast as before.
func TestAJumpOfTen(t *testing.T) {
	e := newEngine(t)
	for _, c := range []struct{ agents, turn int }{{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 4}} {
		_, all := fleet(c.agents)
		times := 1.0
		serve := func(tasks int) (errors, others []float64) {
			for range tasks {
				for i, m := range all {
					f, o := e.task()
					turns := i < c.turn
					if turns {
						o.TTFT = time.Duration(float64(o.TTFT) * times)
					}
					off := math.Abs(float64(m.Forecast(f).TTFT-o.TTFT)) / float64(o.TTFT)
					if m.Learn(f, o); turns {
						errors = append(errors, off)
					} else {
						others = append(others, off)
					}
				}
			}
			return errors, others
		}
		middle := func(of []float64) float64 {
			slices.Sort(of)
			return of[len(of)/2]
		}
		serve(150)
		for _, now := range []float64{10, 1} {
			times = now
			first, others := serve(20)
			after, _ := serve(20)
			if got := middle(after); got > 0.3 {
				t.Errorf("%+v, %v times: after twenty answers forecasts are off by %.2f in the middle", c,
					now, got)
			}
			if got := middle(first); c.turn == 1 && got > 0.5 {
				t.Errorf("%+v, %v times: of the first twenty by %.2f", c, now, got)
			}
			if len(others) > 0 && middle(others) > 0.2 {
				t.Errorf("%+v, %v times: those that did not turn are off by %.2f", c, now, middle(others))
			}
			serve(110)
		}
	}
}

// While an agent has just turned, what its answers come within is taken to be twice as wide.
func TestAnAlarmWidensTheInterval(t *testing.T) {
	e := newEngine(t)
	width := func(m *Means) float64 {
		f := m.Forecast(cold)
		return float64(f.High-f.Low) / float64(f.TTFT)
	}
	const fleets = 9
	wider := 0.0 // of another agent, on the mean of all fleets
	for range fleets {
		_, all := fleet(3)
		e.serve(all, 300, nil)
		others := width(all[1])
		e.serve(all, 4, func(i int, o *Observation) {
			if i == 0 {
				o.TTFT *= 10
			}
		})
		if all[0].Drift.Fresh == 0 {
			t.Fatal("no alarm after four answers that took ten times as long")
		}
		got := width(all[0])
		all[0].Drift.Fresh = 0
		if later := width(all[0]); got < 1.6*later {
			t.Errorf("the width is %.2f of the forecast, and will be %.2f", got, later)
		}
		wider += width(all[1]) / others / fleets
	}
	if wider > 1.25 {
		t.Errorf("of others the width is %.2f times as much as it was", wider)
	}
}

// Answers that vary, and one in ten that takes ten times as long for a reason that nobody knows, are no turn.
func TestNoiseIsNoAlarm(t *testing.T) {
	e := newEngine(t)
	_, all := fleet(3)
	alarms, turned := 0, make([]int, len(all))
	for range 1000 {
		e.serve(all, 1, func(_ int, o *Observation) {
			o.TTFT = time.Duration(float64(o.TTFT) * math.Exp(0.3*e.NormFloat64()))
			if e.IntN(20) == 0 {
				o.TTFT *= 10
			}
		})
		for i, m := range all {
			if m.Drift.Fresh > turned[i] {
				alarms++
			}
			turned[i] = m.Drift.Fresh
		}
	}
	if alarms > 30 {
		t.Errorf("%d alarms in 3000 answers of engines that are as they were", alarms)
	}
}

// A run of tasks that take more than twice as long as is forecast, as tasks of one sort may that the line
// knows less well, is no turn of the engine.
func TestARunIsNoAlarm(t *testing.T) {
	e := newEngine(t)
	_, all := fleet(1)
	e.serve(all, 150, nil)
	for run := range 20 {
		for range 10 {
			e.serve(all, 1, func(_ int, o *Observation) { o.TTFT = time.Duration(2.3 * float64(o.TTFT)) })
			if all[0].Drift.Fresh > 0 {
				t.Fatalf("an alarm in run %d", run)
			}
		}
		e.serve(all, 100, nil)
	}
}

// A warm-up counts, but half, and what it lowers no client is told before one was served.
func TestWarmUpsLowerNothing(t *testing.T) {
	e := newEngine(t)
	_, all := fleet(1)
	m := all[0]
	before := m.Forecast(cold).TTFT
	warmUp := func(ttft time.Duration) {
		f, o := e.task()
		o.TTFT, o.WarmUp = ttft, true
		m.Learn(f, o)
	}
	for range 20 {
		warmUp(time.Millisecond)
	}
	if got := m.Forecast(cold).TTFT; got < before*95/100 {
		t.Errorf("warm-ups lowered %v to %v", before, got)
	}
	if w := m.Seen.Line.weight(); w > 10.5 {
		t.Errorf("twenty warm-ups count as %v answers", w)
	}
	for range 20 {
		warmUp(2 * time.Second)
	}
	if got := m.Forecast(cold).TTFT; got < before*3/2 {
		t.Errorf("slow warm-ups left %v of %v", got, before)
	}
	e.serve(all, 800, nil)
	near(t, "once real tasks were served", m.Forecast(cold).TTFT, 121*time.Millisecond, 0.25)
}
