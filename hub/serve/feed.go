package serve

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/report"
	"souk/ledger"
)

// feed has what the hub did since it was last shown, while somebody looks on; else nothing.
type feed struct {
	until  atomic.Pointer[time.Time] // it is watched until then, whatever becomes of the clock
	begin  chan struct{}
	mu     sync.Mutex      // of the next two
	rounds []*ledger.Frame // that have one, the last bus.MaxFeedRounds
	unseen int64
	making sync.Mutex // of the next two
	last   *bus.Feed  // the last whole one
	made   time.Time  // when it was
}

// watched reports whether somebody looks on.
func (f *feed) watched() bool {
	until := f.until.Load()
	return until != nil && time.Now().Before(*until)
}

// saw takes in frames that were written.
func (f *feed) saw(frames []ledger.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range frames {
		for k := range frames[i].Records {
			if frames[i].Records[k].Kind != ledger.KindRound {
				continue
			}
			if len(f.rounds) == bus.MaxFeedRounds {
				f.rounds = append(f.rounds[:0], f.rounds[1:]...)
				f.unseen++
			}
			f.rounds = append(f.rounds, &ledger.Frame{Time: frames[i].Time,
				Records: frames[i].Records[k : k+1]})
		}
	}
}

// take returns the rounds that were not shown yet, and how many more there were.
func (f *feed) take() (rounds []bus.FeedRound, unseen int64) {
	f.mu.Lock()
	frames := f.rounds
	unseen, f.rounds, f.unseen = f.unseen, nil, 0
	f.mu.Unlock()
	for _, x := range frames {
		rounds = append(rounds, report.Shown(x.Records[0].Round, x.Time/int64(time.Millisecond)))
	}
	return rounds, unseen
}

// onWatch lets the feed begin or go on, or answers with a whole one.
func (s *Server) onWatch(m bus.Msg) {
	if m.Reply == "" {
		s.feed.until.Store(new(time.Now().Add(bus.WatchFor)))
		select {
		case s.feed.begin <- struct{}{}:
		default:
		}
		return
	}
	if s.misled(m) {
		return
	}
	f := s.whole(time.Now())
	data, err := bus.Encode(f)
	if bus.WantsJSON(m.Data, m.Header) {
		data, err = json.Marshal(f)
	}
	if err == nil {
		err = s.deps.Bus.Publish(bus.Msg{Subject: m.Reply, Data: data})
	}
	if err != nil {
		s.log.Debug("feed not sent", "err", err)
	}
}

// whole is a feed that shows the hub as a whole, made anew where the last is older than a feed may be.
func (s *Server) whole(now time.Time) *bus.Feed {
	f := &s.feed
	f.making.Lock()
	defer f.making.Unlock()
	if f.last != nil && now.Sub(f.made) < bus.FeedEvery && now.After(f.made) {
		return f.last
	}
	x := &bus.Feed{Domain: s.cfg.Domain, Journal: s.cfg.Journal, AtMS: now.UnixMilli()}
	var t ledger.Totals
	stats := s.Stats()
	s.with(func(n *hub.Node) {
		t = n.Book().Totals()
		_, x.Epoch, _ = n.Book().Last()
	})
	x.State = stats.Stats.State(t)
	if s.deps.Expires != nil {
		x.State.Expires = bus.UnixMS(s.deps.Expires())
	}
	x.State.Hub, x.State.Unready = s.cfg.Hub, bus.Clip(s.Unready(), bus.MaxText)
	fit(x)
	f.last, f.made = x, now
	return x
}

// fit leaves out what there is no room for, what matters least first.
func fit(x *bus.Feed) {
	for {
		data, err := bus.Encode(x)
		switch st := x.State; {
		case err != nil || len(data) <= bus.MaxFeed:
			return
		case st != nil && len(st.Agents) > 1:
			st.Agents = st.Agents[:len(st.Agents)/2]
		case len(x.Rounds) > 0:
			x.Rounds = x.Rounds[1:]
			x.Unseen++
		default:
			return
		}
	}
}

// feeds shows the hub until ctx ends, as long as somebody looks on.
func (s *Server) feeds(ctx context.Context) {
	for {
		select {
		case <-s.feed.begin:
			s.show(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// stateEvery is how often the hub as a whole is shown.
const stateEvery = time.Second

func (s *Server) show(ctx context.Context) {
	tick := time.NewTicker(bus.FeedEvery)
	defer tick.Stop()
	s.feed.take() // of an earlier watch
	var state time.Time
	epoch := int64(0)
	for now := time.Now(); s.feed.watched(); {
		x := &bus.Feed{Domain: s.cfg.Domain, Journal: s.cfg.Journal, Epoch: epoch, AtMS: now.UnixMilli()}
		if now.Sub(state) >= stateEvery {
			*x, state = *s.whole(now), now
			all := *x.State // what is fitted here stays whole for others
			x.State, epoch = &all, x.Epoch
		}
		x.Rounds, x.Unseen = s.feed.take()
		if x.State != nil || len(x.Rounds) > 0 {
			fit(x)
			if err := s.publish(bus.Msg{Subject: bus.FeedSubject(s.cfg.Domain)}, x); err != nil {
				s.log.Debug("feed not sent", "err", err)
			}
		}
		select {
		case now = <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
