package serve

import (
	"context"
	"log/slog"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/classifier"
)

// vouchKey is what a door proves its vouchers with. It is new in each life of the door, and the treasury
// reads it in the registry. As long as it cannot, hubs get no money for what this door places, beyond what
// they have.
type vouchKey struct {
	door     string
	key      []byte
	registry bus.Registry
	log      *slog.Logger
	line     func(before uint64) uint64 // says which was the last line before; the last that there is
	said     chan struct{}              // closed once it is in the registry
}

// vouchAgain is how soon a door tries again to say its key.
const vouchAgain = time.Second

func (s *Server) newVouchKey() *vouchKey {
	return &vouchKey{s.c.ID, freshKey(), s.d.Registry, s.d.Log, func(before uint64) uint64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.desk.LinesFrom(before)
		return s.desk.Line()
	}, make(chan struct{})}
}

// voucher is what the door vouches for.
func (k *vouchKey) voucher(client string, v *classifier.Vouched) bus.Voucher {
	return bus.NewVoucher(k.key, k.door, client, v.Journal, v.Line, v.Total, v.Most)
}

// keep says the key as long as the door lives, so that it outlives the door by bus.VouchFor. While the
// registry is out of reach, which others say, it forgets no key.
func (k *vouchKey) keep(ctx context.Context) {
	var outage bus.Outage
	said := false
	for {
		pause := bus.VouchEvery
		err := k.say(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = vouchAgain
			if !said && outage.Failed(time.Now(), "vouch") {
				k.log.Warn("the treasury cannot know what this door vouches for: hubs get no money of clients for "+
					"tasks that it places, beyond what they have; `souk auth list` shows whether this door may "+
					"write its key", "key", bus.VouchKey(k.door), "err", err)
			}
		default:
			if lasted, over := outage.Works(time.Now(), "vouch"); over {
				k.log.Info("the treasury can know again what this door vouches for", "after",
					lasted.Round(time.Millisecond))
			}
			if !said {
				said = true
				close(k.said)
			}
		}
		if !follow.Pause(ctx, pause) {
			return
		}
	}
}

// say writes the key, beside that of the door's life before.
func (k *vouchKey) say(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, marksWithin)
	defer cancel()
	kv, err := follow.Get(ctx, k.registry, bus.VouchKey(k.door))
	if err != nil {
		return err
	}
	var keys bus.VouchKeys
	if kv.Value != nil && bus.DecodeEntry(kv.Value, &keys) != nil {
		keys = bus.VouchKeys{} // what makes no sense proves nothing either
	}
	value, err := bus.EncodeEntry(keys.With(k.key, k.line(keys.Line)))
	if err != nil {
		return err
	}
	return k.registry.PutFor(ctx, bus.VouchKey(k.door), value, bus.VouchFor)
}
