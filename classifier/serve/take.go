package serve

import (
	"bytes"
	"time"

	"souk/bus"
	"souk/bus/reader"
	"souk/classifier"
)

// onTask takes a request in. Handlers run one after another, so everything else happens elsewhere.
func (s *Server) onTask(m bus.Msg) {
	client, reader := bus.Speaks(m.Subject, taskKind)
	if client == "" || !bus.AnswersTo(m.Subject, m.Reply) {
		s.count((*classifier.Desk).Unanswerable)
		return
	}
	r := &request{s: s, came: time.Now(), client: client, reader: reader, reply: m.Reply, size: len(m.Data),
		json: bus.WantsJSON(m.Data, m.Header), done: make(chan struct{})}
	since := s.since.Load()
	r.since, r.heard = since.at, since.heard
	s.mu.Lock()
	refusal := s.desk.Enter(client, r.size)
	if refusal == nil {
		s.tasks.Add(1)
	}
	s.mu.Unlock()
	if refusal != nil {
		r.refuse(refusal)
		return
	}
	r.data, r.header, r.entered = bytes.Clone(m.Data), m.Header, true
	s.crew.Go(r.work)
}

// work serves a request that has entered.
func (r *request) work() {
	r.serve()
	r.s.tasks.Done()
}

// taskKind and cancelKind begin the subjects on which clients and gateways speak to a door.
var taskKind, cancelKind = bus.TaskSubject("", ""), bus.DoorCancelSubject("", "")

// onReply hands an agent's chunk to the answer that waits for it.
func (s *Server) onReply(m bus.Msg) {
	token, sender := bus.Replied(m.Subject)
	c := new(bus.Chunk)
	bad := bus.Decode(m.Data, c) != nil
	s.mu.Lock()
	w := s.reading[token]
	stray := bad || w == nil || c.Task != w.task.ID && c.Task != token
	if stray {
		s.desk.Stray()
	}
	s.mu.Unlock()
	if !stray {
		w.hear(sender, c)
	}
}

// onCancel passes a cancel to whoever has the task, if it is from who sent the task here, or from its client.
func (s *Server) onCancel(m bus.Msg) {
	var c bus.Cancel
	client, sender := bus.Speaks(m.Subject, cancelKind)
	if bus.Decode(m.Data, &c) != nil {
		return
	}
	s.mu.Lock()
	r := s.inHand[taskKey{client, c.Task}]
	s.mu.Unlock()
	switch {
	case r == nil, sender != client && sender != r.reader:
	case r.whole != nil:
		r.whole.step(reader.Cancel{})
	default:
		r.cancel()
	}
}
