package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that callers decide by.
var (
	ErrNoResponders = errors.New("nobody listens on that subject")
	ErrTooLarge     = errors.New("larger than the server takes")
	ErrClosed       = errors.New("closed")
	ErrDisconnected = errors.New("not connected to the server")
	ErrLost         = errors.New("lease or leadership lost")
	ErrExists       = errors.New("key is held by another")
	ErrForbidden    = errors.New("the keys that are used do not permit it")

	ErrNotSent = fmt.Errorf("nothing was sent: %w", ErrDisconnected) // and nothing will be
)

// Header holds message headers. Keys are matched as HTTP does, without regard to case.
type Header map[string][]string

// Get returns the first value of a key, whatever its case, or "".
func (h Header) Get(key string) string {
	for k, v := range h {
		if len(v) > 0 && strings.EqualFold(k, key) {
			return v[0]
		}
	}
	return ""
}

// Msg is a message on its way. Data belongs to the receiver of a Handler call until it returns;
// whoever keeps it longer copies it.
type Msg struct {
	Subject string
	Reply   string // subject for an answer, or ""
	Header  Header // nil on most messages
	Data    []byte
}

// Handler receives messages of one subscription one after another, in the order in which their sender
// sent them. It must not block: a slow handler loses messages once PendingLimit is reached (counted, and
// reported through Health).
type Handler func(Msg)

// Subscription ends with Stop; no Handler call starts after Stop returns. One under way may still run, so
// that a Handler can stop its own subscription.
type Subscription interface{ Stop() error }

// Bus carries messages between processes: at most once, in order per sender and subject, no
// persistence. All methods may be called from many goroutines.
type Bus interface {
	// Publish hands a message over; it returns before anyone has it. ErrTooLarge if Data is beyond
	// MaxPayload. While the connection is down messages go into a short buffer; when that is full,
	// ErrDisconnected. ErrClosed after Close.
	Publish(m Msg) error
	// Subscribe calls h for every message on subject ('*' matches a token, '>' a tail). With a queue
	// name, each message goes to one member of the queue.
	Subscribe(subject, queue string, h Handler) (Subscription, error)
	// Request publishes m with a reply subject of its own, below the inbox of the sender that m.Subject ends
	// in, and waits for one answer. ErrNoResponders comes at once where nobody listens, ErrNotSent where the
	// connection is down. A connection that is lost meanwhile is ErrDisconnected: whether anybody has m is
	// then not known.
	Request(ctx context.Context, m Msg) (Msg, error)
	// Name returns the process's name on the bus, an id: it stands in the subjects that name their sender.
	Name() string
	// Inbox returns a new subject below InboxOf(Name()), that nobody else uses; answers published to it, or
	// to tokens below it, reach whoever subscribes to it.
	Inbox() string
	// Flush returns when the server has seen everything published so far. Where ctx has no deadline, a driver
	// gives up by one of its own.
	Flush(ctx context.Context) error
	// Connected returns since when the server has been reached, or the zero time while it is not. Who has
	// heard nothing may have been deaf: silence counts from here.
	Connected() time.Time
	// MaxPayload is the largest Data in bytes.
	MaxPayload() int
	// Health reports connects, disconnects and drops until the bus is closed. Slow readers miss events.
	Health() <-chan Health
	// Close delivers what is pending, then ends all subscriptions.
	Close() error
}

// Asker is a Bus that asks without anybody waiting for the answer: most have many questions open.
type Asker interface {
	// Ask is like Request, but returns at once, and later calls answered with Request's results: once, from
	// another goroutine, and it must not wait. cut gives the question up, which is then answered by why.
	// m.Data is the caller's again once Ask has returned.
	Ask(m Msg, answered func(Msg, error)) (cut func(why error))
}

// Health is news about a connection.
type Health struct {
	Connected bool
	Dropped   int64 // messages lost by slow handlers so far
	Err       error
}

// KV is one key of the registry. Rev is the revision of its last change, Create of its creation.
type KV struct {
	Key    string
	Value  []byte
	Create int64
	Rev    int64
}

// Event is a change of a key: Value nil means that it is gone.
type Event struct {
	KV
	Deleted bool
	Synced  bool // no key: everything that existed when the watch began (or began again) has been sent
}

// Registry holds leases, claims, elections and configuration; strongly consistent, slow. A value of more than
// MaxEntry bytes is not written: ErrTooLarge.
type Registry interface {
	// Register puts a key under a lease of its own and keeps it alive until Close or loss. The key must not
	// be held by another lease: ErrExists. After a loss the caller registers anew, with jitter.
	Register(ctx context.Context, key string, value []byte, ttl time.Duration) (Lease, error)
	// Put writes a key without a lease. ErrExists if the key is under one.
	Put(ctx context.Context, key string, value []byte) error
	// PutFor writes a key that is nobody's: it is gone ttl after it was written last, whoever did. It is not
	// for keys that Register, Elect or Claim hold.
	PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Swap writes a key without a lease, or deletes it where value is nil, if its last change has revision
	// rev, or if it is not there where rev is 0. Else nothing changes, and the error is ErrExists.
	Swap(ctx context.Context, key string, rev int64, value []byte) error
	// Get returns a key, or, for one that ends in "/", the keys below it, sorted.
	Get(ctx context.Context, key string) ([]KV, error)
	// Delete removes a key; removing what is not there is no error. A lease whose key is removed is lost.
	Delete(ctx context.Context, key string) error
	// Evict ends the lease that a key is under, and so removes all that is under that lease, if the key has
	// exactly this value; a key that is gone is no error, one with another value is ErrExists. It is for
	// whoever can prove that the lease's owner has died, and would else wait for its time to run out.
	Evict(ctx context.Context, key string, value []byte) error
	// Watch sends what Get returns, then Synced, then every change in order, until ctx ends. After an outage
	// it sends what is gone meanwhile, then the whole state, known keys too, then Synced again.
	Watch(ctx context.Context, key string) (<-chan Event, error)
	// Elect waits until key is the caller's and returns the leadership.
	Elect(ctx context.Context, key string, value []byte, ttl time.Duration) (Leadership, error)
}

// Lease is a key that lives as long as its owner.
type Lease interface {
	// Update replaces the value. ErrLost if the lease is gone.
	Update(ctx context.Context, value []byte) error
	// Lost is closed when the lease has ended for any reason.
	Lost() <-chan struct{}
	// Close deletes the key and ends the lease.
	Close(ctx context.Context) error
}

// Leadership is a won election. It is no mutual exclusion: what is done under it carries Epoch, and
// receivers refuse a lower one.
type Leadership interface {
	Lease
	// Epoch is the create revision of the election key; a later leader's is higher.
	Epoch() int64
	// Claim puts a key under the leader's lease if nobody holds it, in one transaction that fails with
	// ErrLost if the leadership is gone and with ErrExists if another holds the key. It returns the fence of
	// the claim: the create revision of the key, so that every later claim of it, by whomever, has a higher
	// one.
	Claim(ctx context.Context, key string, value []byte) (fence int64, err error)
	// Release deletes a claimed key. A key that is gone is no error; one that another holds is left
	// alone, with ErrExists.
	Release(ctx context.Context, key string) error
}
