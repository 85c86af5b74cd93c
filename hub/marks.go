package hub

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
)

// A hub may be started on a copy of its journal that lacks the end: money that the copy has may have been
// spent, or have gone back. The treasury has kept how far the journal was. So a hub whose journal may not be
// the newest hears the treasury before it takes a task, and one that the treasury contradicts takes nothing
// more. Neither settles anything: agents that it answered would not tell the hub that has the newest.

// heardOf is what the hub knows of the treasury's journal beyond its own journal, and what it has to tell of
// its own.
type heardOf struct {
	mark    tip.Mark  // the highest heard
	sure    int64     // of the treasury that has last confirmed the one before: the epoch
	judged  bool      // the hub's own journal was, in this leadership, by what the treasury had kept
	written time.Time // when a frame was last written for such a mark alone
	awaits  bool      // the treasury's first word is waited for
	whence  string    // why
	foreign string    // another journal speaks for the treasury
	told    uint64    // frame of the hub's own mark that the treasury was told last
	quiet   bool      // nothing had come since the time before
	changed []string  // clients whose charges the treasury has not been told of
	among   map[string]bool
}

// markEvery is the least time between two frames that say no more than how far the treasury's journal is: a
// hub without tasks writes no more often, and one with tasks has frames of its own.
const markEvery = bus.FundsEvery

// Await has the hub hear the treasury before it takes a task, and says whence its journal may be an older
// copy: it was moved, or another led since. An empty one asks before it begins.
func (n *Node) Await(whence string) {
	if n.book.Journal().Journal == "" || n.doubt != "" {
		return
	}
	n.marks.awaits, n.marks.whence = true, whence
	n.doubt = n.awaiting("")
}

// Why a hub hears the treasury first.
const (
	WasMoved = "the hub's journal was moved"
	LedSince = "another hub has led on a journal of this name since this one did"
)

// awaiting is why a hub takes nothing that waits for the treasury.
func (n *Node) awaiting(said string) string {
	last, _, _ := n.book.Last()
	why := fmt.Sprintf("%s, and it may be an older copy: with its %d frames it waits for the treasury's word that "+
		"none is missing", n.marks.whence, last)
	if said != "" {
		why += "; the treasury says: " + said
	}
	return bus.Clip(why, bus.MaxText)
}

// doubts stops the hub from taking anything in: its journal is not the newest.
func (n *Node) doubts(why string) {
	n.marks.awaits = false
	if n.doubt == why {
		return
	}
	n.doubt = bus.Clip(why, bus.MaxText)
	n.status.changed = true
	n.out.Settle = ledger.Unsure
	n.stats.Faults++
	n.refuseWaiting(bus.CodeUnavailable, n.doubt, againStale)
}

// Doubt is why the journal may not be the newest, and whether the treasury's first word is only waited for;
// "": nothing says so. Who leads on such a journal keeps out who has a better one.
func (n *Node) Doubt() (why string, waits bool) { return n.doubt, n.marks.awaits }

// hearWord takes in what the treasury says of the hub's journal.
func (n *Node) hearWord(m *bus.FundsReply) {
	last, _, _ := n.book.Last()
	switch known := m.Known; {
	case m.Lost:
		n.doubts(fmt.Sprintf("the treasury has written journal %s off, and has given clients back what they had "+
			"here: nothing of it is taken any more; start this hub with a journal of another name", n.cfg.Journal))
		return
	case m.Mark == nil: // it is not sure of its own, so its word is none
		n.putOff(m.Message)
		return
	case known == nil:
	case known.Journal == n.book.ID() && known.Seq <= last && m.Here == tip.Sum{}:
		n.putOff("frame " + fmt.Sprint(known.Seq) + " of this journal could not be read")
		return
	default:
		if why := ledger.Doubt(n.book.ID(), last, m.Here, *known); why != "" {
			n.doubts("the journal of hub " + n.cfg.Journal + " is not the newest, by what the treasury has kept: " + why)
			return
		}
	}
	n.marks.judged = true
	if n.marks.awaits {
		n.deaf()
		n.marks.awaits, n.doubt = false, ""
		n.status.changed = true
		n.out.Settle = ledger.Own
		n.timers.set(&n.treasury.sweep.timer, n.now.Add(n.cfg.AccountIdle))
	}
}

// putOff notes why a treasury that is waited for gives no word yet.
func (n *Node) putOff(said string) {
	if why := n.awaiting(said); n.marks.awaits && why != n.doubt {
		n.doubt, n.status.changed = why, true
	}
}

// isForeign reports whether a reply is of another journal of the treasury than the hub holds grants of: no
// word of it counts.
func (n *Node) isForeign(m *bus.FundsReply) bool {
	mine := n.treasurys()
	if mine.Zero() || m.Journal == mine.Journal {
		n.marks.foreign = ""
		return false
	}
	why := fmt.Sprintf("the treasury answers from journal %.8s, and this hub holds grants of journal %.8s: nothing "+
		"is taken from it. Bring the treasury's journal back that has at least frame %d", m.Journal, mine.Journal,
		mine.Seq)
	if why != n.marks.foreign {
		n.marks.foreign = why
		n.fault(fmt.Errorf("%s", why))
	}
	return true
}

// Foreign says that another journal speaks for the treasury than this hub holds grants of; "": none does.
func (n *Node) Foreign() string { return n.marks.foreign }

// treasurys is the highest mark of the treasury's journal that the hub knows.
func (n *Node) treasurys() tip.Mark {
	if m, _ := n.book.Marked(ledger.Treasury); m.Seq > n.marks.mark.Seq {
		return m
	}
	return n.marks.mark
}

// hearMark takes in how far the treasury's journal is. It is kept with the hub's next frame. A treasury that
// was just elected is first asked what its journal has at the mark before, which a new one would hide.
func (n *Node) hearMark(a *request, epoch int64, code bus.Code, m *tip.Mark) {
	mine := n.treasurys()
	k := a.req.Known
	if a.op == bus.OpAllotted && code == "" && (k == nil && mine.Zero() || k != nil && *k == mine) {
		n.marks.sure = epoch
	}
	if epoch != n.marks.sure {
		n.requestMissed()
		return
	}
	if m != nil && m.Valid() && m.Journal != n.book.ID() && m.Seq > mine.Seq &&
		(mine.Zero() || m.Journal == mine.Journal) {
		n.marks.mark = *m
	}
}

// withMark adds what is known of the treasury's journal to the records of a frame.
func (n *Node) withMark(records []ledger.Record) []ledger.Record {
	was, number := n.book.Marked(ledger.Treasury)
	if n.doubt != "" || n.marks.mark.Seq <= was.Seq || n.book.Journal().Journal == "" || n.Closed() {
		return records
	}
	mark := ledger.NewMark(ledger.Treasury, number+1, n.marks.mark, nil, n.salt())
	if len(records) > 0 && records[0].Kind == ledger.KindClose {
		return append([]ledger.Record{mark}, records...) // nothing follows an end
	}
	return append(records, mark)
}

// writeMark writes a frame for what is known of the treasury's journal, where no other has come along.
func (n *Node) writeMark() {
	was, _ := n.book.Marked(ledger.Treasury)
	if n.doubt != "" || n.marks.mark.Seq <= was.Seq || n.Closed() || n.now.Sub(n.marks.written) < markEvery {
		return
	}
	n.marks.written = n.now
	if err := n.commit(); err != nil {
		n.fault(fmt.Errorf("mark of the treasury's journal: %w", err))
	}
}

// markSoon is how soon the treasury is told of the first frame after a time without any: a copy that lacks
// what came in the seconds before a crash is found, too.
const markSoon = time.Second

// wrote has the treasury told of a frame soon, where it had been told all before.
func (n *Node) wrote(f *ledger.Frame) {
	if t := &n.treasury; n.marks.quiet && n.leading && t.missed == nil && f.Says() {
		n.marks.quiet = false
		n.timers.set(&t.again, n.now.Add(markSoon))
	}
}

// toldMark notes what the treasury has kept of the hub's journal.
func (n *Node) toldMark(q *bus.FundsRequest) {
	if m := q.Mark; m != nil && !q.Unsure {
		n.marks.quiet = n.marks.told == 0 || n.marks.told == m.Seq
		n.marks.told = m.Seq
	}
}

// charged notes that a client was charged, which the treasury is told.
func (n *Node) charged(client string) {
	k := &n.marks
	if !k.among[client] {
		k.among[client] = true
		k.changed = append(k.changed, client)
	}
}

// clients returns the names of all clients that ever had money here.
func (n *Node) clients() (all []string) {
	for _, b := range n.book.Balances("client:*:avail") {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(b.Account, "client:"), ":avail"))
	}
	return all
}

// chargedBefore is charged of all who were, in earlier lives, too: what they were told is not known.
func (n *Node) chargedBefore() {
	for _, client := range n.clients() {
		if n.book.Charged(client) > 0 {
			n.charged(client)
		}
	}
}

// spent takes what the treasury is to be told of, as far as one message holds it.
func (n *Node) spent() []tip.Spent {
	k := &n.marks
	if n.doubt != "" || !n.marks.judged {
		return nil
	}
	count := min(len(k.changed), tip.MaxSpent)
	all := make([]tip.Spent, count)
	for i, client := range k.changed[:count] {
		all[i] = tip.Spent{Client: client, Amount: n.book.Charged(client)}
		delete(k.among, client)
	}
	k.changed = slices.Clone(k.changed[count:])
	return all
}

// untold puts back what the treasury did not take in.
func (n *Node) untold(all []tip.Spent) {
	for _, s := range all {
		n.charged(s.Client)
	}
}
