package serve

import (
	"fmt"
	"time"

	"souk/bus"
	"souk/bus/tip"
	"souk/ledger/treasury"
)

// serve lets time pass, takes hubs' answers in, handles a request, if there is one, and all that wait behind
// it, makes the outcome durable with one sync, and answers. It returns when there is work next, and
// bus.ErrLost where another may lead: then nothing was taken in, or nobody was told.
func (s *Server) serve(first *request, said ...*bus.RecallReply) (time.Time, error) {
	if !s.Leading() {
		return time.Time{}, errLost
	}
	room := s.hasRoom()
	s.mu.Lock()
	s.t.Stands(s.d.Signs.Stands())
	s.t.Tick(time.Now())
	for _, m := range said {
		s.t.Said(m)
	}
	for n := 1; first != nil; n++ {
		s.handle(*first, room)
		if first = nil; n < maxBatch && len(s.queue) > 0 {
			first = new(<-s.queue)
		}
	}
	ready, closed := s.t.Ready(), s.t.Closed()
	s.mu.Unlock()
	return ready.Wake, s.act(ready, closed)
}

// hasRoom reports whether the journal's disk has room for new money, and names in the log when it has none.
func (s *Server) hasRoom() bool {
	return s.disk.Note(s.d.Log, "disk", s.d.Journal.HasRoom(), "the journal's disk is nearly full: no money is "+
		"taken in or allotted until it has room; free some space", "the journal's disk has room again")
}

// act carries out the treasury's effects. A server whose lease was lost meanwhile tells nobody. closed is why
// it does nothing for anybody.
func (s *Server) act(ready treasury.Ready, closed string) error {
	if err := s.commit(ready); err != nil {
		return err
	}
	if !s.Leading() {
		return errLost
	}
	s.settle(ready.Settle, closed)
	var mark *tip.Mark // of what is durable now
	for _, a := range ready.Answers {
		r := a.To.(request)
		s.count(r.op, a.Reply.Code)
		if closed == "" && r.req.Hub != "" {
			if mark == nil {
				mark = s.mark()
			}
			a.Reply.Mark = mark
		}
		if r.req.Attest != nil && r.req.Hub != "" {
			a.Reply.Attest = s.d.Signs.Say(r.req.Hub)
		}
		s.send(r, a.Reply)
	}
	for _, r := range ready.Recalls {
		r.Ask.Epoch = s.epoch.Load()
		data, err := bus.Encode(&r.Ask)
		if err == nil {
			err = s.d.Bus.Publish(bus.Msg{Subject: bus.RecallSubject(r.Domain, s.cfg.Journal),
				Reply: s.answerOf(r.Ask.Hub), Data: data})
		}
		if err != nil {
			s.d.Log.Debug("hub not asked for money; it is asked again", "hub", r.Ask.Hub, "err", err)
		}
	}
	return nil
}

// handle puts a request to the Treasury, or has it wait until the registry has said whether its hub's epoch
// is true. A hub that has ended has closed its journal and returns nothing. So a return in its name is taken
// in only if it leads now: then somebody else ended it.
func (s *Server) handle(r request, room bool) {
	ended := r.op == bus.OpReturn && s.t.Book.Closed(r.req.Hub)
	unknown := r.op == bus.OpWriteOff && r.asked != answered // whether it leads
	if unknown || ended && !r.leads || r.asked != away && s.t.Doubts(r.op, &r.req) {
		if r.asked == notAsked {
			select {
			case s.doubt <- r:
				return
			default: // so many are being looked up that this one may as well be asked again
			}
		}
		s.requests.Add(1)
		s.t.Doubted(r.op, &r.req, r)
		return
	}
	s.requests.Add(1)
	if r.op == bus.OpAllotted {
		s.here(&r.req)
	}
	if r.req.Attest != nil && r.req.Hub != "" {
		s.d.Signs.Hear(r.req.Hub, r.req.Attest)
		s.t.Stands(s.d.Signs.Stands())
	}
	s.t.Handle(r.op, &r.req, r, room)
}

func (s *Server) commit(ready treasury.Ready) error {
	if len(ready.Records) == 0 {
		return nil
	}
	s.mu.Lock()
	f, err := s.t.Book.Seal(s.epoch.Load(), time.Now().UnixNano(), ready.Records)
	s.mu.Unlock()
	if err == nil {
		err = s.d.Journal.Append(f)
	}
	if err != nil {
		return fmt.Errorf("treasury: %w", err)
	}
	s.d.Signs.Wrote()
	s.frames.Add(1)
	s.records.Add(int64(len(ready.Records)))
	return nil
}
