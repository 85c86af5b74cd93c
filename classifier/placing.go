package classifier

import (
	"errors"
	"slices"
	"time"

	"souk/bus"
)

// Placing is a task on its way to a hub. It is sent to one hub after another, best first, until one accepts
// it. No task is ever with two hubs: a hub that was sent it may have it, until it says that it has not.
//
//	state      what it means                            what comes next
//	choosing   no hub has the task                      the best hub that is left is sent it: awaiting;
//	                                                    none is left: answered, with a refusal
//	looking    a hub says that another may have it      one has it, or none has: choosing;
//	           by now, and it has not, or its refusal   some do not say: answered, with a refusal
//	           was long in coming
//	awaiting   a hub was sent it and is to give its     it accepts, or refuses the task: answered;
//	           verdict                                  it refuses because of its own state: choosing
//	lost       the bus failed, or the hub lost the      who leads by then is sent it again if it has the
//	           lead, before the verdict came            same journal, so knows the task: awaiting; it has
//	                                                    another, or none comes in time: answered
//	answered   the client has its answer
//
// Its methods are to be called one at a time, together with those of the desk; each is followed by Cancels
// and Ready.
type Placing struct {
	c    *Config
	desk *Desk
	task *bus.Task
	own  bool // the client gave the id
	want Want
	out  PlacingReady

	vouched Vouched // of the task, at the hub that was sent it last

	cancelHub string // is to be told that the client has cancelled the task

	state     placeState
	cancelled bool
	refused   []string    // hubs that have not taken it
	last      *bus.Result // why the last of them has not; what may pass stands before what their agents are

	until  time.Time // a verdict is awaited no longer
	hub    Hub       // that was sent it last, as it was then
	sent   time.Time // when
	waits  bool      // for its verdict, until Step: also where the wait is being ended
	repeat bool      // it was sent it before this, and may have it
	found  bool      // a hub said that it has it
	looks  int       // how often a hub had all of them asked
	since  time.Time // when its verdict was lost
	again  time.Time // when it may be sent it again
}

type placeState uint8

const (
	choosing placeState = iota
	looking
	awaiting
	lost
	answered
)

// PlacingReady lists what a Placing wants done.
type PlacingReady struct {
	Send   string      // the task to this hub, and Step its verdict
	Vouch  Vouched     // with this
	Until  time.Time   // which is awaited no longer than that
	Find   bool        // all hubs are to be asked for it; what they say is Found, and then Tick
	Answer *bus.Answer // or give the client this
	Wake   time.Time   // Tick then
}

// How long a hub is waited for that may have the task, and how often the table is searched for it.
const (
	awaitHub  = 8 * time.Second
	lookAgain = 50 * time.Millisecond
)

// maxLooks bounds how often a hub may send the door to ask all hubs for one task: each time the door had
// stopped for seconds since.
const maxLooks = 3

const (
	mostTries = 3                // hubs are asked for a task: more only add to the wait of a full market
	mostWait  = 10 * time.Minute // for a verdict on one without deadline: no hub lets it wait longer
)

// Place begins with a task; own says that its client gave its id. A task that goes on stays with its hub,
// which alone knows what became of it.
func (d *Desk) Place(now time.Time, t *bus.Task, own bool, want Want) *Placing {
	id := ""
	if own {
		id = t.ID
	}
	want.Session, want.Pinned = d.past(t.Client, t.Session, id)
	if t.Resume != nil {
		want.Pinned = t.Hub
	}
	wait := mostWait
	if t.DeadlineMS > 0 {
		left := time.UnixMilli(t.DeadlineMS).Sub(now)
		if left <= 0 { // it is asked for once more, and a hub may have it
			left = awaitHub
		}
		wait = min(wait, left+2*time.Second) // the hub tells why at the deadline
	}
	return &Placing{c: d.c, desk: d, task: t, own: own, want: want, until: now.Add(wait)}
}

// Hub names the hub that was sent the task last, or none.
func (p *Placing) Hub() string { return p.hub.Entry.Domain }

// Awaits names the hub whose verdict is awaited, or none.
func (p *Placing) Awaits() string {
	if p.state != awaiting {
		return ""
	}
	return p.hub.Entry.Domain
}

// Tick lets time pass, and looks at the table.
func (p *Placing) Tick(now time.Time, t *Table) {
	switch p.state {
	case choosing:
		p.choose(now, t)
	case awaiting:
		if h, there := t.Hub(p.Awaits()); !there || h.Epoch != p.hub.Epoch {
			p.lose(now, now) // the caller stops waiting for its verdict, and Steps that it failed
		}
	case lost:
		p.sendAgain(now, t)
	}
}

// choose sends the task to the best hub that has not refused it.
func (p *Placing) choose(now time.Time, t *Table) {
	if len(p.refused) >= mostTries {
		p.answer(&bus.Answer{Result: p.last})
		return
	}
	name, no := t.Choose(p.c, &p.want, now, p.refused)
	switch {
	case no != nil && p.last != nil && (p.last.Code != bus.CodeUnknownModel || no.Code == p.last.Code) &&
		!(ofAgents(p.last.Code) && t.full(p.c, &p.want, now, p.refused)):
		p.answer(&bus.Answer{Result: p.last}) // what the last hub said is more than what the table knows
		return
	case no != nil:
		p.refuse(no)
		return
	case p.cancelled && !p.found: // a hub that has it says what became of it
		p.refuse(refusal(bus.CodeCancelled, "cancelled by the client before a hub had it"))
		return
	}
	if len(p.refused) > 0 {
		p.desk.stats.Retried++
	}
	if p.own {
		p.desk.pin(p.task.Client, p.task.ID, name)
	}
	p.hub, _ = t.Hub(name)
	p.repeat = p.want.Pinned != ""
	p.send(now)
}

// send sends the task to a hub, and vouches for it there, once.
func (p *Placing) send(now time.Time) {
	journal, most := p.hub.Entry.Journal, p.c.Most(p.task)
	if p.vouched.Journal == journal {
		p.vouched = p.desk.vouching.of(now, p.task.Client, journal, most)
	} else {
		p.vouched = p.desk.Vouch(now, p.task.Client, journal, most)
	}
	p.out.Vouch = p.vouched
	p.sent, p.state, p.waits, p.out.Send, p.out.Until = now, awaiting, true, p.hub.Entry.Domain, p.until
}

// Step takes in the verdict of the hub that was sent the task, or why none came: whatever comes now was said
// after since. A refusal may be older where the door stood still. Then the task's reader may have asked
// another door, and another hub may have served it: so all hubs are asked.
func (p *Placing) Step(now time.Time, t *Table, a *bus.Answer, err error, since time.Time) {
	hub := p.hub.Entry.Domain
	p.waits = false
	switch {
	case p.state == answered:
	case err != nil && p.state == lost:
		p.sendAgain(now, t)
	case err == nil && a.Accepted != nil:
		p.desk.settle(p.task.Client, p.task.Session, hub)
		p.desk.stats.Hubs[hub]++
		if p.cancelled && p.task.Stream { // that may have come too late at the hub
			p.cancelHub = hub
		}
		p.answer(a)
	case err == nil && (a.Lookup != nil || p.stale(since, now)):
		if p.looks == maxLooks {
			p.refuse(refusal(bus.CodeUnavailable, outOfStep))
			break
		}
		p.looks++
		p.state, p.out.Find = looking, true
		if p.repeat { // it was sent it before, which may reach it yet
			p.want.Pinned, p.want.There = hub, true
		}
	case err == nil && p.final(a.Result.Code):
		p.answer(a)
	case err == nil:
		p.next(now, t, a.Result)
	case (errors.Is(err, bus.ErrNoResponders) || errors.Is(err, bus.ErrNotSent)) && p.since.IsZero():
		message := "hub %s does not listen; try again shortly"
		if errors.Is(err, bus.ErrNotSent) {
			message = "hub %s is out of this door's reach; try again shortly"
		}
		r := p.result(refusal(bus.CodeUnavailable, message, hub))
		if p.repeat { // another request sent it: no other hub could know that
			p.answer(&bus.Answer{Result: r})
			return
		}
		p.next(now, t, r)
	case errors.Is(err, bus.ErrNoResponders), errors.Is(err, bus.ErrDisconnected): // it may have it
		p.lose(now, now.Add(lookAgain))
	case errors.Is(err, bus.ErrTooLarge):
		p.refuse(refusal(bus.CodeTooLarge,
			"the task is larger than the bus takes once its fields are filled in; shorten the prompt"))
	default:
		p.unknown(err)
	}
	p.plan(now)
}

// stale reports whether a verdict that was said after since, and after its question, may be so old that the
// task's reader has asked another door.
func (p *Placing) stale(since, now time.Time) bool {
	return MayBeOver(p.task, p.own, since, now) && MayBeOver(p.task, p.own, p.sent, now)
}

// End answers at once: nobody waits any longer.
func (p *Placing) End(err error) {
	if p.state != answered {
		p.unknown(err)
	}
}

// final reports whether a refusal is about the task, so that no other hub is sent it. Others are about the
// hub. A hub that was sent the task before may refuse it now because of its own state, and still have it.
func (p *Placing) final(c bus.Code) bool {
	// what is unsupported is so by what its agents read: all else the door has judged itself
	ofHub := []bus.Code{bus.CodeNoRoom, bus.CodeUnknownModel, bus.CodePromptTooLong, bus.CodeUnsupportedField}
	if !p.repeat {
		ofHub = append(ofHub, bus.CodeUnavailable, bus.CodeDraining)
	}
	return p.task.Resume != nil || !slices.Contains(ofHub, c)
}

// ofAgents reports whether a hub refuses a task because of its kind of agents: asking it again is of no use.
func ofAgents(c bus.Code) bool {
	return c == bus.CodeUnknownModel || c == bus.CodePromptTooLong || c == bus.CodeUnsupportedField
}

// next goes on to the next hub after one that has not taken the task.
func (p *Placing) next(now time.Time, t *Table, why *bus.Result) {
	p.refused, p.since = append(p.refused, p.hub.Entry.Domain), time.Time{}
	if p.last == nil || ofAgents(p.last.Code) || !ofAgents(why.Code) {
		p.last = why
	}
	p.want.Pinned, p.want.There = "", false
	if p.own {
		p.desk.unpin(p.task.Client, p.task.ID)
	}
	p.state = choosing
	p.choose(now, t)
}

// lose gives up a hub's verdict, and waits for who leads its domain then, who is sent the task at again.
func (p *Placing) lose(now, again time.Time) {
	if p.since.IsZero() {
		p.since = now
	}
	p.state, p.repeat, p.again = lost, true, again
}

// sendAgain sends the task to who leads the domain as soon as one does, and the wait for the earlier verdict
// has ended: the end of that wait would be taken for the end of the next.
func (p *Placing) sendAgain(now time.Time, t *Table) {
	if p.waits {
		return
	}
	h, there := t.Hub(p.hub.Entry.Domain)
	switch {
	case there && h.Entry.Journal != p.hub.Entry.Journal, now.Sub(p.since) > awaitHub, !now.Before(p.until):
		p.unknown(errors.New("the hub that had the task no longer leads its domain"))
	case there && !now.Before(p.again):
		p.hub = h
		p.send(now)
	}
	p.plan(now)
}

// Doubt tells that the task's reader has asked once more: the awaited verdict may be lost, as when the hub
// was cut off just then. The hub is sent the task again, and gives the same one. The caller stops waiting for
// the first, and Steps that it failed.
func (p *Placing) Doubt(now time.Time) {
	if p.state == awaiting {
		p.since = time.Time{}
		p.lose(now, now)
	}
}

// plan sets when the table is searched again.
func (p *Placing) plan(now time.Time) {
	if p.out.Wake = (time.Time{}); p.state == lost {
		p.out.Wake = now.Add(lookAgain)
	}
}

// Cancel notes that the client wants no answer, and tells the hub that may have the task.
func (p *Placing) Cancel() {
	if p.cancelled || p.state == answered {
		return
	}
	p.cancelled = true
	p.cancelHub = p.hub.Entry.Domain
}

func (p *Placing) unknown(err error) {
	p.refuse(refusal(bus.CodeUnknown, "hub %s was given the task and has not answered (%v); it may still be "+
		"served: ask again under the same id", p.hub.Entry.Domain, err))
}

func (p *Placing) refuse(e *bus.Error) { p.answer(&bus.Answer{Result: p.result(e)}) }

func (p *Placing) result(e *bus.Error) *bus.Result {
	return Refusal(e, p.task.Client, p.hub.Entry.Domain, p.task)
}

func (p *Placing) answer(a *bus.Answer) { p.state, p.out.Answer = answered, a }

// Cancels returns the hub that is to be told that the client has cancelled the task, once.
func (p *Placing) Cancels() (hub string) {
	hub, p.cancelHub = p.cancelHub, ""
	return hub
}

// Ready returns what is to be done now, once.
func (p *Placing) Ready() PlacingReady {
	out := p.out
	p.out = PlacingReady{Wake: out.Wake}
	return out
}
