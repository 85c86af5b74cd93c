package serve

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/hub/account"
)

// listen subscribes to everything that is said to this hub.
func (s *Server) listen() (all []bus.Subscription, err error) {
	d, from := s.cfg.Domain, bus.LastToken
	feedback := bus.FeedbackSubject(d, "", "")
	for _, sub := range []struct {
		subject string
		handle  bus.Handler
	}{
		{bus.TakenSubject(d, "*", "*"), s.onTaken},
		{bus.SummarySubject(d, "*"),
			hearing(s, bus.Decode, func(v *bus.Summary, m bus.Msg) { v.Agent = from(m.Subject) })},
		{bus.HoldingsSubject(d, "*"),
			hearing(s, bus.Decode, func(v *bus.Holdings, m bus.Msg) { v.Agent = from(m.Subject) })},
		{bus.CompletionSubject(d, "*"), s.completions()},
		{bus.CancelSubject(d, "*"),
			hearing(s, bus.Decode, func(v *bus.Cancel, m bus.Msg) {
				v.Sender = from(m.Subject)
				v.Client = cmp.Or(v.Client, v.Sender)
			})},
		{bus.AskSubject(d, "*"),
			hearing(s, bus.Decode, func(v *bus.Ask, m bus.Msg) { v.Agent = from(m.Subject) })},
		{bus.RecallSubject(d, "*"),
			hearing(s, bus.Decode, func(v *bus.Recall, m bus.Msg) { v.Inbox = m.Reply; s.find(v) })},
		{feedback + ">",
			hearing(s, bus.Decode, func(v *bus.Feedback, m bus.Msg) {
				v.Client, v.Sender = bus.Speaks(m.Subject, feedback)
			})},
		{bus.HubEndSubject(d, "*"), hearing(s, bus.Decode, func(*bus.SessionEnd, bus.Msg) {})},
		{bus.HubQuoteSubject(d, "*"), s.onQuote},
		{bus.WatchSubject(d, "*"), s.onWatch},
		{bus.HubTaskSubject(d, "*"), s.onTask},
	} {
		o, err := s.deps.Bus.Subscribe(sub.subject, "", sub.handle)
		if err != nil {
			for _, o := range all {
				o.Stop()
			}
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func (s *Server) onTask(m bus.Msg) {
	if s.misled(m) {
		return
	}
	t := new(bus.Task)
	err := bus.Decode(m.Data, t)
	t.Door, t.Inbox = bus.LastToken(m.Subject), m.Reply
	if err != nil {
		s.refuse(t, err, 0)
		return
	}
	t.Trace = s.spans.hear("hub.admit", m)
	if !s.hand(s.message(t)) {
		s.refuse(t, errNoRoom, time.Second)
	}
}

var errNoRoom = &bus.Error{Code: bus.CodeNoRoom,
	Message: "the hub has more messages than it can look at; try again"}

// misled reports whether the answer to a message is to go elsewhere than to its sender. Such a message is
// dropped: we may publish where its sender may not.
func (s *Server) misled(m bus.Msg) bool {
	if m.Reply == "" || bus.AnswersTo(m.Subject, m.Reply) {
		return false
	}
	s.measures.bad.Add(1)
	s.log.Debug("message dropped: its answer is to go to another's inbox", "subject", m.Subject,
		"reply", bus.Clip(m.Reply, bus.MaxText))
	return true
}

// refuse answers a task that does not reach the Node.
func (s *Server) refuse(t *bus.Task, wrong error, retry time.Duration) {
	s.measures.count(s.measures.refusals, bus.CodeOf(wrong))
	if t.Inbox == "" {
		return
	}
	l := hub.Message{Subject: t.Inbox, Body: s.cfg.Refusal(t, wrong, retry)}
	if err := s.publish(bus.Msg{Subject: l.Subject}, l.Body); err != nil {
		s.log.Debug("refusal not sent", "err", err)
	}
	s.spans.answered(l)
}

// onTaken takes an agent's answer to a dispatch or a probe. The subject names the hold and the agent, so they
// are known even when the answer is the server's own: that nobody listens.
func (s *Server) onTaken(m bus.Msg) {
	absent := len(m.Data) == 0 && m.Header.Get("Status") == noResponders
	agent := bus.LastToken(m.Subject)
	place := bus.Taken(m.Subject, s.cfg.Domain, agent)
	if place == probePlace {
		if absent {
			at := time.Now()
			s.hand(func(n *hub.Node) {
				if n.Absent(at, agent) {
					s.log.Warn("agent dead: nobody listens there any more; what its readers have not had "+
						"the end of "+
						"is void", "agent", agent)
				}
			})
		}
		return
	}
	round, slot, _ := strings.Cut(place, "-")
	hold := s.cfg.Journal + "/" + round + "/" + slot
	r := new(bus.DispatchReply)
	switch err := bus.Decode(m.Data, r); {
	case absent:
		r.Code, r.Message = bus.CodeUnavailable, "no agent listens on the subject of its dispatches"
	case err != nil, r.Hold != "" && r.Hold != hold: // or it is of a hub that led here under another journal
		s.measures.bad.Add(1)
		s.log.Debug("dispatch reply not understood", "subject", m.Subject, "err", err)
		return
	}
	r.Hold, r.Agent = hold, agent
	s.hand(s.message(r))
}

// noResponders is the status of the server's own answer to a request that nobody hears.
const noResponders = "503"

// completions hears what agents say of what they served. Only the form is judged here. The Node judges the
// content, since the agent must get an answer.
func (s *Server) completions() bus.Handler {
	return hearing(s, bus.DecodeForm, func(v *bus.Completion, m bus.Msg) {
		v.Agent, v.Inbox = bus.LastToken(m.Subject), m.Reply
		s.spans.hear("hub.settle", m)
	})
}

// hearing hands messages of one kind to the loop. fill says who speaks, by the subject alone.
func hearing[M any, P interface {
	*M
	bus.Message
}](s *Server, decode func([]byte, bus.Message) error, fill func(P, bus.Msg)) bus.Handler {
	return func(m bus.Msg) {
		if s.misled(m) {
			return
		}
		v := P(new(M))
		if err := decode(m.Data, v); err != nil {
			s.measures.bad.Add(1)
			s.log.Debug("message not understood", "subject", m.Subject, "err", err)
			return
		}
		fill(v, m)
		s.hand(s.message(v))
	}
}

// watchBus tells the Node when the bus goes away and when it is there again.
func (s *Server) watchBus(ctx context.Context) {
	news, up := s.deps.Bus.Health(), true
	for {
		select {
		case h, ok := <-news:
			if !ok {
				return
			}
			if h.Connected != up {
				at := time.Now()
				s.pass(ctx, func(n *hub.Node) { n.Hears(at, h.Connected) })
			}
			up = h.Connected
		case <-ctx.Done():
			return
		}
	}
}

// ask asks the treasury, and hands its answer, or that there was none, to the Node.
func (s *Server) ask(f hub.Funds) {
	reply := s.answer(context.Background(), f)
	// The request may have used up its own time. Just then the Node must hear that there was no answer, so
	// handing it over has a time of its own.
	ctx, cancel := context.WithTimeout(context.Background(), account.TreasuryTimeout)
	defer cancel()
	if !s.pass(ctx, s.message(reply)) {
		s.dropped.Add(1) // the loop has ended, or has too much to do; the Node asks again
	}
}

// find looks up the payment that is to be refunded.
func (s *Server) find(m *bus.Recall) {
	if m.Order == nil || m.Order.Order == nil || m.Order.Order.Receipt == "" {
		return
	}
	o, err := s.deps.Journal.Captured(m.Order.Order.Receipt)
	if m.Found = &o; err != nil {
		m.Found, m.Why = nil, bus.Clip(err.Error(), bus.MaxText)
	}
}

// answer returns the treasury's answer to a request; unavailable if none comes.
func (s *Server) answer(ctx context.Context, f hub.Funds) *bus.FundsReply {
	ctx, cancel := context.WithTimeout(ctx, account.TreasuryTimeout)
	defer cancel()
	reply := new(bus.FundsReply)
	var data []byte
	var err error
	if q := f.Request.Mark; q != nil { // its frame is durable by now
		m, ok := *q, false // the Node may send the request once more
		if m.Sum, ok, err = s.deps.Journal.Sum(m.Seq); err == nil && !ok {
			err = fmt.Errorf("journal %s has no frame %d", s.cfg.Journal, m.Seq)
		}
		f.Request.Mark = &m
	}
	if f.Op == bus.OpAllotted || s.restarts.Load() { // one that was started waits for what this hub knows
		f.Request.Attest = s.deps.Signs.Say("")
	}
	if err == nil {
		data, err = bus.Encode(&f.Request)
	}
	if err == nil {
		var m bus.Msg
		if m, err = s.deps.Bus.Request(ctx,
			bus.Msg{Subject: bus.LedgerSubject(f.Op, s.cfg.Journal), Data: data}); err == nil {
			err = bus.Decode(m.Data, reply)
		}
	}
	if !s.mute.Note(s.log, "treasury", err == nil, "treasury did not answer; asking again every second",
		"treasury answers again", "op", f.Op, "client", f.Request.Client, "err", err) {
		*reply = bus.FundsReply{Code: bus.CodeUnavailable}
	}
	s.restarts.Store(reply.Code == bus.CodeUnavailable)
	s.deps.Signs.Hear("", reply.Attest)
	reply.ID = f.Request.ID
	if m := reply.Known; m != nil {
		var err error
		if reply.Here, _, err = s.deps.Journal.Sum(m.Seq); err != nil {
			s.log.Error("the treasury's word on this hub's journal cannot be judged", "err", err)
		}
	}
	return reply
}
