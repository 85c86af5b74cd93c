package serve

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/market"
)

// A dispatch that is lost on the way is sent again; of an agent that never hears one the client is told.
// The trace context is not lost.
func TestLostMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 1, nil)
		s, _ := tn.hub(nil)
		tn.world.DropNext(1, bus.DispatchSubject("a-1", "math"))
		if got := tn.ask(request("once")); got != "accepted by a-1" {
			t.Errorf("a dispatch lost once: %s", got)
		}
		tn.world.DropNext(3, bus.DispatchSubject("a-1", "math"))
		if got := tn.ask(request("lost")); got != "unknown" {
			t.Errorf("a lost dispatch: %s", got)
		}
		time.Sleep(2 * time.Minute) // virtual: the hold ends by its own time
		if st := s.Stats(); st.Holds != 0 || st.Voids[bus.CodeTimeout] != 1 {
			t.Errorf("%d holds, voids %v", st.Holds, st.Voids)
		}
	})
}

// A request that the treasury has not answered in its time is over, and made anew while the task still waits.
func TestATreasuryThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 1, nil)
		// its agent says nothing of itself
		tn.hub(nil)
		for i := range 12 {
			client := fmt.Sprint("c", i)
			tn.mu.Lock()
			tn.prepaid[client] = 1000 * market.Credit
			tn.mu.Unlock()
			tn.world.DropNext(1, bus.LedgerSubject(bus.OpAllot, testConfig().Journal))
			if got := tn.ask(task(client, "t")); got != "accepted by a-1" {
				t.Fatalf("%s: %s", client, got)
			}
		}
	})
}

func TestTraceIsPassedOn(t *testing.T) {
	tn := newTown(t)
	trace := make(chan bus.Header, 1)
	tn.agent("a-1", 1, nil)
	tn.subscribe(bus.DispatchSubject("a-1", "*"), func(m bus.Msg) { trace <- m.Header })
	tn.hub(nil)
	data, err := bus.Encode(request("t-1"))
	if err != nil {
		t.Fatal(err)
	}
	h := bus.Header{"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"tracestate": {"k=v"}}
	if err := tn.bus.Publish(bus.Msg{Subject: bus.HubTaskSubject("math", "door"), Header: h,
		Data: data}); err != nil {
		t.Fatal(err)
	}
	got := bustest.Receive(t, "the dispatch's headers", trace)
	if got.Get("traceparent") != h.Get("traceparent") || got.Get("tracestate") != "k=v" {
		t.Errorf("headers %v", got)
	}
}

// Bytes that are no messages are counted and change nothing; whoever asked hears why.
func TestBytesThatAreNoMessages(t *testing.T) {
	tn := newTown(t)
	tn.agent("a-1", 1, nil)
	s, _ := tn.hub(nil)
	for _, subject := range []string{bus.SummarySubject("math", "a-1"), bus.CompletionSubject("math", "a-1"),
		bus.CancelSubject("math", "ann"), bus.FeedbackSubject("math", "ann", "")} {
		if err := tn.bus.Publish(bus.Msg{Subject: subject,
			Data: []byte("\xdd\xff\xff\xff\xff")}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.HubTaskSubject("math", "door"),
		Data: []byte("\xdd\xff\xff\xff\xff")})
	if err != nil {
		t.Fatal(err)
	}
	var a bus.Answer
	if err := bus.Decode(m.Data, &a); err != nil || a.Result == nil || a.Result.Code != bus.CodeBadRequest {
		t.Errorf("answer %+v, %v", a.Result, err)
	}
	bustest.Eventually(t, "four counted", func() bool { return s.Stats().Rejected == 4 })
	if got := tn.ask(request("good")); got != "accepted by a-1" {
		t.Error(got)
	}
}

// An account that is none is acknowledged over the bus as well, and the agent's only slot is free at once.
func TestAnAccountThatIsNoneIsAnswered(t *testing.T) {
	tn := newTown(t)
	held := make(chan bus.Dispatch, 8) // unanswered, it may come again
	tn.agent("a-1", 1, func(d bus.Dispatch) bool {
		if d.Task.ID == "wrong" {
			held <- d
			return false
		}
		return true
	})
	tn.hub(nil)
	tn.publish(bus.HubTaskSubject("math", "door"), bus.InboxOf("door")+".nowhere", request("wrong"))
	data, err := bus.Encode(completion("a-1", <-held, market.Usage{Prompt: 100, Cached: 101}))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		m, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.CompletionSubject("math", "a-1"), Data: data})
		cancel()
		var ack bus.CompletionAck
		if err == nil {
			err = bus.Decode(m.Data, &ack)
		}
		if err != nil || ack.Code != bus.CodeLate {
			t.Errorf("%+v, %v", ack, err)
		}
	}
	if got := tn.ask(request("right")); got != "accepted by a-1" {
		t.Error(got)
	}
}

// The treasury answers while the hub's queue is full, and stays so for longer than the answer can wait: it
// is lost. The client has its money all the same, within seconds, and so has the hub's next start.
func TestAnAnswerThatFindsTheQueueFull(t *testing.T) {
	for _, lost := range []string{bus.OpAllot, bus.OpAllotted} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tn := newTown(t)
				cfg := testConfig()
				b := tn.world.Bus(testConfig().Journal)
				defer b.Close()
				s, err := New(cfg,
					Deps{Bus: b, Registry: tn.world.Registry(), Journal: tn.journal("hub-math"),
						Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				if lost == bus.OpAllotted { // a grant that this hub does not know of stands before all others
					tn.grants = append(tn.grants,
						bus.Grant{Number: 1, Client: "ann", Hub: "hub-math", Amount: 1})
				}
				s.in = make(chan input, 4)
				if err := s.node.Lead(time.Now(), 7); err != nil {
					t.Fatal(err)
				}
				if err := s.node.Join(time.Now(), registration("a-1", 4)); err != nil {
					t.Fatal(err)
				}
				dropped, dispatched := 0, 0
				play := func(in input) {
					for range 20 {
						r, _ := s.turn(in)
						in = nil
						dispatched += len(r.Dispatches)
						if err := s.deps.Journal.Append(r.Frames...); err != nil {
							t.Fatal(err)
						}
						for _, f := range r.Funds {
							if f.Op == lost && dropped == 0 {
								dropped++
								for len(s.in) < cap(s.in) {
									s.in <- s.message(&bus.Cancel{})
								}
								s.ask(f)
								for len(s.in) > 0 {
									<-s.in
								}
								continue
							}
							s.ask(f)
						}
						if len(r.Funds) == 0 {
							return
						}
					}
				}
				play(nil)
				begin, sent := time.Now(), 0
				for ; dispatched == 0 && time.Since(begin) < 30*time.Second; sent++ {
					play(s.message(task("ann", fmt.Sprint("t", sent))))
					for range 10 {
						time.Sleep(100 * time.Millisecond) // virtual
						play(nil)
					}
				}
				if dropped != 1 {
					t.Fatalf("%d answers were lost: the test proves nothing", dropped)
				}
				if took := time.Since(begin); dispatched == 0 || took > 10*time.Second {
					t.Errorf("after %v and %d tasks %d were dispatched", took, sent, dispatched)
				}
				if got := s.node.Book().Avail("ann"); got <= 0 || got > 1000*market.Credit {
					t.Errorf("ann has %v here", got)
				}
			})
		})
	}
}
