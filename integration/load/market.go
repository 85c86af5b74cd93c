package load

import (
	"context"

	"souk/bus"
	"souk/integration/harness"
	"souk/integration/replay"
)

// ProcessesOf are the processes of the market that runs on a data directory; one that is started again is followed.
func ProcessesOf(dir string, s harness.State) []Process {
	if len(s.Processes) == 0 {
		return []Process{{Name: "market", PID: s.PID}}
	}
	var out []Process
	for _, p := range s.Processes {
		out = append(out, Process{Name: p.Name, PID: p.PID, Apart: p.Engine, Find: func() int {
			now, err := harness.ReadState(dir)
			if err != nil {
				return 0
			}
			for _, q := range now.Processes {
				if q.Name == p.Name {
					return q.PID
				}
			}
			return 0
		}})
	}
	return out
}

// WithoutFailover asks tasks that end with the agent that fails them.
func WithoutFailover(m Market) Market {
	return func(ctx context.Context, t bus.Task, each func(bus.Chunk)) (replay.Answer, error) {
		t.Failover = "off"
		return m(ctx, t, each)
	}
}
