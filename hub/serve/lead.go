package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/hub"
	"souk/hub/account"
	"souk/ledger"
)

// standBy waits for the leadership. Meanwhile the hub settles what it awarded when it led last, and says
// again what it has settled: nobody else can, for the money is held in its journal. One whose journal may be
// a copy does not, nor one beside which a copy works: agents that it answered would not tell the hub that has
// the newer one. The second error ends the hub.
func (s *Server) standBy(ctx context.Context) (lead bus.Leadership, err, fatal error) {
	ctx, stop := context.WithCancel(ctx)
	type outcome struct {
		lead bus.Leadership
		err  error
	}
	won, beside := make(chan outcome, 1), make(chan bool)
	var watch sync.WaitGroup
	defer func() { stop(); watch.Wait() }()
	watch.Go(func() { s.copies(ctx, beside) })
	go func() {
		l, err := s.stands.Elect(ctx)
		won <- outcome{l, err}
	}()
	lost := func() { // what is won from now on
		stop()
		if o := <-won; o.lead != nil {
			follow.Reign{Leadership: o.lead}.Resign(s.log)
		}
	}
	var agents bus.Subscription // whose completions are heard; nil: none are
	defer func() {
		if agents != nil {
			agents.Stop()
		}
	}()
	s.with(func(n *hub.Node) { n.Hears(time.Now(), false) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var first input
		select {
		case o := <-won:
			return o.lead, o.err, nil
		case quiet := <-beside:
			s.twin = s.twin || quiet
			switch {
			case quiet && agents != nil:
				agents.Stop()
				agents = nil
			case !quiet && agents == nil:
				served := bus.CompletionSubject(s.cfg.Domain, "*")
				agents, err = s.deps.Bus.Subscribe(served, "", s.completions())
				if err != nil {
					lost()
					return nil, err, nil
				}
			default:
				continue
			}
			s.with(func(n *hub.Node) { n.Hears(time.Now(), !quiet) })
		case first = <-s.in:
		case <-timer.C:
		case fatal = <-s.broken:
		}
		if fatal == nil {
			_, fatal = s.advance(first, timer)
		}
		if fatal != nil {
			lost()
			return nil, nil, fatal
		}
	}
}

// copies says until ctx ends whether a copy of the journal works beside this hub, as far as the registry
// knows. It says nothing where this one may be the copy, or has nothing to settle, nor, before it has led,
// until the registry has said whether one worked before.
func (s *Server) copies(ctx context.Context, beside chan<- bool) {
	var rounds uint64
	s.with(func(n *hub.Node) { rounds, _ = n.Book().LastRound() })
	if rounds == 0 || s.deps.Journal.Moved() {
		return
	}
	for known := false; !known; {
		asks, cancel := context.WithTimeout(ctx, ledAgain)
		by, err := s.stands.Since(asks, bus.LedKey(s.cfg.Journal))
		cancel()
		if by != "" {
			return
		}
		select {
		case <-s.ready: // this very process has led
			known = true
		default:
			known = err == nil || !follow.Pause(ctx, ledAgain)
		}
	}
	is := false
	say := func() {
		select {
		case beside <- is:
		case <-ctx.Done():
		}
	}
	follow.Run(ctx, s.deps.Registry, s.stands.Key, follow.Follower{
		Set:    func(kv bus.KV) { is = s.stands.Twin(kv.Value); say() },
		Gone:   func(string) { is = false; say() },
		Synced: say,
		Asked: func(err error) {
			if s.stands.Asked(err); err != nil {
				say()
			}
		},
	})
}

// contradicted says by which word the treasury contradicts that the journal is the newest; "": by none.
func (s *Server) contradicted() string {
	if d := s.doubts(); !d.Waits {
		return d.Why
	}
	return ""
}

// doubts says why the journal may not be the newest.
func (s *Server) doubts() (d follow.Doubt) {
	if why, waits := s.deps.Signs.Stands(); why != "" && !waits {
		return follow.Doubt{Why: why}
	}
	if why := s.unknown.Load(); why != nil {
		return follow.Doubt{Why: *why, Waits: true}
	}
	s.with(func(n *hub.Node) { d.Why, d.Waits = n.Money().Doubt() })
	return d
}

// lead serves for one time of leadership. It returns nil after draining, bus.ErrLost when deposed,
// follow.ErrGivesWay after it was to yield, or the journal's error.
func (s *Server) lead(ctx context.Context, r follow.Reign) error {
	defer r.Resign(s.log)
	for _, before := range []func(context.Context, follow.Reign) error{s.begins, s.attested, s.firstLed} {
		if err := before(ctx, r); err != nil || ctx.Err() != nil {
			return err
		}
	}
	var err error
	if s.with(func(n *hub.Node) { err = n.Lead(time.Now(), r.Epoch()) }); err != nil {
		return err
	}
	if !s.stands.Resumes() {
		s.log.Info("leading", "epoch", r.Epoch(), "instance", s.cfg.Hub)
	}
	heard, err := s.listen()
	if err != nil {
		return fmt.Errorf("hub %s: %w", s.cfg.Domain, err)
	}
	s.leading.Store(true) // before the roster, which says that the hub is ready
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	var roster sync.WaitGroup
	if !s.deps.Close { // else nothing is sold
		roster.Go(func() { s.watch(inner, r) })
	}
	roster.Go(func() { s.stayLed(inner) })
	roster.Go(func() { s.heed(inner) })
	roster.Go(func() { s.watchBus(inner) })
	roster.Go(func() { s.feeds(inner) })
	err = s.loop(ctx, r)
	s.leading.Store(false)
	stop()
	roster.Wait()
	for _, h := range heard {
		h.Stop()
	}
	s.written() // what the writer still has may ask the treasury, too
	s.asking.Wait()
	for len(s.in) > 0 {
		<-s.in // said to this leadership; whoever needs an answer says it again
	}
	var rest hub.Ready
	s.with(func(n *hub.Node) {
		n.Depose(time.Now())
		rest = n.Ready()
	})
	if err == nil || errors.Is(err, bus.ErrLost) || errors.Is(err, follow.ErrGivesWay) {
		s.work <- todo{Ready: rest}
		s.settleDown()
	}
	return err
}

// begins waits until the treasury has said that the hub may begin, where its journal is empty.
func (s *Server) begins(ctx context.Context, r follow.Reign) error {
	var f hub.Funds
	ask := false
	s.with(func(n *hub.Node) { f, ask = n.Money().First(r.Epoch()) })
	defer s.unknown.Store(nil)
	said := false
	for wait := 50 * time.Millisecond; ask; wait = min(2*wait, time.Second) {
		m := s.answer(ctx, f)
		var begins bool
		var err error
		s.with(func(n *hub.Node) { begins, err = n.Money().Begin(m) })
		if begins || err != nil {
			return err
		}
		why := "the hub's journal is empty, and the treasury has not said whether it knows one of its name"
		if m.Message != "" {
			why += "; it says: " + bus.Clip(m.Message, bus.MaxText)
		}
		s.unknown.Store(&why)
		if m.Code != bus.CodeUnavailable && !said {
			said = true
			s.log.Warn("the treasury does not say whether it knows this journal; asking again every second",
				"journal", s.cfg.Journal, "code", m.Code, "why", m.Message)
		}
		if err := r.Pause(ctx, wait); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// attested waits until a witness has said how much of the journal it has cosigned, and the journal goes on
// that (I13). Meanwhile the hub says what it has cosigned itself.
func (s *Server) attested(ctx context.Context, r follow.Reign) error {
	defer s.unknown.Store(nil)
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		why, waits := s.deps.Signs.Stands()
		if why == "" {
			return nil
		}
		if !waits {
			return follow.ErrGivesWay
		}
		s.unknown.Store(&why)
		var f hub.Funds
		s.with(func(n *hub.Node) { f = n.Money().AsksFirst(r.Epoch()) })
		s.answer(ctx, f)
		if why, _ := s.deps.Signs.Stands(); why == "" {
			return nil
		}
		if err := r.Pause(ctx, wait); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// firstLed has the registry remember that this hub has led, before it takes a task, and finds out whether
// another on a journal of its name did since it last led. One that was not told of this hub does not let it.
func (s *Server) firstLed(ctx context.Context, r follow.Reign) error {
	return s.stands.Ask(ctx, r, func(ctx context.Context) error {
		err := s.since(ctx)
		if err == nil && s.doubts().Why == "" { // else it takes no task before it is settled; see settled
			err = s.led(ctx)
		}
		return err
	})
}

// since has the hub hear the treasury first where another led, and took tasks, since. Where it knows by the
// treasury alone that its journal is the newest, one that only led is enough: it may have contradicted it.
func (s *Server) since(ctx context.Context) error {
	by, err := s.stands.Since(ctx, bus.LedKey(s.cfg.Journal))
	if by == "" && s.twin && s.deps.Journal.Confirmed() {
		by = "one that took no task"
	}
	if s.twin = false; by == "" {
		return err
	}
	s.with(func(n *hub.Node) { n.Money().Await(account.LedSince, false) })
	s.deps.Journal.Settle(false)
	s.log.Warn(s.doubts().Why, "led_by", by)
	return nil
}

// settled notes whether the journal is the newest. The registry hears that it is before anybody is told what
// this hub takes.
func (s *Server) settled(is ledger.Settled) {
	s.deps.Journal.Settle(is == ledger.Own)
	if is != ledger.Own {
		s.log.Error("no task and no money is taken until this is mended", "why", s.Refuses())
		return
	}
	s.log.Info("the hub's journal is the newest, by what the treasury says")
	_ = s.led(context.Background()) // else within seconds; led logs it
}

// ledAgain is the pause before the registry is told again if it did not answer, and bounds each attempt.
const ledAgain = time.Second

func (s *Server) led(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ledAgain)
	defer cancel()
	err := s.deps.Registry.PutFor(ctx, bus.LedKey(s.cfg.Journal), s.stands.Value, bus.LedFor)
	s.trouble.Note(s.log, "led", err == nil || errors.Is(err, bus.ErrForbidden),
		"the registry does not remember this hub; trying on", "the registry answers again", "err", err)
	return err
}

// stayLed has the registry remember it for as long as it leads.
func (s *Server) stayLed(ctx context.Context) {
	for pause := bus.LedEvery; follow.Pause(ctx, pause); {
		if s.doubts().Why != "" {
			continue
		}
		pause = bus.LedEvery
		if err := s.led(ctx); err != nil && !errors.Is(err, bus.ErrForbidden) {
			pause = ledAgain
		}
	}
}
