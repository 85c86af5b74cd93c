package serve

import (
	"bytes"
	"errors"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/openai"
	"souk/bus/reader"
	"souk/classifier"
)

// asked is a question of a client's on its way through the door.
type asked struct {
	s       *Server
	client  string
	reader  string // who asks for it: a gateway, or the client
	reply   string
	json    bool
	data    []byte // as it came, until it is read
	header  bus.Header
	size    int  // of data
	entered bool // it is in hand
}

// ask reads who asks a question, of a kind of subjects; false if it is not to be answered to its sender.
func (s *Server) ask(m bus.Msg, kind string) (a asked, ok bool) {
	client, reader := bus.Speaks(m.Subject, kind)
	a = asked{s: s, client: client, reader: reader, reply: m.Reply, size: len(m.Data),
		json: bus.WantsJSON(m.Data, m.Header)}
	return a, client != "" && bus.AnswersTo(m.Subject, m.Reply)
}

// enter takes the question in if the desk lets it, or says what is in its way.
func (a *asked) enter(m bus.Msg, lets func(client string, size int) *bus.Error) *bus.Error {
	a.s.mu.Lock()
	no := lets(a.client, a.size)
	if a.entered = no == nil; a.entered {
		a.s.tasks.Add(1)
	}
	a.s.mu.Unlock()
	if a.entered {
		a.data, a.header = bytes.Clone(m.Data), m.Header
	}
	return no
}

// read has the body of the question from who sent that where it comes in pieces. key hashes its prompt.
func (a *asked) read(key []byte) (*bus.Task, openai.Opening, *bus.Error) {
	s, bytes := a.s, 0
	body := func(t *bus.Task) ([]byte, error) {
		s.mu.Lock()
		no := s.desk.EnterBody(a.client, t.Large.Bytes)
		s.mu.Unlock()
		if no != nil {
			return nil, no
		}
		bytes = t.Large.Bytes
		body, err := follow.Body(s.life, s.d.Bus, s.c.ID, a.reader, t.Large, &s.pace)
		if err != nil && !errors.Is(err, follow.ErrBody) {
			err = &bus.Error{Code: bus.CodeUnavailable, Message: "the body did not come to the door: " + err.Error()}
		}
		return body, err
	}
	task, opening, no := openai.DecodeFetching(a.data, a.header, a.client, key, body)
	if bytes > 0 {
		s.mu.Lock()
		s.desk.LeaveBody(a.client, bytes)
		s.mu.Unlock()
	}
	return task, opening, no
}

// onTask takes a request in. Handlers run one after another, so everything else happens elsewhere.
func (s *Server) onTask(m bus.Msg) {
	a, ok := s.ask(m, taskKind)
	if !ok {
		s.count((*classifier.Desk).Unanswerable)
		return
	}
	since := s.since.Load()
	r := &request{asked: a, came: time.Now(), since: since.at, heard: since.heard, done: make(chan struct{})}
	if no := r.enter(m, s.desk.Enter); no != nil {
		r.refuse(no)
		return
	}
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
