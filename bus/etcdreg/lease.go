package etcdreg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"souk/bus"
	"souk/bus/follow"
)

// Register puts a key under a new lease. The lease lives for at least ttl after the last sign of life;
// etcd grants whole seconds, and not less than its election takes.
func (r *Registry) Register(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Lease,
	error) {
	if err := bus.CheckValue(value); err != nil {
		return nil, wrap("register", key, err)
	}
	l, err := r.grant(ctx, key, ttl)
	if err != nil {
		return nil, wrap("register", key, err)
	}
	won, _, err := l.take(ctx, value)
	if err == nil && !won {
		err = bus.ErrExists
	}
	if err != nil {
		l.abandon()
		return nil, wrap("register", key, err)
	}
	return l, nil
}

// Elect creates the key under a lease, or waits until whoever has it is gone. The create revision is
// the epoch: etcd never gives a lower one later.
func (r *Registry) Elect(ctx context.Context, key string, value []byte, ttl time.Duration) (bus.Leadership,
	error) {
	if err := bus.CheckValue(value); err != nil {
		return nil, wrap("elect", key, err)
	}
	l, err := r.grant(ctx, key, ttl)
	if err != nil {
		return nil, wrap("elect", key, err)
	}
	for {
		again := r.reconnected()
		won, at, err := l.take(ctx, value)
		switch {
		case err != nil && (ctx.Err() != nil || !passing(err)):
			l.abandon()
			return nil, wrap("elect", key, err)
		case err != nil: // an outage, which the lease may survive
			follow.Pause(ctx, retryEvery)
		case won:
			return l, nil
		default:
			r.awaitGone(ctx, key, at, again)
		}
		for l.isLost() { // while it waited through an outage
			next, err := r.grant(ctx, key, ttl)
			switch {
			case err == nil:
				l.abandon()
				l = next
			case ctx.Err() != nil || !passing(err):
				l.abandon()
				return nil, wrap("elect", key, err)
			default:
				follow.Pause(ctx, retryEvery)
			}
		}
	}
}

// passing reports whether an error may go away by itself: etcd is out of reach, or has no leader.
func passing(err error) bool {
	code := status.Code(err)
	if known, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = known.Code()
	}
	switch code {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition,
		codes.ResourceExhausted:
		return false
	}
	return true
}

// awaitGone returns when key may be free: it was deleted after revision at, or nobody can say.
func (r *Registry) awaitGone(ctx context.Context, key string, at int64, again <-chan struct{}) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := r.changes(ctx, key, clientv3.WithRev(at+1), clientv3.WithFilterPut())
	select {
	case <-changes:
	case <-again:
	}
}

// lease implements bus.Lease and, if its key was won by election, bus.Leadership.
type lease struct {
	registry *Registry
	key      string
	id       clientv3.LeaseID
	epoch    int64 // create revision of key

	stop context.CancelFunc // of what keeps it alive
	done chan struct{}      // closed when that has ended
	once sync.Once
	lost chan struct{}
}

// seconds rounds a lease's time up, as etcd grants whole seconds.
func seconds(ttl time.Duration) int64 { return int64(math.Ceil(ttl.Seconds())) }

// grant asks for a lease and keeps it alive.
func (r *Registry) grant(ctx context.Context, key string, ttl time.Duration) (*lease, error) {
	if ttl <= 0 {
		return nil, fmt.Errorf("a lease of %v: it needs a time above zero", ttl)
	}
	asked := time.Now()
	granted, err := r.client.Grant(ctx, seconds(ttl))
	if err != nil {
		return nil, err
	}
	alive, stop := context.WithCancel(context.Background())
	l := &lease{registry: r, key: key, id: granted.ID, stop: stop, done: make(chan struct{}),
		lost: make(chan struct{})}
	beats, err := r.client.KeepAlive(alive, l.id)
	if err != nil {
		stop()
		l.revoke()
		return nil, err
	}
	go l.keep(beats, asked.Add(time.Duration(granted.TTL)*time.Second))
	return l, nil
}

// keep ends when the lease has: etcd said so, or has not answered for as long as it granted. The client
// would notice the latter, too, but half a second late, and seconds late for a lease that is new.
func (l *lease) keep(beats <-chan *clientv3.LeaseKeepAliveResponse, end time.Time) {
	defer close(l.done)
	defer l.lose()
	silent := time.NewTimer(time.Until(end))
	defer silent.Stop()
	for {
		select {
		case beat, ok := <-beats:
			if !ok {
				return
			}
			silent.Reset(time.Duration(beat.TTL) * time.Second)
		case <-silent.C:
			l.lose()
			l.stop()
			for range beats { // until the client has let go of the lease
			}
			return
		}
	}
}

func (l *lease) lose() { l.once.Do(func() { close(l.lost) }) }

func (l *lease) isLost() bool { return follow.Closed(l.lost) }

// take creates the key if it is not there. Otherwise it returns the revision at which it was. An answer
// that was lost on the way shows as a key that is there under this very lease.
func (l *lease) take(ctx context.Context, value []byte) (won bool, at int64, err error) {
	out, err := l.registry.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(l.key), "=", 0)).
		Then(clientv3.OpPut(l.key, string(value), clientv3.WithLease(l.id))).
		Else(clientv3.OpGet(l.key)).
		Commit()
	if err != nil {
		return false, 0, err
	}
	l.epoch = out.Header.Revision
	if !out.Succeeded {
		holder := out.Responses[0].GetResponseRange().Kvs[0]
		if clientv3.LeaseID(holder.Lease) != l.id {
			return false, out.Header.Revision, nil
		}
		l.epoch = holder.CreateRevision
	}
	l.watchKey()
	return true, l.epoch, nil
}

// watchKey loses the lease when somebody deletes its key. The first change that it is to hear of is told to
// etcd before it returns.
func (l *lease) watchKey() {
	ctx, cancel := context.WithCancel(context.Background())
	gone := l.goneFrom(ctx, l.epoch+1)
	go func() {
		<-l.done
		cancel()
	}()
	go func() {
		defer cancel()
		for {
			batch, ok := <-gone
			switch {
			case ctx.Err() != nil:
				return
			case ok && len(batch.Events) > 0:
				l.lose()
				l.stop()
				return
			case ok && batch.Err() == nil:
				continue
			}
			// what was said meanwhile is compacted: the state says what came of it
			state := l.registry.read(ctx, l.key)
			if state == nil {
				return
			}
			if len(state.Kvs) == 0 || state.Kvs[0].CreateRevision != l.epoch {
				l.lose()
				l.stop()
				return
			}
			gone = l.goneFrom(ctx, state.Header.Revision+1)
		}
	}()
}

func (l *lease) goneFrom(ctx context.Context, rev int64) clientv3.WatchChan {
	return l.registry.changes(ctx, l.key, clientv3.WithRev(rev), clientv3.WithFilterPut())
}

func (l *lease) Epoch() int64          { return l.epoch }
func (l *lease) Lost() <-chan struct{} { return l.lost }

// holds is true in a transaction as long as the lease's own key is the one that it created.
func (l *lease) holds() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.epoch)
}

func (l *lease) Update(ctx context.Context, value []byte) error {
	if l.isLost() {
		return wrap("update", l.key, bus.ErrLost)
	}
	if err := bus.CheckValue(value); err != nil {
		return wrap("update", l.key, err)
	}
	out, err := l.registry.client.Txn(ctx).If(l.holds()).
		Then(clientv3.OpPut(l.key, string(value), clientv3.WithLease(l.id))).Commit()
	if err == nil && !out.Succeeded {
		err = bus.ErrLost
	}
	return wrap("update", l.key, err)
}

// Claim is fenced: a leader that was asleep while another took over cannot take anything.
func (l *lease) Claim(ctx context.Context, key string, value []byte) (fence int64, err error) {
	if err := bus.CheckValue(value); err != nil {
		return 0, wrap("claim", key, err)
	}
	put := clientv3.OpPut(key, string(value), clientv3.WithLease(l.id))
	free := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	mine := clientv3.Compare(clientv3.LeaseValue(key), "=", l.id)
	out, err := l.registry.client.Txn(ctx).If(l.holds(), free).Then(put).
		Else(clientv3.OpTxn([]clientv3.Cmp{l.holds(), mine},
			[]clientv3.Op{put, clientv3.OpGet(key)}, []clientv3.Op{clientv3.OpGet(l.key)})).
		Commit()
	if err != nil {
		return 0, wrap("claim", key, err)
	}
	if out.Succeeded {
		return out.Header.Revision, nil
	}
	inner := out.Responses[0].GetResponseTxn()
	if inner.Succeeded { // claimed before
		return inner.Responses[1].GetResponseRange().Kvs[0].CreateRevision, nil
	}
	return 0, wrap("claim", key, l.why(inner.Responses[0].GetResponseRange().Kvs))
}

func (l *lease) Release(ctx context.Context, key string) error {
	if key == l.key {
		return wrap("release", key, bus.ErrExists) // Close gives up the leadership itself
	}
	mine := clientv3.Compare(clientv3.LeaseValue(key), "=", l.id)
	out, err := l.registry.client.Txn(ctx).If(l.holds(), mine).Then(clientv3.OpDelete(key)).
		Else(clientv3.OpGet(l.key), clientv3.OpGet(key)).Commit()
	if err != nil || out.Succeeded {
		return wrap("release", key, err)
	}
	if err := l.why(out.Responses[0].GetResponseRange().Kvs); errors.Is(err, bus.ErrLost) {
		return wrap("release", key, err)
	}
	if len(out.Responses[1].GetResponseRange().Kvs) == 0 {
		return nil
	}
	return wrap("release", key, bus.ErrExists)
}

// why tells a lost leadership from a key that another holds, by what stood under the leader's key.
func (l *lease) why(own []*mvccpb.KeyValue) error {
	if len(own) == 0 || own[0].CreateRevision != l.epoch {
		return bus.ErrLost
	}
	return bus.ErrExists
}

// Close deletes the key, and all that was claimed under the lease.
func (l *lease) Close(ctx context.Context) error {
	l.stop()
	<-l.done
	_, err := l.registry.client.Revoke(ctx, l.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = nil
	}
	return wrap("close lease on", l.key, err)
}

// revokeIn bounds how long it is tried to revoke a useless lease; its time runs out anyway.
const revokeIn = time.Second

func (l *lease) revoke() {
	ctx, cancel := context.WithTimeout(context.Background(), revokeIn)
	defer cancel()
	// An error leaves the lease to run out by itself.
	_, _ = l.registry.client.Revoke(ctx, l.id)
}

// abandon ends a lease that never held its key.
func (l *lease) abandon() {
	l.stop()
	<-l.done
	l.revoke()
}
