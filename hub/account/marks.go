package account

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/hub/turn"
	"souk/ledger"
)

// A hub may be started on a copy of its journal that lacks the end: money that the copy has may have been
// spent, or have gone back. The treasury has kept how far the journal was. So a hub whose journal may not be
// the newest hears the treasury before it takes a task, and one that the treasury contradicts takes nothing
// more. Neither settles anything: agents that it answered would not tell the hub that has the newest.

// marks tracks the treasury's journal as far as the hub's own does not record it, and what the treasury is to
// be told of the hub's. It belongs to the Room, and writes nothing else of it.
type marks struct {
	turn    *turn.Turn
	tasks   Tasks
	epoch   int64     // highest epoch of the treasury's leadership that was heard
	stale   int64     // the last epoch heard that was below it
	mark    tip.Mark  // the highest mark heard
	sure    int64     // epoch of the treasury that has last confirmed the mark before
	judged  bool      // the treasury has judged the hub's journal in this leadership
	written time.Time // when a frame was last written for such a mark alone
	awaits  bool      // the treasury's word is waited for
	whence  string    // why the hub waits, and may again; "": its journal is known to be the newest
	foreign string    // another journal speaks for the treasury
	sent    uint64    // frame of the mark of the hub's journal that the treasury was told last
	quiet   bool      // no frame had come since the time before
	changed []string  // clients whose charges the treasury has not been told of
	among   map[string]bool
}

// markEvery is the least time between two frames that say no more than how far the treasury's journal is: a
// hub without tasks writes no more often, and one with tasks has frames of its own.
const markEvery = bus.FundsEvery

// Await has the hub hear the treasury before it takes a task, and says whence its journal may be an older
// copy: it was moved, or another led since. An empty one asks before it begins. One that is confirmed has
// heard the treasury on that: it waits only once that counts no more.
func (k *marks) Await(whence string, confirmed bool) {
	if k.turn.Book.Journal().Journal == "" || k.turn.Doubt != "" {
		return
	}
	if k.whence = whence; !confirmed {
		k.awaits = true
		k.turn.Doubt = k.awaiting("")
	}
}

// takenBack has the hub wait again if only the treasury has told it that its journal is the newest: other
// hubs contradict that treasury, which may be as old a copy as this hub is.
func (k *marks) takenBack(said string) {
	if k.whence == "" || k.turn.Doubt != "" {
		return
	}
	k.awaits = true
	k.refuse(k.awaiting(said))
}

// Why a hub hears the treasury first.
const (
	WasMoved = "the hub's journal was moved"
	LedSince = "another hub has led on a journal of this name since this one did"
)

// awaiting explains why a hub that waits for the treasury takes nothing.
func (k *marks) awaiting(said string) string {
	last, _, _ := k.turn.Book.Last()
	why := fmt.Sprintf("%s, and it may be an older copy: with its %d frames it waits for the treasury's word that "+
		"none is missing", k.whence, last)
	if said != "" {
		why += "; the treasury says: " + said
	}
	return bus.Clip(why, bus.MaxText)
}

// doubts stops the hub from taking anything in: its journal is not the newest.
func (k *marks) doubts(why string) {
	if k.awaits = false; k.turn.Doubt != why {
		k.refuse(why)
	}
}

func (k *marks) refuse(why string) {
	k.turn.Doubt, k.turn.Changed = bus.Clip(why, bus.MaxText), true
	k.turn.Out.Settle = ledger.Unsure
	k.turn.Faults++
	k.tasks.Doubted()
}

// Doubt returns why the journal may not be the newest, and whether only the treasury's word is missing.
func (k *marks) Doubt() (why string, waits bool) { return k.turn.Doubt, k.awaits }

// hearWord takes in the treasury's word on the hub's journal, and reports whether the hub had waited for it.
func (k *marks) hearWord(m *bus.FundsReply) (clears bool) {
	last, _, _ := k.turn.Book.Last()
	switch known := m.Known; {
	case m.Lost:
		k.doubts(fmt.Sprintf("the treasury has written journal %s off, and has given clients back what they had "+
			"here: nothing of it is taken any more; start this hub with a journal of another name", k.turn.Journal))
		return false
	case m.Mark == nil: // it is not sure of its own, so its word is none
		k.putOff(m.Message)
		return false
	case known == nil:
	case known.Journal == k.turn.Book.ID() && known.Seq <= last && m.Here == tip.Sum{}:
		k.putOff("frame " + fmt.Sprint(known.Seq) + " of this journal could not be read")
		return false
	default:
		if why := ledger.Doubt(k.turn.Book.ID(), last, m.Here, *known); why != "" {
			k.doubts("the journal of hub " + k.turn.Journal + " is not the newest, by what the treasury has kept: " + why)
			return false
		}
	}
	k.judged = true
	if clears = k.awaits; clears {
		k.tasks.Cleared()
		k.awaits, k.turn.Doubt, k.turn.Changed = false, "", true
		k.turn.Out.Settle = ledger.Own
	}
	return clears
}

// putOff notes why a treasury that is waited for gives no word yet.
func (k *marks) putOff(said string) {
	if why := k.awaiting(said); k.awaits && why != k.turn.Doubt {
		k.turn.Doubt, k.turn.Changed = why, true
	}
}

// isForeign reports whether a reply is of another journal of the treasury than the hub holds grants of: no
// word of it counts.
func (k *marks) isForeign(m *bus.FundsReply) bool {
	mine := k.treasurys()
	if mine.Zero() || m.Journal == mine.Journal {
		k.foreign = ""
		return false
	}
	why := fmt.Sprintf("the treasury answers from journal %.8s, and this hub holds grants of journal %.8s: nothing "+
		"is taken from it. Bring the treasury's journal back that has at least frame %d", m.Journal, mine.Journal,
		mine.Seq)
	if why != k.foreign {
		k.foreign = why
		k.turn.Fault(errors.New(why))
	}
	return true
}

// Foreign says that another journal speaks for the treasury than this hub holds grants of; "": none does.
func (k *marks) Foreign() string { return k.foreign }

// treasurys is the highest mark of the treasury's journal that the hub knows.
func (k *marks) treasurys() tip.Mark {
	if m, _ := k.turn.Book.Marked(ledger.Treasury); m.Seq > k.mark.Seq {
		return m
	}
	return k.mark
}

// hearMark takes in how far the treasury's journal is. It is kept with the hub's next frame. A treasury that
// was just elected is first asked what its journal has at the mark before, which a new one would hide: then
// hearMark returns false.
func (k *marks) hearMark(a *request, r *bus.FundsReply) (sure bool) {
	mine, asked, m := k.treasurys(), a.req.Known, r.Mark
	if a.op == bus.OpAllotted && r.Code == "" &&
		(asked == nil && mine.Zero() || asked != nil && *asked == mine) {
		k.sure = r.Epoch
	}
	if r.Epoch != k.sure {
		return false
	}
	if m != nil && m.Valid() && m.Journal != k.turn.Book.ID() && m.Seq > mine.Seq &&
		(mine.Zero() || m.Journal == mine.Journal) {
		k.mark = *m
	}
	return true
}

// unwritten reports whether the hub's journal is still to record a higher mark of the treasury's.
func (k *marks) unwritten() bool {
	was, _ := k.turn.Book.Marked(ledger.Treasury)
	return k.turn.Doubt == "" && k.mark.Seq > was.Seq && k.turn.Book.Journal().Journal != "" &&
		!k.turn.Closed()
}

// withMark adds that mark to the records of a frame.
func (k *marks) withMark(records []ledger.Record) []ledger.Record {
	if !k.unwritten() {
		return records
	}
	_, number := k.turn.Book.Marked(ledger.Treasury)
	mark := ledger.NewMark(ledger.Treasury, number+1, k.mark, nil, k.turn.Salt())
	if len(records) > 0 && records[0].Kind == ledger.KindClose {
		return append([]ledger.Record{mark}, records...) // nothing follows an end
	}
	return append(records, mark)
}

// writeMark writes a frame for that mark alone, where no other frame has come along.
func (k *marks) writeMark() {
	if !k.unwritten() || k.turn.Now().Sub(k.written) < markEvery {
		return
	}
	k.written = k.turn.Now()
	if err := k.turn.Commit(); err != nil {
		k.turn.Fault(fmt.Errorf("mark of the treasury's journal: %w", err))
	}
}

// Charged notes that a client was charged, which the treasury is told.
func (k *marks) Charged(client string) {
	if !k.among[client] {
		k.among[client] = true
		k.changed = append(k.changed, client)
	}
}

// spent takes the charges that the treasury is to be told of, as many as one message holds.
func (k *marks) spent() []tip.Spent {
	if k.turn.Doubt != "" || !k.judged {
		return nil
	}
	count := min(len(k.changed), tip.MaxSpent)
	all := make([]tip.Spent, count)
	for i, client := range k.changed[:count] {
		all[i] = tip.Spent{Client: client, Amount: k.turn.Book.Charged(client)}
		delete(k.among, client)
	}
	k.changed = slices.Clone(k.changed[count:])
	return all
}

// untold puts back the charges that the treasury did not take in.
func (k *marks) untold(all []tip.Spent) {
	for _, s := range all {
		k.Charged(s.Client)
	}
}

// AsksFirst returns the question for the treasury before the hub leads: what it knows of the treasury's
// journal, and how far its own is.
func (k *marks) AsksFirst(epoch int64) turn.Funds {
	q := bus.FundsRequest{ID: fmt.Sprintf("%s-%d-0", k.turn.Journal, epoch), Hub: k.turn.Journal,
		Domain: k.turn.Domain, Epoch: epoch, Unsure: true, After: k.turn.Book.LastGrant(k.turn.Journal)}
	if seq := k.turn.Book.Said(); seq > 0 {
		q.Mark = &tip.Mark{Journal: k.turn.Book.ID(), Seq: seq}
	}
	if m := k.treasurys(); !m.Zero() {
		q.Known = &m
	}
	return turn.Funds{Op: bus.OpAllotted, Request: q}
}

// First returns the question for the treasury before the first frame of an empty journal, whose answer
// [Room.Begin] takes; false if there are frames.
func (k *marks) First(epoch int64) (f turn.Funds, ask bool) {
	f = k.AsksFirst(epoch)
	f.Request.Domain = "" // it leads none yet
	return f, k.turn.Book.Journal().Journal == ""
}

// Begin takes the treasury's answer to First: whether it has dealt with a journal of this name. Then this one
// is not new: the one there was is lost, and what it held would be spent twice. begins is false without an
// error where the treasury does not say: a hub has no money to sell for before it does.
func (k *marks) Begin(m *bus.FundsReply) (begins bool, err error) {
	if isSilence(m) || k.outOfDate(m.Epoch) {
		return false, nil
	}
	if len(m.Grants) > 0 || m.Returned > 0 || m.Known != nil || m.Code == bus.CodeBadRequest {
		why := m.Message
		if why == "" {
			why = fmt.Sprintf("the treasury has allotted money to one of that name and has taken %d returns of it in",
				m.Returned)
		}
		return false, fmt.Errorf("hub %s: journal %s is empty, but %s: bring the journal back, or give this hub a "+
			"journal of another name", k.turn.Domain, k.turn.Journal, why)
	}
	return m.Code == "", nil
}

// isSilence reports whether a reply is the shell's, to say that none came.
func isSilence(m *bus.FundsReply) bool { return m.Code == bus.CodeUnavailable && m.Epoch == 0 }

// outOfDate reports whether a treasury's message is of an earlier leadership than one that has spoken: that
// treasury does not know yet that another was elected, and its grants may be undone.
func (k *marks) outOfDate(epoch int64) bool {
	if epoch >= k.epoch {
		k.epoch = epoch
		return false
	}
	if epoch != k.stale {
		k.stale = epoch
		k.turn.Fault(fmt.Errorf("a treasury of epoch %d speaks, and one of epoch %d has spoken: nothing is "+
			"taken from it. Another has led since, or etcd was made anew or restored to an older revision "+
			"(deploy/runbook.md: etcd)", epoch, k.epoch))
	}
	return true
}
