package ledger

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"souk/bus/tip"
	"souk/market"
)

// What clients' tasks came to is what captures charged, whoever adds it up: the writer, who reads the
// journal, and who goes on from a snapshot.
func TestUsesAreWhatWasCaptured(t *testing.T) {
	for range 5 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		live, _ := trade(t, seed, 300)
		want, n, holds := map[string]market.Credits{}, map[string]int64{}, map[string]*Hold{}
		for _, f := range live.frames {
			for _, r := range f.Records {
				switch {
				case r.Hold != nil:
					holds[r.ID] = r.Hold
				case r.Capture != nil:
					h := holds[r.Capture.Hold]
					want[h.Client] += r.Capture.Cost + h.Due(r.Capture)
					n[h.Client]++
				}
			}
		}
		frames := store(live.frames)
		again := historyOf(t, allOfIt, frames, len(frames)/2)
		if len(want) == 0 || !reflect.DeepEqual(again.Book.kept.Uses, live.book.kept.Uses) {
			t.Fatalf("of %d clients, a snapshot between: %v\nlive %v", len(want), again.Book.kept.Uses,
				live.book.kept.Uses)
		}
		for client, paid := range want {
			var sum tip.Use
			for _, u := range again.Book.kept.Uses[client].Sums {
				sum.Add(u)
			}
			if sum.Paid != paid || sum.Tasks != n[client] {
				t.Errorf("%s: %d tasks for %s, and captures of %d for %s", client, sum.Tasks, sum.Paid,
					n[client], paid)
			}
		}
	}
}

// However many tags there are, sums take so much and no more, none is counted twice, and what is not told any
// more is named. One client's tags cost another nothing.
func TestUsesAreBounded(t *testing.T) {
	b := NewBook()
	one := func(day int64, client, key, tags string) {
		b.head.Time = day * int64(24*time.Hour)
		b.used = append(b.used, used{client: client, use: tip.Use{Key: key, Model: "m", Tags: tags,
			Tasks: 1, Cost: 1, Paid: 2}})
		b.tally()
	}
	paid := func(client, key string, from int64) (sum market.Credits, sums int, since int64) {
		all, since := b.Uses(client, key, from)
		for _, u := range all {
			sum += u.Paid
		}
		return sum, len(all), since
	}
	one(100, "other", "k", "user=o")
	for day := int64(100); day < 103; day++ {
		for i := range 1500 {
			one(day, "many", fmt.Sprint("k", i%2), fmt.Sprintf("user=%d-%d", day, i))
		}
	}
	for i := range 3 * mostUses {
		one(103, "many", "k0", fmt.Sprintf("user=x-%d", i))
	}
	if n := len(b.kept.Uses["many"].Sums); n > mostUses+1 {
		t.Errorf("%d sums of one client", n)
	}
	if sum, _, since := paid("many", "", 1); sum != 2*3*mostUses || since != 103 {
		t.Errorf("%s from day %d on, want %s from 103 on", sum, since, market.Credits(2*3*mostUses))
	}
	if sum, n, since := paid("other", "k", 1); sum != 2 || n != 1 || since != 0 {
		t.Errorf("the other's: %s in %d sums from day %d on", sum, n, since)
	}
	if sum, n, _ := paid("many", "k1", 1); sum != 0 || n != 0 {
		t.Errorf("with a key that has none left: %s", sum)
	}
	for i := range allUses {
		one(104, fmt.Sprint("c", i%(allUses/mostUses+5)), "k", fmt.Sprintf("user=%d", i))
	}
	all := 0
	for _, of := range b.kept.Uses {
		all += len(of.Sums)
	}
	if most := allUses + len(b.kept.Uses); all != b.allUsed || all > most {
		t.Errorf("%d sums, counted as %d, want %d at most", all, b.allUsed, most)
	}
	if !b.restored() {
		t.Error("a snapshot of it is none")
	}
}
