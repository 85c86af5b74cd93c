package ledger

import (
	"slices"
	"time"

	"souk/bus/tip"
	"souk/market"
)

// What clients' tasks came to is summed up by day, key, model and tags, so that each can be told. Every
// capture counts once, in the frame that has it, by that frame's time: whoever reads the journal has the same
// sums, after a restart too.
const (
	// mostUses bounds the sums of one client, and allUses those of all. Where there would be more, those of
	// the oldest day go; of today alone, what is beyond is one sum for each key.
	mostUses = 2048
	allUses  = 1 << 16
	useDays  = 62 // that are kept
)

// uses are the sums of one client.
type uses struct {
	Since int64 // the first day of which everything is there; 0: from the beginning on
	First int64 // the oldest day of a sum
	Sums  map[useOf]*tip.Use
}

type useOf struct {
	Day              int64
	Key, Model, Tags string
}

// used is a capture that is yet to be summed up.
type used struct {
	client string
	use    tip.Use
	card   market.Credits // for [Usual], where it counts
	counts bool
}

// useBy returns what a capture adds.
func useBy(h *Hold, c *Capture) used {
	return used{client: h.Client, use: tip.Use{Key: h.Key, Model: h.Model, Tags: h.Tags, Tasks: 1,
		Prompt: int64(c.Usage.Prompt), Cached: int64(c.Usage.Cached), Output: int64(c.Usage.Output),
		Cost: c.Cost, Paid: c.Cost + h.Due(c)}}
}

// backBy returns what a refund takes back, in the journal of the hub that makes it.
func backBy(t *Transfer) used {
	c := t.Order.Capture
	return used{client: t.Client, use: tip.Use{Key: c.APIKey, Model: c.Model, Tags: c.Tags,
		Refunded: t.Amount}}
}

// tally sums up the captures of a frame that is whole.
func (b *Book) tally() {
	day := b.head.Time / int64(24*time.Hour)
	for i := range b.used {
		u := &b.used[i]
		of := b.kept.Uses[u.client]
		if of == nil {
			of = &uses{First: day, Sums: map[useOf]*tip.Use{}}
			b.kept.Uses[u.client] = of
		}
		k := useOf{day, u.use.Key, u.use.Model, u.use.Tags}
		if of.Sums[k] == nil {
			k = b.room(of, k)
		}
		sum := of.Sums[k]
		if sum == nil {
			sum = &tip.Use{Day: day, Key: k.Key, Model: k.Model, Tags: k.Tags}
			of.Sums[k] = sum
			b.allUsed++
		}
		sum.Add(&u.use)
	}
	clear(b.used)
	b.used = b.used[:0]
}

// room makes room for one more sum, or returns the one that takes what has none.
func (b *Book) room(of *uses, k useOf) useOf {
	for of.First <= k.Day-useDays || len(of.Sums) >= mostUses && of.First < k.Day {
		b.shorten(of, k.Day)
	}
	if b.allUsed >= allUses {
		for _, other := range b.kept.Uses { // all alike, so that nobody's order counts
			b.shorten(other, k.Day)
		}
	}
	if len(of.Sums) >= mostUses || b.allUsed >= allUses {
		return useOf{k.Day, k.Key, "", tip.Rest}
	}
	return k
}

// shorten drops the sums of a client's oldest day, but never today's.
func (b *Book) shorten(of *uses, today int64) {
	if of.First >= today {
		return
	}
	old := of.First
	of.Since, of.First = old+1, today
	for k := range of.Sums {
		switch {
		case k.Day == old:
			delete(of.Sums, k)
			b.allUsed--
		default:
			of.First = min(of.First, k.Day)
		}
	}
}

// Uses returns what a client's tasks came to, with one key or, for "", with any, from a day on. since is the
// first day of which that is everything; 0: it is all that was asked for. Where it would be too long, tags
// are not told apart, and then the oldest days are left out.
func (b *Book) Uses(client, key string, from int64) (all []tip.Use, since int64) {
	of := b.kept.Uses[client]
	if of == nil || from <= 0 {
		return nil, 0
	}
	for k, sum := range of.Sums {
		if k.Day >= from && (key == "" || k.Key == key) {
			all = append(all, *sum)
		}
	}
	slices.SortFunc(all, tip.CompareUse)
	if first(all, tip.MostUses) > 0 {
		all = untagged(all)
	}
	cut := first(all, tip.MostUses)
	if since = of.Since; since <= from {
		since = 0
	}
	if cut > 0 {
		since = all[cut-1].Day + 1
		all = slices.DeleteFunc(all[cut:], func(u tip.Use) bool { return u.Day < since })
	}
	return all, since
}

// first returns the index from which on sums take so many bytes at most.
func first(all []tip.Use, most int) int {
	for i := len(all) - 1; i >= 0; i-- {
		if most -= all[i].Size(); most < 0 {
			return i + 1
		}
	}
	return 0
}

// untagged adds up sums, in order, that differ by their tags alone.
func untagged(all []tip.Use) (out []tip.Use) {
	for _, u := range all {
		u.Tags = tip.Rest
		if n := len(out); n > 0 && tip.CompareUse(out[n-1], u) == 0 {
			out[n-1].Add(&u)
		} else {
			out = append(out, u)
		}
	}
	return out
}

// restored counts what a snapshot has of it, and reports whether that can be.
func (b *Book) restored() bool {
	b.allUsed = 0
	for client, of := range b.kept.Uses {
		if of == nil || !ValidID(client) {
			return false
		}
		for k, sum := range of.Sums {
			if sum == nil || sum.Tasks < 0 || sum.Tasks == 0 && sum.Refunded == 0 || sum.Refunded < 0 ||
				sum.Paid < 0 || sum.Paid < sum.Cost || k.Day != sum.Day {
				return false
			}
		}
		b.allUsed += len(of.Sums)
	}
	return true
}
