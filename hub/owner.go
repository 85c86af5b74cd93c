package hub

import (
	"slices"
	"time"

	"souk/bus"
)

// Two doors may have one task at a time: its reader asked the second as it heard nothing of the first. Each
// looks up the task's owner: it asks all hubs whether they know it. Where two lookups cross, or a hub lets
// the task go between them, each door hears that nobody has it. So a hub remembers for a while which doors
// looked it up, and takes the task of one of them alone: of the one whose name comes first, and of none that
// has not asked while another has. The other is to look it up once more, and finds it where the first has put
// it.

const (
	// lookupFor is how long a lookup counts. A door's word that no hub has the task is believed for unheard
	// and what lies between two statuses; so is that of the other, which may have asked so much earlier.
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

// answerLookup answers one. A hub that has lost the lead and does not know it yet answers, too: its
// epoch says so.
func (n *Node) answerLookup(t *task, m *bus.Task) {
	r := n.refusal(m, bus.CodeEmptyPrompt, 0, "the prompt is empty")
	if t != nil && !t.refused() {
		n.stats.Repeats++
		t.from(m)
		r = n.refusal(m, bus.CodeIDConflict, 0, "task %s was sent before with other content: take a new id",
			m.ID)
	} else {
		n.stats.Arrived++
		key := taskKey{m.Client, m.ID}
		list, _ := n.lookups.Add(m.Client, key)
		*list = slices.DeleteFunc(*list,
			func(a doorLookup) bool { return a.door == m.Door || n.now.Sub(a.at) > lookupFor })
		*list = append((*list)[max(0, len(*list)-moreInboxes+1):], doorLookup{m.Door, n.now})
	}
	count(n.stats.Tasks, r.Code)
	n.send(m.Inbox, &bus.Answer{Result: r, Lookup: &bus.LastStatus{Epoch: n.epoch, Seq: n.status.seq}})
}

// refused reports whether a task ended here unpaid for what lies with the hub and its agents: the door that
// had sent it may have given it to another hub since. Whoever asks for it is to hear of that one. A hub that
// was started again knows of the last agent's reason alone.
func (t *task) refused() bool {
	if t.state != done || t.final.Receipt == nil {
		return false
	}
	switch c := t.final.Code; c {
	case "", bus.CodeCancelled, bus.CodeTimeout, bus.CodeLateFirst, bus.CodeBadRequest,
		bus.CodeUnsupportedField, bus.CodeTooLarge, bus.CodeEmptyPrompt, bus.CodeEngineRefused:
		return false
	default:
		return !c.Broken()
	}
}

// disputed reports whether the door that sends a task, which is not known here, is to ask for it once more.
func (n *Node) disputed(m *bus.Task) bool {
	if m.LastStatus == nil { // nobody can ask another door for it
		return false
	}
	list := n.lookups.Peek(taskKey{m.Client, m.ID})
	if list == nil {
		return false
	}
	has, first := false, ""
	for _, a := range *list {
		switch {
		case n.now.Sub(a.at) > lookupFor:
		case a.door == m.Door:
			has = true
		case first == "" || a.door < first:
			first = a.door
		}
	}
	return first != "" && (!has || first < m.Door)
}
