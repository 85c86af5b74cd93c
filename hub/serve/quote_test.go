package serve

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/ledger"
	"souk/ledger/journal"
)

// quote asks for one with such bytes.
func (tn *town) quote(data []byte) *bus.HubQuote {
	tn.t.Helper()
	ctx, cancel := context.WithTimeout(tn.t.Context(), time.Minute)
	defer cancel()
	reply, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.HubQuoteSubject("math", "town"), Data: data})
	if err != nil {
		tn.t.Fatal(err)
	}
	q := new(bus.HubQuote)
	if err := bus.Decode(reply.Data, q); err != nil {
		tn.t.Fatal(err)
	}
	return q
}

func encoded(t *testing.T, m bus.Message) []byte {
	t.Helper()
	data, err := bus.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A hub quotes what nobody buys: without the client's money, and without a word in its journal. What it
// cannot read it says so of.
func TestAHubQuotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 1, nil)
		s, stop := tn.hub(nil)
		frames := func() (n int) {
			if err := journal.Read(tn.dir, func(ledger.Frame) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		synctest.Wait() // until the hub's first frame is written
		before := frames()
		m := task("nobody", "t")
		m.Body = nil
		q := tn.quote(encoded(t, m))
		if q.Code != "" || q.Hub != "math" || len(q.Models) != 1 || !q.Models[0].WouldWin ||
			q.ValidMS != 1000 {
			t.Errorf("quote is %+v", q)
		}
		if q := tn.quote([]byte("\xc1")); q.Code != bus.CodeBadRequest || q.Message == "" {
			t.Errorf("of no message: %+v", q)
		}
		m.Model = "gpt"
		if q := tn.quote(encoded(t, m)); q.Code != bus.CodeUnknownModel {
			t.Errorf("of no model: %+v", q)
		}
		tn.publish(bus.HubQuoteSubject("math", "town"), "", m) // who wants no answer gets none
		m.Model = ""
		for _, other := range []string{"souk.v1.task.ann", "_INBOX.ann.1", "_INBOX.town"} {
			tn.subscribe(other, func(got bus.Msg) { t.Errorf("a quote came on %s", got.Subject) })
			tn.publish(bus.HubQuoteSubject("math", "town"), other, m)
		}
		synctest.Wait()
		if got := frames(); got != before {
			t.Errorf("%d frames, before the quotes %d", got, before)
		}
		if st := s.Stats(); st.Quotes[""] != 1 || len(st.Quotes) != 3 || len(st.Tasks) != 0 {
			t.Errorf("stats %+v", st)
		}
		stop()
	})
}

// However many ask at once, a hub gives 200 quotes a second and some at once; the rest are told when to come
// again, and tasks between them are served.
func TestAHubGivesSoManyQuotesASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 64, nil)
		_, stop := tn.hub(nil)
		synctest.Wait() // until it sells the agent
		data := encoded(t, task("ann", "q"))
		said := func(n int) map[bus.Code]int {
			var mu sync.Mutex
			codes := map[bus.Code]int{}
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					q := tn.quote(data)
					mu.Lock()
					defer mu.Unlock()
					codes[q.Code]++
					if q.Code == bus.CodeNoRoom && (q.RetryMS < 5 || q.RetryMS > 1000) {
						t.Errorf("to be asked again after %d ms", q.RetryMS)
					}
				})
			}
			if got := tn.ask(request("t" + time.Now().Format("150405"))); got != "accepted by a-1" {
				t.Errorf("a task among %d quotes: %s", n, got)
			}
			all.Wait()
			return codes
		}
		codes := said(2_000)
		if codes[""] < 1 || codes[""] > quoteBurst || codes[bus.CodeNoRoom] != 2_000-codes[""] {
			t.Errorf("of 2,000 at once: %v", codes)
		}
		time.Sleep(time.Second) // virtual
		given, asked := 0, 0
		for until := time.Now().Add(5 * time.Second); time.Now().Before(until); asked++ {
			if q := tn.quote(data); q.Code == "" {
				given++
			}
			time.Sleep(2 * time.Millisecond) // virtual: 500 a second
		}
		if given < 975 || given > 1000+quoteBurst+5 {
			t.Errorf("in five seconds %d of %d are given", given, asked)
		}
		stop()
	})
}

// Whoever asks for more quotes than a hub gives is refused, and not those who ask beside it now and then:
// each has one for as long as others had more.
func TestOneClientTakesNobodysQuotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 64, nil)
		_, stop := tn.hub(nil)
		given := map[string]int{}
		ask := func(client string) {
			if q := tn.quote(encoded(t, task(client, "q"))); q.Code == "" {
				given[client]++
			} else if q.Code != bus.CodeNoRoom || q.RetryMS < 5 || q.RetryMS > 1000 {
				t.Errorf("%s hears %+v", client, q)
			}
		}
		for i := range 5_000 { // in five seconds
			if ask("eve"); i%2 == 0 {
				ask("mallory")
			}
			if i%100 == 50 {
				ask("ann")
			}
			time.Sleep(time.Millisecond) // virtual
		}
		if given["ann"] != 50 {
			t.Errorf("beside two who flood it, a hub gives ann %d of 50 quotes", given["ann"])
		}
		all := given["ann"] + given["eve"] + given["mallory"]
		if all < 975 || all > 1000+2*quoteBurst+5 || given["mallory"] < 300 || given["eve"] < 300 {
			t.Errorf("in five seconds it gives %v", given)
		}
		stop()
	})
}

// So it is at any moment, also as a second begins in which nobody had any yet.
func TestAQuoteIsThereAtAnyMoment(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	var q quoting
	now := time.Now()
	refused, next := 0, now
	const step = int(5 * time.Millisecond)
	for end := now.Add(time.Hour); now.Before(end); now = now.Add(time.Duration(r.IntN(step))) {
		q.take(now, "eve")
		if !now.Before(next) {
			if next = now.Add(time.Duration(100+r.IntN(100)) * time.Millisecond); q.take(now, "ann") > 0 {
				refused++
			}
		}
	}
	if refused > 0 {
		t.Errorf("beside one who floods it, a hub refuses %d of some 24,000 quotes of ann (seed %d)", refused, seed)
	}
}
