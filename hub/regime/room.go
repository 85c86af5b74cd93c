package regime

import "time"

// Where slots are few tasks wait for one by chance, long before as much comes as can be served: at 0.8 of
// what sixteen slots serve every third finds none, and waits for many times as long as for a first token. So
// what a task waits for a slot counts as far as it is longer than chance makes one wait once in a hundred
// hours at that load; all of it, where what came is e^5 times likelier if more comes than can be served.
//
// Chance does that, too, where slots are few: in simulations of 0.8 with holds of ten seconds a regime rose 4
// times in a hundred hours of sixteen slots, 40 to 60 times of one to four, and never of 64. More evidence
// would see twice the knee later than in fifteen seconds.

const (
	calm  = 0.8 // of what can be served: what chance does there is no regime
	twice = 2.0 // that, too, is what is told apart from it

	// Evidence for twice as much rather than calm, as the logarithm of how many times likelier it makes
	// what came. It is kept up to mostSure, so that it is soon gone.
	sure     = 5.0
	keeps    = 0.997 // of what ended, from one reading to the next: half after some nineteen minutes
	mostSure = sure + 1
	lnTimes  = 0.9162907318741551 // ln(twice/calm)

	seldom = float64(100 * hour) // readings, of which chance alone has one wait for longer than is forgiven

	largest = 4096 // slots: of more nobody waits by chance
	quotes  = 8    // times an idle agent's quote may be too short
)

// room is what is known of how much a hub's agents can serve.
type room struct {
	slots    int
	none     float64 // share of tasks that find no slot free at calm
	evidence float64
	forgiven time.Duration // of each wait for a slot
	came     int           // tasks, since the last reading
	// tasks that ended, the seconds for which they had a slot, and the squares of these, which fade
	ended, held, squares float64
	// fastest first token of this half hour, and of the one before
	fastest [2]time.Duration
	turns   int64 // when this half hour ends
}

// Came observes a task that wants a slot.
func (w *Watch) Came() { w.room.came++ }

// Ended observes a task that has had a slot for so long.
func (w *Watch) Ended(held time.Duration) {
	if held <= 0 {
		return
	}
	r, s := &w.room, held.Seconds()
	r.ended, r.held, r.squares = r.ended+1, r.held+s, r.squares+float64(s*s)
}

// Room says how many slots there are, where a reading is due, before who waits is told of.
func (w *Watch) Room(now int64, slots int) {
	r := &w.room
	r.turn(now)
	came, ended, held, squares := r.came, r.ended, r.held, r.squares
	r.came, r.ended, r.held, r.squares = 0, float64(keeps*ended), float64(keeps*held), float64(keeps*squares)
	if slots <= 0 || ended < 0.5 {
		r.evidence, r.forgiven = 0, 0
		return
	}
	if slots != r.slots {
		r.slots, r.none = slots, without(slots)
	}
	passed := time.Duration(now - (w.next - int64(Every))).Seconds()
	served := float64(slots) * passed * ended / held // at most
	more := float64(float64(came)*lnTimes) - float64((twice-calm)*served)
	r.evidence = min(max(0, r.evidence+more), mostSure)
	r.forgiven = 0
	if looks := r.none * seldom; looks > 1 {
		// the mean wait of those who wait, times what makes it so seldom (Erlang, Pollaczek, Khinchin)
		mean := squares / held / 2 / (float64(slots) * (1 - calm))
		r.forgiven = time.Duration(float64(mean*ln(looks)) * float64(time.Second))
	}
}

// without is the share of tasks that find none of so many slots free where they come at random, and keep all
// of them busy for the time calm (Erlang's C).
func without(slots int) float64 {
	if slots > largest {
		return 0
	}
	load, lost := float64(float64(slots)*calm), 1.0
	for k := 1; k <= slots; k++ {
		lost = load * lost / (float64(k) + float64(load*lost))
	}
	return lost / (1 - float64(calm*(1-lost)))
}

// beyond is how much of a wait for a slot chance does not explain. Before the first reading nobody knows.
func (r *room) beyond(waited time.Duration) time.Duration {
	if r.slots == 0 {
		return 0
	}
	return max(0, waited-r.forgiven)
}

// still is that of a wait without an end.
func (r *room) still(waited time.Duration) time.Duration {
	if r.slots == 0 || r.evidence > sure {
		return max(0, waited)
	}
	return r.beyond(waited)
}

// first notes how long a first token took once its task had a slot.
func (r *room) first(took time.Duration) {
	if r.fastest[0] == 0 || took < r.fastest[0] {
		r.fastest[0] = took
	}
}

// turn begins another half hour where one is over.
func (r *room) turn(now int64) {
	if now < r.turns {
		return
	}
	if r.fastest[0] > 0 {
		r.fastest = [2]time.Duration{0, r.fastest[0]}
	}
	r.turns = now + int64(30*time.Minute)
}

// idle is what an idle agent takes to a first token where it is said to take quote. No agent takes less than
// the fastest answer of late. Where one engine computes prompts for several, load that no agent's own work
// shows is taken for the price of that work, and too little is left for an idle agent: the quote is then
// several times too short.
func (r *room) idle(quote time.Duration) time.Duration {
	fastest := r.fastest[0]
	if before := r.fastest[1]; before > 0 && (fastest == 0 || before < fastest) {
		fastest = before
	}
	return max(quote, min(fastest, quotes*quote))
}
