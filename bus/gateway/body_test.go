package gateway

import (
	"testing"
	"time"

	"souk/bus"
)

// The largest body that is read is what the longest context on sale has room for, with a picture, unless the
// configuration says another; a body that travels with its task always is.
func TestTheLargestBodyFollowsTheContextsOnSale(t *testing.T) {
	sold := func(pools string, contexts ...int) map[string]heard {
		var st bus.Status
		for _, n := range contexts {
			st.Models = append(st.Models, bus.ModelStatus{Agents: 1, MaxModelLen: n, Pools: pools})
		}
		return map[string]heard{"a": {st, time.Now()}}
	}
	gone := sold("", 1<<20)
	gone["a"] = heard{gone["a"].status, time.Now().Add(-time.Hour)}
	for _, c := range []struct {
		name      string
		set, came int
		hubs      map[string]heard
		want      int
	}{
		{"nothing is known of the market", 0, -1, nil, bus.MaxLarge},
		{"its hub is silent", 0, -1, gone, bus.MaxLarge},
		{"a short context", 0, -1, sold("", 4096, 2048), 8 << 20},
		{"a long one", 0, 30 << 20, sold("", 2048, 262144), bus.MaxLarge},
		{"an engine that does not say", 0, 30 << 20, sold("", 2048, 0), bus.MaxLarge},
		{"texts to embed are many", 0, 30 << 20, sold("embedding", 512), bus.MaxLarge},
		{"a setting", 1 << 20, 30 << 20, sold("", 262144), 1 << 20},
		{"one beyond any context", 9 << 20, -1, sold("", 2048), 9 << 20},
		{"a small body", 0, 1000, sold("", 2048), bus.MaxBody},
	} {
		s := &Server{c: Config{MaxBody: c.set}, hubs: c.hubs}
		if got := s.mostBody(int64(c.came)); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
