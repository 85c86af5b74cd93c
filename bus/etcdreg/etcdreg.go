// Package etcdreg keeps the registry in etcd.
package etcdreg

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"

	"souk/bus"
)

// Config says where etcd is. Zero fields take their default.
type Config struct {
	Endpoints   []string      // host:port
	DialTimeout time.Duration // for Dial to reach one of them; 5 s
	TLS         *tls.Config   // with the certificate by which etcd knows who this is; nil for none of it
	Probe       string        // what Dial reads, as Get does, to see whether it may; bus.AgentsPrefix
	AskEvery    time.Duration // how often etcd is asked whether it is well, see Trouble; 5 s
}

// Registry implements bus.Registry.
type Registry struct {
	client *clientv3.Client
	own    bool // Close closes the client too

	life context.Context // of the registry itself
	stop context.CancelFunc
	done sync.WaitGroup // of who observes the connection

	mu    sync.Mutex
	again chan struct{} // closed, and remade, when the connection has come back

	trouble trouble
}

var _ bus.Registry = (*Registry)(nil)

// Dial connects to etcd. It fails if no endpoint answers in DialTimeout or until ctx ends; afterwards outages
// are waited out.
func Dial(ctx context.Context, config Config) (*Registry, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(config.DialTimeout, 5*time.Second))
	defer cancel()
	client, err := dial(ctx, config)
	if err != nil {
		return nil, err
	}
	key := cmp.Or(config.Probe, bus.AgentsPrefix)
	if _, err := client.Get(ctx, key, append(span(key), clientv3.WithCountOnly())...); err != nil {
		client.Close()
		return nil, config.failed("read "+key, err)
	}
	r := newRegistry(client)
	r.own = true
	r.done.Go(func() { r.diagnose(r.life, key, cmp.Or(config.AskEvery, troubleEvery)) })
	return r, nil
}

// reachable refuses endpoints on other machines without TLS.
func (c Config) reachable() error {
	for _, e := range c.Endpoints {
		at := e
		if _, behind, ok := strings.Cut(e, "://"); ok {
			at = behind
		}
		host, _, err := net.SplitHostPort(at)
		if c.TLS == nil && (err != nil || !bus.IsLoopback(host)) {
			return fmt.Errorf("etcdreg: %q is not on loopback, and may only be reached by TLS: name the certificate by "+
				"which etcd knows you (--ca, --cert and --key; Config.TLS), or reach it by a tunnel", bus.Redact(e))
		}
	}
	return nil
}

func dial(ctx context.Context, config Config) (*clientv3.Client, error) {
	if len(config.Endpoints) == 0 {
		return nil, errors.New("etcdreg: no endpoint given")
	}
	if err := config.reachable(); err != nil {
		return nil, err
	}
	if err := config.shake(ctx); err != nil {
		return nil, config.failed("connect", err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: config.Endpoints, TLS: config.TLS,
		DialTimeout:       cmp.Or(config.DialTimeout, 5*time.Second),
		DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive, PermitWithoutStream: true,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: reconnectWithin},
			MinConnectTimeout: reconnectWithin,
		})},
		Logger: zap.NewNop(), // its news reach callers as errors, lost leases and watches that start again
	})
	if err != nil {
		return nil, fmt.Errorf("etcdreg: %w", bus.RedactError(err))
	}
	return client, nil
}

// shake tries whether one of the endpoints and we believe each other. The client itself would try on in
// silence, and know no more in the end than that its time is over.
func (c Config) shake(ctx context.Context) (err error) {
	if c.TLS == nil {
		return nil
	}
	config := c.TLS.Clone()
	config.NextProtos = []string{"h2"}
	for _, endpoint := range c.Endpoints {
		var conn net.Conn
		if conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", endpoint); err != nil {
			continue
		}
		// A server of TLS 1.3 judges our certificate after its handshake. If it is content, it speaks first.
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		_, err = conn.Read(make([]byte, 1))
		stop()
		conn.Close()
		if err == nil {
			return nil
		}
	}
	return err
}

// failed says what is to be done about an error of a new connection.
func (c Config) failed(what string, err error) error {
	advice := "is it up?"
	switch why := strings.ToLower(err.Error()); {
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty),
		errors.Is(err, rpctypes.ErrUserNotFound):
		advice = "etcd does not know the certificate's name, or as another role: souk auth list"
	case strings.Contains(why, "tls: ") || strings.Contains(why, "x509: "):
		advice = "see market.ca, market.cert and market.key"
	case c.TLS == nil:
		advice += " does it ask for certificates? then set market.ca, market.cert and market.key"
	}
	return fmt.Errorf("etcdreg: %s at etcd %s: %w (%s)", what,
		bus.Redact(strings.Join(c.Endpoints, ",")), bus.RedactError(err), advice)
}

// span returns etcd's options to read a key of [bus.Registry], or all keys below one that ends in "/".
func span(key string) []clientv3.OpOption {
	if strings.HasSuffix(key, "/") {
		return []clientv3.OpOption{clientv3.WithPrefix()}
	}
	return nil
}

// keepAlive is between pings on an idle connection, and for their answer: a black hole is noticed in twice
// that.
const keepAlive = 5 * time.Second

// reconnectWithin bounds the pause between two attempts to reach etcd again. By default gRPC would let it
// grow to two minutes, and every agent would be missing for as long after a long outage.
const reconnectWithin = 2 * time.Second

// FromClient uses a client that its caller closes, after the Registry.
func FromClient(client *clientv3.Client) (*Registry, error) {
	if client == nil {
		return nil, errors.New("etcdreg: no client given")
	}
	return newRegistry(client), nil
}

func newRegistry(client *clientv3.Client) *Registry {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Registry{client: client, life: ctx, stop: cancel, again: make(chan struct{})}
	r.done.Go(func() { r.observe(ctx) })
	return r
}

// Connected reports whether an etcd server is reached now.
func (r *Registry) Connected() bool {
	return r.client.ActiveConnection().GetState() == connectivity.Ready
}

// Close ends what the registry itself runs. Leases and watches end with their own Close and context.
func (r *Registry) Close() error {
	r.stop()
	r.done.Wait()
	if !r.own {
		return nil
	}
	if err := r.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcdreg: close: %w", err)
	}
	return nil
}

// observe notices when a lost connection is back. The client resumes its watches by itself, but from a
// revision that a restored etcd may not have reached: it would then wait in silence. So every watch
// starts again from the whole state.
func (r *Registry) observe(ctx context.Context) {
	conn := r.client.ActiveConnection()
	if conn == nil {
		return // in process: nothing to lose
	}
	lost := false
	for state := conn.GetState(); conn.WaitForStateChange(ctx, state); {
		state = conn.GetState()
		switch {
		case state == connectivity.Ready && lost:
			lost = false
			r.restart()
		case state == connectivity.Idle:
			lost = true
			conn.Connect()
		case state != connectivity.Ready:
			lost = true
		}
	}
}

func (r *Registry) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.again)
	r.again = make(chan struct{})
}

// reconnected returns a channel that is closed the next time the connection has come back.
func (r *Registry) reconnected() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.again
}

func (r *Registry) Put(ctx context.Context, key string, value []byte) error {
	if err := bus.CheckValue(value); err != nil {
		return wrap("put", key, err)
	}
	free := clientv3.Compare(clientv3.LeaseValue(key), "=", 0) // of a key that is not there, too
	out, err := r.client.Txn(ctx).If(free).Then(clientv3.OpPut(key, string(value))).Commit()
	if err == nil && !out.Succeeded {
		err = fmt.Errorf("it is under a lease: %w", bus.ErrExists)
	}
	return wrap("put", key, err)
}

func (r *Registry) PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := bus.CheckValue(value); err != nil {
		return wrap("put", key, err)
	}
	granted, err := r.client.Grant(ctx, seconds(ttl))
	if err == nil {
		// The lease that the key was under until now has no key any more, and runs out.
		_, err = r.client.Put(ctx, key, string(value), clientv3.WithLease(granted.ID))
	}
	return wrap("put", key, err)
}

func (r *Registry) Swap(ctx context.Context, key string, rev int64, value []byte) error {
	if err := bus.CheckValue(value); err != nil {
		return wrap("swap", key, err)
	}
	do := clientv3.OpPut(key, string(value))
	if value == nil {
		do = clientv3.OpDelete(key)
	}
	out, err := r.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev),
		clientv3.Compare(clientv3.LeaseValue(key), "=", 0)).Then(do).Commit()
	if err == nil && !out.Succeeded {
		err = fmt.Errorf("it is not as it was at revision %d: %w", rev, bus.ErrExists)
	}
	return wrap("swap", key, err)
}

func (r *Registry) Get(ctx context.Context, key string) ([]bus.KV, error) {
	out, err := r.client.Get(ctx, key, span(key)...) // sorted by key
	if err != nil {
		return nil, wrap("get", key, err)
	}
	kvs := make([]bus.KV, len(out.Kvs))
	for i, kv := range out.Kvs {
		kvs[i] = toKV(kv)
	}
	return kvs, nil
}

func (r *Registry) Delete(ctx context.Context, key string) error {
	_, err := r.client.Delete(ctx, key)
	return wrap("delete", key, err)
}

func (r *Registry) Evict(ctx context.Context, key string, value []byte) error {
	out, err := r.client.Get(ctx, key)
	if err != nil || len(out.Kvs) == 0 {
		return wrap("evict", key, err)
	}
	if kv := out.Kvs[0]; kv.Lease == 0 || !bytes.Equal(kv.Value, value) {
		err = bus.ErrExists
	} else if _, err = r.client.Revoke(ctx, clientv3.LeaseID(kv.Lease)); errors.Is(err,
		rpctypes.ErrLeaseNotFound) {
		err = nil
	}
	return wrap("evict", key, err)
}

func wrap(op, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		err = bus.ErrLost
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		err = fmt.Errorf("%w: %w", bus.ErrForbidden, err)
	case errors.Is(err, io.ErrClosedPipe), errors.Is(err, clientv3.ErrNoAvailableEndpoints):
		err = fmt.Errorf("%w: %w", bus.ErrDisconnected, err)
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}
