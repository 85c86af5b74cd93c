package agentd

import (
	"testing"
	"time"
)

// One dispatch, accepted, served and settled by the core alone.
func BenchmarkAgentTask(b *testing.B) {
	a := newTestAgent(4, Config{})
	a.Claimed(claim(5))
	now := begun
	d := dispatch("h")
	id := []byte("math/00000000/0")
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for i, x := 12, n; i > 4; i, x = i-1, x/10 {
			id[i] = byte('0' + x%10)
		}
		d.Hold = string(id)
		if r, start := a.Dispatch("math", d); !start {
			b.Fatal(r)
		}
		run := a.Begin(d)
		e := run.End(Answer{Finish: "stop", TTFT: time.Millisecond}, nil)
		a.Ended(d, &e)
		a.Acked(d.Hold, "")
		now = now.Add(time.Millisecond)
		a.Ready(now)
	}
}
