package client_test

import (
	"context"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/membus"
)

// A quote says what the door says, and its refusals beside what each hub says. One that does not come is
// waited for for two seconds, and nothing is to be found out about it.
func TestQuote(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		if _, err := s.c.Quote(t.Context(), bus.Task{Body: body}); bus.CodeOf(err) != bus.CodeUnavailable {
			t.Errorf("without a door: %v", err)
		}
		var asked []bus.Task
		said := &bus.Quote{Client: "ada",
			Hubs: []bus.HubQuote{{Hub: "h", Models: []bus.ModelQuote{{Model: "m", TTFTMS: 40}}}}}
		raw := []byte(nil)
		s.hear(bus.QuoteSubject("*", ""), func(m bus.Msg) {
			var task bus.Task
			if err := bus.Decode(m.Data, &task); err != nil || bus.LastToken(m.Subject) != "ada" {
				t.Errorf("the door got %v on %s", err, m.Subject)
			}
			asked = append(asked, task)
			switch {
			case raw != nil:
				s.them.Publish(bus.Msg{Subject: m.Reply, Data: raw})
			case said != nil:
				s.say(m.Reply, said)
			}
		})
		q, err := s.c.Quote(t.Context(), bus.Task{Body: body, Session: "s"})
		if err != nil || q.Hubs[0].Models[0].TTFTMS != 40 || asked[0].Client != "ada" ||
			asked[0].Session != "s" || string(asked[0].Body) != string(body) {
			t.Errorf("%v: %+v, asked %+v", err, q, asked)
		}
		said.Code, said.Message, said.RetryMS = bus.CodeNoRoom, "full", 250
		if q, err := s.c.Quote(t.Context(), bus.Task{Body: body}); bus.CodeOf(err) != bus.CodeNoRoom ||
			len(q.Hubs) != 1 || q.RetryMS != 250 {
			t.Errorf("refused: %v: %+v", err, q)
		}
		raw = []byte("\xc1")
		if q, err := s.c.Quote(t.Context(), bus.Task{Body: body}); bus.CodeOf(err) == "" || len(q.Hubs) > 0 {
			t.Errorf("nonsense: %v: %+v", err, q)
		}
		said, raw = nil, nil
		begun := time.Now()
		if _, err := s.c.Quote(t.Context(), bus.Task{Body: body}); bus.CodeOf(err) != bus.CodeUnavailable ||
			time.Since(begun) != 2*time.Second {
			t.Errorf("silence: %v after %v", err, time.Since(begun))
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := s.c.Quote(ctx, bus.Task{Body: body}); bus.CodeOf(err) != bus.CodeCancelled {
			t.Errorf("given up: %v", err)
		}
	})
	b := membus.New(1).Bus("closed")
	c, err := client.New(client.Config{ID: "ada"}, b)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if _, err := c.Quote(t.Context(), bus.Task{Body: body}); err == nil {
		t.Error("over a bus that is closed")
	}
}
