// Package compare says how the market stands beside rules: on pages, and on the front page of all.
package compare

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"souk/integration/lab/virtual"
)

// Standing compares the market in one world with the best rule there.
type Standing struct {
	Page   string `json:"page,omitempty"`
	Trace  string `json:"trace"`
	World  string `json:"world"`
	Anchor string `json:"anchor"` // of the heading below which the world stands
	Market string `json:"market"` // how it is set; "market": as it is delivered
	Best   string `json:"best"`   // of the rules that are no market, the one of greatest welfare

	Welfare float64 `json:"welfare"` // of the market, a second, in thousandths of a credit
	Rival   float64 `json:"rival"`   // of the best rule
	More    float64 `json:"more"`    // of the market against that, in per cent, from runs of the same seed
	Within  float64 `json:"within"`  // half of the 95 % interval of More

	P99      float64 `json:"p99"`       // of the market's first tokens, ms
	RivalP99 float64 `json:"rival_p99"` // of the best rule's
	Later    float64 `json:"later"`     // what the market's is longer, ms, from runs of the same seed
	LaterBy  float64 `json:"later_by"`  // half of the 95 % interval of Later
	Soonest  string  `json:"soonest"`   // the rule of the least p99
	LeastP99 float64 `json:"least_p99"`
	Bill     float64 `json:"bill"` // of the market, by the card
	// the world's callers ask again when they are served and do not outnumber the slots by half, so that
	// welfare says who asked: the p99 of first tokens alone counts
	Waits bool `json:"waits,omitempty"`
	Once  bool `json:"once,omitempty"` // of one run, which has no interval
}

// Verdict is the conclusion of a standing.
type Verdict string

// The verdicts, worst first.
const (
	Loses Verdict = "loses"
	Level Verdict = "level"
	Wins  Verdict = "wins"
)

// Verdict judges by welfare, where a difference is beyond its interval; else by the p99 of first tokens,
// where that is a tenth apart and beyond its interval. Sooner first tokens are no win where welfare is less
// on the mean.
func (s *Standing) Verdict() Verdict {
	switch {
	case !s.Waits && s.More+s.Within < 0:
		return Loses
	case !s.Waits && s.More-s.Within > 0:
		return Wins
	case s.P99 > 1.1*s.RivalP99 && s.Later-s.LaterBy > 0:
		return Loses
	case s.P99 < s.RivalP99/1.1 && s.Later+s.LaterBy < 0 && (s.Waits || s.More >= 0):
		return Wins
	}
	return Level
}

// Standings says how the market stands in each world of some rows, however it is set there, losses first.
func Standings(rows []virtual.Row) (all []Standing) {
	for _, of := range worlds(rows) {
		best, soonest := rivals(of)
		if best == nil {
			continue
		}
		for i := range of {
			if m := &of[i]; isMarket(m.Rule) {
				all = append(all, standing(m, best, soonest, of[0].Seeds[0].Uncounted))
			}
		}
	}
	Sort(all)
	return all
}

// rivals are the rules of a world that the market is held against: the one that does best, and the one whose
// p99 is least; nil where there is no rule.
func rivals(of []virtual.Row) (best, soonest *virtual.Row) {
	waits := of[0].Seeds[0].Uncounted
	for i := range of {
		r := &of[i]
		if isMarket(r.Rule) {
			continue
		}
		if soonest == nil || r.All["p99"].Mean < soonest.All["p99"].Mean {
			soonest = r
		}
		if best == nil || !waits && r.All["welfare"].Mean > best.All["welfare"].Mean ||
			waits && r.All["p99"].Mean < best.All["p99"].Mean {
			best = r
		}
	}
	return best, soonest
}

func standing(m, best, soonest *virtual.Row, waits bool) Standing {
	s := Standing{Trace: m.Trace, World: strings.TrimSpace(m.Trace + at(m)), Anchor: anchor(familyOf(m)),
		Market: m.Label(), Best: best.Label(), Waits: waits, Once: len(m.Seeds) == 1,
		Welfare: m.All["welfare"].Mean, Rival: best.All["welfare"].Mean, P99: m.All["p99"].Mean,
		RivalP99: best.All["p99"].Mean, Soonest: soonest.Label(), LeastP99: soonest.All["p99"].Mean,
		Bill: m.All["bill"].Mean}
	var more, later []float64 // of each seed, which both played
	for i := range min(len(m.Seeds), len(best.Seeds)) {
		more = append(more, m.Seeds[i].Welfare-best.Seeds[i].Welfare)
		later = append(later, m.Seeds[i].P99-best.Seeds[i].P99)
	}
	e, wait := virtual.NewEstimate(more), virtual.NewEstimate(later)
	s.Later, s.LaterBy = wait.Mean, wait.Within
	if s.Rival != 0 {
		s.More, s.Within = 100*e.Mean/math.Abs(s.Rival), 100*e.Within/math.Abs(s.Rival)
	}
	return s
}

// Sort puts losses first, the greatest of them before the others.
func Sort(all []Standing) {
	order := []Verdict{Loses, Level, Wins}
	slices.SortStableFunc(all, func(a, b Standing) int {
		return cmp.Or(slices.Index(order, a.Verdict())-slices.Index(order, b.Verdict()),
			cmp.Compare(a.More, b.More), cmp.Compare(b.P99/max(1, b.RivalP99), a.P99/max(1, a.RivalP99)))
	})
}

func isMarket(rule string) bool {
	base, _, _ := strings.Cut(rule, ":")
	return base == virtual.MarketName
}

// worlds are the rows of each world, in the order in which they were played.
func worlds(rows []virtual.Row) (all [][]virtual.Row) {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Same(&rows[0]) {
			n++
		}
		all, rows = append(all, rows[:n]), rows[n:]
	}
	return all
}
