package virtual

import (
	"testing"
	"time"
)

// Where prompts are computed apart for enough engines, roles of long prompts that go there and others that do
// not are served better than all mixed: by a tenth at least.
func TestRolesApartAreServedBetter(t *testing.T) {
	good := func(rule string) float64 {
		s, err := mixed(6, []int{2}, 12, 1)
		if err != nil {
			t.Fatal(err)
		}
		s.Length = 30 * time.Second
		like, _, err := variant(rule)
		if err != nil {
			t.Fatal(err)
		}
		o := NewMarketOptions(s)
		o.Hub = like.Hub
		m, err := NewMarket(o)
		if err != nil {
			t.Fatal(err)
		}
		all, _, err := Run(s, m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Close(); err != nil {
			t.Error(err)
		}
		return s.goodput(all)
	}
	off, on := good("market"), good("market:policies.place=pd")
	t.Logf("%.2f tasks a second are served well without, %.2f with", off, on)
	if on < 1.1*off {
		t.Errorf("%.2f tasks a second are served well without, %.2f with", off, on)
	}
}
