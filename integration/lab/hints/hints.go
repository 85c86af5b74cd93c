// Package hints measures what false hints are worth to who gives them. A market in virtual time plays the
// same sessions twice, once with a client that tells the truth about what comes next and once with one that
// lies in one hint, and compares what its answers were worth to it, less what it paid.
package hints

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"souk/bus"
	"souk/integration/lab/runs"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Lie is one kind of false hint.
type Lie struct {
	Name, About string
	// says it, in place of what is true; false: there is nothing to lie about in this turn
	say func(s *session, t *bus.Task) bool
}

// session is a caller's knowledge of its own session when it asks.
type session struct {
	back  time.Duration // until its next turn
	last  bool
	short bool   // the answer will be
	other string // the client's other session
	fresh string // a name that it has not used
}

// Lies lists what is measured.
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
	{"role-new", "gives each turn a role of its own", func(s *session, t *bus.Task) bool {
		t.Role = s.fresh
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
	Said    func() // hears of each run that has ended; may be nil
}

// DefaultOptions returns the page's options.
func DefaultOptions() Options { return Options{Callers: 4, Turns: 1000, Seeds: 5} }

// Row holds the gain by a lie.
type Row struct {
	Lie    string
	Settle string  // market.SettleMetered or market.SettleQuoted
	Always bool    // else once in so many turns
	Told   float64 // lies in a run
	// in per cent of what the same turns are worth to who tells the truth, from paired runs: the mean, and
	// how far it may be off (95 %); where it lies seldom, of one lie
	Gain, Off float64
	Others    float64 // what all others lose or gain by it, in per cent of theirs
}

// outcome is the result of a run.
type outcome struct {
	liar, others float64 // credits a turn: value as served less what was paid, of the turns that count
	turns, told  int     // of the liar
}

// game is one variant that is played from each seed.
type game struct {
	settle string
	lie    *Lie // nil: the truth
	every  int
}

// games are the truth and each lie, always and now and then, under either settlement.
func games(lies []Lie) (all []game) {
	for _, settle := range []string{market.SettleMetered, market.SettleQuoted} {
		all = append(all, game{settle: settle})
		for i := range lies {
			all = append(all, game{settle, &lies[i], 1}, game{settle, &lies[i], seldom})
		}
	}
	return all
}

// Runs returns the number of runs with such lies.
func (o *Options) Runs(lies []Lie) int { return o.Seeds * len(games(lies)) }

// Compare plays lies, until ctx ends.
func Compare(ctx context.Context, o Options, lies []Lie) (rows []Row, err error) {
	games := games(lies)
	ended := func(int) {
		if o.Said != nil {
			o.Said()
		}
	}
	outcomes, err := runs.Each(ctx, len(games)*o.Seeds, 0, ended,
		func(i int) (outcome, error) { return o.play(uint64(i%o.Seeds+1), games[i/o.Seeds]) })
	if err != nil {
		return nil, err
	}
	var truth []outcome
	for n, g := range games {
		played := outcomes[n*o.Seeds : (n+1)*o.Seeds]
		if g.lie == nil {
			truth = played
			continue
		}
		row := Row{Lie: g.lie.Name, Settle: g.settle, Always: g.every == 1}
		var gains []float64
		for i, x := range played {
			gain := 100 * (x.liar - truth[i].liar) / truth[i].liar
			if g.every > 1 {
				gain /= float64(max(1, x.told))
			}
			gains = append(gains, gain)
			row.Told += float64(x.told) / float64(o.Seeds)
			row.Others += 100 * (x.others - truth[i].others) / truth[i].others / float64(o.Seeds)
		}
		row.Gain, row.Off = mean(gains)
		rows = append(rows, row)
	}
	return rows, nil
}

// mean returns the mean of all, and how far it may be off with 95 %: NaN with one.
func mean(all []float64) (mean, off float64) {
	e := virtual.NewEstimate(all)
	if len(all) < 2 {
		return e.Mean, math.NaN()
	}
	return e.Mean, e.Within
}

// client returns the client to whom a caller's sessions belong.
func client(caller int) string {
	if caller < own {
		return liar
	}
	return fmt.Sprintf("caller-%d", caller)
}

// play plays one run of a game, with its lie told once in so many turns in which it can be told.
func (o *Options) play(seed uint64, g game) (x outcome, err error) {
	s, err := virtual.HintsSetting(o.Callers)
	if err != nil {
		return x, err
	}
	s.Seed, s.Warm, s.Length = seed, 0, 0
	turns := 0
	s.Tasks, s.Enough = 1<<30, func() bool { return turns >= o.Turns+early }
	sessions, asked := [own]string{}, 0
	hints := func(r *virtual.Request, t *bus.Task) {
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
		now.fresh = fmt.Sprint("turn-", turns)
		if g.lie == nil {
			return
		}
		told := *t
		if g.lie.say(&now, &told) {
			asked++
			rare := g.lie.Name == "end-withheld" && asked%5 == 2 // there are few last turns
			if g.every == 1 || asked%g.every == g.every/2 || rare {
				*t = told
				x.told++
			}
		}
	}
	paid := map[*virtual.Request]float64{}
	all, _, err := virtual.PlayKept(s, "kvcache", func(m *virtual.MarketOptions) {
		m.Hub.Settle, m.Client, m.Hints = g.settle, client, hints
		m.Paid = func(r *virtual.Request, res *bus.Result) {
			if res.Code != "" {
				return
			}
			value := r.Terms.Value(market.Quote{TTFT: r.First - r.Arrived, Cost: res.Cost,
				Quality: virtual.Score})
			paid[r] = float64(value-res.Paid()) / float64(market.Credit)
		}
	})
	if err != nil {
		return x, fmt.Errorf("hints: %w", err)
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
