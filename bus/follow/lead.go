package follow

import (
	"context"
	"errors"
	"time"

	"souk/bus"
)

// A leader's journal may be a copy that lacks what came last. Then it does nothing, and keeps out who has the
// newest. So it gives the leadership back now and then: whoever stands by leads then, and keeps it.

// Doubt says why a leader's journal may not be the newest.
type Doubt struct {
	Why   string // "": nothing
	Waits bool   // nobody contradicts it: it waits for somebody's word
}

// ErrGivesWay ends a time of leadership, so that one with a better journal may lead.
var ErrGivesWay = errors.New("the leadership is given back, as the journal may not be the newest")

// Times of who leads, or wants to.
const (
	// how soon it stands again after it was not elected, or lost that
	againLeast, againMost = 100 * time.Millisecond, 5 * time.Second
	// how often it looks whether it is in doubt
	lookEvery = 250 * time.Millisecond
	// how long it waits for a word before it gives way: hubs and treasury speak every five seconds
	patience = 2 * bus.FundsEvery
	// how often it gives way again while nothing has changed, and for how long: twice what one that may be
	// a copy, too, leaves to others
	giveWayEvery, giveWayFor = time.Minute, 2 * giveWay
)

// Lead has the process lead whenever it is elected, until ctx ends or lead returns anything but bus.ErrLost
// or ErrGivesWay, which Lead then returns. elect wins the election, as Elect does; fatal ends Lead, too. lead
// is to return with ErrGivesWay soon after Yield is closed, and to have given the leadership back by then.
func (c *Candidate) Lead(ctx context.Context,
	elect func(context.Context) (l bus.Leadership, err, fatal error),
	lead func(context.Context, Reign) error) error {
	var deposed bus.Outage
	for wait := againLeast; ; wait = min(2*wait, againMost) {
		l, err, fatal := elect(ctx)
		if fatal != nil {
			return fatal
		}
		if err == nil {
			wait = againLeast
			deposed.Works(time.Now(), "lead") // lead logs it
			err = c.once(ctx, l, lead)
			c.pausing.Store(nil)
			switch gives := errors.Is(err, ErrGivesWay); {
			case gives && !c.pause(ctx):
				return nil
			case gives:
				continue
			case ctx.Err() != nil || !errors.Is(err, bus.ErrLost):
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if deposed.Failed(time.Now(), "lead") {
			c.Log.Warn(c.Idle, "err", err)
		}
		if !Pause(ctx, wait) {
			return nil
		}
	}
}

// once leads one time, and watches meanwhile whether to give way.
func (c *Candidate) once(ctx context.Context, l bus.Leadership,
	lead func(context.Context, Reign) error) error {
	looks, stop := context.WithCancel(context.WithoutCancel(ctx))
	yield, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for begun := time.Now(); Pause(looks, lookEvery); {
			if d := c.Doubt(); c.due(begun, time.Now(), d) {
				c.gives = d
				close(yield)
				return
			}
		}
	}()
	defer func() { stop(); <-ended }()
	return lead(ctx, Reign{l, yield})
}

// due reports whether a leader gives way: at once when it is contradicted, after some time when it waits, and
// then once a minute.
func (c *Candidate) due(begun, now time.Time, d Doubt) bool {
	again := c.gave.IsZero() || now.Sub(c.gave) >= giveWayEvery
	switch {
	case d.Why == "":
		return false
	case d.Waits:
		return again && now.Sub(begun) >= patience
	}
	return again || !c.contradicted
}

// pause leaves the leadership to others for a moment. It returns false if ctx ends.
func (c *Candidate) pause(ctx context.Context) bool {
	d := c.gives
	if c.gave.IsZero() || c.contradicted == d.Waits {
		c.Log.Warn("the leadership is given back for a second, and then once a minute: if one with the newest "+
			"journal stands by, it leads from then on", "why", d.Why)
	}
	c.gave, c.contradicted = time.Now(), !d.Waits
	c.pausing.Store(&d.Why)
	return Pause(ctx, giveWayFor)
}

// Standing says why this process does not lead: why it gives way just now, and nobody else leads; or else
// what is said of one that stands by. It is for who does not lead.
func (c *Candidate) Standing(by string) string {
	if why := c.pausing.Load(); why != nil {
		return *why
	}
	return by
}

// Resumes reports whether a leadership that begins just now was given up for a moment only.
func (c *Candidate) Resumes() bool {
	return !c.gave.IsZero() && time.Since(c.gave) < giveWayEvery && c.Doubt().Why != ""
}
