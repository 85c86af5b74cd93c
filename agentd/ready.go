package agentd

import (
	"time"

	"souk/bus"
	runtimepolicy "souk/bus/policy"
)

// extraSummaries counts the summaries that follow soon on the first after an outage of the bus: a hub that
// comes back a little later has missed the first, and gives no task to an agent that it has not heard.
const extraSummaries = 6

// Reconnected says that the bus is there again after it was away.
func (a *Agent) Reconnected() {
	a.extra = extraSummaries
	a.dueNow()
	a.engine.Asked()
}

// dueNow makes all completions due at once, and a summary: a hub that missed the last ones believes the agent
// gone.
func (a *Agent) dueNow() {
	a.summarised = time.Time{}
	for _, p := range a.pending {
		p.due, p.tries = time.Time{}, 0
	}
}

// Ready lists what an Agent wants done now.
type Ready struct {
	Summary     *bus.Summary // nil: no news
	Domain      string       // whom it is for, and Holdings
	Holdings    []bus.Holdings
	Completions []Report               // to send again; each to be answered by Acked or Unsent
	Effects     []runtimepolicy.Effect // that a policy wants
	Heard       []runtimepolicy.Event  // for the agent that has the policy of their engine's adapters
	Faults      []error                // policies that were turned off since
	Wake        time.Time              // ask again then, if nothing happens before
}

// Report is a completion and the domain of the hub that it is for.
type Report struct {
	Domain     string
	Completion bus.Completion
}

// maxSending bounds how many completions are sent at once after an outage.
const maxSending = 32

// Ready returns what is due, once.
func (a *Agent) Ready(now time.Time) Ready {
	a.now = now
	r := Ready{Wake: now.Add(summaryEvery), Domain: a.Domain(), Effects: a.policies.Act(now),
		Faults: a.policies.Faults(), Heard: a.heard}
	a.heard = nil
	late := a.look(now)
	room, due := a.full.passes(now)
	a.news = a.news || room
	quiet, news := now.Sub(a.summarised), a.news || a.extra > 0
	switch {
	case quiet >= summaryEvery, news && quiet >= a.lim.SummaryGap:
		s := a.summary()
		r.Summary = &s
		if quiet < summaryEvery { // the first one after an outage is not one of the extra ones
			a.extra = max(0, a.extra-1)
		}
		a.summarised, a.news = now, false
		if a.extra > 0 {
			r.Wake = now.Add(a.lim.SummaryGap)
		}
	case news:
		r.Wake = a.summarised.Add(a.lim.SummaryGap)
	default:
		r.Wake = a.summarised.Add(summaryEvery)
	}
	if r.Wake = bus.Sooner(r.Wake, late); !room {
		r.Wake = bus.Sooner(r.Wake, due)
	}
	if a.claim != nil {
		var wake time.Time
		r.Holdings, wake = a.engine.Take(now)
		for i := range r.Holdings {
			r.Holdings[i].Agent, r.Holdings[i].Boot = a.cfg.ID, a.boot
		}
		r.Wake = bus.Sooner(r.Wake, wake)
	}
	r.Wake = bus.Sooner(r.Wake, a.policies.Wake())
	sending := 0
	for _, p := range a.pending {
		if p.sending {
			sending++
		}
	}
	for _, p := range a.pending {
		switch {
		case p.sending:
		case p.due.After(now):
			r.Wake = bus.Sooner(r.Wake, p.due)
		case sending < maxSending:
			p.sending = true
			sending++
			r.Completions = append(r.Completions, p.Report)
		}
	}
	return r
}

// look finds the holds whose first token is late by now, and says when the next one may be.
func (a *Agent) look(now time.Time) (next time.Time) {
	for i := range a.watched {
		w := &a.watched[i]
		if w.due.IsZero() {
			w.due = now.Add(w.within)
		}
		switch {
		case w.late:
		case !w.due.After(now):
			w.late, a.news = true, true
		default:
			next = bus.Sooner(next, w.due)
		}
	}
	return next
}

// late are the holds that a summary names as late.
func (a *Agent) late() (ids []string) {
	for _, w := range a.watched {
		if w.late && len(ids) < bus.MaxLate {
			ids = append(ids, w.id)
		}
	}
	return ids
}

// summary makes the agent's next summary.
func (a *Agent) summary() bus.Summary {
	a.seq++
	s := bus.Summary{Agent: a.cfg.ID, Boot: a.boot, Seq: a.seq, State: a.State(),
		InFlight: a.running, Price: a.cfg.Price,
		Prefills: a.prefills, Late: a.late()}
	a.offers(&s)
	return s
}
