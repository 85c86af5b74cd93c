// Package hints measures what false hints are worth to who gives them. A market in virtual time plays the
// same sessions twice, once with a client that tells the truth about what comes next and once with one that
// lies in one hint, and compares what its answers were worth to it, less what it paid.
package hints

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"souk/bus"
	"souk/integration/replay/virtual"
	"souk/market"
)

// Lie is one kind of false hint.
type Lie struct {
	Name, About string
	// says it, in place of what is true; false: there is nothing to lie about in this turn
	say func(s *session, t *bus.Task) bool
}

// session is what a caller knows of its own when it asks.
type session struct {
	back  time.Duration // until its next turn
	last  bool
	short bool   // the answer will be
	other string // the client's other session
}

// Lies are those that are measured.
var Lies = []Lie{
	{"end-false", "says of each turn that it is its session's last", func(s *session, t *bus.Task) bool {
		t.SessionEnd = true
		return !s.last
	}},
	{"end-withheld", "does not say which turn is the last", func(s *session, t *bus.Task) bool {
		t.SessionEnd = false
		return s.last
	}},
	{"back-short", "says that it is back after a tenth of the time", func(s *session, t *bus.Task) bool {
		t.BackMS = max(1, t.BackMS/10)
		return !s.last
	}},
	{"back-long", "says that it is back after ten times the time", func(s *session, t *bus.Task) bool {
		t.BackMS = min(10*t.BackMS, bus.MaxBackMS)
		return !s.last
	}},
	{"parent-cyclic", "says of its two sessions that each began the other", func(s *session, t *bus.Task) bool {
		t.Parent = s.other
		return s.other != ""
	}},
	{"next-false", "says after each turn that its other session is next", func(s *session, t *bus.Task) bool {
		t.Next = s.other
		return s.other != ""
	}},
	{"role-false", "calls long answers short, and short ones long", func(s *session, t *bus.Task) bool {
		t.Role = role(!s.short)
		return true
	}},
	{"silent", "gives no hint at all", func(_ *session, t *bus.Task) bool {
		t.SessionEnd, t.BackMS, t.Role, t.Declared = false, 0, "", false
		return true
	}},
}

func role(short bool) string {
	if short {
		return "short"
	}
	return "long"
}

const (
	liar    = "liar"
	own     = 2   // sessions that the liar has at a time: those of the first callers
	early   = 50  // turns of it that do not count: caches fill
	seldom  = 50  // it lies once in so many turns where it does not always
	shortBy = 200 // tokens: an answer of fewer is short
)

// Options say how much is played.
type Options struct {
	Callers int // sessions at a time
	Turns   int // of the liar that count
	Seeds   int
	Said    func() // hears of each run, from several goroutines; may be nil
}

// DefaultOptions are those of the page.
func DefaultOptions() Options { return Options{Callers: 4, Turns: 1000, Seeds: 5} }

// Row is what a lie is worth.
type Row struct {
	Lie    string
	Always bool    // else once in so many turns
	Told   float64 // lies in a run
	// in per cent of what the same turns are worth to who tells the truth, from paired runs: the mean, and
	// how far it may be off (95 %); where it lies seldom, of one lie
	Gain, Off float64
	Others    float64 // what all others lose or gain by it, in per cent of theirs
}

// outcome is what a run came to.
type outcome struct {
	liar, others float64 // credits a turn: value as served less what was paid, of the turns that count
	turns, told  int     // of the liar
}

// Runs is how many runs there are with so many lies.
func (o *Options) Runs(lies int) int { return o.Seeds * (1 + 2*lies) }

// Compare plays lies.
func Compare(o Options, lies []Lie) (rows []Row, err error) {
	type game struct {
		lie   *Lie
		every int
	}
	games := []game{{}}
	for i := range lies {
		games = append(games, game{&lies[i], 1}, game{&lies[i], seldom})
	}
	outcomes, errs := make([]outcome, len(games)*o.Seeds), make([]error, len(games)*o.Seeds)
	var players sync.WaitGroup
	next := atomic.Int64{}
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(outcomes); i = int(next.Add(1)) - 1 {
				g := games[i/o.Seeds]
				outcomes[i], errs[i] = o.play(uint64(i%o.Seeds+1), g.lie, g.every)
			}
		})
	}
	players.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	truth := outcomes[:o.Seeds]
	for n, l := range lies {
		for k, every := range []int{1, seldom} {
			row := Row{Lie: l.Name, Always: every == 1}
			var gains []float64
			for i := range truth {
				x := outcomes[(1+2*n+k)*o.Seeds+i]
				gain := 100 * (x.liar - truth[i].liar) / truth[i].liar
				if every > 1 {
					gain /= float64(max(1, x.told))
				}
				gains = append(gains, gain)
				row.Told += float64(x.told) / float64(o.Seeds)
				row.Others += 100 * (x.others - truth[i].others) / truth[i].others / float64(o.Seeds)
			}
			row.Gain, row.Off = mean(gains)
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// mean is that of all, and how far it may be off with 95 %; NaN with one.
func mean(all []float64) (mean, off float64) {
	mean, sd := stat.MeanStdDev(all, nil)
	n := float64(len(all))
	if n < 2 {
		return mean, math.NaN()
	}
	return mean, distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * sd / math.Sqrt(n)
}

// client is whose a caller's sessions are.
func client(caller int) string {
	if caller < own {
		return liar
	}
	return fmt.Sprintf("caller-%d", caller)
}

// play is one run, with a lie told once in so many turns in which it can be told; nil: with none.
func (o *Options) play(seed uint64, lie *Lie, every int) (x outcome, err error) {
	s, err := virtual.HintsSetting(o.Callers)
	if err != nil {
		return x, err
	}
	s.Seed, s.Warm, s.Length = seed, 0, 0
	turns := 0
	s.Tasks, s.Enough = 1<<30, func() bool { return turns >= o.Turns+early }
	m := virtual.NewMarketOptions(s)
	m.Hub.Seats.Sessions, m.Hub.Seats.Touches, m.Hub.Seats.Depth = true, true, time.Second
	m.Hub.Policies.Keep = "kvcache"
	m.Hub.Deadline, m.Hub.MaxDeadline = max(s.Patient, m.Hub.Deadline), max(s.Patient, m.Hub.MaxDeadline)
	m.Quiet, m.Named, m.Client = s.Quiet, true, client
	sessions, asked := [own]string{}, 0
	m.Hints = func(r *virtual.Request, t *bus.Task) {
		now := session{short: r.Output < shortBy}
		now.back, now.last = r.Back()
		t.SessionEnd, t.Role, t.Declared = now.last, role(now.short), true
		if !now.last {
			t.BackMS = min(max(1, now.back.Milliseconds()), bus.MaxBackMS)
		}
		if r.Caller >= own {
			return
		}
		turns++
		sessions[r.Caller], now.other = t.Session, sessions[1-r.Caller]
		if lie == nil {
			return
		}
		told := *t
		if lie.say(&now, &told) {
			if asked++; every == 1 || asked%every == every/2 || lie.Name == "end-withheld" && asked%5 == 2 {
				*t = told
				x.told++
			}
		}
	}
	paid := map[*virtual.Request]float64{}
	m.Paid = func(r *virtual.Request, res *bus.Result) {
		if res.Code != "" {
			return
		}
		value := r.Terms.Value(market.Quote{TTFT: r.First - r.Arrived, Cost: res.Cost,
			Quality: virtual.Score})
		paid[r] = float64(value-res.Paid()) / float64(market.Credit)
	}
	v, err := virtual.NewMarket(m)
	if err != nil {
		return x, err
	}
	all, _, err := virtual.Run(s, v)
	if err == nil {
		_, err = v.Close()
	}
	if err != nil {
		return x, fmt.Errorf("hints: seed %d: %w", seed, err)
	}
	if o.Said != nil {
		o.Said()
	}
	slices.SortStableFunc(all, func(a, b *virtual.Request) int { return a.ID - b.ID })
	mine, theirs := 0, 0 // a task that is told to come back may be asked more often
	for _, r := range all {
		switch {
		case r.Caller >= own:
			theirs++
			x.others += paid[r]
		default:
			if mine++; mine > early && mine <= early+o.Turns {
				x.liar += paid[r]
			}
		}
	}
	x.turns = min(mine, early+o.Turns) - early
	x.liar /= float64(max(1, x.turns))
	x.others /= float64(theirs)
	return x, nil
}
