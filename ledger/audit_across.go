package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"souk/bus/tip"
	"souk/market"
)

// move is a numbered transfer, in 24 bytes.
type move struct {
	client string
	amount market.Credits
}

// moves are the numbered transfers of one journal, by hub, each list in the order of its numbers: the
// treasury's grants, reclaims and orders, or a hub's accepts, returns and orders.
type moves struct {
	in, out map[string][]move // money to the hub, and from it
	orders  map[string][]move
}

func (m *moves) note(t *Transfer, kind Kind) {
	var to map[string][]move
	switch kind {
	case KindGrant, KindAccept:
		to = m.in
	case KindReturn, KindReclaim:
		to = m.out
	case KindDistribute, KindRemit, KindRefund:
		m.orders[t.Hub] = append(m.orders[t.Hub], move{t.of(kind), t.Amount})
		return
	default:
		return
	}
	to[t.Hub] = append(to[t.Hub], move{t.Client, t.Amount})
}

// of names an order's kind and whom it concerns, and by a checksum all else that was said.
func (t *Transfer) of(kind Kind) string {
	who := t.Client
	if t.Order != nil && t.Order.Agent != "" {
		who += " " + t.Order.Agent + " " + t.Order.Ref
	}
	return fmt.Sprintf("%s %s (%.8s)", kind, who, tip.SumOf(appendSaid(nil, t.Order)))
}

// Mark notes how far a hub's journal has come, for Across.
func (a *Audit) Mark() {
	known, _ := a.book.Marked(Treasury)
	a.marked = &mark{accepted: len(a.moves.in[a.journal()]), paid: maps.Clone(a.paid), treasurys: known}
}

// mark is a hub's journal at one moment.
type mark struct {
	accepted  int
	paid      map[string]market.Credits
	treasurys tip.Mark // as noted there
}

// Witness says how far a journal was, as another journal has noted.
type Witness struct {
	Of, By string
	Mark   tip.Mark
}

// Witnesses lists what the journals of a market have noted of one another, but for those written off. They
// are read in the order that [Across] wants.
func Witnesses(treasury *Audit, hubs []*Audit) (all []Witness) {
	for _, h := range hubs {
		if treasury.book.WrittenOff(h.journal()) {
			continue
		}
		if m, n := treasury.book.Marked(h.journal()); n > 0 {
			all = append(all, Witness{h.journal(), treasury.journal(), m})
		}
		if h.marked != nil && !h.marked.treasurys.Zero() {
			all = append(all, Witness{treasury.journal(), h.journal(), h.marked.treasurys})
		}
	}
	return all
}

// Doubt compares what was noted of the journal with what it is; here is the checksum of the frame that is
// named, zero if there is none. It is nil if the journal can be the one that was written last.
func (a *Audit) Doubt(w Witness, here tip.Sum) *Finding {
	last, _, _ := a.book.Last()
	why := Doubt(a.book.ID(), last, here, w.Mark)
	if why == "" {
		return nil
	}
	return &Finding{Level: LevelAcross, Invariant: "I13", Journal: w.Of,
		Expected: fmt.Sprintf("%s, as %s has noted", w.Mark, w.By), Found: why,
		Show: fmt.Sprintf("ledger print --journal %s --kind mark", w.By)}
}

// Across compares the journals of one market (level 5): every accept has its grant, every reclaim its return,
// each with the same client and amount, and no client was charged more than its hubs were allotted.
//
// Journals that are being written cannot be read at one moment. So: read the hubs and Mark each; then read
// the treasury; then read the hubs' new frames. What was accepted or charged at the mark must have been
// granted by the time that the treasury was read, and what was reclaimed by then must have been returned by
// now.
func Across(treasury *Audit, hubs []*Audit) []Finding {
	var out []Finding
	add := func(invariant, journal, record, expected, format string, args ...any) {
		out = append(out, Finding{Level: LevelAcross, Invariant: invariant, Journal: journal, Seq: 0,
			Record: record, Expected: expected,
			Found: fmt.Sprintf(format, args...),
			Show:  fmt.Sprintf("ledger print --journal %s --id %s", journal, record)})
	}
	t := &treasury.moves
	charged, all := map[string]market.Credits{}, map[string]market.Credits{}
	names := map[string]bool{}
	for _, h := range hubs {
		name := h.journal()
		if names[name] {
			add("I7", name, name, "one journal of this name", "another: one of them is a copy")
			continue
		}
		names[name] = true
		if treasury.book.WrittenOff(name) { // it is back all the same, and counts for nothing
			continue
		}
		m := &h.moves
		if h.marked == nil {
			h.Mark()
		}
		for _, way := range []struct {
			journal     string // that took it
			kind        Kind
			sent, taken []move
			by, did     string
			known       int // of taken, those that must have been sent by now
		}{{name, KindAccept, t.in[name], m.in[name], Treasury, "granted", h.marked.accepted},
			{treasury.journal(), KindReclaim, m.out[name], t.out[name], "hub", "returned", len(t.out[name])},
			{treasury.journal(), KindDistribute, m.orders[name], t.orders[name], "hub", "made orders",
				len(t.orders[name])}} {
			for i, got := range way.taken {
				kind := way.kind.String()
				if way.kind == KindDistribute { // any order
					kind, _, _ = strings.Cut(got.client, " ")
				}
				want := fmt.Sprintf("a transfer of the %s, which has %s %d times", way.by, way.did,
					len(way.sent))
				switch {
				case i < len(way.sent) && got == way.sent[i], i >= len(way.sent) && i >= way.known:
					continue
				case i < len(way.sent):
					want = fmt.Sprintf("%s of %s, as %s", way.sent[i].amount, way.sent[i].client, way.did)
				}
				add("I11", way.journal, numbered(name, kind, uint64(i+1)), want, "%s of %s",
					got.amount, got.client)
			}
		}
		in, out, given := len(m.in[name]), len(m.out[name]), len(m.orders[name])
		if treasury.book.Closed(name) &&
			(in != len(t.in[name]) || out != len(t.out[name]) || given != len(t.orders[name])) {
			add("I11", treasury.journal(), name+"/close", fmt.Sprintf(
				"nothing in flight: %d grants, %d returns and %d orders in the hub's journal",
				len(t.in[name]), len(t.out[name]), len(t.orders[name])), "%d, %d and %d", in, out, given)
		}
		for client, paid := range h.paid {
			all[client] += paid + h.back[client]
		}
		for client, paid := range h.marked.paid {
			charged[client] += paid
		}
	}
	for _, c := range slices.Sorted(maps.Keys(charged)) {
		if allotted := treasury.book.Allotted(c, ""); charged[c] > allotted {
			add("I18", treasury.journal(), Prepaid(c),
				fmt.Sprintf("charges of at most %s, what hubs were allotted", allotted), "%s", charged[c])
			out[len(out)-1].Show = fmt.Sprintf("ledger reg %s --journal %s", Prepaid(c), treasury.journal())
		}
	}
	if len(Absent(treasury, hubs)) == 0 { // else nobody knows what was charged
		overspent(treasury, all, add)
	}
	return out
}

// firstOrder is the id of the first of a hub's orders.
func firstOrder(hub string, orders []move) string {
	kind, _, _ := strings.Cut(orders[0].client, " ")
	return numbered(hub, kind, 1)
}

// Absence is a journal that is missing here, although another journal names it.
type Absence struct {
	Journal string // that is not here
	By      string // the journal that names it
	Record  string // by which
	Did     string // in words
}

// Absent lists the journals, by name, that those here name and that are missing. Nobody can say what became
// of the money that went there. treasury may be nil.
func Absent(treasury *Audit, hubs []*Audit) (all []Absence) {
	if treasury == nil {
		for _, h := range hubs {
			name, m := h.journal(), &h.moves
			switch {
			case len(m.in[name]) > 0:
				all = append(all,
					Absence{Treasury, name, numbered(name, KindAccept.String(), 1),
						fmt.Sprintf("took in %d of its grants", len(m.in[name]))})
			case len(m.orders[name]) > 0:
				all = append(all,
					Absence{Treasury, name, firstOrder(name, m.orders[name]), "commanded its orders"})
			}
		}
		return all
	}
	seen := map[string]bool{}
	for _, h := range hubs {
		seen[h.journal()] = true
	}
	for _, name := range treasury.book.Missing() {
		seen[name] = true // lost, and counted as that
	}
	t := &treasury.moves
	for _, way := range []struct {
		to   map[string][]move
		kind Kind
		did  string
	}{{t.in, KindGrant, "granted it money %d times"}, {t.out, KindReclaim, "took in %d of its returns"},
		{t.orders, KindDistribute, "took in %d orders that it made"}} {
		for name, list := range way.to {
			if !seen[name] {
				seen[name] = true
				record := numbered(name, way.kind.String(), 1)
				if way.kind == KindDistribute {
					record = firstOrder(name, list)
				}
				all = append(all, Absence{name, treasury.journal(), record, fmt.Sprintf(way.did, len(list))})
			}
		}
	}
	slices.SortFunc(all, func(x, y Absence) int { return strings.Compare(x.Journal, y.Journal) })
	return all
}

// Finding is the absence as a violation (level 5).
func (x Absence) Finding() Finding {
	found := fmt.Sprintf("no journal of that name: it is missing, or another machine keeps it (--elsewhere "+
		"%s)",
		x.Journal)
	if x.Journal != Treasury {
		found += fmt.Sprintf("; one that is lost for good is written off: souk writeoff %s "+
			"(deploy/runbook.md: a hub's journal is lost)", x.Journal)
	}
	return Finding{Level: LevelAcross, Invariant: "I11", Journal: x.By, Record: x.Record,
		Expected: fmt.Sprintf("the journal %s beside this one, which %s", x.Journal, x.Did),
		Found:    found,
		Show:     fmt.Sprintf("ledger print --journal %s --id %s", x.By, x.Record)}
}
