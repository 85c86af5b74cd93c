package virtual

import (
	"fmt"
	"testing"
)

func TestSplitLook(t *testing.T) {
	for _, rate := range []float64{12, 24} {
		for _, c := range []struct {
			pools []int
			rule  string
		}{{[]int{1}, "market"}, {[]int{1}, "market:policies.place=pd"}, {[]int{2}, "market"}, {[]int{2}, "market:policies.place=pd"}} {
			s, err := mixed(6, c.pools, rate, 1)
			if err != nil {
				t.Fatal(err)
			}
			o, _, err := variant(c.rule)
			if err != nil {
				t.Fatal(err)
			}
			m := NewMarketOptions(s)
			m.Hub = o.Hub
			k, err := NewMarket(m)
			if err != nil {
				t.Fatal(err)
			}
			all, _, err := Run(s, k)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Close(); err != nil {
				t.Error(err)
			}
			f := Measure(all, s.Engines)
			fmt.Printf("rate %v %v %s: good %.2f of %d; ttft p50 %.0f p99 %.0f refused %v\n", rate, c.pools, c.rule, s.goodput(all), len(all), f.Median, f.P99, f.Refused)
		}
	}
}
