package inspect

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// Whatever sums are of and told apart by, they are what naive lists of the payments come to, and sums of all
// payments are what the books have.
func TestSumsAreWhatWasPaid(t *testing.T) {
	zones := []*time.Location{time.UTC, time.FixedZone("", -5*3600), berlin(t)}
	rows := 0
	// In the first market nothing was ever paid, while only who came first in a list could be awarded a slot.
	for _, seed := range []uint64{2937620295867983594, rand.Uint64(), rand.Uint64()} {
		t.Logf("seed %d", seed)
		f := newFair(t, seed, 400)
		dir := f.data()
		for range 12 {
			q := Sums{Period: Period{Zone: pick(f, zones)}, Earned: f.rng.IntN(3) == 0}
			for _, part := range append(slices.Clone(Parts), "tag:user", "tag:team") {
				if f.rng.IntN(3) == 0 && !(part == "month" && slices.Contains(q.By, "day")) {
					q.By = append(q.By, part)
				}
			}
			if len(q.By) == 0 {
				q.By = []string{"agent"}
			}
			some := func(all []string) []string {
				if f.rng.IntN(3) > 0 {
					return nil
				}
				return all[:1+f.rng.IntN(len(all))]
			}
			x := pick(f, f.paid)
			q.Clients, q.Agents = some([]string{x.client, "bob"}), some([]string{x.agent})
			q.Models, q.Keys = some([]string{x.model}), some([]string{x.key, "k1"})
			if len(x.tags) > 0 && f.rng.IntN(3) == 0 {
				q.Tags = []bus.Tag{pick(f, x.tags)}
				q.Tags[0].Value = pick(f, []string{"", q.Tags[0].Value})
			}
			if f.rng.IntN(2) == 0 {
				q.From = pick(f, f.paid).at
			}
			if f.rng.IntN(2) == 0 {
				q.To = pick(f, f.paid).at
			}
			got, err := q.Sum(t.Context(), sourcesOf(t, dir))
			if err != nil && strings.Contains(err.Error(), "no journal here names") {
				continue // before To
			}
			if err != nil {
				t.Fatal(err)
			}
			want := naive(f.paid, &q)
			var have []string
			for _, s := range got {
				have = append(have, fmt.Sprint(s.Of, s.Tasks, s.Prompt, s.Cached, s.Output, s.Cost, s.Paid,
					s.Refunded, s.Remitted))
			}
			if !reflect.DeepEqual(have, want) {
				t.Fatalf("%+v:\n got %q\nwant %q", q, have, want)
			}
			rows += len(got)
		}
		q := Sums{Period: Period{Zone: time.UTC}, By: []string{"client"}}
		all, err := q.Sum(t.Context(), sourcesOf(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		var spent, booked market.Credits
		for _, s := range all {
			spent += s.Paid - s.Refunded
			var uses market.Credits
			for _, w := range f.hubs {
				sums, _ := w.book.Uses(s.Of[0], "", 1)
				for i := range sums {
					uses += sums[i].Paid - sums[i].Refunded
				}
			}
			if uses != s.Paid-s.Refunded {
				t.Errorf("%s: the hubs say %s, and the journals %s", s.Of[0], uses, s.Paid-s.Refunded)
			}
		}
		for _, w := range f.hubs {
			for _, b := range w.book.Balances("*") {
				if b.Account == ledger.Surplus || b.Account == ledger.Fee ||
					strings.HasPrefix(b.Account, "agent:") {
					booked += b.Amount
				}
			}
		}
		f.owed(dir)
		if booked += f.remitted + f.left; spent != booked || spent == 0 {
			t.Errorf("%s was spent, and %s went to agents, surplus and fees", spent, booked)
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows were compared", rows)
	}
}

// Sums over a day read the segments of that day, and of those before it what has holds that end there: one
// that began with the journal is found where it is.
func TestSumsReadWhatIsOfTheirTime(t *testing.T) {
	f := newFair(t, 10, 0)
	w := f.hubs[0]
	f.write(w, ledger.NewAccept(w.name, 1, "ann", 5*market.Credit, f.nextSalt()))
	f.round(w)
	old := w.holds[0]
	for range 160 {
		f.now = f.now.Add(time.Hour)
		f.round(w)
		for w.holds = w.holds[1:]; len(w.holds) > 0; {
			f.end(w)
		}
		w.holds = []ledger.Hold{old}
	}
	f.now = f.now.AddDate(0, 0, 1)
	day := f.now
	for f.round(w); len(w.holds) > 0; {
		f.end(w)
	}
	dir := f.data()
	sum := func(from time.Time, clients ...string) (rows []Sum, read int, err error) {
		all := sourcesOf(t, dir)
		for _, s := range all {
			s.Progress = func(bytes int) { read += bytes }
		}
		q := Sums{Period: Period{From: from, Zone: time.UTC}, By: []string{"client", "key"}, Clients: clients}
		rows, err = q.Sum(t.Context(), all)
		return rows, read, err
	}
	_, all, err := sum(time.Time{})
	if err != nil || all < 20<<20 {
		t.Fatal(all, err)
	}
	rows, read, err := sum(day)
	want := naive(f.paid, &Sums{Period: Period{From: day, Zone: time.UTC}, By: []string{"client", "key"}})
	if err != nil || len(rows) != len(want) || len(want) < 2 {
		t.Fatalf("%+v, %v: want %q", rows, err, want)
	}
	// The segment of the old hold, the last, and one before that
	if read > all*2/3 {
		t.Errorf("%d bytes were read of %d", read, all)
	}
	if rows, _, err := sum(day.AddDate(0, 0, 1), "ann"); err != nil || len(rows) != 0 {
		t.Errorf("of ann, who is known from before: %+v, %v", rows, err)
	}
	_, _, err = sum(day, "nobody")
	if err == nil || !strings.Contains(err.Error(), "no journal here names") {
		t.Errorf("of nobody: %v", err)
	}
}

func berlin(t *testing.T) *time.Location {
	z, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here")
	}
	return z
}

func sourcesOf(t *testing.T, paths ...string) []*Source {
	t.Helper()
	all, err := Open(paths, "")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// owed compares what agents have earned, less what was refunded and remitted, with what is due to them.
func (f *fair) owed(dir string) {
	q := Sums{Period: Period{Zone: time.UTC}, By: []string{"agent"}, Earned: true}
	all, err := q.Sum(f.t.Context(), sourcesOf(f.t, dir))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range all {
		var due market.Credits
		for _, w := range f.hubs {
			due += w.book.Balance(ledger.Payable(s.Of[0]))
		}
		if got := s.Cost - s.Refunded + s.Surplus - s.Remitted; got != due {
			f.t.Errorf("%s has earned %+v, in all %s, and is due %s", s.Of[0], s, got, due)
		}
	}
}

// naive adds payments up as they come.
func naive(all []paid, q *Sums) (out []string) {
	type row struct {
		of                            []string
		tasks, prompt, cached, output int
		cost, paid                    market.Credits
		refunded, remitted            market.Credits
	}
	rows := map[string]*row{}
	in := func(names []string, name string) bool { return names == nil || slices.Contains(names, name) }
	for _, x := range all {
		ok := in(q.Clients, x.client) && in(q.Agents, x.agent) && in(q.Models, x.model) && in(q.Keys, x.key)
		ok = ok && (q.From.IsZero() || !x.at.Before(q.From)) && (q.To.IsZero() || x.at.Before(q.To))
		tags := map[string]string{}
		for _, t := range x.tags {
			tags[t.Name] = t.Value
		}
		for _, want := range q.Tags {
			v, has := tags[want.Name]
			ok = ok && has && (want.Value == "" || want.Value == v)
		}
		if !ok || q.Earned && x.by == tip.FromSurplus || !q.Earned && x.remitted > 0 {
			continue
		}
		r := &row{of: []string{}}
		for _, part := range q.By {
			at := x.at.In(q.Zone)
			r.of = append(r.of, map[string]string{"client": x.client, "agent": x.agent, "model": x.model,
				"key": x.key, "day": at.Format("2006-01-02"), "month": at.Format("2006-01"),
				"tag:user": tags["user"], "tag:team": tags["team"]}[part])
		}
		k := strings.Join(r.of, "\x00")
		if rows[k] == nil {
			rows[k] = r
		}
		r = rows[k]
		r.refunded, r.remitted = r.refunded+x.refunded, r.remitted+x.remitted
		if x.refunded+x.remitted > 0 {
			continue
		}
		r.tasks, r.prompt, r.cached = r.tasks+1, r.prompt+x.use.Prompt, r.cached+x.use.Cached
		r.output, r.cost, r.paid = r.output+x.use.Output, r.cost+x.cost, r.paid+x.paid
	}
	var keys []string
	for k := range rows {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		r := rows[k]
		out = append(out, fmt.Sprint(r.of, r.tasks, r.prompt, r.cached, r.output, r.cost, r.paid, r.refunded,
			r.remitted))
	}
	return out
}
