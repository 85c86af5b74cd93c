package serve

import (
	"testing"
	"testing/synctest"

	"souk/bus"
)

// Another agent speaks of a hold in its own name, and the agent itself of a hold of another place or hub:
// none of it is a reply to the dispatch. Nor is it the server's word that nobody is there, which comes to the
// same subject, where another says it.
func TestAForgedReplyToADispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		handed := make(chan bus.Msg, 9)
		tn.subscribe(bus.DispatchSubject("a-1", "*"), func(m bus.Msg) { handed <- m })
		tn.agent("a-1", 1, func(bus.Dispatch) bool { return false })
		s, _ := tn.hub(nil)
		answer := make(chan string, 1)
		go func() { answer <- tn.ask(request("t")) }()
		m := <-handed
		var d bus.Dispatch
		if err := bus.Decode(m.Data, &d); err != nil {
			t.Fatal(err)
		}
		place := bus.Taken(m.Reply, "math", "a-1")
		if place == "" {
			t.Fatalf("a dispatch is to be answered on %s", m.Reply)
		}
		yes := &bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold}
		no := &bus.DispatchReply{Agent: "a-1", Boot: d.Boot, Hold: d.Hold, Code: bus.CodeEngineRefused}
		for _, as := range []string{bus.TakenSubject("math", place, "a-2"),
			bus.TakenSubject("math", "9-9", "a-1"), bus.TakenSubject("math", "probe", "a-2"),
			bus.TakenSubject("math", "x", "a-1")} {
			tn.publish(as, "", yes)
			tn.publish(as, "", no)
			absent := bus.Msg{Subject: as, Header: bus.Header{"Status": {"503"}}}
			if err := tn.bus.Publish(absent); err != nil {
				t.Fatal(err)
			}
		}
		tn.publish(m.Reply, "", &bus.DispatchReply{Agent: "a-1", Hold: "hub-code/1/0"}) // another hub's
		synctest.Wait()
		if st := s.Stats(); len(answer) != 0 || st.Holds != 1 || st.Rejected == 0 {
			t.Errorf("%d answers, %d holds, %d messages rejected", len(answer), st.Holds, st.Rejected)
		}
		yes.Agent = "a-2" // the subject says who speaks
		tn.publish(m.Reply, "", yes)
		if got := <-answer; got != "accepted by a-1" {
			t.Error(got)
		}
	})
}

// The hub may publish where those who ask it may not. So what is to be answered anywhere but in the inbox of
// its sender is not answered, and counted.
func TestTheHubAnswersItsAskerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 1, nil)
		s, _ := tn.hub(nil)
		lured, misled := 0, int64(0)
		for _, c := range []struct {
			subject string
			m       bus.Message
		}{
			{bus.HubTaskSubject("math", "door"), request("t")},
			{bus.CompletionSubject("math", "a-1"), &bus.Completion{Agent: "a-1", Hold: "hub-math/7/0",
				Client: "ann", Task: "t", Outcome: bus.OutcomeDone}},
			{bus.RecallSubject("math", "treasury"), &bus.Recall{ID: "1", Hub: "hub-math", Client: "ann"}},
		} {
			for _, reply := range []string{bus.InboxOf("bob") + ".x", bus.InboxOf(bus.LastToken(c.subject)),
				bus.CompletionSubject("math", "a-2"), bus.ReplySubject("ann", "t", "math"),
				bus.DispatchSubject("a-2", "math")} {
				tn.subscribe(reply, func(bus.Msg) { lured++ })
				tn.publish(c.subject, reply, c.m)
				misled++
			}
		}
		synctest.Wait()
		if st := s.Stats(); lured != 0 || st.Rejected != misled || st.Arrived != 0 {
			t.Errorf("%d answers where the hub alone may speak; %d of %d messages counted, %d tasks arrived",
				lured, st.Rejected, misled, st.Arrived)
		}
		if got := tn.ask(request("t")); got != "accepted by a-1" {
			t.Error(got)
		}
	})
}
