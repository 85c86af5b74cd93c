package hub

import (
	"slices"
	"time"

	"souk/bus"
)

// Two doors may have one task at a time: its reader asked the second as it heard nothing of the first. Each
// asks all hubs whether they know it. Where their questions cross, or a hub lets the task go between them,
// each hears that nobody has it. So a hub remembers for a while which doors asked, and takes the task of one
// of them alone: of the one whose name comes first, and of none that has not asked while another has. The
// other is to ask once more, and finds the task where the first has put it.

const (
	// askedFor is how long a question counts. A door's word that no hub has the task is believed for unheard
	// and what lies between two statuses; so is that of the other, which may have asked so much earlier.
	askedFor = 10 * time.Second
	maxAsked = 4096 // tasks of which that is remembered
)

// doorAsks is a door's last question for a task.
type doorAsks struct {
	door string
	at   time.Time
}

// asks reports whether a message is a door's question whether a task is known: it has its ids alone.
func asks(m *bus.Task) bool {
	return len(m.Body) == 0 && m.Prompt.Tokens == 0 && m.Heard == nil && m.Resume == nil
}

// whether answers that question. A hub that has lost the lead and does not know it yet answers, too: its
// epoch says so.
func (n *Node) whether(t *task, m *bus.Task) {
	r := n.refusal(m, bus.CodeEmptyPrompt, 0, "the prompt is empty")
	if t != nil && !t.refused() {
		n.stats.Repeats++
		t.from(m)
		r = n.refusal(m, bus.CodeIDConflict, 0, "task %s was sent before with other content: take a new id",
			m.ID)
	} else {
		n.stats.Arrived++
		key := taskKey{m.Client, m.ID}
		list, _ := n.askers.Add(m.Client, key)
		*list = slices.DeleteFunc(*list,
			func(a doorAsks) bool { return a.door == m.Door || n.now.Sub(a.at) > askedFor })
		*list = append((*list)[max(0, len(*list)-moreInboxes+1):], doorAsks{m.Door, n.now})
	}
	count(n.stats.Tasks, r.Code)
	n.send(m.Inbox, &bus.Answer{Result: r, Look: &bus.HeardStatus{Epoch: n.epoch, Seq: n.status.seq}})
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
	if m.Heard == nil { // nobody can ask another door for it
		return false
	}
	list := n.askers.Peek(taskKey{m.Client, m.ID})
	if list == nil {
		return false
	}
	has, first := false, ""
	for _, a := range *list {
		switch {
		case n.now.Sub(a.at) > askedFor:
		case a.door == m.Door:
			has = true
		case first == "" || a.door < first:
			first = a.door
		}
	}
	return first != "" && (!has || first < m.Door)
}
