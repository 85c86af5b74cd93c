package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/natsbus"
	"souk/cmd/replay"
	"souk/market"
)

// Link speaks to a running market: as a client, as a gateway for any number of them, or as an operator. What
// only an operator may do it does over a connection of its own.
type Link struct {
	Bus     bus.Bus
	role    bus.Role // in which bus speaks
	Name    string   // under which it does
	connect connector
	State   State // where the market is

	mu      sync.Mutex
	reader  *client.Reader // made with the first client
	clients map[string]*client.Client
	money   bus.Bus // as an operator; made when it is first needed
}

// connector connects to a market as somebody.
type connector func(role bus.Role, name string) (*natsbus.Bus, error)

func newLink(connect connector, role bus.Role, s State) *Link {
	return &Link{connect: connect, role: role, State: s, clients: map[string]*client.Client{}}
}

func (l *Link) open(name string) error {
	b, err := l.connect(l.role, name)
	if err == nil {
		l.Bus, l.Name = b, b.Name()
	}
	return err
}

// operator is the connection over which money is moved.
func (l *Link) operator() (bus.Bus, error) {
	if l.role == bus.RoleOperator {
		return l.Bus, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.money == nil {
		b, err := l.connect(bus.RoleOperator, Operator)
		if err != nil {
			return nil, err
		}
		l.money = b
	}
	return l.money, nil
}

// Close ends the connection and all its clients.
func (l *Link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.clients {
		c.Close()
	}
	l.clients = map[string]*client.Client{}
	if l.money != nil {
		return errors.Join(l.money.Close(), l.Bus.Close())
	}
	return l.Bus.Close()
}

// Client returns the client of that name, made once. Where the link has another name it speaks for the client
// as a gateway does.
func (l *Link) Client(id string) (*client.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.clients[id]; c != nil {
		return c, nil
	}
	if l.reader == nil {
		r, err := client.NewReader(l.Name, l.Bus)
		if err != nil {
			return nil, err
		}
		l.reader = r
	}
	c, err := l.reader.Client(client.Config{ID: id})
	if err == nil {
		l.clients[id] = c
	}
	return c, err
}

// Ask asks one task and waits for its whole answer, which comes as a stream. It is a [replay.Market].
func (l *Link) Ask(ctx context.Context, t bus.Task) (replay.Answer, error) {
	return l.AskWith(ctx, t, func(bus.Chunk) {})
}

// CancelWithin bounds how long a cancelled task's last word is waited for.
const CancelWithin = 5 * time.Second

// errNoLastWord ends a cancelled task of which nobody has said how it ended.
var errNoLastWord = &bus.Error{Code: bus.CodeUnknown, Message: fmt.Sprintf("cancelled, but nobody said "+
	"within %v how it ended: it may have been served, and paid", CancelWithin)}

// AskWith asks one task and calls each with every chunk of its answer. When ctx ends, the task is cancelled,
// and what was served and paid until then is returned; where nobody says that within CancelWithin, a Result
// with CodeUnknown. A refusal is a Result with a code and no error.
func (l *Link) AskWith(ctx context.Context, t bus.Task, each func(bus.Chunk)) (replay.Answer, error) {
	var a replay.Answer
	c, err := l.Client(t.Client)
	if err != nil {
		return a, err
	}
	if ctx.Err() != nil {
		return answer(a, t, &bus.Error{Code: bus.CodeCancelled, Message: "before it was sent"})
	}
	begun := time.Now()
	s, err := c.Begin(t, nil)
	if err != nil {
		return answer(a, t, err)
	}
	defer s.Close()
	t.ID = s.ID()
	// ctx ends neither the wait for the market's verdict nor that for the answer: one that an agent accepts
	// at this very moment is paid, and its last word still comes.
	waiting, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() {
		s.Cancel()
		time.AfterFunc(CancelWithin, giveUp)
	})()
	var text strings.Builder
	for {
		chunk, err := s.Next(waiting)
		if err != nil {
			a.Text = text.String()
			if r, ok := s.Result(); ok {
				a.Result = r
				return a, nil
			}
			if ctx.Err() != nil && !errors.As(err, new(*bus.Error)) {
				err = errNoLastWord
			}
			return answer(a, t, err)
		}
		if a.TTFT == 0 && (chunk.Text != "" || chunk.Count > 0) {
			a.TTFT = time.Since(begun)
		}
		text.WriteString(chunk.Text)
		each(chunk)
	}
}

// Judge tells the hub of an answer how good it is by a reference, 0 to 1.
func (l *Link) Judge(r *bus.Result, quality float64) error {
	c, err := l.Client(r.Client)
	if err != nil {
		return err
	}
	return c.Gold(r.Hub, r.Task, quality)
}

// answer makes an answer of an error that the market gave; where it gave none, the error stays one.
func answer(a replay.Answer, t bus.Task, err error) (replay.Answer, error) {
	var refusal *client.Refusal
	var e *bus.Error
	switch {
	case errors.As(err, &refusal):
		a.Result = refusal.Result
	case errors.As(err, &e) && e.Code != bus.CodeUnavailable:
		a.Result = bus.Result{Client: t.Client, Task: t.ID, Session: t.Session, Code: e.Code,
			Message: e.Message}
	default:
		return a, err
	}
	return a, nil
}

// ErrUnmade: the treasury says that nothing was made, and that nothing will be unless it is asked again.
var ErrUnmade = errors.New("nothing was made")

// unmade is a refusal with the treasury's word that nothing was made.
type unmade struct{ error }

func (u *unmade) Unwrap() []error { return []error{u.error, ErrUnmade} }

// FundWithin bounds a question to the treasury.
const FundWithin = 5 * time.Second

// Fund deposits an amount for a client; the same id deposits once. A refusal of the treasury is an error
// that begins with its code.
func (l *Link) Fund(ctx context.Context, clientID string, amount market.Credits, id string) (bus.FundsReply,
	error) {
	return l.treasury(ctx, bus.OpDeposit, bus.FundsRequest{ID: id, Client: clientID, Amount: amount})
}

// Balance asks what a client has.
func (l *Link) Balance(ctx context.Context, clientID string) (bus.FundsReply, error) {
	return l.treasury(ctx, bus.OpBalance, bus.FundsRequest{ID: "balance-" + clientID, Client: clientID})
}

// Holdings asks what a client has, and what each hub has of it.
func (l *Link) Holdings(ctx context.Context, clientID string) (bus.FundsReply, error) {
	return l.Uses(ctx, clientID, 0)
}

// Uses is Holdings with what the client's tasks came to at each hub, from a day since 1970 on; 0: without
// that.
func (l *Link) Uses(ctx context.Context, clientID string, from int64) (bus.FundsReply, error) {
	return l.treasury(ctx, bus.OpBalance,
		bus.FundsRequest{ID: "balance-" + clientID, Client: clientID, Hubs: true, UsesDay: from})
}

// Budget has the treasury fill another client's money up to an amount out of one's, every "day", "week" or
// "month", or once; with an amount of 0 that ends, and the rest goes back. The same again changes nothing.
func (l *Link) Budget(ctx context.Context, of, client, every string, amount market.Credits) error {
	_, err := l.Command(ctx, bus.OpBudget,
		bus.FundsRequest{ID: "budget-" + client, Client: of, To: client, Every: every, Amount: amount})
	return err
}

// Surplus asks how much surplus a hub has, and which number its next distribution has.
func (l *Link) Surplus(ctx context.Context, hub string) (bus.FundsReply, error) {
	return l.Command(ctx, bus.OpDistribute, bus.FundsRequest{ID: "surplus-" + hub, Hub: hub})
}

// WriteOff ends a hub whose journal is gone for good, if sure, or says what that would come to.
func (l *Link) WriteOff(ctx context.Context, hub string, sure bool) (bus.FundsReply, error) {
	return l.Command(ctx, bus.OpWriteOff, bus.FundsRequest{ID: "writeoff-" + hub, Hub: hub, Sure: sure})
}

// Command has the treasury do what an operator says, and asks again as long as it says that it is to be asked
// again, until ctx ends. A refusal of the treasury is a *bus.Error; after any other error, or one that says
// allotment_pending or unavailable, it may be made yet.
func (l *Link) Command(ctx context.Context, op string, r bus.FundsRequest) (bus.FundsReply, error) {
	var last error
	for {
		reply, err := l.treasury(ctx, op, r)
		var refused *bus.Error
		if ctx.Err() != nil && last != nil && !errors.As(err, &refused) {
			return reply, last // says more than that time is up
		}
		last = err
		wait := 100 * time.Millisecond
		switch code := bus.CodeOf(err); {
		case err == nil || errors.As(err, &refused) && code != bus.CodeAllotmentPending &&
			code != bus.CodeUnavailable:
			return reply, err
		case errors.Is(err, bus.ErrNoResponders), errors.Is(err, ErrUnmade): // that takes its time
			return reply, err
		case code == bus.CodeAllotmentPending:
			wait = max(wait, time.Duration(reply.RetryMS)*time.Millisecond)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return reply, last
		}
	}
}

func (l *Link) treasury(ctx context.Context, op string, r bus.FundsRequest) (bus.FundsReply, error) {
	data, err := bus.Encode(&r)
	if err != nil {
		return bus.FundsReply{}, err
	}
	b := l.Bus
	if op != bus.OpBalance || l.role != bus.RoleClient || l.Name != r.Client { // whose own anybody may ask
		if b, err = l.operator(); err != nil {
			return bus.FundsReply{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, FundWithin)
	defer cancel()
	subject := bus.LedgerSubject(op, b.Name())
	if op == bus.OpBalance {
		subject = bus.BalanceSubject(r.Client, b.Name())
	}
	m, err := b.Request(ctx, bus.Msg{Subject: subject, Data: data})
	if err != nil {
		if errors.Is(err, bus.ErrNoResponders) {
			err = fmt.Errorf("%w: start the treasury, or wait until it says that it is ready", err)
		}
		return bus.FundsReply{}, fmt.Errorf("treasury: %w", err)
	}
	var reply bus.FundsReply
	if err := bus.Decode(m.Data, &reply); err != nil {
		return bus.FundsReply{}, fmt.Errorf("treasury: %w", err)
	}
	if reply.Code == "" {
		return reply, nil
	}
	err = &bus.Error{Code: reply.Code, Message: reply.Message}
	if reply.Unmade {
		err = &unmade{err}
	}
	return reply, err
}
