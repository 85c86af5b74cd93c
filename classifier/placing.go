package classifier

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/bus"
)

// Placing is a task on its way to a hub. Hubs are asked one after another, best first, until one takes it,
// and no task is ever with two of them: whoever was given it may have it, until it says that it has not.
//
//	state     what it means                            what comes next
//	choosing  no hub has it                            the best hub not asked yet is asked; none is left: refused
//	asked     a hub was given it; its word is awaited  it accepts, refuses for good, or says it of itself: choosing
//	lost      its word will not come: it no longer     the same hub, with the same journal, is asked again: to it the
//	          leads, or the bus went away              task is the same; it stays away: unknown
//	said      the client has its answer
//
// Its methods are to be called one at a time, together with those of the desk; each is followed by Tells and
// Ready.
type Placing struct {
	c    *Config
	desk *Desk
	task *bus.Task
	own  bool // the client gave the id
	want Want
	out  PlacingReady

	cancelHub, cancelAgent string // are to be told that the client has cancelled the task

	state     placeState
	cancelled bool
	tried     []string
	last      *bus.Result // what the hub before said

	until   time.Time // a hub's word is awaited
	hub     Hub       // asked last, as it was then
	given   bool      // it was asked before, and may have the task
	since   time.Time // when its word was lost
	again   time.Time // when it may be asked again
	leading bool      // it may be asked again as it leads now: only the way to it was cut
}

type placeState uint8

const (
	choosing placeState = iota
	asked
	lost
	said
)

// PlacingReady is what a Placing wants done.
type PlacingReady struct {
	Ask    string      // give the task to this hub, and Step what it says
	Until  time.Time   // its word is awaited no longer than that
	Answer *bus.Answer // or this is the word on the task
	Wake   time.Time   // Tick then
}

// How long a hub is waited for that may have the task, and how often it is looked for.
const (
	awaitHub  = 8 * time.Second
	lookAgain = 50 * time.Millisecond
)

// Place begins with a task; own says that its client gave its id. A task that goes on stays with its hub,
// which alone knows what became of it.
func (d *Desk) Place(now time.Time, t *bus.Task, own bool, want Want) *Placing {
	want.Session, want.Pinned = d.past(t.Client, t.Session, ifTrue(own, t.ID))
	if t.Resume != nil {
		want.Pinned = t.Hub
	}
	wait := d.c.MaxWait
	if t.DeadlineMS > 0 {
		// the hub tells why at the deadline
		wait = min(wait, time.UnixMilli(t.DeadlineMS).Sub(now)+2*time.Second)
	}
	return &Placing{c: d.c, desk: d, task: t, own: own, want: want, until: now.Add(wait)}
}

func ifTrue(ok bool, v string) string {
	if ok {
		return v
	}
	return ""
}

// Hub names the hub that was asked last, or none.
func (p *Placing) Hub() string { return p.hub.Entry.Domain }

// Asks names the hub whose word is awaited, or none.
func (p *Placing) Asks() string {
	if p.state != asked {
		return ""
	}
	return p.hub.Entry.Domain
}

// Tick lets time pass, and looks at the table.
func (p *Placing) Tick(now time.Time, t *Table) {
	switch p.state {
	case choosing:
		p.choose(now, t)
	case asked:
		if h, there := t.Hub(p.Asks()); !there || h.Epoch != p.hub.Epoch {
			p.lose(now, false) // whoever waits for its word stops, and Steps that it failed
		}
	case lost:
		p.lookFor(now, t)
	}
}

// choose asks the best hub that has not been asked.
func (p *Placing) choose(now time.Time, t *Table) {
	if len(p.tried) >= p.c.MaxTries {
		p.say(&bus.Answer{Result: p.last})
		return
	}
	name, no := t.Choose(p.c, &p.want, now, p.tried)
	switch {
	case no != nil && p.last != nil:
		p.say(&bus.Answer{Result: p.last}) // what the last hub said is more than what the table knows
		return
	case no != nil:
		p.refuse(no)
		return
	case p.cancelled:
		p.refuse(&bus.Error{Code: bus.CodeCancelled, Message: "cancelled by the client before a hub had it"})
		return
	}
	if len(p.tried) > 0 {
		p.desk.stats.Retried++
	}
	if p.own {
		p.desk.pin(p.task.Client, p.task.ID, name)
	}
	p.hub, _ = t.Hub(name)
	p.given = p.want.Pinned != ""
	p.ask()
}

func (p *Placing) ask() { p.state, p.out.Ask, p.out.Until = asked, p.hub.Entry.Domain, p.until }

// Step takes in what the hub said that was asked, or why it said nothing.
func (p *Placing) Step(now time.Time, t *Table, a *bus.Answer, err error) {
	hub := p.hub.Entry.Domain
	switch {
	case p.state == said:
	case p.state == lost && err != nil:
		p.lookFor(now, t)
	case err == nil && a.Accepted != nil:
		p.desk.settle(p.task.Client, p.task.Session, hub)
		p.desk.stats.Hubs[hub]++
		if p.cancelled && p.task.Stream { // that may have come too late at the hub
			p.cancelAgent = a.Accepted.Agent
		}
		p.say(a)
	case err == nil && p.final(a.Result.Code):
		p.say(a)
	case err == nil:
		p.next(now, t, a.Result)
	case (errors.Is(err, bus.ErrNoResponders) || errors.Is(err, bus.ErrNotSent)) && p.since.IsZero():
		message := "hub %s does not listen; try again shortly"
		if errors.Is(err, bus.ErrNotSent) {
			message = "hub %s is out of this door's reach; try again shortly"
		}
		r := p.result(&bus.Error{Code: bus.CodeUnavailable, Message: fmt.Sprintf(message, hub)})
		if p.given { // by another request: no other hub could know that
			p.say(&bus.Answer{Result: r})
			return
		}
		p.next(now, t, r)
	case errors.Is(err, bus.ErrNoResponders), errors.Is(err, bus.ErrDisconnected): // it may have it
		p.lose(now, true)
	case errors.Is(err, bus.ErrTooLarge):
		p.refuse(&bus.Error{Code: bus.CodeTooLarge,
			Message: "the task is larger than the bus takes once its fields are filled in; shorten " +
				"the prompt"})
	default:
		p.unknown(err)
	}
	p.plan(now)
}

// End ends it: nobody waits any longer.
func (p *Placing) End(err error) {
	if p.state != said {
		p.unknown(err)
	}
}

// final tells refusals of the task from those that say something of the hub. What a hub says of itself
// that was given the task before says nothing of what became of it.
func (p *Placing) final(c bus.Code) bool {
	ofHub := []bus.Code{bus.CodeNoRoom, bus.CodeUnknownModel, bus.CodePromptTooLong}
	if !p.given {
		ofHub = append(ofHub, bus.CodeUnavailable, bus.CodeDraining)
	}
	return p.task.Resume != nil || !slices.Contains(ofHub, c)
}

// next passes a hub over that has not taken the task.
func (p *Placing) next(now time.Time, t *Table, why *bus.Result) {
	p.tried, p.last, p.want.Pinned, p.since = append(p.tried, p.hub.Entry.Domain), why, "", time.Time{}
	if p.own {
		p.desk.unpin(p.task.Client, p.task.ID)
	}
	p.state = choosing
	p.choose(now, t)
}

// lose gives up a hub's word, and waits for the hub.
func (p *Placing) lose(now time.Time, leading bool) {
	if p.since.IsZero() {
		p.since = now
	}
	p.state, p.given, p.leading, p.again = lost, true, leading, now
	if leading {
		p.again = now.Add(lookAgain)
	}
}

// lookFor asks the same hub again as soon as it is there.
func (p *Placing) lookFor(now time.Time, t *Table) {
	h, there := t.Hub(p.hub.Entry.Domain)
	anew := there && h.Epoch != p.hub.Epoch
	switch {
	case anew && h.Entry.Journal != p.hub.Entry.Journal, now.Sub(p.since) > awaitHub, !now.Before(p.until):
		p.unknown(errors.New("the hub that had the task no longer leads its domain"))
	case (anew || there && p.leading) && !now.Before(p.again):
		p.hub = h
		p.ask()
	}
	p.plan(now)
}

// plan says when the hub is looked for again.
func (p *Placing) plan(now time.Time) {
	if p.out.Wake = (time.Time{}); p.state == lost {
		p.out.Wake = now.Add(lookAgain)
	}
}

// Cancel notes that the client wants no answer, and tells the hub that may have the task.
func (p *Placing) Cancel() {
	if p.cancelled || p.state == said {
		return
	}
	p.cancelled = true
	p.cancelHub = p.hub.Entry.Domain
}

func (p *Placing) unknown(err error) {
	p.refuse(&bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf(
		"hub %s was given the task and has not answered (%v); it may still be served: ask again under the "+
			"same id",
		p.hub.Entry.Domain, err)})
}

func (p *Placing) refuse(e *bus.Error) { p.say(&bus.Answer{Result: p.result(e)}) }

func (p *Placing) result(e *bus.Error) *bus.Result {
	return Refusal(e, p.task.Client, p.hub.Entry.Domain, p.task)
}

func (p *Placing) say(a *bus.Answer) { p.state, p.out.Answer = said, a }

// Tells returns whom to tell that the client has cancelled the task, once: the hub, and the agent.
func (p *Placing) Tells() (hub, agent string) {
	hub, agent = p.cancelHub, p.cancelAgent
	p.cancelHub, p.cancelAgent = "", ""
	return hub, agent
}

// Ready returns what is to be done now, once.
func (p *Placing) Ready() PlacingReady {
	out := p.out
	p.out = PlacingReady{Wake: out.Wake}
	return out
}
