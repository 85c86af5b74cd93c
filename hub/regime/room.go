package regime

import (
	"math"
	"time"
)

// Where slots are few tasks wait for one by chance, long before as much comes as can be served: at 0.8 of
// what sixteen slots serve every third finds none, and waits for many times as long as for a first token. So
// what a task waits for a slot counts as far as it is longer than chance makes one wait once in a hundred
// hours at that load; all of it, where what comes is evidence enough for more than can be served.
//
// That evidence is a sum (Page's test): of each task that comes, how much likelier it is where twice as much
// comes as can be served than where 0.8 of it does; of each second without one, how much less likely; never
// below zero. It is enough where chance has it come so far once in a hundred hours at 0.8. So few slots are
// seen to be full later than many: to hear of tasks enough takes longer, see [Told].

const (
	calm  = 0.8 // of what can be served: what chance does there is no regime
	twice = 2.0 // that, too, is what is told apart from it

	lnTimes = 0.9162907318741551 // ln(twice/calm)
	keeps   = 0.997              // of what ended, from one reading to the next: half after nineteen minutes
	// how far evidence falls before what was enough is so no more, or before it has to be
	slack = 4.0

	seldom = float64(100 * hour) // readings, of which chance alone has one wait for longer than is forgiven

	largest = 4096 // slots: of more nobody waits by chance
	quotes  = 8    // times an idle agent's quote may be too short
)

// room is what is known of how much a hub's agents can serve.
type room struct {
	slots    int           // of the last reading that found any
	none     float64       // share of tasks that find no slot free at calm
	forgiven time.Duration // of each wait for a slot
	rate     float64       // tasks that can be served in a second; 0: that is not known
	evidence float64       // for twice that
	sure     float64       // so much of it is enough
	certain  bool          // it is
	at, from int64         // when it was last reckoned with, and since when it is above zero
	// tasks that ended, the seconds for which they had a slot, and the squares of these, which fade
	ended, held, squares float64
	// fastest first token of this half hour, and of the one before
	fastest [2]time.Duration
	turns   int64 // when this half hour ends
}

// Came observes a task that wants a slot.
func (w *Watch) Came(now int64) {
	r := &w.room
	if r.rate == 0 {
		return
	}
	r.pass(now)
	r.evidence = min(r.evidence+lnTimes, r.sure+slack)
	r.certain = r.certain || r.evidence >= r.sure
}

// pass takes in that nothing has come until now.
func (r *room) pass(now int64) {
	passed := time.Duration(max(0, now-r.at)).Seconds()
	r.at = max(r.at, now)
	if r.evidence -= float64((twice - calm) * float64(r.rate*passed)); r.evidence <= 0 {
		r.evidence, r.from = 0, r.at
	}
	r.certain = r.certain && r.evidence > r.sure-slack
}

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
	r.pass(now)
	ended, held, squares := r.ended, r.held, r.squares
	r.ended, r.held, r.squares = float64(keeps*ended), float64(keeps*held), float64(keeps*squares)
	if slots <= 0 || ended < 0.5 {
		r.rate, r.evidence, r.certain, r.forgiven = 0, 0, false, 0
		return
	}
	if slots != r.slots {
		r.slots, r.none = slots, without(slots)
	}
	// Tasks may take less time than those of which that is known, by how far their mean may be off.
	mean := held / ended
	off := math.Sqrt(max(0, squares/ended-float64(mean*mean)) / ended)
	r.rate = float64(slots) / max(mean-off, mean/4)
	r.sure = Fewest(r.rate)
	r.forgiven = 0
	if looks := r.none * seldom; looks > 1 {
		// the mean wait of those who wait, times what makes it so seldom (Erlang, Pollaczek, Khinchin)
		mean := squares / held / 2 / (float64(slots) * (1 - calm))
		r.forgiven = time.Duration(float64(mean*ln(looks)) * float64(time.Second))
	}
}

// Serves is how many tasks the slots serve in a second at most, by how long tasks of late had theirs, and how
// much evidence there is for twice as many, by what is enough; 0: that is not known.
func (w *Watch) Serves() (rate, evidence float64) {
	if w.room.rate == 0 {
		return 0, 0
	}
	return w.room.rate, w.room.evidence / w.room.sure
}

// Told is how much evidence for twice as many a task is that can be served, in the mean, where twice as many
// come: no test that is wrong as seldom sees them sooner than after Fewest/Told of these (Lorden).
const Told = twice*lnTimes - (twice - calm)

// Fewest is how much evidence is enough where so many tasks can be served in a second: as much as chance
// comes to at 0.8 of that once in a hundred hours: Page's test does after e to its power tasks or so.
func Fewest(rate float64) float64 {
	return max(slack, ln(seldom*Every.Seconds()*rate))
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

// beyond is how much of a wait for a slot chance does not explain. Before a reading has found slots nobody
// knows, so none of it counts. Where they are gone since, or nothing ended of late, nothing is forgiven.
func (r *room) beyond(waited time.Duration) time.Duration {
	if r.slots == 0 {
		return 0
	}
	return max(0, waited-r.forgiven)
}

// waited is a wait for a slot, without an end, as either track counts it.
func (r *room) waited(waited time.Duration) (by [tracks]time.Duration) {
	by[whole] = max(0, waited)
	if by[beyond] = by[whole]; r.slots > 0 {
		by[beyond] = r.beyond(waited)
	}
	return by
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
