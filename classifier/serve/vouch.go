package serve

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/classifier"
)

// vouchKeys signs a door's vouchers, by a key that is new in each life of the door, and every while, so that
// vouchers on which nothing was granted become worthless. The treasury reads the keys in the registry. As
// long as it cannot, hubs get no money for this door's tasks beyond what they have.
type vouchKeys struct {
	door     string
	key      atomic.Pointer[[]byte] // in use
	registry bus.Registry
	log      *slog.Logger
	line     func(before uint64) uint64 // says which was the last line before; the last that there is
	turn     func()                     // begins a line
	said     chan struct{}              // closed once the first is in the registry
}

const (
	// vouchAgain is the pause before a door tries again to publish its key.
	vouchAgain = time.Second
	// vouchTurn is how long a key is in use. It is good for two turns more.
	vouchTurn = 10 * time.Minute
)

func (s *Server) newVouchKeys() *vouchKeys {
	k := &vouchKeys{door: s.c.ID, registry: s.d.Registry, log: s.d.Log, said: make(chan struct{})}
	k.line = func(before uint64) uint64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.desk.LinesFrom(before)
		return s.desk.Line()
	}
	k.turn = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.desk.BeginLine()
	}
	key := freshKey()
	k.key.Store(&key)
	return k
}

// voucher proves to the treasury what the door vouches for.
func (k *vouchKeys) voucher(client string, v *classifier.Vouched) bus.Voucher {
	return bus.NewVoucher(*k.key.Load(), k.door, client, v.Journal, v.Line, v.Total, v.Most)
}

// keep says the key as long as the door lives, so that it outlives the door by bus.VouchFor. The next key is
// there for a while before it is used. While the registry is out of reach, which others say, it forgets none.
func (k *vouchKeys) keep(ctx context.Context) {
	var trouble follow.Trouble
	said := false
	last, since := *k.key.Load(), time.Now() // the key that was made last
	for {
		pause := bus.VouchEvery
		err := k.say(ctx, last)
		if ctx.Err() != nil {
			return
		}
		if !said {
			trouble.Note(k.log, "vouch", err == nil, "the treasury cannot know what this door vouches for: hubs get "+
				"no money of clients for tasks that it places, beyond what they have; `souk auth list` shows whether "+
				"this door may write its key", "the treasury can know again what this door vouches for",
				"key", bus.VouchKey(k.door), "err", err)
		}
		switch {
		case err != nil:
			pause = vouchAgain
		case !said:
			said = true
			close(k.said)
		}
		if !follow.Pause(ctx, pause) {
			return
		}
		switch {
		case err != nil:
		case !bytes.Equal(last, *k.key.Load()):
			key := last
			k.key.Store(&key)
			k.turn()
		case time.Since(since) >= vouchTurn:
			last, since = freshKey(), time.Now()
		}
	}
}

// say writes the key that was made last, beside those before it.
func (k *vouchKeys) say(ctx context.Context, last []byte) error {
	ctx, cancel := context.WithTimeout(ctx, prefixKeysWithin)
	defer cancel()
	kv, err := follow.Get(ctx, k.registry, bus.VouchKey(k.door))
	if err != nil {
		return err
	}
	var keys bus.VouchKeys
	if kv.Value != nil && bus.DecodeEntry(kv.Value, &keys) != nil {
		keys = bus.VouchKeys{} // what makes no sense proves nothing either
	}
	value, err := bus.EncodeEntry(keys.With(*k.key.Load(), k.line(keys.Line)).With(last, 0))
	if err != nil {
		return err
	}
	return k.registry.PutFor(ctx, bus.VouchKey(k.door), value, bus.VouchFor)
}
