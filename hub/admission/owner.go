package admission

import (
	"slices"
	"time"

	"souk/bus"
)

// Two doors may have one task at a time: its reader asked the second as it heard nothing of the first. Each
// looks up the task's owner: it asks all hubs whether they know it. Where two lookups cross, or a hub lets
// the task go between them, each door hears that nobody has it. So a hub remembers for a while which doors
// looked it up, and takes the task of one of them alone: of the one whose name comes first, and of none that
// has not asked while another has. The other is to look it up once more, and finds it where the first put it.

const (
	// lookupFor is how long a lookup counts. A door's word that no hub has the task is believed for unheard
	// and the time between two statuses; so is the other door's, which may have asked that much earlier.
	lookupFor  = 10 * time.Second
	maxLookups = 4096 // tasks of which that is remembered
)

// doorLookup is a door's last lookup of a task.
type doorLookup struct {
	door string
	at   time.Time
}

// isLookup reports whether a message is a door's lookup of a task: it has its ids alone.
func isLookup(m *bus.Task) bool {
	return len(m.Body) == 0 && m.Prompt.Tokens == 0 && m.LastStatus == nil && m.Resume == nil
}

// lookUp answers a door's lookup. A hub that has lost the lead and does not know it yet answers, too: its
// epoch tells the door.
func (r *Room[T]) lookUp(q *Request, m *bus.Task, last *bus.LastStatus) {
	if q != nil && !q.elsewhere() {
		q.sent(m.Door)
		r.owner(m, last, r.turn.Refusal(m, bus.CodeIDConflict, 0,
			"task %s was sent before with other content: take a new id", m.ID))
		return
	}
	r.counts.Arrived++
	now := r.turn.Now()
	list, _ := r.owners.Add(m.Client, Key{m.Client, m.ID})
	*list = slices.DeleteFunc(*list,
		func(a doorLookup) bool { return a.door == m.Door || now.Sub(a.at) > lookupFor })
	*list = append((*list)[max(0, len(*list)-MoreInboxes+1):], doorLookup{m.Door, now})
	r.owner(m, last, r.turn.Refusal(m, bus.CodeEmptyPrompt, 0, "the prompt is empty"))
}

// lookFirst has the door of a task that may be with another hub ask all of them.
func (r *Room[T]) lookFirst(m *bus.Task, last *bus.LastStatus, why string) {
	r.counts.Looks++
	r.owner(m, last, r.turn.Refusal(m, bus.CodeUnavailable, time.Second, "%s: try again", why))
}

// owner answers a door with the status that the door may name to other hubs.
func (r *Room[T]) owner(m *bus.Task, last *bus.LastStatus, x *bus.Result) {
	if x.Code != bus.CodeUnavailable {
		Count(r.counts.Tasks, x.Code)
	}
	r.turn.Send(m.Inbox, &bus.Answer{Result: x, Lookup: last})
}

// disputed reports whether the door that sends a task, which is not known here, is to ask for it once more.
func (r *Room[T]) disputed(m *bus.Task) bool {
	if m.LastStatus == nil { // nobody can ask another door for it
		return false
	}
	list := r.owners.Peek(Key{m.Client, m.ID})
	if list == nil {
		return false
	}
	has, first := false, ""
	for _, a := range *list {
		switch {
		case r.turn.Now().Sub(a.at) > lookupFor:
		case a.door == m.Door:
			has = true
		case first == "" || a.door < first:
			first = a.door
		}
	}
	return first != "" && (!has || first < m.Door)
}
