package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"souk/bus/tip"
	"souk/market"
)

// What a Book remembers of the past. Both are part of the rules, since writer and audit must agree:
// what is forgotten is refused, never applied twice.
const (
	// RememberEnded bounds the ended holds that stay known, so that a repeated completion is answered as the
	// first: minutes of a busy hub, in 4 MB. Uniqueness needs no memory, because rounds rise and each slot of
	// a round is held once.
	RememberEnded = 1 << 16
	// RememberOps bounds the transfers that stay known by id, in about 30 MB. A deposit whose id comes back
	// after so many others would count again; other transfers are numbered and refused.
	RememberOps = 1 << 18
	// maxSlots bounds the awards of one round.
	maxSlots = market.MaxTasks
	maxText  = 256 // bytes of a note, reason, model or other free text in a record
)

// Book is the state that a journal's records build: balances, open holds, and what is remembered. It is
// a pure state machine, shared by writer, audit and tests: the same records always give the same Book.
// Not for use by several goroutines at once.
type Book struct {
	kept
	head    head
	names   map[string]*names // by client or agent
	open    map[slotKey]*Hold
	tariffs []market.Tariff // in force, by class
	allUsed int             // sums of what tasks came to
	used    []used          // what these take in once a frame is whole
	fresh   []used          // and of that, what can still be undone
	taught  []*Round        // what prices of slots take in, likewise

	bare      bool  // an audit's: it judges, and knows nothing that is of use to a hub alone
	justEnded *Hold // the hold that the last capture or void ended, for the audit
	undo      []undo
	legs      []Leg
	scratch   []byte
}

// kept is the part of a Book that a snapshot has as it is.
type kept struct {
	Size     int64 // records in all frames, which is the number of the next one
	Accounts map[string]*market.Credits
	Ended    recent[slotKey, ended]
	Ops      recent[string, op]
	Hubs     map[string]*counters
	Allotted map[[2]string]*market.Credits // by client and hub; and by client alone under hub ""
	Spent    map[[2]string]market.Credits  // treasury: by client and hub, as hubs' marks say
	Vouched  map[[2]string]*Vouched        // treasury: by client and hub
	Budgets  map[string]*Allowance         // treasury: by the client that spends
	Marks    map[string]*noted             // by journal
	Classes  map[string]*class             // hub: epochs by class
	Usual    Usual                         // hub: what tasks cost
	Rates    market.Rates                  // hub: what slots cost
	Uses     map[string]*uses              // hub: what tasks came to, by client
	Refs     map[string]*made              // of orders, and of what was signed
	Refunds  map[string]*Refunded          // by receipt
	Offered  map[string]int64              // hub: slots, by agent, since the last distribution by a rule
}

// head is the part of a Book that is small enough to be copied before a frame.
type head struct {
	Journal, Role, Domain string
	Currency              string
	Closed                bool
	ID                    tip.Sum

	Seq   uint64
	Said  uint64 // the last frame that says more than marks
	Epoch int64
	Time  int64

	Round  uint64
	Hash   [32]byte
	Awards int // of the last round
	Held   int // of them, those with a hold

	Ripe  market.Credits // surplus that a distribution by a rule has left for the next
	Month string         // closed, with all before it

	totals Totals // of all accounts; a snapshot leaves them out
}

// op is a remembered transfer.
type op struct {
	Kind   Kind
	Client string
	Amount market.Credits
	Note   uint64
}

// counters are the last numbers of a hub's transfers.
type counters struct {
	Grant, GiveBack, Order uint64
	Last                   *made // order
	Ended                  bool  // treasury: the hub has ended, and only returns of it are taken in
	// treasury: its journal was written off; it has ended, and nothing of it is taken in
	Lost bool
}

// NewBook returns an empty book, before the journal's first record.
func NewBook() *Book {
	return &Book{names: map[string]*names{}, open: map[slotKey]*Hold{}, kept: kept{
		Accounts: map[string]*market.Credits{},
		Ended:    recent[slotKey, ended]{Of: map[slotKey]ended{}},
		Ops:      recent[string, op]{Of: map[string]op{}},
		Hubs:     map[string]*counters{},
		Allotted: map[[2]string]*market.Credits{},
		Vouched:  map[[2]string]*Vouched{},
		Budgets:  map[string]*Allowance{},
		Spent:    map[[2]string]market.Credits{},
		Marks:    map[string]*noted{},
		Classes:  map[string]*class{},
		Uses:     map[string]*uses{},
		Refs:     map[string]*made{},
		Refunds:  map[string]*Refunded{},
		Offered:  map[string]int64{},
	}}
}

// newBareBook is a book for an audit.
func newBareBook() *Book {
	b := NewBook()
	b.bare = true
	return b
}

// Apply applies one record, or returns why not and changes nothing. ErrRepeat means that it was applied
// before; any other error is a [*Violation]. r may be kept: it must not change afterwards.
func (b *Book) Apply(r *Record) error {
	before := b.head
	if err := b.apply(r, nil); err != nil {
		b.rollback()
		b.head = before
		return err
	}
	b.forget()
	return nil
}

// ApplyFrame applies a frame, or returns why not and changes nothing. The frame must follow on the last
// one: sequence without a gap, epoch and time not lower. Every award of a round must be held in the
// round's own frame. A record that was applied before is an error here: a frame holds new facts only.
func (b *Book) ApplyFrame(f Frame) error { return b.applyFrame(&f, nil) }

// applyFrame also takes the heads of rounds whose bodies were not decoded, in order; nil: all were.
func (b *Book) applyFrame(f *Frame, heads []roundHead) error {
	before := b.head
	err := b.follow(f.Version, f.Epoch, f.Seq, f.Time)
	if err == nil && len(f.Records) == 0 {
		err = broken(ErrIllegal, "I7", "frame", "at least one record", "none")
	}
	for i := 0; i < len(f.Records) && err == nil; i++ {
		r, head := &f.Records[i], (*roundHead)(nil)
		if r.Kind == KindRound && len(heads) > 0 {
			head, heads = &heads[0], heads[1:]
		}
		if err = b.apply(r, head); err == ErrRepeat {
			err = broken(ErrConflict, "I10", r.ID, "a record once", "it stands in the journal twice")
		}
	}
	if err == nil {
		err = b.whole()
	}
	if err != nil {
		b.rollback()
		b.head = before
		return fmt.Errorf("frame %d: %w", f.Seq, err)
	}
	b.Size += int64(len(f.Records))
	if says(f.Records) {
		b.head.Said = b.head.Seq
	}
	b.forget()
	b.tally()
	return nil
}

// Seal returns a frame of records that were applied one by one with Apply, numbered to follow on the
// last. epoch and now (Unix nanoseconds) must not be lower than the last frame's; a clock that went back
// is held at the last frame's time.
func (b *Book) Seal(epoch, now int64, records []Record) (Frame, error) {
	f := Frame{Version: FrameVersion, Epoch: epoch, Seq: b.head.Seq + 1, Time: max(now, b.head.Time),
		Records: records}
	if len(records) == 0 {
		return Frame{}, broken(ErrIllegal, "I7", "frame", "at least one record", "none")
	}
	if err := b.whole(); err != nil {
		return Frame{}, err
	}
	if err := b.follow(f.Version, f.Epoch, f.Seq, f.Time); err != nil {
		return Frame{}, err
	}
	b.Size += int64(len(records))
	if says(records) {
		b.head.Said = b.head.Seq
	}
	b.tally()
	return f, nil
}

// follow checks a frame's header against the last one's and takes it over.
func (b *Book) follow(version uint8, epoch int64, seq uint64, time int64) error {
	h := &b.head
	switch {
	case version != FrameVersion:
		return broken(ErrIllegal, "I7", "frame", fmt.Sprintf("version %d", FrameVersion), "version %d",
			version)
	case seq != h.Seq+1:
		return broken(ErrOrder, "I7", "frame", fmt.Sprintf("sequence %d", h.Seq+1), "%d", seq)
	case epoch < h.Epoch || epoch < 0:
		return broken(ErrOrder, "I7", "frame", fmt.Sprintf("epoch %d or higher", h.Epoch),
			"%d: a deposed writer", epoch)
	case time < h.Time:
		return broken(ErrOrder, "I7", "frame", fmt.Sprintf("time %d or later", h.Time), "%d", time)
	}
	h.Seq, h.Epoch, h.Time = seq, epoch, time
	return nil
}

// whole checks that every award of the last round has its hold.
func (b *Book) whole() error {
	if h := &b.head; h.Held != h.Awards {
		return broken(ErrIllegal, "I9", RoundID(h.Journal, h.Round),
			fmt.Sprintf("%d holds, one for each award", h.Awards), "%d", h.Held)
	}
	return nil
}

// Rates returns the slots' prices, learned from the journal's rounds. They are not to be changed.
func (b *Book) Rates() *market.Rates { return &b.kept.Rates }

// Journal returns the Open record of the journal that the book was read from; zero before it.
func (b *Book) Journal() Open {
	if b.head.Journal == "" {
		return Open{}
	}
	return Open{Journal: b.head.Journal, Role: b.head.Role, Domain: b.head.Domain, Scale: Scale,
		Currency: b.head.Currency}
}

// Last returns the last frame's sequence, epoch and time; zeros before the first.
func (b *Book) Last() (seq uint64, epoch, time int64) { return b.head.Seq, b.head.Epoch, b.head.Time }

// LastRound returns the last round's number, and what the next one names as Prev; zeros before the first.
func (b *Book) LastRound() (uint64, [32]byte) { return b.head.Round, b.head.Hash }

// Balance returns what is in an account.
func (b *Book) Balance(name string) market.Credits {
	if a := b.Accounts[name]; a != nil {
		return *a
	}
	return 0
}

// Avail returns a client's money that may still be held here.
func (b *Book) Avail(client string) market.Credits {
	avail, _ := b.namesOf(client).client()
	return b.Balance(avail)
}

// Held is the sum of a client's open holds.
func (b *Book) Held(client string) market.Credits {
	_, held := b.namesOf(client).client()
	return b.Balance(held)
}

// Prepaid returns a client's money with the treasury; known is false for a client that never had anything.
func (b *Book) Prepaid(client string) (amount market.Credits, known bool) {
	a := b.Accounts[Prepaid(client)]
	if a == nil {
		return 0, false
	}
	return *a, true
}

// Allotted returns the money of a client that the treasury granted to a hub, less what came back; to all hubs
// together if hub is "". In a hub's own book it is the sum accepted, less the sum returned.
func (b *Book) Allotted(client, hub string) market.Credits {
	if p := b.kept.Allotted[[2]string{client, hub}]; p != nil {
		return *p
	}
	return 0
}

// Hubs are the hubs that the treasury ever had dealings with, sorted; in a hub's own book, itself.
func (b *Book) Hubs() []string { return slices.Sorted(maps.Keys(b.kept.Hubs)) }

// Dealings returns the number of those hubs.
func (b *Book) Dealings() int { return len(b.kept.Hubs) }

// Knows reports whether there were dealings with a hub.
func (b *Book) Knows(hub string) bool { return b.kept.Hubs[hub] != nil }

// LastGrant is the number of the last grant to a hub: given, in the treasury's book; accepted, in the
// hub's own.
func (b *Book) LastGrant(hub string) uint64 { return b.counters(hub).Grant }

// LastReturn is the number of the last return of a hub: made, in its own book; taken in, in the treasury's.
func (b *Book) LastReturn(hub string) uint64 { return b.counters(hub).GiveBack }

// Closed reports whether a journal is closed: this one, or in the treasury's book that of a hub which ended.
func (b *Book) Closed(journal string) bool {
	return journal == b.head.Journal && b.head.Closed || b.counters(journal).Ended
}

// EndedHubs counts the hubs that ended, in the treasury's book.
func (b *Book) EndedHubs() (n int) {
	for _, c := range b.kept.Hubs {
		if c.Ended {
			n++
		}
	}
	return n
}

func (b *Book) counters(hub string) counters {
	if c := b.kept.Hubs[hub]; c != nil {
		return *c
	}
	return counters{}
}

// Hold returns an open hold by id.
func (b *Book) Hold(id string) (Hold, bool) {
	k, ok := b.key(id)
	if !ok {
		return Hold{}, false
	}
	h := b.open[k]
	if h == nil {
		return Hold{}, false
	}
	return *h, true
}

// Ended reports how a hold ended, KindCapture or KindVoid, while it is remembered; else 0.
func (b *Book) Ended(id string) Kind {
	if k, ok := b.key(id); ok {
		return b.kept.Ended.Of[k].Kind
	}
	return 0
}

// OpenCount is the number of open holds.
func (b *Book) OpenCount() int { return len(b.open) }

// Balances returns the accounts whose names match glob ("" or "*": all), sorted by name.
func (b *Book) Balances(glob string) []Balance {
	var all []Balance
	for name, a := range b.Accounts {
		if match(glob, name) {
			all = append(all, Balance{name, *a})
		}
	}
	slices.SortFunc(all, func(x, y Balance) int { return cmp.Compare(x.Account, y.Account) })
	return all
}

// namesOf returns a client's or agent's account names; they are kept only for whom has money here.
func (b *Book) namesOf(id string) *names {
	n := b.names[id]
	if n == nil {
		n = &names{id: id}
		if b.Accounts[Avail(id)] != nil || b.Accounts[Payable(id)] != nil {
			b.names[id] = n
		}
	}
	return n
}
