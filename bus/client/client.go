// Package client buys answers on the market for a Go program: it submits tasks, reads their streams without
// gaps, resumes and cancels them.
//
//	c, err := client.New(client.Config{ID: "dev"}, b)
//	stream, err := c.Submit(ctx, bus.Task{Body: body})
//	for {
//		chunk, err := stream.Next(ctx)
//		if err != nil { ... } // io.EOF after the last chunk; then stream.Result() says what was paid
//		fmt.Print(chunk.Text)
//	}
//
// The market's errors are of type *bus.Error: decide by bus.CodeOf.
package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"souk/bus"
	"souk/bus/bounded"
	"souk/bus/follow"
	"souk/bus/reader"
)

// Reader hears the answers of any number of clients under one name, with one subscription: a gateway's, which
// speaks for its clients, or a client's own. All methods may be called from many goroutines.
type Reader struct {
	name string
	bus  bus.Bus
	sub  bus.Subscription

	// of hear, one after another: for each message anew it would be the largest thing allocated
	came bus.Chunk

	acks acks
	bank atomic.Int64 // the highest epoch of a treasury that has answered

	mu      sync.Mutex
	streams map[string]*Stream                    // by token
	bodies  map[string]*large                     // by hash
	asked   bus.Subscription                      // to these; nil until there is one
	pace    follow.Pace                           // of a client's own; a gateway's share has no bound
	doubts  *bounded.Cache[string, string, doubt] // likewise
}

// NewReader subscribes to the answers for a name.
func NewReader(name string, b bus.Bus) (*Reader, error) {
	if err := bus.CheckID("reader", name); err != nil {
		return nil, err
	}
	r := newReader(name, b)
	return r, r.listen()
}

// treasury notes the epoch of a treasury that answered, and returns the highest so far.
func (r *Reader) treasury(epoch int64) (highest int64) {
	for {
		if highest = r.bank.Load(); epoch <= highest || r.bank.CompareAndSwap(highest, epoch) {
			return max(highest, epoch)
		}
	}
}

func newReader(name string, b bus.Bus) *Reader {
	return &Reader{name: name, bus: b, acks: acks{bus: b}, streams: map[string]*Stream{},
		bodies: map[string]*large{},
		doubts: bounded.New[string, string, doubt](maxDoubts, 0)}
}

func (r *Reader) listen() (err error) {
	if r.sub, err = r.bus.Subscribe(bus.ReplySubject(r.name, "*", "*"), "", r.hear); err != nil {
		return fmt.Errorf("reader %s: subscribe: %w", r.name, err)
	}
	return nil
}

// Close ends the subscription. The clients are to be closed before.
func (r *Reader) Close() error {
	r.acks.flush()
	if r.asked != nil {
		r.asked.Stop()
	}
	return r.sub.Stop()
}

// hear is the one handler of all streams. It never waits for a reader.
func (r *Reader) hear(m bus.Msg) {
	token, sender := bus.Replied(m.Subject)
	r.mu.Lock()
	s := r.streams[token]
	r.mu.Unlock()
	if s == nil {
		return // of another program under this name, or of a stream that has ended
	}
	c := &r.came
	*c = bus.Chunk{}
	if bus.Decode(m.Data, c) == nil && (c.Task == s.id || c.Task == token) {
		s.hear(sender, c)
	}
	*c = bus.Chunk{} // what it held is the machine's
}

// Client submits tasks of one client. All methods may be called from many goroutines.
type Client struct {
	c      Config
	reader *Reader
	alone  bool // the reader is its own
	bus    bus.Bus

	life context.Context // until Close
	end  context.CancelFunc

	// under the reader's lock
	streams int
	closed  bool
}

// New returns a client that reads its answers itself.
func New(c Config, b bus.Bus) (*Client, error) {
	r := newReader(c.ID, b)
	cl, err := r.Client(c)
	if err != nil {
		return nil, err
	}
	cl.alone = true
	r.pace.Every = follow.PieceEvery
	return cl, r.listen()
}

// Client returns a client whose answers come to the reader, and that speaks in the reader's name.
func (r *Reader) Client(c Config) (*Client, error) {
	c, err := c.filled()
	if err != nil {
		return nil, err
	}
	cl := &Client{c: c, reader: r, bus: r.bus}
	cl.life, cl.end = context.WithCancel(context.Background())
	return cl, nil
}

// gateway returns the gateway that speaks for the client, "" if there is none.
func (cl *Client) gateway() string {
	if cl.reader.name == cl.c.ID {
		return ""
	}
	return cl.reader.name
}

// token returns the reader's name for the answer to a task: the same whenever it asks for it.
func (cl *Client) token(task string) string {
	if cl.gateway() == "" {
		return task
	}
	sum := sha256.Sum256([]byte(cl.c.ID + "." + task))
	return hex.EncodeToString(sum[:16])
}

// Close ends every stream with bus.ErrClosed and cancels its task.
func (cl *Client) Close() error {
	r := cl.reader
	r.mu.Lock()
	if cl.closed {
		r.mu.Unlock()
		return nil
	}
	cl.closed = true
	var open []*Stream
	for _, s := range r.streams {
		if s.cl == cl {
			open = append(open, s)
		}
	}
	r.mu.Unlock()
	for _, s := range open {
		s.Close()
	}
	cl.end()
	if cl.alone {
		return r.Close()
	}
	return nil
}

// open makes room for the answer to a task.
func (cl *Client) open(t *bus.Task, told func()) (*Stream, error) {
	if err := bus.CheckID("task", t.ID); err != nil {
		return nil, &bus.Error{Code: bus.CodeBadRequest, Message: err.Error()}
	}
	t.Tail = t.Whole // this reader knows of it
	s := &Stream{cl: cl, id: t.ID, token: cl.token(t.ID), news: make(chan struct{}, 1),
		told: told}
	if s.token != t.ID {
		t.Token = s.token
	}
	r, now := cl.reader, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Again, t.AgeMS = r.doubted(s.token, now); t.Again > 0 {
		t.FirstMS = max(0, now.UnixMilli()-t.AgeMS)
	}
	s.m = reader.New(cl.c.reader(), t, now)
	switch {
	case cl.closed:
		return nil, bus.ErrClosed
	case r.streams[s.token] != nil:
		return nil, &bus.Error{Code: bus.CodeDuplicate,
			Message: fmt.Sprintf("task %s is in hand in this program", t.ID)}
	case cl.streams >= cl.c.MaxStreams:
		return nil, &bus.Error{Code: bus.CodeTooManyTasks, Message: fmt.Sprintf(
			"%d streams are open, the limit of this client; read or cancel some", cl.streams)}
	}
	r.streams[s.token] = s
	cl.streams++
	return s, nil
}

func (cl *Client) forget(s *Stream) {
	r := cl.reader
	r.mu.Lock()
	if r.streams[s.token] == s {
		delete(r.streams, s.token)
		cl.streams--
	}
	r.mu.Unlock()
}

// Submit sends a task whose answer comes as a stream, to be read to its end or closed. It returns once an
// agent has accepted it, or with the reason why none did. A task without an id gets a random one. A task that
// ended with CodeUnknown, and that the same program sends again under its id within ten minutes, is first
// looked for at all hubs. When ctx ends, the task is cancelled, also after Submit has returned.
func (cl *Client) Submit(ctx context.Context, t bus.Task) (*Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(ctx)
	}
	s, err := cl.begin(t, nil, func(s *Stream) {
		s.unwatch = context.AfterFunc(ctx, func() { s.step(reader.Leave{Err: cancelled(ctx)}) })
	})
	if err == nil {
		err = s.Await()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Begin is like Submit, but waits for nothing: told is called whenever something has happened, perhaps before
// Begin has returned, and must not wait; then Verdict and Poll tell the state. With told nil, Await and Next
// wait for it. Only Cancel or Close take the task back.
func (cl *Client) Begin(t bus.Task, told func()) (*Stream, error) {
	return cl.begin(t, told, func(*Stream) {})
}

func (cl *Client) begin(t bus.Task, told func(), first func(*Stream)) (*Stream, error) {
	t.Client, t.Stream, t.Again = cl.c.ID, true, 0
	if t.ID == "" {
		t.ID = rand.Text()
	}
	body, err := detach(&t)
	if err != nil {
		return nil, err
	}
	s, err := cl.open(&t, told)
	if err != nil {
		return nil, err
	}
	if t.Large != nil {
		if err := cl.reader.keep(t.Large, body); err != nil {
			cl.forget(s)
			return nil, err
		}
		s.large = t.Large
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first(s)
	s.do(time.Now())
	return s, nil
}

func cancelled(ctx context.Context) error {
	return &bus.Error{Code: bus.CodeCancelled, Message: context.Cause(ctx).Error()}
}

// Ask sends a task and returns its whole answer. It comes as a stream, so that a door or an agent that dies
// is noticed within seconds. A Result may come with an error: the part served and paid before it. When ctx
// ends, the task is cancelled.
func (cl *Client) Ask(ctx context.Context, t bus.Task) (bus.Result, error) {
	if t.ID == "" {
		t.ID = rand.Text()
	}
	t.Whole = true
	none := bus.Result{Client: cl.c.ID, Task: t.ID}
	s, err := cl.Submit(ctx, t)
	var said *Refusal
	switch {
	case errors.As(err, &said):
		return said.Result, err
	case err != nil:
		return none, err
	}
	defer s.Close()
	var text strings.Builder
	var extra []bus.Extra
	for size := 0; ; {
		c, err := s.Next(context.WithoutCancel(ctx))
		r, ended := s.Result()
		switch {
		case err != nil && !ended:
			return none, err
		case err != nil && size > cl.c.BufferBytes:
			r.Code, r.Message = bus.CodeTooLarge, fmt.Sprintf("the answer has more than %d bytes: read it "+
				"as a stream", cl.c.BufferBytes)
			return r, refusal(&r)
		case err != nil:
			r.Text, r.Extra = text.String(), extra
			return r, refusal(&r)
		}
		size += len(c.Text)
		for _, x := range c.Extra {
			size += len(x.Choice) + extraCost
		}
		if size > cl.c.BufferBytes {
			s.Cancel()
			continue
		}
		for _, x := range c.Extra {
			x.At += text.Len()
			extra = append(extra, x)
		}
		text.WriteString(c.Text)
	}
}

// extraCost is the memory of an Extra beside its bytes.
const extraCost = 32

// cancelTask cancels a task wherever it is: at the door or its hub.
func (cl *Client) cancelTask(task string) {
	if data, err := bus.Encode(&bus.Cancel{Client: cl.c.ID, Task: task}); err == nil {
		cl.bus.Publish(bus.Msg{Subject: bus.DoorCancelSubject(cl.c.ID, cl.gateway()), Data: data})
	}
}

// control tells an agent something. It may be lost: cancels, acknowledgements and resumes are repeated, or
// have a time limit behind them.
func (r *Reader) control(c *reader.Control) {
	data, err := bus.Encode(&c.StreamControl)
	if err != nil {
		return
	}
	m := bus.Msg{Subject: bus.StreamSubject(c.Agent, r.name), Data: data}
	if c.Ack != nil && !c.Now {
		r.acks.add(m)
	} else {
		r.bus.Publish(m)
	}
}

// Feedback tells a hub how good an answer was, 0 to 1.
func (cl *Client) Feedback(hub, task string, quality float64) error {
	return cl.judge(hub, &bus.Feedback{Client: cl.c.ID, Task: task, Quality: quality})
}

// Gold is Feedback by a reference answer. It counts as gold only from a client that the hub's operator has
// named as a judge.
func (cl *Client) Gold(hub, task string, quality float64) error {
	return cl.judge(hub, &bus.Feedback{Client: cl.c.ID, Task: task, Quality: quality, Gold: true})
}

func (cl *Client) judge(hub string, f *bus.Feedback) error {
	if err := f.Validate(); err != nil {
		return err
	}
	data, err := bus.Encode(f)
	if err != nil {
		return err
	}
	return cl.bus.Publish(bus.Msg{Subject: bus.FeedbackSubject(hub, cl.c.ID, cl.gateway()), Data: data})
}

// Balance returns a client's money with the treasury and with hubs.
func (cl *Client) Balance(ctx context.Context, client string) (bus.FundsReply, error) {
	return cl.funds(ctx, bus.FundsRequest{Client: client})
}

// Holdings is Balance with the accounts that each hub reports. A silent hub is waited for a second.
func (cl *Client) Holdings(ctx context.Context, client string) (bus.FundsReply, error) {
	return cl.funds(ctx, bus.FundsRequest{Client: client, Hubs: true})
}

// Uses is Holdings with what the client's tasks came to at each hub, from a day since 1970 on: with one key,
// or with any for "".
func (cl *Client) Uses(ctx context.Context, client, key string, from int64) (bus.FundsReply, error) {
	return cl.funds(ctx, bus.FundsRequest{Client: client, Hubs: true, UsesDay: max(1, from), UsesKey: key})
}

func (cl *Client) funds(ctx context.Context, q bus.FundsRequest) (r bus.FundsReply, err error) {
	q.ID = rand.Text()
	data, err := bus.Encode(&q)
	if err != nil {
		return r, err
	}
	m, err := cl.bus.Request(ctx, bus.Msg{Subject: bus.BalanceSubject(q.Client, cl.bus.Name()), Data: data})
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		return r, &bus.Error{Code: bus.CodeUnavailable,
			Message: "no treasury listens on this bus; start one, or try again shortly"}
	case errors.Is(err, bus.ErrNotSent):
		return r, &bus.Error{Code: bus.CodeUnavailable, Message: bus.OpBalance +
			": the bus is out of reach, and nothing was sent; try again shortly"}
	case err != nil:
		return r, &bus.Error{Code: bus.CodeUnknown,
			Message: fmt.Sprintf("%s: the treasury gave no answer (%v); repeat it under the same id %s",
				bus.OpBalance, err, q.ID)}
	}
	if err := bus.Decode(m.Data, &r); err != nil {
		return r, fmt.Errorf("%s: answer of the treasury: %w", bus.OpBalance, err)
	}
	if heard := cl.reader.treasury(r.Epoch); r.Epoch < heard {
		return bus.FundsReply{}, &bus.Error{Code: bus.CodeUnknown,
			Message: fmt.Sprintf("%s: a treasury of epoch %d answered, and one of epoch %d has spoken before: its "+
				"word counts for nothing; repeat it under the same id %s", bus.OpBalance, r.Epoch, heard, q.ID)}
	}
	if r.Code != "" {
		return r, &bus.Error{Code: r.Code, Message: r.Message}
	}
	return r, nil
}
