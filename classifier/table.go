package classifier

import (
	"slices"
	"strings"
	"time"

	"souk/bus"
)

// Hub is the door's view of one hub: its entry in the registry and its last status.
type Hub struct {
	Entry  bus.HubEntry
	Epoch  int64       // create revision of its key: a later leader's is higher
	Status *bus.Status // nil until it has spoken in this epoch
	Heard  time.Time   // when it last spoke, or was first seen in the registry
}

// Table is the hubs of the market, sorted by domain. A Table never changes: each piece of news makes a new
// one, so that any number of tasks read it without a lock.
type Table struct {
	Hubs []Hub      // by domain; they belong to the table
	left []departed // hubs that led a domain of late, and lead none now
	sold []sold     // models that hubs sold of late, and no longer do, or may not
}

// sold is a model that a hub said it sells, and when that ended.
type sold struct {
	model string
	at    time.Time
}

const (
	// soldFor is how long a model counts as sold after the last hub stopped selling it: its agents may have
	// been stopped to start anew, and large models take minutes for that.
	soldFor = 10 * time.Minute
	// maxSold bounds the models remembered; the latest stay.
	maxSold = 64
)

// unsold notes what a hub sold by the one status and does not sell by the other, its next or nil.
func unsold(s []sold, was, is *bus.Status, now time.Time) []sold {
	if was == nil {
		return s
	}
	own := false // what other tables share is not written
	for i := range was.Models {
		name := was.Models[i].Model
		if is != nil && slices.ContainsFunc(is.Models,
			func(m bus.ModelStatus) bool { return m.Model == name }) {
			continue
		}
		if !own {
			s, own = slices.Clone(s), true
		}
		s = slices.DeleteFunc(s, func(o sold) bool { return o.model == name || now.Sub(o.at) > soldFor })
		s = append(s, sold{name, now})
		s = s[max(0, len(s)-maxSold):]
	}
	return s
}

// wasSold returns how long ago a model was last sold that nobody sells now: until its hub stopped, or fell
// silent.
func (t *Table) wasSold(c *Config, model string, now time.Time) (ago time.Duration, was bool) {
	latest := func(at time.Time) {
		if d := now.Sub(at); d <= soldFor && (!was || d < ago) {
			ago, was = max(0, d), true
		}
	}
	for _, s := range t.sold {
		if s.model == model {
			latest(s.at)
		}
	}
	for i := range t.Hubs {
		if h := &t.Hubs[i]; h.Status != nil && !h.fresh(c, now) && slices.ContainsFunc(h.Status.Models,
			func(m bus.ModelStatus) bool { return m.Model == model }) {
			latest(h.Heard)
		}
	}
	return ago, was
}

// departed is a hub, by its journal, that the registry names no more.
type departed struct {
	journal string
	at      time.Time // by when it had left
	unseen  bool      // the registry alone remembers it: this door did not see it leave
}

// leftFor is how long a hub that left counts: it may have a task whose reader asks another door, which
// readers do at most so long after they have sent it.
const leftFor = 7 * time.Minute

// Misses reports whether a hub has left that may have a task which was first sent then, or later, and cannot
// be asked.
func (t *Table) Misses(now, first time.Time) bool {
	return slices.ContainsFunc(t.left, func(d departed) bool {
		return (d.unseen || now.Sub(d.at) <= leftFor) && !d.at.Before(first)
	})
}

// leaves notes a hub that the registry does not name any more. It is known for as long as the registry may
// remember it.
func leaves(left []departed, h *Hub, now time.Time) []departed {
	left = slices.DeleteFunc(slices.Clone(left), func(d departed) bool {
		return d.journal == h.Entry.Journal || !d.unseen && now.Sub(d.at) > bus.LedFor+bus.LedEvery
	})
	return append(left, departed{journal: h.Entry.Journal, at: now})
}

// WithLed returns a table with a hub that the registry remembers: one that leads, or has led of late. The
// door's own record of it stays.
func (t *Table) WithLed(journal string, now time.Time) *Table {
	if slices.ContainsFunc(t.Hubs, func(h Hub) bool { return h.Entry.Journal == journal }) ||
		slices.ContainsFunc(t.left, func(d departed) bool { return d.journal == journal }) {
		return t
	}
	return &Table{t.Hubs, append(slices.Clone(t.left), departed{journal, now, true}), t.sold}
}

// Whole returns a table of which every hub that the registry names has been told: what else the registry
// remembers has left.
func (t *Table) Whole(now time.Time) *Table {
	left := slices.Clone(t.left)
	for i := range left {
		if left[i].unseen {
			left[i].at = now
		}
	}
	return &Table{t.Hubs, left, t.sold}
}

// WithoutLed returns a table without a hub that the registry no longer remembers, unless this door has seen
// it leave.
func (t *Table) WithoutLed(journal string) *Table {
	return &Table{t.Hubs, slices.DeleteFunc(slices.Clone(t.left),
		func(d departed) bool { return d.journal == journal && d.unseen }), t.sold}
}

// Hub returns the hub of a domain, if the registry names one.
func (t *Table) Hub(domain string) (Hub, bool) {
	i, found := t.find(domain)
	if !found {
		return Hub{}, false
	}
	return t.Hubs[i], true
}

// Heard is the last status of a hub that was heard; the zero value: none.
func (t *Table) LastStatus(domain string) (h bus.LastStatus) {
	if i, found := t.find(domain); found && t.Hubs[i].Status != nil {
		h.Epoch, h.Seq = t.Hubs[i].Epoch, t.Hubs[i].Status.Seq
	}
	return h
}

// HasHeard reports whether a table has a status of each hub that has one in a later table, of the same
// leader.
func (t *Table) HasHeard(later *Table) bool {
	for i := range later.Hubs {
		h := &later.Hubs[i]
		if h.Status != nil && t.LastStatus(h.Entry.Domain).Epoch != h.Epoch {
			return false
		}
	}
	return true
}

func (t *Table) find(domain string) (int, bool) {
	return slices.BinarySearchFunc(t.Hubs, domain,
		func(h Hub, d string) int { return strings.Compare(h.Entry.Domain, d) })
}

// WithEntry returns a table with a hub as the registry names it. A new leader starts without a status.
func (t *Table) WithEntry(e bus.HubEntry, epoch int64, now time.Time) *Table {
	i, found := t.find(e.Domain)
	hubs := slices.Clone(t.Hubs)
	if !found {
		hubs = slices.Insert(hubs, i, Hub{})
	}
	left := t.left
	if found && hubs[i].Entry.Journal != e.Journal {
		left = leaves(left, &hubs[i], now)
	}
	left = slices.DeleteFunc(slices.Clone(left), func(d departed) bool { return d.journal == e.Journal })
	sold := t.sold
	if !found || hubs[i].Epoch != epoch {
		sold = unsold(sold, hubs[i].Status, nil, now)
		hubs[i].Status, hubs[i].Heard = nil, now
	}
	hubs[i].Entry, hubs[i].Epoch = e, epoch
	return &Table{hubs, left, sold}
}

// Without returns a table that lacks a domain.
func (t *Table) Without(domain string, now time.Time) *Table {
	i, found := t.find(domain)
	if !found {
		return t
	}
	return &Table{slices.Delete(slices.Clone(t.Hubs), i, i+1), leaves(t.left, &t.Hubs[i], now),
		unsold(t.sold, t.Hubs[i].Status, nil, now)}
}

// WithStatus returns a table with what a hub says of itself. What comes from nobody in the registry, from
// another than its leader, or out of order changes nothing.
func (t *Table) WithStatus(st *bus.Status, now time.Time) *Table {
	i, found := t.find(st.Domain)
	if !found || st.Epoch != t.Hubs[i].Epoch { // a leader that the registry has not named yet speaks again
		return t
	}
	if old := t.Hubs[i].Status; old != nil && !bus.Later(old.Seq, t.Hubs[i].Heard, st.Seq, now) {
		return t
	}
	hubs := slices.Clone(t.Hubs)
	hubs[i].Status, hubs[i].Heard = st, now
	return &Table{hubs, t.left, unsold(t.sold, t.Hubs[i].Status, st, now)}
}
