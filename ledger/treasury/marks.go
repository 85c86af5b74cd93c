package treasury

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
)

// A treasury may be started on a copy of its journal that lacks the end, on another market's, or on none.
// Then what is paid in stands in the wrong place, and is gone when the right journal comes back. Hubs know
// better: each has kept how far the treasury's journal was when they last spoke. So a treasury whose journal
// may not be the newest hears them first, and one that they contradict does nothing at all.

// journal tracks whether the treasury's own journal is the newest copy of it.
type journal struct {
	waits   bool            // it may not be: hubs are heard first
	moved   bool            // it was not when this began, and the journal is no new one
	first   time.Time       // when a hub was heard first since; zero: none was
	settled bool            // that it is has been said to whoever keeps the journal
	named   map[string]bool // the hubs that the registry names; nil: it has not said
	closed  string          // why nothing is taken in, granted or paid out; "": all is
	denied  bool            // as hubs contradict it
	unsaid  string          // why it is not led, by checkpoints
	other   bool            // as it is not the one that was signed; else it waits for a witness
}

// spoken holds a hub's last word on the treasury's journal.
type spoken struct {
	heard    bool
	confirms bool   // it has kept a mark, and the journal has it
	denies   string // why the journal cannot be the one that the hub has dealt with
	early    bool   // it said so among the first: then it is enough by itself
	behind   string // why its own journal cannot be the newest, and so confirms nothing
}

// firstFor is how long after the first hub's message each hub counts as one of the first: twice as long as
// one that runs is silent.
const firstFor = 2 * bus.FundsEvery

// Await has the treasury hear hubs first: all that there are of late, and one at least. Named is to follow.
// Hubs that said before that its journal is the newest are heard again, for another may have led since; what
// they said against it stays.
func (t *Treasury) Await() {
	for hub, w := range t.heard {
		w.spoken.heard, w.spoken.confirms = w.spoken.denies != "", false
		t.heard[hub] = w
	}
	t.own.named = nil
	last, _, _ := t.Book.Last()
	t.own.waits = t.cfg.Believe == 0 || t.cfg.Believe != last
	t.own.settled = false
	t.own.moved, t.own.first = t.own.waits && last > 1, time.Time{}
	t.reckon()
}

// Named takes in the hubs that the registry names: those that lead, and those that did of late.
func (t *Treasury) Named(hubs []string) {
	t.own.named = map[string]bool{}
	for _, hub := range hubs {
		if hub != t.cfg.Journal && ledger.ValidID(hub) && len(t.own.named) < t.cfg.MaxHubs {
			t.own.named[hub] = true
		}
	}
	t.reckon()
}

// Stands takes in why the journal is not led, by what was signed of it: it is not the one that was, or it
// waits for the word of a witness. "": it is led.
func (t *Treasury) Stands(why string, waits bool) {
	if other := why != "" && !waits; why != t.own.unsaid || other != t.own.other {
		t.own.unsaid, t.own.other = why, other
		t.reckon()
	}
}

// Closed returns why nothing is taken in, granted or paid out; "" if all is.
func (t *Treasury) Closed() string { return t.own.closed }

// Contradicted reports whether it is closed because hubs contradict its journal.
func (t *Treasury) Contradicted() bool { return t.own.denied }

// Waits reports whether hubs are still to say that the journal is the newest.
func (t *Treasury) Waits() bool { return t.own.waits }

// judge takes in a hub's word on the treasury's journal. A hub whose own journal is not the newest, by its
// mark here, confirms nothing: both may be older copies, of two moments.
func (t *Treasury) judge(req *bus.FundsRequest) error {
	w := t.heard[req.Hub]
	last, _, _ := t.Book.Last()
	if t.own.first.IsZero() {
		t.own.first = t.now
	}
	m, denies := req.Known, t.denies(req)
	unread := m != nil && m.Journal == t.Book.ID() && m.Seq <= last && req.Here == tip.Sum{}
	switch was := w.spoken.denies; {
	case was != "" && (unread || denies == "" && t.own.denied):
		return nil // of its journals either may be a copy: what it said against this one stays
	case unread:
		return refuse(bus.CodeUnavailable, "frame %d of the treasury's journal, whose checksum hub %s has kept, was "+
			"not read: ask again in a second", m.Seq, req.Hub) // and it hears no newer mark before
	}
	w.spoken.denies = denies
	w.spoken.heard, w.spoken.confirms = true, m != nil && denies == ""
	if w.spoken.behind = t.behind(req); w.spoken.behind != "" {
		w.spoken.heard, w.spoken.confirms = w.spoken.denies != "", false
	}
	among := t.own.moved && t.now.Sub(t.own.first) < firstFor
	w.spoken.early = w.spoken.denies != "" && (w.spoken.early || among)
	t.heard[req.Hub] = w
	t.reckon()
	return nil
}

// denies returns why the treasury's journal cannot be the one that a hub has dealt with, by the hub's mark;
// "": it can.
func (t *Treasury) denies(req *bus.FundsRequest) string {
	if req.Known == nil {
		return ""
	}
	last, _, _ := t.Book.Last()
	return ledger.Doubt(t.Book.ID(), last, req.Here, *req.Known)
}

// behind returns why the journal of a hub that is unsure of it cannot be the newest; "": it can.
func (t *Treasury) behind(req *bus.FundsRequest) string {
	if !req.Unsure {
		return ""
	}
	was, _ := t.Book.Marked(req.Hub)
	var m tip.Mark
	if req.Mark != nil {
		m = *req.Mark
	}
	here := was.Sum // of a later frame it is not known
	if m.Seq == was.Seq {
		here = m.Sum
	}
	return ledger.Doubt(m.Journal, m.Seq, here, was)
}

// reckon finds out whether the treasury may work. One hub alone that contradicts harms itself: it is refused,
// and shown. Where as many contradict as confirm, the journal is doubted; and where it was moved, by any of
// the first to be heard, since those that confirm it may be copies of the same moment.
func (t *Treasury) reckon() {
	o := &t.own
	confirm, deny, early, first := 0, 0, false, ""
	for hub, w := range t.heard { // at every word: it is not sorted for that
		switch s := w.spoken; {
		case s.denies != "":
			early = early || s.early
			if deny++; deny == 1 || hub < first {
				first = hub
			}
		case s.confirms:
			confirm++
		}
	}
	was := o.closed
	missing := ""
	if o.waits {
		if missing = t.missing(); missing == "" {
			o.waits = false
		}
	}
	contradicted := early || deny > 0 && deny >= confirm
	o.denied = contradicted || o.other
	switch o.closed = ""; {
	case o.other:
		o.closed = "the treasury does nothing until the right journal is in its place: " + o.unsaid
	case contradicted:
		o.closed = fmt.Sprintf("the treasury's journal is doubted, and does nothing until the right one is in its "+
			"place: hub %s says: %s", first, t.heard[first].spoken.denies)
		if deny > 1 {
			o.closed += fmt.Sprintf(" (and %d more hubs)", deny-1)
		}
	case o.waits:
		o.closed = missing
	default:
		o.closed = o.unsaid
	}
	unsaid := o.closed != "" && o.closed == o.unsaid // of which nothing is remembered: each start asks
	switch {
	case unsaid:
	case o.closed != "" && (was == "" || o.settled):
		o.settled = false
		t.ready.Settle = ledger.Unsure
	case o.closed == "" && !o.settled:
		o.settled = true
		t.ready.Settle = ledger.Own
	}
}

// missing names the hubs for whose word a treasury waits that may be on an older copy; "": none.
func (t *Treasury) missing() string {
	last, _, _ := t.Book.Last()
	may := "the treasury's journal may be an older copy, or was begun beside another: "
	gone := fmt.Sprintf("; a hub that does not run is waited for until the registry has forgotten it (%v)",
		bus.LedFor)
	if t.own.named == nil {
		return may + "the registry has not said which hubs there are"
	}
	var silent []string
	for _, hub := range slices.Sorted(maps.Keys(t.own.named)) {
		s := t.heard[hub].spoken
		if s.heard || t.Book.Closed(hub) {
			continue
		}
		if s.behind != "" {
			hub += " (whose own journal is not the newest: " + s.behind + ")"
		}
		silent = append(silent, hub)
	}
	spoke := false
	for _, hub := range t.Book.Hubs() {
		spoke = spoke || t.heard[hub].spoken.heard && !t.Book.Closed(hub)
	}
	whom := ""
	switch more := len(silent) - maxNamed; {
	case more > 0:
		whom = fmt.Sprintf("of %s and %d more hubs%s", strings.Join(silent[:maxNamed], ", "), more, gone)
	case len(silent) > 0:
		whom = "of hub " + strings.Join(silent, ", hub ") + gone
	case !spoke && t.Book.Dealings() > t.Book.EndedHubs():
		whom = "of any hub that it has dealt with: start one"
	default:
		return ""
	}
	return fmt.Sprintf("%sit waits for the word %s; if this is the newest journal there is, start the treasury with "+
		"believe: %d, its last frame", may, whom, last)
}

// denied refuses a hub that has dealt with another journal than this, where most others have not.
func (t *Treasury) denied(hub string) error {
	if why := t.heard[hub].spoken.denies; why != "" {
		return refuse(bus.CodeUnavailable, "hub %s has dealt with another journal of the treasury than the other hubs "+
			"have, and is refused: %s", hub, why)
	}
	return nil
}

// Denied lists the hubs that contradict the others, with their reasons.
func (t *Treasury) Denied() (all []string) {
	for _, hub := range slices.Sorted(maps.Keys(t.heard)) {
		if why := t.heard[hub].spoken.denies; why != "" {
			all = append(all, fmt.Sprintf("hub %s: %s", hub, why))
		}
	}
	return all
}

// note records how far a hub's journal is, and what clients have spent there. Impossible figures are left
// out: the hub is told its last mark here, and judges its journal itself.
func (t *Treasury) note(op string, req *bus.FundsRequest) {
	m, hub := req.Mark, req.Hub
	if m == nil || req.Unsure || t.Book.ID() == m.Journal || !t.Book.Knows(hub) || t.Book.Closed(hub) {
		return
	}
	was, n := t.Book.Marked(hub)
	if !was.Zero() && (m.Journal != was.Journal || m.Seq == was.Seq && *m != was) {
		return
	}
	mark := was
	if m.Seq > was.Seq {
		mark = *m
	}
	var spent []tip.Spent
	if op == bus.OpAllotted && m.Seq >= was.Seq { // else a word that was overtaken, or an older copy's
		for _, s := range req.Spent {
			if s.Amount != t.Book.Spent(s.Client, hub) && s.Amount <= t.Book.Allotted(s.Client, hub) {
				spent = append(spent, s)
			}
		}
		slices.SortFunc(spent, func(a, b tip.Spent) int { return strings.Compare(a.Client, b.Client) })
		spent = slices.CompactFunc(spent, func(a, b tip.Spent) bool { return a.Client == b.Client })
	}
	if mark != was || len(spent) > 0 {
		_ = t.apply(ledger.NewMark(hub, n+1, mark, spent, t.salt()))
	}
}
