package ledger

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"souk/market"
)

// foreseen is a frame of one round of which was written what was expected.
func foreseen(t *testing.T, seen []Seen) Frame {
	t.Helper()
	r := market.Round{Domain: "maths", Number: 1, Rule: market.DefaultRule,
		Tasks: []market.Task{{ID: "ann/t", Client: "ann"}},
		Agents: []market.Supply{{Agent: "a", Seats: []market.Seat{{Slots: 1}}},
			{Agent: "b", Seats: []market.Seat{{Slots: 1}}}, {Agent: "c", Seats: []market.Seat{{Slots: 1}}}},
		Edges:  []market.Edge{{Value: 7, Cost: 2}, {Agent: 1, Value: 5, Cost: 2}},
		Others: []market.Edge{{Agent: 2, Value: 4, Cost: 2}}}
	rec := NewRound("math", r, clearRound(t, r), [16]byte{1})
	rec.Round.Seen = seen
	return Frame{Version: FrameVersion, Epoch: 1, Seq: 1, Time: 1, Records: []Record{rec}}
}

// What was expected comes back as it was written, in whole steps, and stands below what each agent was worth.
func TestWhatWasExpectedIsRead(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for range 1000 {
		seen := make([]Seen, 3)
		for i := range seen {
			seen[i] = Seen{Prompt: rng.IntN(maxSeen), Cached: rng.IntN(1 << 20), Output: rng.IntN(maxSeen),
				Evidence: Evidence(rng.IntN(int(evidences))),
				First:    time.Duration(rng.Int64N(int64(time.Hour))),
				Least:    time.Duration(rng.Int64N(int64(time.Hour))) - time.Minute,
				Most:     time.Duration(rng.Int64N(int64(time.Hour))) - time.Minute}.Rounded()
		}
		f := foreseen(t, seen)
		got, err := DecodeFrame(AppendFrame(nil, &f))
		if err != nil || !reflect.DeepEqual(got.Records[0].Round.Seen, seen) {
			t.Fatalf("%v: %+v, want %+v", err, got.Records[0].Round.Seen, seen)
		}
	}
	seen := []Seen{{Prompt: 900, Cached: 512, Output: 40, Evidence: EvidenceEvents,
		First: 41 * time.Millisecond, Least: 33 * time.Millisecond, Most: 60 * time.Millisecond},
		{Prompt: 900, Output: 40}, {Prompt: 901}}
	f := foreseen(t, seen)
	x, err := f.Records[0].Round.Explain()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"expected 900 prompt tokens, 512 believed to be cached, by the engine's events; " +
		"40 output tokens; first token in 41ms (33ms to 60ms)\n", "expected 901 prompt tokens, nothing of it"} {
		if !strings.Contains(x.String(), want) {
			t.Errorf("no %q in\n%s", want, x.String())
		}
	}
	bare := foreseen(t, nil)
	with, without := AppendFrame(nil, &f), AppendFrame(nil, &bare)
	if got, err := DecodeFrame(without); err != nil || got.Records[0].Round.Seen != nil {
		t.Errorf("%v: %+v", err, got)
	}
	if len(with)-len(without) > 3*9 {
		t.Errorf("three edges take %d bytes", len(with)-len(without))
	}
}

// Bytes that are not what was expected of a round's edges are refused when they are read, and found by an
// audit, which reads them at the level of rounds.
func TestWhatWasNeverExpected(t *testing.T) {
	good := []Seen{{Prompt: 9, Cached: 4, Output: 1}, {Prompt: 9, Output: 1}, {Prompt: 9, Output: 1}}
	for name, bad := range map[string][]Seen{
		"of too few edges":     good[:2],
		"of too many":          append(good[:3:3], good[0]),
		"tokens below 0":       {{Prompt: -1}, {}, {}},
		"tokens beyond bounds": {{Prompt: 9, Output: maxSeen}, {}, {}},
		"a time below 0":       {{Least: -SeenStep}, {}, {}},
		"no kind of evidence":  {{Evidence: evidences}, {}, {}},
	} {
		f := foreseen(t, bad)
		data := AppendFrame(nil, &f)
		if _, err := DecodeFrame(data); err == nil {
			t.Errorf("%s: read", name)
		}
		frames := append(newDesk(t, "math", RoleHub).frames, f)
		frames[1].Seq, frames[1].Time = 2, frames[0].Time
		found := audit("math", LevelAuctions, store(frames)).Finish().Findings
		if len(found) == 0 || found[0].Invariant != "I17" {
			t.Errorf("%s: an audit finds %v", name, found)
		}
	}
	f := foreseen(t, good)
	data := AppendFrame(nil, &f)
	for i := range data {
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			changed := bytes.Clone(data)
			changed[i] = b
			if got, err := DecodeFrame(changed); err == nil && !bytes.Equal(AppendFrame(nil, &got), changed) {
				t.Fatalf("byte %d as %#x: read as another frame", i, b)
			}
		}
	}
}

// A time in whole steps is what time.Duration.Round makes of it, where it is not below 0.
func TestStepped(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	at := []time.Duration{math.MinInt64, -SeenStep, -1, 0, 1, SeenStep/2 - 1, SeenStep / 2, SeenStep,
		math.MaxInt64 - SeenStep - 1, math.MaxInt64 - SeenStep, math.MaxInt64}
	for range 10_000 {
		at = append(at, time.Duration(rng.Uint64()), time.Duration(rng.Int64N(int64(time.Second))))
	}
	for _, d := range at {
		if got, want := stepped(d), max(0, d.Round(SeenStep)); got != want {
			t.Fatalf("%d is %d, not %d", d, got, want)
		}
	}
}

// What a second cost and who had waited come back as they were written, and are said of the task.
func TestWhyATaskWaitedIsRead(t *testing.T) {
	f := foreseen(t, nil)
	r := f.Records[0].Round
	ground := func(seconds ...market.Credits) market.Ground {
		g := market.Ground{At: 1_700_000_000_000, Lost: 3, Common: "c", Service: 2 * time.Second,
			Stays: make([]market.Stay, len(r.Round.Edges))}
		for i, c := range seconds {
			g.Loads = append(g.Loads, market.Load{Second: c, Service: 3 * time.Second, Running: i,
				Spare: i == 1})
		}
		for i, e := range r.Round.Edges {
			if e.Agent < len(seconds) && seconds[e.Agent] > 0 {
				g.Stays[i] = market.Stay{Service: 5 * time.Second, Prefill: 300 * market.PrefillStep, Mine: 2}
			}
		}
		return g
	}
	r.Ground = ground(200_000, 0, 7)
	r.Waited = []Waited{{For: 1200 * time.Millisecond, Rounds: 14, Agent: "c"}}
	data := AppendFrame(nil, &f)
	got, err := DecodeFrame(data)
	if err != nil || !reflect.DeepEqual(got.Records[0].Round, r) {
		t.Fatalf("%v: %+v, want %+v", err, got.Records[0].Round, r)
	}
	x, err := got.Records[0].Round.Explain()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"it has waited for 1.2s, in 14 rounds, at last for a slot of c\n",
		"a second there costs 0.0002, because of tasks that wanted it before\n"} {
		if !strings.Contains(x.String(), want) {
			t.Errorf("no %q in\n%s", want, x.String())
		}
	}
	for i := range data { // whatever is read is written as it was
		for _, b := range []byte{0, 1, 2, 0x7f, 0x80, 0xff} {
			changed := bytes.Clone(data)
			changed[i] = b
			if got, err := DecodeFrame(changed); err == nil && !bytes.Equal(AppendFrame(nil, &got), changed) {
				t.Fatalf("byte %d as %#x: read as another frame", i, b)
			}
		}
	}
	for name, change := range map[string]func(){
		"of too few agents":  func() { r.Ground = ground(200_000, 0) },
		"beyond any worth":   func() { r.Ground = ground(0, 0, market.MaxWorth+1) },
		"lost more than all": func() { r.Ground.Lost = market.FullShare + 1 },
		"longer than a day":  func() { r.Ground.Loads[2].Service = 2 * market.MaxIn },
		"of no such task":    func() { r.Waited = []Waited{{Task: 1, Rounds: 1}} },
		"of one task twice":  func() { r.Waited = []Waited{{Rounds: 1}, {Rounds: 1}} },
		"for more than ever": func() { r.Waited = []Waited{{For: maxSeen * SeenStep}} },
	} {
		was := *r
		change()
		if got, err := DecodeFrame(AppendFrame(nil, &f)); err == nil {
			t.Errorf("%s: read as %+v", name, got.Records[0].Round)
		}
		*r = was
	}
}
