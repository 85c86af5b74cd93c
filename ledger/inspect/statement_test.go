package inspect

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// A statement is what naive lists say that came, went and was paid; its closing balance is what the books
// have at that moment, and what is under way.
func TestStatementsAreWhatTheBooksHave(t *testing.T) {
	for range 2 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		f := newFair(t, seed, 300)
		if len(f.paid) == 0 { // an unlucky one: nobody was served
			continue
		}
		dir := f.data()
		for range 12 {
			p := Period{From: pick(f, f.paid).at, To: pick(f, f.paid).at, Zone: time.UTC}
			if f.rng.IntN(4) == 0 {
				p.To = f.now.Add(1)
			}
			if !p.From.Before(p.To) {
				continue
			}
			client := pick(f, fairClients)
			got, err := State(t.Context(), sourcesOf(t, dir), client, p)
			if err != nil {
				if strings.Contains(err.Error(), "no journal here names") {
					continue
				}
				t.Fatal(err)
			}
			var opening, closing market.Credits
			lines, usage := map[string]market.Credits{}, map[string]market.Credits{}
			for _, x := range f.moved {
				if x.client == client && x.at.Before(p.To) {
					if closing += x.amount; x.at.Before(p.From) {
						opening += x.amount
					} else {
						lines[x.what] += x.amount
					}
				}
			}
			for _, x := range f.paid {
				if x.client == client && x.at.Before(p.To) && x.refunded+x.remitted == 0 {
					if closing -= x.paid; x.at.Before(p.From) {
						opening -= x.paid
					} else {
						usage[x.model] += x.paid
					}
				}
			}
			haveLines, haveUsage := map[string]market.Credits{}, map[string]market.Credits{}
			for _, l := range got.Lines {
				haveLines[l.What] += l.Amount
			}
			for i := range got.Usage {
				haveUsage[got.Usage[i].Of[0]] += got.Usage[i].Paid
			}
			if got.Opening != opening || got.Closing != closing || !reflect.DeepEqual(haveLines, lines) ||
				!reflect.DeepEqual(haveUsage, usage) {
				t.Fatalf("%s from %v until %v: %+v\nwant %s, %v, %v, %s", client, p.From, p.To, got, opening, lines,
					usage, closing)
			}
			f.balances(client, p.To, got)
		}
	}
}

// balances compares a statement's places with what books have that were made of the frames until then.
func (f *fair) balances(client string, to time.Time, s *Statement) {
	var want, have []string
	for _, w := range append(slices.Clone(f.hubs), f.treasury) {
		b := ledger.NewBook()
		for _, frame := range w.frames {
			if frame.Time < to.UnixNano() {
				if err := b.ApplyFrame(frame); err != nil {
					f.t.Fatal(err)
				}
			}
		}
		for _, x := range b.Balances("client:" + client + ":*") {
			if x.Amount != 0 {
				want = append(want, fmt.Sprint(w.name, " ", x.Account, " ", x.Amount))
			}
		}
	}
	for _, p := range s.Places {
		if p.Account != "under way" {
			have = append(have, fmt.Sprint(p.Journal, " ", p.Account, " ", p.Amount))
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		f.t.Errorf("%s at %v: %q, and the books have %q", client, to, have, want)
	}
}

// What was spent at a hub whose journal is lost is known once the treasury has written it off, and no
// statement guesses before.
func TestStatementsBesideALostJournal(t *testing.T) {
	f := newFair(t, 1, 0)
	gone := f.writer("hub-gone", ledger.RoleHub)
	f.write(f.treasury, ledger.NewDeposit("d", "ann", 100, nil, f.nextSalt()))
	f.write(f.treasury, ledger.NewGrant(gone.name, 1, "ann", 60, "", f.nextSalt()))
	p := Period{From: f.now.Add(-time.Hour), To: f.now.Add(time.Hour), Zone: time.UTC}
	_, err := State(t.Context(), sourcesOf(t, f.data()), "ann", p)
	if err == nil ||
		!strings.Contains(err.Error(), "the journal of hub-gone is not among these: 0.00000006 of ann's") {
		t.Errorf("a journal that is not here: %v", err)
	}
	f.write(f.treasury, ledger.NewMark(gone.name, 1, tip.Mark{Journal: tip.Sum{1}, Seq: 9, Sum: tip.Sum{2}},
		[]tip.Spent{{Client: "ann", Amount: 25}}, f.nextSalt()))
	f.write(f.treasury, f.treasury.book.NewWriteOff(gone.name, f.nextSalt()))
	sources := sourcesOf(t, f.data())
	var read, size int64
	for _, src := range sources {
		size += src.Size()
		src.Progress = func(bytes int) { read += int64(bytes) }
	}
	s, err := State(t.Context(), sources, "ann", p)
	if read == 0 || read > size {
		t.Errorf("%d bytes were read of %d", read, size)
	}
	if err != nil {
		t.Fatal(err)
	}
	lost := s.Lines[len(s.Lines)-1]
	if s.Closing != 75 || lost.What != "lost" || lost.About != gone.name || lost.Amount != -25 {
		t.Errorf("closing %s, %+v", s.Closing, lost)
	}
	f.balances("ann", p.To, s)
	for client, want := range map[string]string{"Ann": `names client "Ann" in that time or before: there is ann`,
		"zoe": `names client "zoe"`} {
		if _, err := State(t.Context(), sourcesOf(t, f.data()), client, p); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", client, err)
		}
	}
	if _, err := State(t.Context(), sourcesOf(t, f.data())[:1], "ann", p); err == nil ||
		!strings.Contains(err.Error(), "all journals of one market") {
		t.Errorf("without the treasury's: %v", err)
	}
}
