package serve

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/tip"
)

const (
	maxPending = 4096 // requests that wait for a sync: a second of them, at what one disk syncs
	maxBatch   = 256  // of them that one sync makes durable: a frame of 50 KB
)

// request is a request that has arrived.
type request struct {
	op    string
	reply string
	json  bool
	req   bus.FundsRequest
	asked asked // of the registry, about its epoch
	leads bool  // it answered that the hub leads in that epoch now
}

// answerOf returns a hub's inbox. Hubs may write to any, so it ends in a word that no other hub knows.
func (s *Server) answerOf(hub string) string {
	word := hmac.New(sha256.New, s.words)
	word.Write([]byte(hub))
	return s.inbox + "." + hub + "." + hex.EncodeToString(word.Sum(nil)[:16])
}

// hear takes a hub's answer; one without room is asked for again.
func (s *Server) hear(m bus.Msg) {
	hub, _ := bus.Replied(m.Subject)
	if !hmac.Equal([]byte(m.Subject), []byte(s.answerOf(hub))) {
		s.dropped.Add(1)
		return
	}
	v := new(bus.RecallReply)
	if err := bus.Decode(m.Data, v); err != nil {
		if len(m.Data) > 0 { // else the bus says that nobody is there
			s.dropped.Add(1)
		}
		return
	}
	v.Hub = hub
	select {
	case s.said <- v:
	default:
		s.dropped.Add(1)
	}
}

// take hands a message to the loop; it never blocks. Who asks is the subject's to say, and the answer goes to
// nobody else; what the message says of it must be the same.
func (s *Server) take(m bus.Msg) {
	op, client, who, ok := bus.ParseLedger(m.Subject)
	if !ok || !bus.AnswersTo(m.Subject, m.Reply) {
		s.dropped.Add(1)
		return
	}
	r := request{op: op, reply: m.Reply, json: bus.WantsJSON(m.Data, m.Header)}
	err := bus.Decode(m.Data, &r.req)
	if err == nil {
		err = said(op, client, who, &r.req)
	}
	if err == nil {
		err = s.approved(&r.req)
	}
	if err != nil {
		s.dropped.Add(1)
		s.send(r, bus.FundsReply{ID: r.req.ID, Code: bus.CodeOf(err), Message: bus.MessageOf(err)})
		return
	}
	select {
	case s.queue <- r:
	default:
		s.dropped.Add(1)
		s.send(r, bus.FundsReply{ID: r.req.ID, Code: bus.CodeUnavailable,
			Message: fmt.Sprintf("%d requests are waiting: ask again with the same id", maxPending)})
	}
}

// said fills in the request's hub, the client of a balance, or the operator from the subject.
func said(op, client, who string, req *bus.FundsRequest) error {
	field, word, subject := "hub", &req.Hub, who
	switch op {
	case bus.OpBalance:
		field, word, subject = "client", &req.Client, client
	case bus.OpAllot, bus.OpReturn, bus.OpAllotted, bus.OpClose:
	default: // an operator's
		req.Attest = nil // nobody speaks of checkpoints for another
		if req.Order == nil {
			req.Order = &tip.Order{}
		}
		req.Order.By = who
		return nil
	}
	if *word != "" && *word != subject {
		return &bus.Error{Code: bus.CodeBadRequest, Message: fmt.Sprintf(
			"%s: the request says %.80q, and came on the subject of %s: nobody asks for another", field,
			*word,
			subject)}
	}
	*word = subject
	return nil
}

// approved fills in which operator has signed what another one commands, by its JWT: nothing else is
// believed.
func (s *Server) approved(req *bus.FundsRequest) (err error) {
	o := req.Order
	if o == nil {
		return nil
	}
	o.Second, o.Key = "", ""
	switch {
	case req.Token == "" || o.Signature == "":
		o.Signature = ""
	case s.d.Operator == nil:
		err = errors.New("this market has no creds, so nobody can show to be a second operator")
	default:
		o.Second, o.Key, err = s.d.Operator(req.Token)
	}
	if err != nil {
		return &bus.Error{Code: bus.CodeBadRequest, Message: "approval: " + err.Error()}
	}
	return nil
}

// send answers in the language of the request, unless another may lead.
func (s *Server) send(r request, reply bus.FundsReply) {
	if !s.Leading() {
		s.dropped.Add(1)
		return
	}
	reply.Epoch = s.epoch.Load()
	if r.op == bus.OpSums && s.d.Expires != nil {
		reply.Expires = bus.UnixMS(s.d.Expires())
	}
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
	follow.Unsent(s.d.Log, err, "treasury: answer lost; it is given again when asked with the same id",
		"op", r.op, "id", r.req.ID)
}
