package classifier

import (
	"hash/maphash"
	"time"

	"souk/bus"
	"souk/bus/bounded"
)

// Desk is the door's memory of clients: their open requests, and the hubs of their sessions and ids. Its
// methods, and those of its placings, are to be called one at a time.
type Desk struct {
	c        *Config
	seed     maphash.Seed
	closing  bool
	tasks    hall
	quotes   hall
	bodies   hall // that came in pieces, while they are read
	ends     ends
	sessions *places
	ids      *places
	vouching vouching
	stats    Stats
}

// mostSessions bounds the sessions, and the task ids, whose hub is remembered: 64-bit keys, some MB.
const mostSessions = 1 << 16

// places remembers hubs' names by client and a hash of its session or task id.
type places = bounded.Cache[string, uint64, string]

// NewDesk returns a desk that remembers nobody. The seed keys what it remembers.
func NewDesk(c *Config, seed maphash.Seed) *Desk {
	return &Desk{
		c: c, seed: seed, quotes: hall{all: quotesMost, each: quotesEach, clients: map[string]load{}},
		tasks: hall{all: load{c.MaxOpen, c.MaxOpenBytes},
			each: load{c.MaxOpenPerClient, c.MaxOpenBytesPerClient}, clients: map[string]load{}},
		// each is a subscription while it comes; a quarter for one client, whose bodies may come slowly
		bodies: hall{all: load{128, c.MaxOpenBytes}, clients: map[string]load{},
			each: load{32, max(c.MaxOpenBytesPerClient, bus.MaxLarge)}},
		ends:     ends{clients: map[string]int{}},
		sessions: bounded.New[string, uint64, string](mostSessions, 0),
		ids:      bounded.New[string, uint64, string](mostSessions, 0),
		stats: Stats{Refused: map[bus.Code]uint64{}, Domains: map[string]uint64{}, Hubs: map[string]uint64{},
			Quoted: map[bus.Code]uint64{}, Ended: map[bus.Code]uint64{}},
	}
}

// Enter takes a request of so many bytes in, or returns why not.
func (d *Desk) Enter(client string, size int) *bus.Error {
	d.stats.Received++
	if no := d.judge(client, size); no != nil {
		return no
	}
	return d.tasks.enter("tasks", client, max(1, size))
}

// EnterBody makes room for a body that comes in pieces, or returns why there is none; LeaveBody gives it
// back.
func (d *Desk) EnterBody(client string, size int) *bus.Error {
	return d.bodies.enter("large bodies", client, size)
}
func (d *Desk) LeaveBody(client string, size int) { d.bodies.leave(client, size) }

// judge refuses a request by its client and size alone.
func (d *Desk) judge(client string, size int) *bus.Error {
	switch {
	case d.closing:
		return refusal(bus.CodeDraining, "this door is closing; ask again and another takes it")
	case !bus.ValidID(client):
		return refusal(bus.CodeBadRequest, "subject: the client's id has letters, digits, '-' and '_' only")
	case size > d.c.MaxPayload:
		return refusal(bus.CodeTooLarge, "request of %d bytes: at most %d are taken", size, d.c.MaxPayload)
	}
	return nil
}

// Close lets nobody enter any more, and returns how many tasks are in hand.
func (d *Desk) Close() (inHand int) {
	d.closing = true
	return d.tasks.open
}

// Answered counts the one answer to a request, and forgets the request of so many bytes if it had entered. A
// reader's repeated request has the first one's answer, which is counted there.
func (d *Desk) Answered(client string, size int, entered, again bool, a *bus.Answer) {
	switch st := &d.stats; {
	case again:
		st.Repeated++
	case a.Accepted != nil:
		st.Accepted++
	case a.Result.Code == "":
		st.Collected++
	default:
		st.Refused[a.Result.Code]++
	}
	if entered {
		d.tasks.leave(client, max(1, size))
	}
}

// Stray counts what nobody waited for; Unanswerable, a request that is not to be answered to its sender;
// Resumed, an agent that was silent and asked to repeat its answer; Ended, the end of a session, as told.
func (d *Desk) Stray()           { d.stats.Stray++ }
func (d *Desk) Unanswerable()    { d.stats.Received++; d.stats.Stray++ }
func (d *Desk) Resumed()         { d.stats.Resumed++ }
func (d *Desk) Ended(c bus.Code) { d.stats.Ended[c]++ }

// hall has the requests of a kind that are in hand, and so many of all clients, and of each, at most.
type hall struct {
	load
	clients   map[string]load
	all, each load
}

// enter takes a request in, or says which limit it meets.
func (h *hall) enter(kind, client string, size int) *bus.Error {
	has := h.clients[client]
	switch {
	case has.open >= h.each.open, has.bytes+size > h.each.bytes:
		return refusal(bus.CodeTooManyTasks, "%s has %d %s (%d bytes) in hand and may have no more; wait for "+
			"some to end", client, has.open, kind, has.bytes)
	case h.open >= h.all.open, h.bytes+size > h.all.bytes:
		return refusal(bus.CodeNoRoom, "the door has %d %s (%d bytes) in hand and takes no more; try again "+
			"shortly", h.open, kind, h.bytes)
	}
	h.load.add(1, size)
	has.add(1, size)
	h.clients[client] = has
	return nil
}

// leave undoes enter.
func (h *hall) leave(client string, size int) {
	h.load.add(-1, -size)
	has := h.clients[client]
	has.add(-1, -size)
	if has.open == 0 {
		delete(h.clients, client)
		return
	}
	h.clients[client] = has
}

// load is requests in hand, and their bytes.
type load struct{ open, bytes int }

func (l *load) add(requests, size int) { l.open, l.bytes = l.open+requests, l.bytes+size }

func (d *Desk) key(kind byte, client, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(d.seed)
	h.WriteByte(kind)
	h.WriteString(client)
	h.WriteByte(0)
	h.WriteString(name)
	return h.Sum64()
}

// past returns the hubs that took a session and a task id before.
func (d *Desk) past(client, session, id string) (hub, pinned string) {
	if session != "" {
		if v := d.sessions.Get(d.key('s', client, session)); v != nil {
			hub = *v
		}
	}
	if id != "" {
		if v := d.ids.Get(d.key('t', client, id)); v != nil {
			pinned = *v
		}
	}
	return hub, pinned
}

// pin notes that a hub was sent a task id; unpin, that it has not taken it.
func (d *Desk) pin(client, id, hub string) { d.ids.Put(client, d.key('t', client, id), hub, 1) }
func (d *Desk) unpin(client, id string)    { d.ids.Drop(d.key('t', client, id)) }

// settle notes a session's hub.
func (d *Desk) settle(client, session, hub string) {
	if session != "" {
		d.sessions.Put(client, d.key('s', client, session), hub, 1)
	}
}

// Judge refuses a task that no hub would take. For a repeated request only the hubs can judge the deadline:
// one of them may have the task, and serve it.
func Judge(t *bus.Task, now time.Time) *bus.Error {
	if t.Again == 0 && t.DeadlineMS > 0 && t.DeadlineMS <= now.UnixMilli() {
		return refusal(bus.CodePastDeadline, "deadline_ms: it passed %v ago by this door's clock, which says %s; it is "+
			"Unix time in milliseconds: if the clock is wrong, set it (deploy/runbook.md: clocks)",
			now.Sub(time.UnixMilli(t.DeadlineMS)).Round(time.Millisecond), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// Label gives a task the label of its domain, and returns the wishes by which its hub is chosen.
func (d *Desk) Label(t *bus.Task, label string, confidence float64) Want {
	w := d.c.label(t, label, confidence)
	d.stats.Domains[w.Label]++
	if !w.Confident {
		d.stats.Unsure++
	}
	return w
}

func (c *Config) label(t *bus.Task, label string, confidence float64) Want {
	sure := confidence >= c.MinConfidence
	if !sure || label == "" {
		sure, label = false, c.General
	}
	t.Domain = label
	return Want{
		Hub: t.Hub, Label: label, Confident: sure, Model: t.Model, Kind: t.Kind,
		PromptTokens: t.Prompt.Tokens, PromptLeast: t.Prompt.AtLeast,
		OutputTokens: t.MaxTokens, Terms: t.Terms,
	}
}
