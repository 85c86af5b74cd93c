package serve

import (
	"strings"
	"testing"

	"souk/bus"
)

// A hub answers for itself alone, though it may write to any inbox: what comes where another was to answer,
// and without the word that only that one was told, is dropped and counted.
func TestAHubAnswersNoRecallOfAnothers(t *testing.T) {
	s := &Server{inbox: bus.InboxOf("treasury") + ".x", words: []byte("key"),
		said: make(chan *bus.RecallReply, 9)}
	data, err := bus.Encode(&bus.RecallReply{ID: "1", Hub: "hub-law", Client: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	law, maths := s.answerOf("hub-law"), s.answerOf("hub-maths")
	forged := []string{s.inbox, s.inbox + ".hub-law", s.inbox + ".hub-law.", s.inbox + ".hub-law.x", "",
		strings.Replace(maths, "hub-maths", "hub-law", 1), law + ".x", law[:len(law)-1],
		(&Server{inbox: s.inbox, words: []byte("other")}).answerOf("hub-law")}
	for _, subject := range forged {
		s.hear(bus.Msg{Subject: subject, Data: data})
	}
	if n := s.dropped.Load(); len(s.said) > 0 || n != int64(len(forged)) {
		t.Errorf("%d of %d forged answers are taken, %d counted", len(s.said), len(forged), n)
	}
	s.hear(bus.Msg{Subject: law, Data: data})
	s.hear(bus.Msg{Subject: maths, Data: data})
	for _, want := range []string{"hub-law", "hub-maths"} {
		if v := <-s.said; v.Hub != want {
			t.Errorf("an answer of %s is taken for one of %s", want, v.Hub)
		}
	}
	if !bus.AnswersTo(bus.RecallSubject("law", "treasury"), law) {
		t.Errorf("no hub answers at %s", law)
	}
}
