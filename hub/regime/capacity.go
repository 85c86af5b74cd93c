package regime

import (
	"math"
	"slices"
	"time"

	"souk/bus/exact"
)

// Where slots are few tasks wait for one by chance: at 0.8 of what sixteen slots serve every third finds
// none, and waits for many times as long as for a first token. So what a task waits for a slot counts as far
// as it is longer than chance makes one wait once in a hundred hours at that load; all of it, where what
// comes is evidence enough for more than can be served.
//
// That evidence is of stories, each of how much comes now, of what can be served: twice of it, 0.8, or less.
// With each task, and each second without one, a story becomes likelier or less likely; it may go on from
// another one, at a price. It is enough where that of twice as much is a hundred times as likely as any
// other. By the price, chance has it come so far once in a hundred hours while 0.8 of it come (Page's test);
// where less came before it is wrong a few times in a hundred that 0.8 of it begin to come. So twice as much
// is seen sooner where little came before, and later of few slots than of many.
//
// Sessions send several tasks at once. How many is known by how much the numbers of tasks of two intervals
// that follow each other differ, and so many are evidence as one is.

const (
	calm  = 0.8 // of what can be served: what chance does there is no regime
	twice = 2.0 // the load from which calm is told apart

	lnSurely = 4.605170185988091 // ln(100)
	keeps    = 0.997             // of what was, from one reading to the next: half after nineteen minutes
	// how far evidence falls before what was enough is so no more, or before it has to be
	slack = 4.0

	seldom = float64(100 * hour) // readings, of which chance alone has one wait for longer than is forgiven

	// tasks at once: of more it is the load that changes. What chance makes of single ones is taken off.
	mostBurst, noBurst = 4.0, 0.1
	single             = 60.0 // intervals for which each is thought to come by itself, before one was seen

	largest = 4096 // slots: of more nobody waits by chance
	quotes  = 8    // times an idle agent's quote may be too short
)

// loads lists the stories' loads as shares of what can be served: twice of it, calm, and less.
var loads = [...]load{{twice, exact.Ln(twice)}, {calm, exact.Ln(calm)}, {0.57, exact.Ln(0.57)},
	{0.4, exact.Ln(0.4)}, {0.28, exact.Ln(0.28)}, {0.2, exact.Ln(0.2)}, {0.1, exact.Ln(0.1)}}

type load struct{ of, ln float64 }

// capacity estimates how much a hub's agents can serve.
type capacity struct {
	slots    int                 // of the last reading that found any
	none     float64             // share of tasks that find no slot free at calm
	forgiven time.Duration       // of each wait for a slot
	rate     float64             // tasks that can be served in a second; 0: that is not known
	stories  [len(loads)]float64 // how likely each is, as a logarithm, by the likeliest
	evidence float64             // for twice as much as can be served
	sure     float64             // so much of it is enough
	certain  bool                // it is
	at, from int64               // when it was last reckoned with, and since when it is above zero
	// tasks that ended, the seconds for which they had a slot, and the squares of these, which fade
	ended, held, squares float64
	read                 bool    // there was a reading
	came, before         int     // tasks, since the last reading and before it
	differ, sums, pairs  float64 // squares of how far such two differ, their sums, and how many, which fade
	burst                float64 // tasks that come at once, in the mean
	// fastest first token of this half hour, and of the one before
	fastest [2]time.Duration
	turns   int64 // when this half hour ends
}

// Came observes a task that wants a slot.
func (w *Watch) Came(now int64) {
	r := &w.capacity
	r.came++
	if r.rate == 0 {
		return
	}
	r.pass(now)
	each := 1 / r.burst
	for i := range loads {
		r.stories[i] += float64(loads[i].ln * each)
	}
	r.weigh()
	r.certain = r.certain || r.evidence >= r.sure
}

// pass takes in that nothing has come until now.
func (r *capacity) pass(now int64) {
	passed := time.Duration(max(0, now-r.at)).Seconds()
	r.at = max(r.at, now)
	if r.rate == 0 {
		return
	}
	served := float64(r.rate*passed) / r.burst
	for i := range loads {
		r.stories[i] -= float64(loads[i].of * served)
	}
	if r.weigh(); r.evidence <= 0 {
		r.from = r.at
	}
	r.certain = r.certain && r.evidence > r.sure-slack
}

// weigh has each story go on from the likeliest where that is likelier, and finds how far that of twice as
// much, the first, leads all others.
func (r *capacity) weigh() {
	surely := min(lnSurely, r.sure/2)
	price := r.sure - surely
	other := slices.Max(r.stories[1:])
	lead := min(max(r.stories[0]-other, -price), surely+slack)
	r.stories[0] = other + lead
	likeliest := max(r.stories[0], other)
	for i := range r.stories {
		if r.stories[i] -= likeliest; r.stories[i] < -price {
			r.stories[i] = -price
		}
	}
	r.evidence = lead + price
}

// together finds how many tasks come at once. Squares of differences are so many times as large as where
// each comes by itself; a load that changes moves one of them alone.
func (r *capacity) together() {
	if r.read {
		by := float64(r.came - r.before)
		r.differ = float64(keeps*r.differ) + float64(by*by)
		r.sums = float64(keeps*r.sums) + float64(r.came+r.before)
		r.pairs = float64(keeps*r.pairs) + 1
	}
	r.read, r.came, r.before = true, 0, r.came
	if r.burst = 1; r.sums > 0 {
		found := float64(r.pairs*r.differ) / r.sums
		r.burst = min(max(1, (found+single)/(r.pairs+single)-noBurst), mostBurst)
	}
}

// Ended observes a task that has had a slot for so long.
func (w *Watch) Ended(held time.Duration) {
	if held <= 0 {
		return
	}
	r, s := &w.capacity, held.Seconds()
	r.ended, r.held, r.squares = r.ended+1, r.held+s, r.squares+float64(s*s)
}

// Room says how many slots there are, where a reading is due, before who waits is told of.
func (w *Watch) Room(now int64, slots int) {
	r := &w.capacity
	if now >= r.turns {
		if r.turns = now + int64(30*time.Minute); r.fastest[0] > 0 {
			r.fastest = [2]time.Duration{0, r.fastest[0]}
		}
	}
	r.pass(now)
	r.together()
	ended, held, squares := r.ended, r.held, r.squares
	r.ended, r.held, r.squares = float64(keeps*ended), float64(keeps*held), float64(keeps*squares)
	if slots <= 0 || ended < 0.5 {
		r.rate, r.evidence, r.certain, r.forgiven = 0, 0, false, 0
		return
	}
	if slots != r.slots {
		r.slots, r.none = slots, without(slots)
	}
	if r.rate == 0 { // of what came before nobody knows what it was of what can be served
		r.stories = [len(loads)]float64{-most}
	}
	// Tasks may take less time than those of which that is known, by how far their mean may be off.
	mean := held / ended
	spread := math.Sqrt(max(0, squares/ended-float64(mean*mean)) / ended)
	r.rate = float64(slots) / max(mean-spread, mean/4)
	r.sure = Fewest(r.rate)
	r.forgiven = 0
	if looks := r.none * seldom; looks > 1 {
		// the mean wait of those who wait, times what makes it so seldom (Erlang, Pollaczek, Khinchin,
		// Kingman)
		mean := (squares/held + float64((r.burst-1)*mean)) / 2 / (float64(slots) * (1 - calm))
		r.forgiven = time.Duration(float64(mean*exact.Ln(looks)) * float64(time.Second))
	}
}

// Serves returns how many tasks the slots serve in a second at most, by how long recent tasks kept theirs,
// and the evidence for twice as many, as a multiple of the evidence that is enough; 0 if it is not known.
func (w *Watch) Serves() (rate, evidence float64) {
	if w.capacity.rate == 0 {
		return 0, 0
	}
	return w.capacity.rate, w.capacity.evidence / w.capacity.sure
}

// Fewest returns the evidence that is enough at a capacity of so many tasks a second: as much as chance at
// 0.8 of it gives once in a hundred hours: Page's test does after e to its power tasks or so.
func Fewest(rate float64) float64 {
	return max(slack, exact.Ln(seldom*Every.Seconds()*rate))
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

// beyond returns the part of a wait for a slot that chance does not explain. Before a reading has found slots
// nobody knows, so none of it counts. Where the slots are gone, or nothing ended of late, none is forgiven.
func (r *capacity) beyond(waited time.Duration) time.Duration {
	if r.slots == 0 {
		return 0
	}
	return max(0, waited-r.forgiven)
}

// waited is a wait for a slot, without an end, as either track counts it.
func (r *capacity) waited(waited time.Duration) (by [tracks]time.Duration) {
	by[whole] = max(0, waited)
	if by[beyond] = by[whole]; r.slots > 0 {
		by[beyond] = r.beyond(waited)
	}
	return by
}

// idle returns an idle agent's time to a first token, given its quote. No agent takes less than the fastest
// answer of late. Where one engine computes prompts for several, load that no agent's own work shows is taken
// for the price of that work, and too little is left for an idle agent: a quote several times too short.
func (r *capacity) idle(quote time.Duration) time.Duration {
	fastest := r.fastest[0]
	if before := r.fastest[1]; before > 0 && (fastest == 0 || before < fastest) {
		fastest = before
	}
	return max(quote, min(fastest, quotes*quote))
}
