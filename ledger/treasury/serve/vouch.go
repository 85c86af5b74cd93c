package serve

import (
	"context"
	"time"

	"souk/bus"
	"souk/bus/follow"
)

// keysWithin bounds how long a treasury that starts waits for doors' keys. Without them it grants nothing for
// which it would need one, and hubs ask again.
const keysWithin = 2 * time.Second

// keys follows doors' voucher keys in the registry. synced is called once the present ones are known.
func (s *Server) keys(ctx context.Context, synced func()) {
	set := func(door string, keys *bus.VouchKeys) {
		s.mu.Lock()
		fits := s.t.Vouches(door, keys)
		s.mu.Unlock()
		if !fits {
			s.d.Log.Warn("one door more than this treasury knows keys of: hubs get no money for the tasks that "+
				"it places", "door", door)
		}
	}
	follow.Run(ctx, s.d.Registry, bus.VouchPrefix, follow.Follower{
		Set: func(kv bus.KV) {
			keys := new(bus.VouchKeys)
			door := bus.LastElement(kv.Key)
			if err := bus.DecodeEntry(kv.Value, keys); err != nil {
				s.d.Log.Warn("a door's key makes no sense: hubs get no money for the tasks that it places",
					"key", kv.Key, "err", err)
				return
			}
			set(door, keys)
		},
		Gone:   func(key string) { set(bus.LastElement(key), nil) },
		Synced: synced,
		Asked: func(err error) {
			if err != nil {
				synced()
			}
			s.vouch.Note(s.d.Log, "keys", err == nil, "the registry does not say what doors prove their vouchers with: "+
				"what is known is kept, and hubs get no money for tasks of other doors; `souk auth list` shows whether "+
				"this treasury may read it", "the registry says doors' keys again", "key", bus.VouchPrefix, "err", err)
		},
		Log: s.d.Log,
	})
}
