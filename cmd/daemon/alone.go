package daemon

import (
	"context"
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// aloneTTL is how long a killed process keeps the next one of its id waiting: the shortest lease that a busy
// machine does not lose.
const aloneTTL = 3 * time.Second

// Alone runs a process that must be the only one of its id in the market, as every process with the id hears
// its messages. It waits for the lease of one that was killed, and fails beside one that lives. role is also
// the section of the file in which the id is; key is the registry's key for the holder.
func (p *Process) Alone(ctx context.Context, l *Link, key string, role bus.Role, field, id string,
	run func(context.Context) error) error {
	seat := &follow.Seat{Registry: l.Registry, Key: key, Who: fmt.Sprintf("%s %s", role, id),
		Else: fmt.Sprintf("stop that one, or give this one an id and creds of its own: %s, and souk auth add %s "+
			"NAME", field, role), TTL: aloneTTL, Log: p.Log}
	p.Awaits(func() string { return "another process may have the id " + id })
	if err := seat.Take(ctx); err != nil {
		return err
	}
	p.Awaits(func() string { return "" })
	return seat.Hold(ctx, run)
}
