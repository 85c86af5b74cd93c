package serve

import (
	"encoding/json"
	"errors"
	"fmt"

	"souk/bus"
)

// request is one that has arrived.
type request struct {
	op    string
	reply string
	json  bool
	req   bus.FundsRequest
	asked asked // of the registry, about its epoch
	leads bool  // it answered that the hub leads in that epoch now
}

// hear takes a hub's answer; what finds no room is asked for again.
func (s *Server) hear(m bus.Msg) {
	v := new(bus.RecallReply)
	if err := bus.Decode(m.Data, v); err != nil {
		if len(m.Data) > 0 { // else the bus says that nobody is there
			s.dropped.Add(1)
		}
		return
	}
	v.Hub = bus.LastToken(m.Subject)
	select {
	case s.said <- v:
	default:
		s.dropped.Add(1)
	}
}

// take hands a message to the loop; it never blocks.
func (s *Server) take(m bus.Msg) {
	if m.Reply == "" {
		s.dropped.Add(1)
		return
	}
	r := request{op: bus.LastToken(m.Subject), reply: m.Reply, json: isJSON(m.Data)}
	if err := bus.Decode(m.Data, &r.req); err != nil {
		var e *bus.Error
		if !errors.As(err, &e) {
			e = &bus.Error{Code: bus.CodeBadRequest, Message: err.Error()}
		}
		s.dropped.Add(1)
		s.send(r, bus.FundsReply{Code: e.Code, Message: e.Message})
		return
	}
	select {
	case s.queue <- r:
	default:
		s.dropped.Add(1)
		s.send(r, bus.FundsReply{ID: r.req.ID, Code: bus.CodeUnavailable,
			Message: fmt.Sprintf("%d requests are waiting: ask again with the same id", s.cfg.MaxPending)})
	}
}

// send answers in the language of the request.
func (s *Server) send(r request, reply bus.FundsReply) {
	var data []byte
	var err error
	if r.json {
		data, err = json.Marshal(reply)
	} else {
		data, err = bus.Encode(&reply)
	}
	if err == nil {
		err = s.d.Bus.Publish(bus.Msg{Subject: r.reply, Data: data})
	}
	if errors.Is(err, bus.ErrDisconnected) { // said once by whoever watches the bus
		s.d.Log.Debug("treasury: answer lost: the bus is away", "op", r.op, "id", r.req.ID)
	} else if err != nil {
		s.d.Log.Warn("treasury: answer lost; it is given again when asked with the same id",
			"op", r.op, "id", r.req.ID, "err", err)
	}
}

// isJSON reports whether a request is a JSON object: a msgpack map begins with another byte.
func isJSON(data []byte) bool {
	for _, c := range data {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == '{'
	}
	return false
}
