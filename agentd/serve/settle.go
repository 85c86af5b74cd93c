package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
)

// openSpool opens the spool and returns the completions of earlier lives in it.
func (a *agent) openSpool() ([]agentd.Report, error) {
	if a.deps.Home == nil {
		return nil, nil
	}
	s, left, note, err := a.deps.Home.Spool(a.cfg.ID, a.Server.cfg.MaxCompletions)
	if err != nil {
		return nil, err
	}
	if note != nil {
		a.log.Error("spool is damaged: completions of an earlier life may be lost", "err", note)
	}
	if len(left) > 0 {
		a.log.Info("completions of an earlier life are sent once it is registered", "n", len(left))
	}
	s.Failed = func(err error) {
		a.log.Warn("completions of which no hub has heard are not synced: "+
			"a power cut would lose them; trying on", "err", err)
	}
	a.spool = s
	return left, nil
}

// addToSpool writes a completion to the spool, so that it is paid even if this process dies before a hub has
// acknowledged it.
func (a *agent) addToSpool(r agentd.Report) {
	if a.spool == nil || r.Completion.Outcome == bus.OutcomeFailed {
		return
	}
	err := a.spool.Add(r)
	a.trouble.Note(a.log, "spool", err == nil, "completions are not written down: those that no hub has are lost if "+
		"this process dies; trying on", "completions are written down again", "err", err)
}

// report sends a completion to its hub once and tells the core how that went.
func (a *agent) report(r agentd.Report) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	ack, err := a.requestAck(ctx, r)
	if err == nil {
		a.hubDecided(r.Completion, ack.Code == bus.CodeMoved)
	}
	abandoned, over := false, false
	a.with(func(core *agentd.Agent) {
		if err == nil {
			core.Acked(r.Completion.Hold, ack.Code)
		} else {
			abandoned = core.Unsent(time.Now(), r.Completion.Hold, rand.Float64())
		}
		over = r.Completion.Boot != a.boot && !slices.Contains(core.Former(), r.Completion.Boot)
	})
	if a.spool != nil && (err == nil || abandoned) {
		a.spool.Done(r.Completion.Hold)
	}
	if over {
		follow.Nudge(a.changed) // the hub may now end the other holds of that life
	}
	if abandoned {
		a.log.Error("completion given up: no hub acknowledged it", "hold", r.Completion.Hold,
			"cost", r.Completion.Cost)
	}
	if err == nil && ack.Code == bus.CodeLate {
		a.log.Warn("completion came too late and is unpaid", "hold", r.Completion.Hold, "cost",
			r.Completion.Cost)
	}
}

func (a *agent) requestAck(ctx context.Context, r agentd.Report) (ack bus.CompletionAck, err error) {
	data, err := bus.Encode(&r.Completion)
	if err != nil {
		return ack, err
	}
	m, err := a.deps.Bus.Request(ctx, bus.Msg{Subject: bus.CompletionSubject(r.Domain, a.cfg.ID),
		Header: r.Completion.Trace.Header(nil), Data: data})
	if err != nil {
		return ack, err
	}
	if err := bus.Decode(m.Data, &ack); err != nil {
		return ack, err
	}
	if ack.Hold != r.Completion.Hold {
		return ack, fmt.Errorf("acknowledgement of %q for %q", ack.Hold, r.Completion.Hold)
	}
	if ack.Code != "" && ack.Code != bus.CodeLate && ack.Code != bus.CodeMoved {
		return ack, &bus.Error{Code: ack.Code, Message: "the hub did not take the completion"}
	}
	return ack, nil
}

// hubDecided sends the withheld end of a failed answer, unless its hub has moved the task to another agent.
func (a *agent) hubDecided(c bus.Completion, moved bool) {
	if !c.Unsaid {
		return
	}
	var end []byte
	a.mu.Lock()
	s := a.streams.Withheld(c.Hold)
	if s != nil {
		end = s.Decided(time.Now(), moved)
	}
	a.mu.Unlock()
	if end != nil {
		a.publish(s, end)
	}
}

// drain lets running tasks finish, and then waits until their completions are acknowledged.
func (a *agent) drain() {
	a.with(func(core *agentd.Agent) { core.Drain() })
	a.stopLoad()
	follow.Nudge(a.changed)
	if !a.wait(a.Server.cfg.DrainTimeout, (*agentd.Agent).Idle) {
		a.mu.Lock()
		for _, cancel := range a.cancels {
			cancel(agentd.ErrDrained)
		}
		n := len(a.cancels)
		a.mu.Unlock()
		a.log.Warn("tasks cut at shutdown", "n", n)
	}
	a.runs.Wait()
	if !a.wait(a.Server.cfg.SettleTimeout, (*agentd.Agent).Settled) {
		kept, lost := a.unsettled()
		if lost > 0 {
			a.log.Error("completions not acknowledged at shutdown: their holds will expire unpaid", "n", lost)
		}
		if kept > 0 {
			a.log.Warn("completions not acknowledged at shutdown: "+
				"they are written down, and sent after the next start", "n", kept)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.deps.Bus.Flush(ctx)
}

// unsettled counts the pending completions: those in the spool, which the next life will send, and those that
// are lost. The completion of a failed task is worth nothing.
func (a *agent) unsettled() (kept, lost int) {
	a.mu.Lock()
	pending := a.core.Pending("")
	a.mu.Unlock()
	for i := range pending {
		switch c := &pending[i].Completion; {
		case a.spool != nil && a.spool.Has(c.Hold):
			kept++
		case c.Outcome != bus.OutcomeFailed:
			lost++
		}
	}
	return kept, lost
}

// wait reports whether ok became true of the core in time.
func (a *agent) wait(most time.Duration, ok func(*agentd.Agent) bool) bool {
	deadline := time.Now().Add(most)
	for {
		a.mu.Lock()
		done := ok(a.core)
		a.mu.Unlock()
		if done {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
		follow.Pause(context.Background(), min(20*time.Millisecond, time.Until(deadline)))
	}
}
