package treasury

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/ledger"
)

// Deps is what a Server is wired to.
type Deps struct {
	Bus     bus.Bus
	Journal ledger.Journal
	Log     *slog.Logger // nil: slog.Default
}

// Server answers the treasury's requests on souk.v1.ledger.<op>, in msgpack or JSON as they came. Every change is
// durable before anyone is told of it; requests that arrive during a sync share the next.
type Server struct {
	cfg   Config
	d     Deps
	t     *Treasury
	epoch int64
	ready chan struct{}
	queue chan request

	requests, refused, dropped, frames, records atomic.Int64
	mu                                          sync.Mutex // of t, for Stats
}

// request is one that has arrived.
type request struct {
	op    string
	reply string
	json  bool
	req   bus.FundsRequest
}

// Stats is a snapshot of a Server.
type Stats struct {
	Requests int64 // taken in
	Refused  int64 // answered with a code
	Dropped  int64 // turned away by a full queue, or malformed
	Frames   int64 // made durable by this process
	Records  int64
	Pending  int // wait for the next sync
	Seq      uint64
	Epoch    int64
	Balances []ledger.Balance // of all accounts
}

// NewServer replays the journal. It fails if the journal is not this treasury's or breaks a rule.
func NewServer(cfg Config, d Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Bus == nil || d.Journal == nil {
		return nil, errors.New("treasury: a bus and a journal are needed")
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	s := &Server{cfg: cfg, d: d, ready: make(chan struct{}), queue: make(chan request, cfg.MaxPending)}
	s.t = New(cfg, salt)
	err := ledger.Restore(d.Journal, s.t.past)
	if err == nil {
		err = s.t.Recall()
	}
	if err != nil {
		return nil, fmt.Errorf("treasury: %w", err)
	}
	_, last, _ := s.t.book.Last()
	if s.epoch = cfg.Epoch; s.epoch == 0 {
		s.epoch = last + 1
	}
	if s.epoch < last {
		return nil, fmt.Errorf("treasury: epoch %d is lower than the journal's %d: a newer writer was here", s.epoch, last)
	}
	return s, nil
}

func salt() (b [16]byte) {
	rand.Read(b[:])
	return b
}

// Ready is closed once requests are taken.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Stats is a snapshot.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, _, _ := s.t.book.Last()
	return Stats{
		Requests: s.requests.Load(), Refused: s.refused.Load(), Dropped: s.dropped.Load(),
		Frames: s.frames.Load(), Records: s.records.Load(), Pending: len(s.queue),
		Seq: seq, Epoch: s.epoch, Balances: s.t.book.Balances("*"),
	}
}

// Run serves until ctx ends, then answers what has arrived within Config.Drain and returns nil. An error means
// that the journal takes nothing more: whether the last changes were written is not known, nobody was told of them,
// and only a restart can tell.
func (s *Server) Run(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer ledger.Follow(s.d.Journal, func() ledger.Replica { return newHistory(s.cfg) })()
	sub, err := s.d.Bus.Subscribe(bus.LedgerSubject("*"), "", s.take)
	if err != nil {
		return fmt.Errorf("treasury: subscribe: %w", err)
	}
	s.d.Log.Info("treasury open", "journal", s.cfg.Journal, "epoch", s.epoch)
	close(s.ready)
	for {
		select {
		case first := <-s.queue:
			if err := s.serve(first); err != nil {
				sub.Stop()
				return err
			}
			continue
		case <-ctx.Done():
		}
		break
	}
	sub.Stop() // no take runs after this
	return s.drain(context.WithoutCancel(ctx))
}

// drain serves what had arrived when the subscription ended.
func (s *Server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Drain)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case r := <-s.queue:
			if err := s.serve(r); err != nil {
				return err
			}
			continue
		default:
		}
		break
	}
	if err := s.d.Bus.Flush(ctx); err != nil {
		s.d.Log.Warn("treasury: last answers may not have left", "err", err)
	}
	return nil
}

func (s *Server) begin() error {
	if err := s.t.Begin(); err != nil {
		return fmt.Errorf("treasury: %w", err)
	}
	return s.commit(s.t.Ready())
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

// serve handles a request and all that wait behind it, makes the outcome durable with one sync, and answers.
func (s *Server) serve(first request) error {
	room := true
	if j, ok := s.d.Journal.(interface{ HasRoom() bool }); ok {
		room = j.HasRoom()
	}
	s.mu.Lock()
	for n, r := 1, first; ; n++ {
		s.requests.Add(1)
		s.t.Handle(r.op, &r.req, r, room)
		if n == s.cfg.MaxBatch {
			break
		}
		more := false
		select {
		case r = <-s.queue:
			more = true
		default:
		}
		if !more {
			break
		}
	}
	ready := s.t.Ready()
	s.mu.Unlock()
	if err := s.commit(ready); err != nil {
		return err
	}
	for _, a := range ready.Answers {
		if a.Reply.Code != "" {
			s.refused.Add(1)
		}
		s.send(a.To.(request), a.Reply)
	}
	return nil
}

func (s *Server) commit(ready Ready) error {
	if len(ready.Records) == 0 {
		return nil
	}
	s.mu.Lock()
	f, err := s.t.book.Seal(s.epoch, time.Now().UnixNano(), ready.Records)
	s.mu.Unlock()
	if err == nil {
		err = s.d.Journal.Append(f)
	}
	if err != nil {
		return fmt.Errorf("treasury: %w", err)
	}
	s.frames.Add(1)
	s.records.Add(int64(len(ready.Records)))
	return nil
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
		s.d.Log.Warn("treasury: answer lost; it is given again when asked with the same id", "op", r.op, "id", r.req.ID, "err", err)
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
