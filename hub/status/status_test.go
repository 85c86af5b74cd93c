package status

import (
	"testing"
	"time"

	"souk/bus"
	"souk/hub/turn"
	"souk/market"
)

func room() (*turn.Turn, *Room) {
	at := turn.New("j", "math", nil, [32]byte{})
	at.Advance(time.Unix(1000, 0))
	at.Epoch = 7
	return &at, New(&at, time.Second)
}

// A status is said every second, and on change as soon as the last is old enough; more often while others
// come back from an outage.
func TestWhenAStatusIsSaid(t *testing.T) {
	at, r := room()
	says := func(after time.Duration, want bool) {
		t.Helper()
		at.Advance(at.Now().Add(after))
		if got := r.Due(); got != want || got && r.Last().Seq == 0 {
			t.Errorf("%v later one is due: %v", after, got)
		}
	}
	says(0, true)
	says(999*time.Millisecond, false)
	if !r.Next().Equal(at.Now().Add(time.Millisecond)) {
		t.Errorf("the next is due at %v, and it is %v", r.Next(), at.Now())
	}
	says(time.Millisecond, true)
	at.Changed = true
	says(49*time.Millisecond, false)
	says(time.Millisecond, true)
	says(50*time.Millisecond, false)
	r.Soon()
	says(0, true)
	at.Back = at.Now().Add(150 * time.Millisecond)
	says(99*time.Millisecond, false)
	says(time.Millisecond, true)
	says(100*time.Millisecond, false)
}

// A door is believed that has heard a status of some seconds ago, in the same leadership; else the task that
// it sends may be with another hub.
func TestWhatADoorKnows(t *testing.T) {
	at, r := room()
	if r.Unsure(nil, at.Now()) {
		t.Error("who says nothing of it has a task that no other door has")
	}
	var heard []*bus.LastStatus
	for range 60 {
		if at.Advance(at.Now().Add(100 * time.Millisecond)); r.Due() {
			heard = append(heard, r.Last())
		}
		at.Changed = true
	}
	if last := heard[len(heard)-1]; r.Unsure(last, at.Now()) {
		t.Error("a door that has heard the last is out of step")
	}
	if r.Unsure(heard[len(heard)-20], at.Now()) {
		t.Error("a door that has heard one of two seconds ago is out of step")
	}
	if !r.Unsure(heard[len(heard)-40], at.Now()) {
		t.Error("a door that has heard none for four seconds is believed")
	}
	if !r.Unsure(&bus.LastStatus{Epoch: 6, Seq: 1 << 40}, at.Now()) {
		t.Error("a door that has heard an earlier leader is believed")
	}
	r.StoodStill()
	if !r.Unsure(heard[len(heard)-1], at.Now()) || r.Unsure(r.Last(), at.Now()) {
		t.Error("what came while the hub stood still may be old; what was asked since is not")
	}
	if len(r.said) > 16 {
		t.Errorf("%d statuses are remembered", len(r.said))
	}
}

// A hub that takes no task says why, and when it may: soon where another leads then, so that clients who ask
// twice more, as told, are served by that.
func TestWhyTasksAreRefused(t *testing.T) {
	if 2*AgainSoon < 7*time.Second { // what a restart, or another's election, takes on a busy machine
		t.Errorf("who asks twice more has asked after %v", 2*AgainSoon)
	}
	at, r := room()
	for _, test := range []struct {
		draining, full, waits bool
		doubt, why            string
		again                 time.Duration
	}{
		{}, {full: true, why: DiskFull, again: AgainFull}, {doubt: "old", why: "old", again: AgainStale},
		{doubt: "old", waits: true, full: true, why: "old", again: AgainSoon},
		{doubt: "old", draining: true, why: "the hub is stopping", again: AgainSoon}, {waits: true},
	} {
		at.Draining, at.Full, at.Doubt = test.draining, test.full, test.doubt
		if why, again := r.Closed(test.waits); why != test.why || again != test.again {
			t.Errorf("%+v: %q, again in %v", test, why, again)
		}
	}
}

// Of agents of one model the best is said of each.
func TestAStatusAddsUp(t *testing.T) {
	var s bus.Status
	add := func(model string, slots, free int, quality float64, miss market.Credits, ttft int64) {
		card := market.Price{Miss: miss, Out: miss}
		Add(&s, slots, bus.ModelStatus{Model: model, Agents: 1, Free: free, Quality: quality, Price: card,
			TTFTUS: ttft, SlotPrice: 100 - miss, MaxModelLen: int(miss),
			Cards: bus.Cards{Least: card, Most: card}})
	}
	add("qwen", 2, 1, 0.5, 10, 30)
	add("llama", 4, 4, 0.9, 20, 20)
	add("llama", 8, 0, 0.7, 5, 40)
	add("qwen", 1, 1, 0.6, 30, 50)
	if s.Agents != 4 || s.Slots != 15 || s.Free != 6 || len(s.Models) != 2 {
		t.Fatalf("%+v", s)
	}
	llama, qwen := s.Models[0], s.Models[1]
	if llama.Model != "llama" || llama.Agents != 2 || llama.Free != 4 || llama.Quality != 0.9 ||
		llama.Price.Miss != 5 || llama.TTFTUS != 20 || llama.SlotPrice != 80 || llama.MaxModelLen != 20 ||
		llama.Cards.Least.Miss != 5 || llama.Cards.Most.Miss != 20 {
		t.Errorf("%+v", llama)
	}
	if qwen.Quality != 0.6 || qwen.Price.Miss != 10 || qwen.TTFTUS != 30 {
		t.Errorf("%+v", qwen)
	}
}
