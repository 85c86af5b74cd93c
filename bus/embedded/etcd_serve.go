package embedded

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"

	"souk/bus/natsauth"
)

// door accepts members' connections by a socket. etcd itself bounds neither connections nor requests.
type door struct {
	guard  *guard
	listen net.Listener
	server *grpc.Server
	done   chan struct{}
}

func listenEtcd(address string) (net.Listener, error) {
	if _, _, err := splitAddress(address); err != nil {
		return nil, err
	}
	return net.Listen("tcp", address)
}

// secureEtcd has members prove who they are by a certificate of the CA, and by nothing else.
func secureEtcd(files natsauth.Files) (*tls.Config, error) {
	if files == (natsauth.Files{}) {
		return nil, nil
	}
	c, err := natsauth.TLSOf(files)
	if err != nil {
		return nil, err
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}

func openDoor(g *guard, l net.Listener, secure *tls.Config) *door {
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(g.unary), grpc.ChainStreamInterceptor(g.stream),
		grpc.InTapHandle(g.begin), grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.MaxRecvMsgSize(maxRequest), grpc.StaticStreamWindowSize(streamWindow), // else up to 16 MB
		grpc.MaxConcurrentStreams(uint32(g.limits.Streams + g.limits.Waiting + g.limits.InFlight)),
		grpc.ConnectionTimeout(g.limits.ShakeIn), grpc.MaxHeaderListSize(16 << 10),
		// our members ask every five seconds; one that is gone without a word makes room in twenty
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second,
			PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
	}
	if secure != nil {
		options = append(options, grpc.Creds(&admission{credentials.NewTLS(secure), g,
			make(chan struct{}, g.limits.Strangers)}))
	}
	d := &door{guard: g, listen: l, done: make(chan struct{}),
		server: v3rpc.Server(g.etcd, nil, nil, options...)}
	go func() {
		defer close(d.done)
		d.server.Serve(netutil.LimitListener(l, g.limits.AllInAll)) // ends by close alone
	}()
	return d
}

// closeWithin bounds how long running requests may take once the server is to end.
const closeWithin = time.Second

func (d *door) close() {
	t := time.AfterFunc(closeWithin, d.server.Stop)
	d.server.GracefulStop()
	t.Stop()
	<-d.done
}

// admission shakes hands with whoever comes, so many at a time, and lets a name have so many connections.
type admission struct {
	credentials.TransportCredentials
	g     *guard
	shake chan struct{}
}

func (a *admission) Clone() credentials.TransportCredentials {
	return &admission{a.TransportCredentials.Clone(), a.g, a.shake}
}

var errMany = errors.New("too many connections")

func (a *admission) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	select {
	case a.shake <- struct{}{}:
	default:
		return nil, nil, fmt.Errorf("%w: %d have not shown who they are", errMany, cap(a.shake))
	}
	conn, auth, err := a.TransportCredentials.ServerHandshake(raw)
	<-a.shake
	if err != nil {
		return nil, nil, err
	}
	name := nameOf(auth)
	if name == natsauth.Root {
		return conn, auth, nil
	}
	m := a.g.member(name)
	m.mu.Lock()
	full := m.connections >= a.g.limits.Connections
	if !full {
		m.connections++
	}
	m.mu.Unlock()
	if full {
		conn.Close()
		return nil, nil, a.g.refuse(codes.ResourceExhausted, m, "%s has %d connections: it may have no more", name,
			a.g.limits.Connections)
	}
	c := &leaving{conn, a.g, m, map[*answer]time.Time{}}
	a.g.byAddress.Store(conn.RemoteAddr().String(), c)
	return c, auth, nil
}
