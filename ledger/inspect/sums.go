package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// Period is a span of time: From belongs to it, To does not. A zero bound is none.
type Period struct {
	From, To time.Time
	Zone     *time.Location // whose days and months count
}

// Bounds returns the period in Unix nanoseconds, of which there are enough from 1677 to 2262: a bound before
// that is the first of them, and one after it the last.
func (p *Period) Bounds() (from, to int64) {
	first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	nanos := func(t, none time.Time) int64 {
		switch {
		case t.IsZero():
			t = none
		case t.Before(first):
			t = first
		case t.After(last):
			t = last
		}
		return t.UnixNano()
	}
	return nanos(p.From, first), nanos(p.To, last)
}

// Sums say which payments are summed up, and what they are told apart by.
type Sums struct {
	Period
	Earned bool // what agents got, and not what clients spent
	// Only payments of one of each of these; nil: of any
	Clients, Agents, Models, Keys []string
	Tags                          []bus.Tag // each of them; a Value of "" is any
	By                            []string  // of Parts, or "tag:" and a tag's name

	Missing []string // found by Sum: hubs that a treasury has granted money, and whose journals are not here
}

// Parts lists what sums are told apart by.
var Parts = []string{"client", "agent", "model", "key", "day", "month"}

// mostParts bounds what sums are told apart by.
const mostParts = 8

// Sum is the sum of a group.
type Sum struct {
	Of []string // its names, as By has them
	tip.Use
	// of an agent: its shares of surplus, and what was remitted to it
	Surplus, Remitted market.Credits
}

// MostGroups bounds the groups of sums.
const MostGroups = 1 << 20

// summing adds up.
type summing struct {
	*Sums
	from, to int64
	groups   map[[mostParts]string]*Sum
	last     [mostParts]string
	sum      *Sum            // of that
	day      span            // the last moment's, or its month
	tags     map[string]bool // whether tags, as they are kept, fit

	asked []asked
}

// asked is a name that is asked for, and whether it is known.
type asked struct {
	part, name string
	known      bool
	alike      string // a name that is known, and differs by case alone
}

// span is a day or month.
type span struct {
	name     string
	from, to int64
}

// Sum adds up what journals say, in order of the groups' names. What it keeps grows with groups and open
// holds alone. Of a hub's journal it reads what is of the time, and more where a name is found nowhere there.
func (q *Sums) Sum(ctx context.Context, sources []*Source) ([]Sum, error) {
	s := &summing{Sums: q, groups: map[[mostParts]string]*Sum{}, tags: map[string]bool{}}
	s.from, s.to = q.Bounds()
	if err := q.valid(); err != nil {
		return nil, err
	}
	for _, x := range []struct {
		part  string
		names []string
	}{{"client", q.Clients}, {"agent", q.Agents}, {"model", q.Models}, {"key", q.Keys}} {
		for _, name := range x.names {
			s.asked = append(s.asked, asked{part: x.part, name: name})
		}
	}
	read := func(from, to int64) error {
		for _, src := range sources {
			s.day = span{}
			since := from
			if src.Role == ledger.RoleTreasury {
				since = math.MinInt64
			}
			if err := src.Briefly(ctx, since, to, func(f *ledger.Fact) error {
				if f.Record.Kind == ledger.KindGrant {
					q.lacks(f.Record.Transfer.Hub, sources)
				}
				return s.add(f)
			}); err != nil {
				return err
			}
		}
		return nil
	}
	unknown := func(x asked) bool { return !x.known }
	err := read(s.from, s.to)
	if err == nil && slices.ContainsFunc(s.asked, unknown) {
		err = read(math.MinInt64, s.from)
	}
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(s.asked, unknown); i >= 0 {
		return nil, s.asked[i].unknown()
	}
	out := make([]Sum, 0, len(s.groups))
	for _, k := range slices.SortedFunc(maps.Keys(s.groups), func(a, b [mostParts]string) int {
		return slices.Compare(a[:], b[:])
	}) {
		out = append(out, *s.groups[k])
	}
	return out, nil
}

// lacks notes a hub whose journal is not here.
func (q *Sums) lacks(hub string, sources []*Source) {
	is := func(s *Source) bool { return s.Name == hub }
	if !slices.Contains(q.Missing, hub) && !slices.ContainsFunc(sources, is) {
		q.Missing = append(q.Missing, strings.Clone(hub))
	}
}

func (q *Sums) valid() error {
	if len(q.By) == 0 || len(q.By) > mostParts {
		return fmt.Errorf("--by names %d parts: take 1 to %d", len(q.By), mostParts)
	}
	for i, part := range q.By {
		if name, ok := strings.CutPrefix(part, "tag:"); !slices.Contains(Parts, part) && (!ok || name == "") {
			return fmt.Errorf("--by %.80q: take %s, and tag:NAME", part, strings.Join(Parts, ", "))
		}
		if slices.Contains(q.By[:i], part) {
			return fmt.Errorf("--by names %s twice", part)
		}
	}
	if slices.Contains(q.By, "day") && slices.Contains(q.By, "month") {
		return errors.New("--by day,month: a day says its month: take one of them")
	}
	return nil
}

// add takes in a fact.
func (s *summing) add(f *ledger.Fact) error {
	client, agent, use, ok := f.Use()
	t := f.Record.Transfer
	switch {
	case ok && s.Earned && t != nil && t.Order.From != tip.FromAgent: // the agent keeps it
		return nil
	case ok:
		return s.take(f.Time, client, agent, &Sum{Use: use})
	case t == nil:
		return nil
	}
	s.named("client", t.Client)
	if !s.Earned || f.Record.Kind != ledger.KindRemit && f.Record.Kind != ledger.KindDistribute {
		return nil
	}
	for _, l := range f.Record.Legs {
		agent, of := strings.CutPrefix(l.Account, "agent:")
		x := &Sum{Surplus: l.Amount}
		if f.Record.Kind == ledger.KindRemit {
			x = &Sum{Remitted: -l.Amount}
		}
		if of {
			if err := s.take(f.Time, "", strings.TrimSuffix(agent, ":payable"), x); err != nil {
				return err
			}
		}
	}
	return nil
}

// take takes in what is of a client and an agent.
func (s *summing) take(at int64, client, agent string, x *Sum) error {
	use := &x.Use
	fits := s.one("client", s.Clients, client)
	fits = s.one("agent", s.Agents, agent) && fits
	fits = s.one("model", s.Models, use.Model) && fits
	fits = s.one("key", s.Keys, use.Key) && fits
	if !fits || at < s.from || !s.tagged(use.Tags) {
		return nil
	}
	var k [mostParts]string
	for i, part := range s.By {
		switch part {
		case "client":
			k[i] = client
		case "agent":
			k[i] = agent
		case "model":
			k[i] = use.Model
		case "key":
			k[i] = use.Key
		case "day", "month":
			k[i] = s.at(at, part)
		default:
			k[i] = tagOf(use.Tags, part[len("tag:"):])
		}
	}
	if s.sum == nil || k != s.last {
		if s.sum = s.groups[k]; s.sum == nil {
			if len(s.groups) == MostGroups {
				return fmt.Errorf("more than %d rows: tell apart by less, or choose a shorter time", MostGroups)
			}
			for i := range k { // which are part of what is read
				k[i] = strings.Clone(k[i])
			}
			s.sum = &Sum{Of: slices.Clone(k[:len(s.By)])}
			s.groups[k] = s.sum
		}
		s.last = k
	}
	return s.sum.Add(x)
}

// Add adds another sum, unless that would leave 64 bits.
func (s *Sum) Add(u *Sum) error {
	counts := [...]*int64{&s.Tasks, &s.Prompt, &s.Cached, &s.Output}
	for i, x := range [...]int64{u.Tasks, u.Prompt, u.Cached, u.Output} {
		if err := Add((*market.Credits)(counts[i]), market.Credits(x)); err != nil {
			return err
		}
	}
	return cmp.Or(Add(&s.Cost, u.Cost), Add(&s.Paid, u.Paid), Add(&s.Refunded, u.Refunded),
		Add(&s.Surplus, u.Surplus), Add(&s.Remitted, u.Remitted))
}

// at names the day or month of a moment. Those of a journal never fall.
func (s *summing) at(nanos int64, part string) string {
	if nanos < s.day.from || nanos >= s.day.to {
		t := time.Unix(0, nanos).In(s.Zone)
		y, m, d := t.Date()
		name, next := time.DateOnly, d+1
		if part == "month" {
			name, d, next = "2006-01", 1, 1
			m++
		}
		end := time.Date(y, m, next, 0, 0, 0, 0, s.Zone)
		s.day = span{t.Format(name), nanos, end.UnixNano()}
	}
	return s.day.name
}

// one reports whether a name is one that is asked for, and notes that it is known.
func (s *summing) one(part string, names []string, name string) bool {
	if names == nil {
		return true
	}
	s.named(part, name)
	return slices.Contains(names, name)
}

func (s *summing) named(part, name string) {
	for i := range s.asked {
		if x := &s.asked[i]; !x.known && x.part == part {
			if x.known = x.name == name; strings.EqualFold(x.name, name) {
				x.alike = strings.Clone(name)
			}
		}
	}
}

func (x *asked) unknown() error {
	err := fmt.Errorf("no journal here names %s %.80q in that time or before", x.part, x.name)
	if x.alike != "" {
		err = fmt.Errorf("%w: there is %s, which is another", err, x.alike)
	}
	return err
}

// tagged reports whether tags, as they are kept, are those that are asked for.
func (s *summing) tagged(kept string) bool {
	if len(s.Tags) == 0 {
		return true
	}
	fits, ok := s.tags[kept]
	if ok {
		return fits
	}
	if len(s.tags) >= 1<<16 {
		clear(s.tags)
	}
	all := bus.ReadTags(kept)
	fits = !slices.ContainsFunc(s.Tags, func(want bus.Tag) bool {
		return !slices.ContainsFunc(all, func(has bus.Tag) bool {
			return has.Name == want.Name && (want.Value == "" || has.Value == want.Value)
		})
	})
	s.tags[strings.Clone(kept)] = fits
	return fits
}

// tagOf returns the value of a tag.
func tagOf(kept, name string) string {
	for _, t := range bus.ReadTags(kept) {
		if t.Name == name {
			return t.Value
		}
	}
	return ""
}
