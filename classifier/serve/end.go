package serve

import (
	"encoding/json"
	"time"

	"souk/bus"
	"souk/classifier"
)

// endKind begins the subjects on which clients and gateways say that a session has ended.
var endKind = bus.EndSubject("", "")

// onEnd passes the end of a client's session on to every hub: turns of it may have gone to any, by another
// door. A hub that knows nothing of the session has nothing to do.
func (s *Server) onEnd(m bus.Msg) {
	client, _ := bus.Speaks(m.Subject, endKind)
	if client == "" || m.Reply != "" && !bus.AnswersTo(m.Subject, m.Reply) {
		s.count((*classifier.Desk).Stray)
		return
	}
	var e bus.SessionEnd
	s.mu.Lock()
	no := s.desk.EnterEnd(client, len(m.Data), time.Now())
	if no == nil {
		s.tasks.Add(1) // it is passed on before the door is closed
		defer s.tasks.Done()
	}
	s.mu.Unlock()
	said := &bus.SessionEnded{}
	var err error
	if no != nil {
		err = no
	} else {
		err = bus.Decode(m.Data, &e)
	}
	if err != nil {
		said.Code, said.Message = bus.CodeOf(err), bus.Clip(bus.MessageOf(err), bus.MaxText)
	} else {
		said.Session = e.Session
		said.Hubs = s.tellHubs(&bus.SessionEnd{Client: client, Session: e.Session})
	}
	s.mu.Lock()
	s.desk.Ended(said.Code)
	s.mu.Unlock()
	if m.Reply == "" {
		return
	}
	data, err := bus.Encode(said)
	asked := bus.WantsJSON(m.Data, m.Header)
	if asked {
		data, err = json.Marshal(said)
	}
	s.send(m.Reply, asked, data, err, "answer to a session's end not sent", client)
}

// tellHubs says it to all hubs, and how many they are.
func (s *Server) tellHubs(e *bus.SessionEnd) (told int) {
	data, err := bus.Encode(e)
	if err != nil {
		return 0
	}
	for _, h := range s.table.Load().Hubs {
		err := s.d.Bus.Publish(bus.Msg{Subject: bus.HubEndSubject(h.Entry.Domain, s.c.ID), Data: data})
		if err == nil {
			told++
		}
	}
	return told
}
