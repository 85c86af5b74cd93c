package serve

import (
	"context"
	"slices"
	"time"

	"souk/agentd"
	"souk/bus"
)

// touches are those under way or waiting, in the order in which they came. The agent's lock guards them.
type touches struct{ all []*touch }

type touch struct {
	domain  string
	d       *bus.Dispatch
	request agentd.Request
	ctx     context.Context
	end     context.CancelCauseFunc
	began   bool
	yields  bool // a task has come since
}

// yield has those that there are end soon.
func (t *touches) yield() {
	var all []*touch
	for _, x := range t.all {
		if !x.yields {
			x.yields = true
			all = append(all, x)
		}
	}
	if len(all) > 0 {
		time.AfterFunc(agentd.TouchYields, func() {
			for _, x := range all {
				x.end(agentd.ErrYields)
			}
		})
	}
}

// onTouch has the engine use again what it holds of a session, as soon as it has a sequence free.
func (a *agent) onTouch(domain string, d *bus.Dispatch) {
	a.mu.Lock()
	var request agentd.Request
	refused := a.core.Touch(domain, d, len(a.touches.all))
	if refused == nil {
		request, refused = a.core.TouchRequest(d)
	}
	if refused == nil {
		limit := min(max(time.Duration(d.TimeoutMS)*time.Millisecond, time.Millisecond), a.Server.cfg.MaxRun)
		ctx, done := context.WithTimeoutCause(context.Background(), limit, agentd.ErrYields)
		ctx, end := context.WithCancelCause(ctx)
		t := &touch{domain: domain, d: d, request: request, ctx: ctx}
		t.end = func(why error) { end(why); done() }
		a.touches.all = append(a.touches.all, t)
	}
	a.mu.Unlock()
	if refused != nil {
		a.send(bus.CompletionSubject(domain, a.cfg.ID), refused)
		return
	}
	a.beginTouches()
}

// beginTouches begins those that the engine has room for.
func (a *agent) beginTouches() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.touches.all {
		if t.began {
			continue
		}
		if !a.core.TouchBegins() {
			return
		}
		t.began = true
		a.runs.Go(func() { a.makeTouch(t) })
	}
}

// makeTouch asks the engine, and tells the hub. Nobody repeats what is said of a touch: one of which the hub
// does not hear is unpaid.
func (a *agent) makeTouch(t *touch) {
	var answer agentd.Answer
	err := context.Cause(t.ctx)
	if err == nil {
		answer, err = a.engine.Complete(t.ctx, t.request, func(agentd.Chunk) error { return nil })
	}
	t.end(nil)
	a.mu.Lock()
	a.core.TouchOver()
	c := a.core.Touched(t.d, answer, err)
	a.touches.all = slices.DeleteFunc(a.touches.all, func(x *touch) bool { return x == t })
	a.mu.Unlock()
	a.send(bus.CompletionSubject(t.domain, a.cfg.ID), c)
	a.beginTouches()
}
