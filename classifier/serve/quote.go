package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/openai"
	"souk/classifier"
)

// quoteKind begins the subjects on which quotes are asked for.
var quoteKind = bus.QuoteSubject("", "")

// onQuote takes a request for a quote in.
func (s *Server) onQuote(m bus.Msg) {
	q, ok := s.ask(m, quoteKind)
	if !ok {
		s.count((*classifier.Desk).Stray)
		return
	}
	if no := q.enter(m, s.desk.EnterQuote); no != nil {
		q.give(classifier.NoQuote(no, q.client))
		return
	}
	go func() {
		defer s.tasks.Done()
		q.give(q.quote())
	}()
}

// quote reads what is asked about, and asks hubs.
func (q *asked) quote() *bus.Quote {
	s := q.s
	task, opening, no := q.read(s.groups.of(q.client).key)
	now := time.Now()
	if no == nil {
		no = classifier.Judge(task, now)
	}
	if no == nil && task.Resume != nil {
		no = &bus.Error{Code: bus.CodeBadRequest, Message: "resume: a quote is for a task as it begins"}
	}
	if no != nil {
		return classifier.NoQuote(no, q.client)
	}
	label, confidence := s.classify(opening)
	s.mu.Lock()
	names, no := s.desk.Quoters(task, label, confidence, s.table.Load(), now)
	s.mu.Unlock()
	if no != nil {
		return classifier.NoQuote(no, q.client)
	}
	s.prefixKeys.name(&task.Prompt)
	// of these a quote reads no more than the prompt's measures
	task.Body, task.Large, task.Salt = nil, nil, ""
	data, err := bus.Encode(task)
	if err != nil {
		return classifier.NoQuote(err, q.client)
	}
	hubs := make([]bus.HubQuote, len(names))
	ctx, cancel := context.WithDeadline(s.life, now.Add(bus.QuoteWithin))
	defer cancel()
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			if err := s.askQuote(ctx, name, data, &hubs[i]); err != nil {
				hubs[i] = classifier.Silent(name, err)
			}
		})
	}
	all.Wait()
	return classifier.QuoteOf(task, hubs)
}

// askQuote asks one hub.
func (s *Server) askQuote(ctx context.Context, hub string, data []byte, q *bus.HubQuote) error {
	m, err := s.d.Bus.Request(ctx, bus.Msg{Subject: bus.HubQuoteSubject(hub, s.c.ID), Data: data})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("nothing was heard of it within %v", bus.QuoteWithin)
	case err != nil:
		return err
	}
	if err := bus.Decode(m.Data, q); err != nil {
		return fmt.Errorf("what it says is not understood: %w", err)
	}
	if q.Hub != hub {
		return fmt.Errorf("it speaks as hub %s", q.Hub)
	}
	return nil
}

// give counts and sends the one answer to a request for a quote.
func (q *asked) give(quote *bus.Quote) {
	s := q.s
	data, err := bus.Encode(quote)
	if q.json {
		data, err = openai.EncodeQuote(quote)
	}
	s.mu.Lock()
	s.desk.Quoted(q.client, q.size, q.entered, quote)
	s.mu.Unlock()
	s.send(q.reply, q.json, data, err, "quote not sent", q.client)
}
