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
	Bus      bus.Bus
	Registry bus.Registry // names the hubs that lead; nil: no hub's epoch is ever over
	Journal  ledger.Journal
	Log      *slog.Logger // nil: slog.Default
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
	doubt chan request // whose epochs are to be proven
	inbox string       // hubs answer below it, each under its own name
	said  chan *bus.RecallReply

	requests, refused, dropped, frames, records atomic.Int64
	mu                                          sync.Mutex // of t, for Stats
}

// request is one that has arrived.
type request struct {
	op    string
	reply string
	json  bool
	req   bus.FundsRequest
	asked asked // of the registry, about its epoch
}

// asked is what came of asking the registry who leads.
type asked uint8

const (
	notAsked asked = iota
	answered
	away // it did not say: the hub is served, and its epoch is not remembered
)

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
	s := &Server{
		cfg: cfg, d: d, ready: make(chan struct{}), queue: make(chan request, cfg.MaxPending),
		doubt: make(chan request, cfg.MaxPending), inbox: d.Bus.Inbox(), said: make(chan *bus.RecallReply, cfg.MaxPending),
	}
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
	proving, stop := context.WithCancel(ctx)
	var prover sync.WaitGroup
	prover.Go(func() { s.prove(proving) })
	defer prover.Wait()
	defer stop()
	answers, err := s.d.Bus.Subscribe(s.inbox+".*", "", s.hear)
	if err != nil {
		sub.Stop()
		return fmt.Errorf("treasury: subscribe: %w", err)
	}
	defer answers.Stop()
	s.d.Log.Info("treasury open", "journal", s.cfg.Journal, "epoch", s.epoch)
	close(s.ready)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		var wake time.Time
		err := error(nil)
		select {
		case first := <-s.queue:
			wake, err = s.serve(&first)
		case m := <-s.said:
			wake, err = s.serve(nil, m)
		case <-timer.C:
			wake, err = s.serve(nil)
		case <-ctx.Done():
			continue
		}
		if err != nil {
			sub.Stop()
			return err
		}
		if timer.Stop(); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
	}
	sub.Stop() // no take runs after this
	return s.drain(context.WithoutCancel(ctx))
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

// drain serves what had arrived when the subscription ended.
func (s *Server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Drain)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case r := <-s.queue:
			if _, err := s.serve(&r); err != nil {
				return err
			}
			continue
		default:
		}
		break
	}
	s.mu.Lock()
	s.t.Stop()
	ready := s.t.Ready()
	s.mu.Unlock()
	if err := s.act(ready); err != nil {
		return err
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

// serve lets time pass, takes hubs' answers in, handles a request, if there is one, and all that wait behind it, makes the outcome
// durable with one sync, and answers. It returns when there is next something to do.
func (s *Server) serve(first *request, said ...*bus.RecallReply) (time.Time, error) {
	room := true
	if j, ok := s.d.Journal.(interface{ HasRoom() bool }); ok {
		room = j.HasRoom()
	}
	s.mu.Lock()
	s.t.Tick(time.Now())
	for _, m := range said {
		s.t.Said(m)
	}
	for n := 1; first != nil; n++ {
		s.handle(*first, room)
		if n == s.cfg.MaxBatch {
			break
		}
		first = nil
		select {
		case r := <-s.queue:
			first = &r
		default:
		}
	}
	ready := s.t.Ready()
	s.mu.Unlock()
	return ready.Wake, s.act(ready)
}

// act does what the treasury wants done.
func (s *Server) act(ready Ready) error {
	if err := s.commit(ready); err != nil {
		return err
	}
	for _, a := range ready.Answers {
		if a.Reply.Code != "" {
			s.refused.Add(1)
		}
		s.send(a.To.(request), a.Reply)
	}
	for _, r := range ready.Recalls {
		data, err := bus.Encode(&r.Ask)
		if err == nil {
			err = s.d.Bus.Publish(bus.Msg{Subject: bus.RecallSubject(r.Domain, s.cfg.Journal), Reply: s.inbox + "." + r.Ask.Hub, Data: data})
		}
		if err != nil {
			s.d.Log.Debug("hub not asked for money; it is asked again", "hub", r.Ask.Hub, "err", err)
		}
	}
	return nil
}

// handle puts a request to the Treasury, or has it wait until the registry has said whether its hub's epoch
// is true.
func (s *Server) handle(r request, room bool) {
	if s.d.Registry != nil && r.asked != away && s.t.Doubts(r.op, &r.req) {
		if r.asked == notAsked {
			select {
			case s.doubt <- r:
				return
			default: // so many are being looked up that this one may as well be asked again
			}
		}
		s.requests.Add(1)
		s.t.Doubted(&r.req, r)
		return
	}
	s.requests.Add(1)
	s.t.Handle(r.op, &r.req, r, room)
}

// How long the registry may take to say who leads, and how soon it is asked again: a flood of made-up epochs
// must not become one of questions.
const (
	proveWithin = time.Second
	proveEvery  = 20 * time.Millisecond
)

// prove asks the registry who leads, once for all requests that wait to know it, and puts them into the queue
// again.
func (s *Server) prove(ctx context.Context) {
	var wait []request
	var lost time.Time // when the registry was last found to be away; zero: it was not
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case r := <-s.doubt:
			wait = append(wait, r)
		case <-ctx.Done():
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		for len(s.doubt) > 0 && len(wait) < s.cfg.MaxPending {
			wait = append(wait, <-s.doubt)
		}
		came := away
		if lost.IsZero() || time.Since(lost) >= proveWithin { // else whoever waits has waited long enough
			err := s.leaders(ctx)
			switch {
			case err == nil:
				came, lost = answered, time.Time{}
			case lost.IsZero():
				s.d.Log.Warn("treasury: the registry does not say which hubs lead; all are served meanwhile", "err", err)
				fallthrough
			default:
				lost = time.Now()
			}
		}
		for _, r := range wait {
			r.asked = came
			select {
			case s.queue <- r:
			case <-ctx.Done():
				return
			}
		}
		clear(wait)
		wait = wait[:0]
		pause.Reset(proveEvery)
	}
}

// leaders takes in which hubs lead.
func (s *Server) leaders(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	kvs, err := s.d.Registry.Get(ctx, bus.HubsPrefix)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kv := range kvs {
		var e bus.HubEntry
		if bus.DecodeEntry(kv.Value, &e) == nil && e.Journal != s.cfg.Journal {
			s.t.Leads(e.Journal, kv.Create)
		}
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
