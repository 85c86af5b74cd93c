package virtual

import (
	"errors"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// flooded is a market of so many engines where dialogues of clients of their own begin at a rate, and for a
// minute those of one client at several times that.
func flooded(engines int, rate, times float64) (Setting, error) {
	s, err := Traces[0].setting(engines)
	if err != nil {
		return s, err
	}
	s.Callers, s.Rate, s.Seed = 0, rate, 1
	s.Flood = Flood{From: 20 * time.Second, To: 80 * time.Second, Rate: rate * times}
	s.Length = 100 * time.Second
	return s, nil
}

// FloodFigures are the clients' results in a market that another flooded.
type FloodFigures struct {
	Tasks, Refused int     // of the others
	P50, P99       float64 // of their first tokens, ms
	Served, Sent   int     // of the flood
}

func (f *FloodFigures) columns() []float64 {
	return []float64{float64(f.Tasks), float64(f.Refused), f.P50, f.P99, float64(f.Sent), float64(f.Served)}
}

// playFlood plays a market, and looks at what came while it was flooded.
func playFlood(s Setting, rule string) (f FloodFigures, err error) {
	like, ok, err := variant(rule)
	if err != nil || !ok {
		return f, errors.Join(err, errors.New("a flood is played on markets"))
	}
	o := NewMarketOptions(s)
	o.Hub = like.Hub
	all, _, _, err := playMarket(s, o)
	if err != nil {
		return f, err
	}
	var first []float64
	for _, q := range all {
		if q.Arrived < s.Flood.From || q.Arrived >= s.Flood.To {
			continue
		}
		switch {
		case q.Caller == Flooder:
			if f.Sent++; !q.Refused {
				f.Served++
			}
		case q.Refused:
			f.Tasks, f.Refused = f.Tasks+1, f.Refused+1
		default:
			f.Tasks++
			first = append(first, float64(q.First-q.Arrived)/1e6)
		}
	}
	slices.Sort(first)
	if len(first) > 0 {
		f.P50 = stat.Quantile(0.5, stat.Empirical, first, nil)
		f.P99 = stat.Quantile(0.99, stat.Empirical, first, nil)
	}
	return f, nil
}
