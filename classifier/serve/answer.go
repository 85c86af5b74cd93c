package serve

import (
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/openai"
	"souk/bus/sight"
	"souk/classifier"
)

func (s *Server) publish(subject string, m bus.Message) {
	data, err := bus.Encode(m)
	if err == nil {
		err = s.d.Bus.Publish(bus.Msg{Subject: subject, Data: data})
	}
	follow.Unsent(s.d.Log, err, "not sent", "subject", subject)
}

func (r *request) result(err error) *bus.Result {
	hub := ""
	if r.placing != nil {
		hub = r.placing.Hub()
	}
	return classifier.Refusal(err, r.client, hub, r.task)
}

func (r *request) refusal(err error) bus.Answer { return bus.Answer{Result: r.result(err)} }

func (r *request) refuse(err error) { r.answer(r.refusal(err)) }

var jsonHeader = bus.Header{"Content-Type": {"application/json"}}

// answer counts and sends the one answer to the request.
func (r *request) answer(a bus.Answer) {
	s := r.s
	if a.Accepted != nil {
		s.placed.Record(time.Since(r.came).Seconds())
	}
	data, err := r.encode(a)
	if most := s.d.Bus.MaxPayload(); err == nil && len(data) > most && a.Result != nil {
		a.Result = classifier.Cut(a.Result, len(data), most)
		data, err = r.encode(a)
	}
	s.mu.Lock() // first: whoever waits for this answer may send the next task, or ask once more, at once
	if r.task != nil && s.inHand[r.key()] == r {
		delete(s.inHand, r.key())
	}
	s.desk.Answered(r.client, r.size, r.entered, r.task != nil && r.task.Again > 0, &a)
	s.mu.Unlock()
	s.send(r.reply, r.json, data, err, "answer not sent", r.client)
	own := r.reader == r.client // a gateway logs what comes of its own
	if own || r.span.Records() {
		n := r.line(&a)
		if own {
			s.lines.Add(n)
		}
		if r.task != nil {
			r.span.Set(sight.Operation(r.task.Kind, r.task.Model)...)
			r.span.Set(sight.Text("souk.domain", r.task.Domain))
		}
		r.span.EndAs(&n)
	}
}

// line returns the request's line by its answer. Of a stream the door hears only who serves it.
func (r *request) line(a *bus.Answer) sight.Line {
	n := sight.Line{Begin: r.came, End: time.Now(), Route: "task", Trace: r.span.Trace.ID(),
		Client: r.client}
	if t := r.task; t != nil {
		n.Task, n.Model = t.ID, t.Model
	}
	if by := a.Accepted; by != nil {
		n.Hub, n.Agent, n.Model = by.Hub, by.Agent, by.Model
		return n
	}
	result := a.Result
	n.Code, n.Hub, n.Agent = result.Code, result.Hub, result.Agent
	n.Usage, n.Paid = result.Usage, result.Paid()
	if result.Model != "" {
		n.Model = result.Model
	}
	if result.Receipt != nil {
		n.Receipt = result.Receipt.ID
	}
	if result.TTFTUS > 0 {
		n.First = r.taken.Add(time.Duration(result.TTFTUS) * time.Microsecond)
	}
	return n
}

// send sends an answer, in the language that was asked for, if it could be written.
func (s *Server) send(to string, json bool, data []byte, err error, unsent, client string) {
	m := bus.Msg{Subject: to, Data: data}
	if json {
		m.Header = jsonHeader
	}
	if err == nil {
		err = s.d.Bus.Publish(m)
	}
	follow.Unsent(s.d.Log, err, unsent, "client", client)
}

func (r *request) encode(a bus.Answer) ([]byte, error) {
	switch {
	case r.json:
		return openai.EncodeAnswer(&a)
	case a.Accepted != nil:
		return r.accepted, nil
	}
	return bus.Encode(&a)
}
