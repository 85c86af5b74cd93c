package embedded

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"souk/bus/etcdlog"
	"souk/bus/natsauth"
	"souk/bus/regular"
)

// segmentBytes is the size of a segment of etcd's log, which preallocates two: 64 MB by default each.
const segmentBytes = 4 << 20

func init() { wal.SegmentSizeBytes = segmentBytes }

// EtcdConfig says where the server keeps its data and listens.
type EtcdConfig struct {
	Dir string // created if missing
	// Listen is host:port, port 0 for any free one, or "" for clients in process only.
	Listen string
	// OrAny takes any free port where the one in Listen is taken.
	OrAny bool
	// TLS are the files of those who come by a socket: the server shows Cert, and believes who shows a
	// certificate of CA. None of them: it believes everybody.
	TLS natsauth.Files
	// Tick is the heartbeat; an election takes ten. 10 ms, for a cluster of one in one process.
	Tick time.Duration
	Log  *slog.Logger // warnings and errors; nil for none
	// Limits bound what each member takes; nil for [DefaultEtcdLimits].
	Limits *EtcdLimits
	// Cluster are the members of which this server is one; nil: it is alone. The start waits until most of
	// them are there, or Ended is closed.
	Cluster *Cluster
	Ended   <-chan struct{}
}

// Etcd is a running server.
type Etcd struct {
	etcd   *embed.Etcd
	Client *clientv3.Client // in process; Close closes it
	lock   *fileutil.LockedFile
	door   *door           // nil: members of this process alone come
	says   zap.AtomicLevel // the least that its own log passes on

	stop   context.CancelFunc // of who tends it
	tended chan struct{}
}

// StartEtcd returns when the server has elected itself and serves. A directory that another process
// uses is refused.
func StartEtcd(config EtcdConfig) (*Etcd, error) {
	if config.Dir == "" {
		return nil, errors.New("embedded etcd: no data directory given")
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	lock, err := lockDir(config.Dir)
	if err != nil {
		return nil, err
	}
	e, err := startEtcd(config)
	if err != nil && !errors.Is(err, errFiles) && config.OrAny && config.Listen != "" {
		if host, _, bad := splitAddress(config.Listen); bad == nil {
			config.Listen = host + ":0"
			e, err = startEtcd(config)
		}
	}
	if err != nil && strings.HasSuffix(err.Error(), "has already been bootstrapped") { // etcd marks it by nothing
		err = fmt.Errorf("%s: %w", config.Dir, ErrLost)
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	e.lock = lock
	return e, nil
}

// lockDir takes the directory for this process. Without it etcd would wait for the other process, in
// silence and for ever.
func lockDir(dir string) (*fileutil.LockedFile, error) {
	path := filepath.Join(dir, "souk.lock")
	if err := regular.Check(path); err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	lock, err := fileutil.TryLockFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("embedded etcd: %s is in use by another process: stop that one, or choose "+
			"another directory", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("embedded etcd: lock %s: %w", path, err)
	}
	return lock, nil
}

func startEtcd(config EtcdConfig) (_ *Etcd, err error) {
	var l net.Listener
	if config.Listen != "" {
		if l, err = listenEtcd(config.Listen); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				l.Close()
			}
		}()
	}
	secure, err := secureEtcd(config.TLS)
	if err != nil {
		return nil, err
	}
	limits := DefaultEtcdLimits()
	if config.Limits != nil {
		limits = *config.Limits
	}
	c, says := etcdConfig(config, limits)
	running, err := start(c)
	if err != nil {
		return nil, err
	}
	late := time.After(readyIn)
	if config.Cluster != nil {
		late = nil
	}
	select {
	case <-running.Server.ReadyNotify():
	case err := <-running.Err():
		running.Close()
		return nil, err
	case <-config.Ended:
		running.Close()
		return nil, context.Canceled
	case <-late:
		running.Close()
		return nil, fmt.Errorf("not ready after %v: see whether the disk under %s is slow or full", readyIn,
			config.Dir)
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Etcd{etcd: running, Client: v3client.New(running.Server), says: says, stop: stop,
		tended: make(chan struct{})}
	tend := &tender{etcd: running.Server, limits: limits, log: config.Log}
	if l != nil {
		tend.guard = &guard{limits: limits, etcd: running.Server, named: secure != nil, log: config.Log,
			members: map[string]*member{}}
		e.door = openDoor(tend.guard, l, secure)
	}
	go func() {
		defer close(e.tended)
		tend.run(ctx)
	}()
	return e, nil
}

// ErrLost marks a member of a cluster whose data is gone, which the others know to have had some.
var ErrLost = errors.New("the other members know this one, and its data is not here")

// errFiles is the end of a start that cannot be tried again: etcd keeps what it had opened.
var errFiles = errors.New("etcd cannot make or read its files")

// start makes an error of the panic by which etcd says that it cannot make its log, or read it.
func start(c *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if said := recover(); said != nil {
			err = fmt.Errorf("%w: %v: see whether the disk under %s is full, or what is there damaged",
				errFiles, said, c.Dir)
		}
	}()
	if err := regulars(c.Dir); err != nil {
		return nil, fmt.Errorf("%w: %w", errFiles, err)
	}
	db, log := filepath.Join(c.Dir, "member", "snap", "db"), filepath.Join(c.Dir, "member", "wal")
	used, err := whole(db)
	if err != nil {
		return nil, err
	}
	if used && !wal.Exist(log) { // another one begun beside it would be passed over as far as that one went
		return nil, fmt.Errorf("%w: %s is there, and its log in %s is not: restore the directory from a copy",
			errFiles, db, log)
	}
	return embed.StartEtcd(c)
}

// Bounds of etcd's files: of a segment of its log, which has 64 MB where somebody else ran it and 4 where we
// do, and a record more; and of its database, of which etcd itself advises no more.
const (
	mostSegment  = 256 << 20
	mostDatabase = 8 << 30
)

// regulars wants all that is in etcd's directory to be files, of no more than these. For a pipe etcd waits,
// and for all of a segment it makes room on the disk, whether anybody wrote it or not.
func regulars(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // for etcd to make, or to judge
		}
		most := int64(mostDatabase)
		if filepath.Base(filepath.Dir(path)) == "wal" {
			most = mostSegment
		}
		f, err := regular.Open(path, most)
		if err == nil {
			return f.Close()
		}
		if errors.Is(err, regular.ErrNot) || errors.Is(err, regular.ErrLong) {
			return err
		}
		return nil
	})
}

// whole reads etcd's database through, if there is one, and reports whether it holds anything of a log. A
// damaged database makes etcd panic on a goroutine of its own, where nobody can recover.
func whole(path string) (used bool, err error) {
	if err := regular.Check(path); err != nil {
		return false, fmt.Errorf("%w: %w", errFiles, err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0: // etcd makes a new one
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w: %w", errFiles, err)
	}
	// the file is mapped: what it says may lead anywhere
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if said := recover(); said != nil {
			err = fmt.Errorf("%v", said)
		}
		switch {
		case errors.Is(err, os.ErrPermission):
			err = fmt.Errorf("%w: %w", errFiles, err)
		case err != nil:
			err = fmt.Errorf("%w: %s is damaged: %w: restore its directory from a copy", errFiles, path, err)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return false, err
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("it should have %d bytes, and has %d", tx.Size(), info.Size())
		}
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			var last []byte
			return b.ForEach(func(k, _ []byte) error {
				if last != nil && bytes.Compare(last, k) >= 0 {
					return fmt.Errorf("the keys of %q are not in order", name)
				}
				last = k
				used = used || string(k) == "consistent_index"
				return nil
			})
		})
	})
	return used, err
}

// etcdConfig is also the least level that etcd itself logs at: errors alone, where the log does not show
// everything, for its warnings are about clusters and certificates.
func etcdConfig(config EtcdConfig, limits EtcdLimits) (*embed.Config, zap.AtomicLevel) {
	tick := cmp.Or(config.Tick, 10*time.Millisecond)
	c := embed.NewConfig()
	c.Name = "souk"
	c.Dir = filepath.Join(config.Dir, "etcd")
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs = uint(tick.Milliseconds())
	c.ElectionMs = 10 * c.TickMs
	c.ListenPeerUrls = nil
	c.ListenClientUrls = nil // who comes by a socket comes by our own door
	c.ClientTLSInfo.ClientCertAuth = config.TLS != (natsauth.Files{})
	c.AutoCompactionRetention = "0" // see tender
	c.QuotaBackendBytes, c.MaxRequestBytes, c.MaxTxnOps = limits.QuotaBytes, maxRequest, maxTxnOps
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotEvery, catchUp
	c.EnableGRPCGateway = false
	c.WarningApplyDuration = time.Second // a busy laptop is not worth a line for each put
	c.WarningUnaryRequestDuration = 2 * time.Second
	if m := config.Cluster; m != nil {
		c.Name, c.InitialCluster = m.Member, ""
		for i, u := range m.urls("https", etcdPeers) {
			c.InitialCluster += fmt.Sprintf(",%s=%s", m.Members[i], u)
			if m.Members[i] == m.Member {
				at := *u
				at.Host = net.JoinHostPort(m.listen(), u.Port())
				c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{at}, []url.URL{*u}
			}
		}
		c.InitialCluster = c.InitialCluster[1:]
		if m.Joins {
			c.ClusterState = embed.ClusterStateFlagExisting
		}
		c.PeerTLSInfo = transport.TLSInfo{CertFile: m.TLS.Cert, KeyFile: m.TLS.Key, TrustedCAFile: m.TLS.CA,
			ClientCertAuth: true, AllowedCNs: natsauth.PeerNames(), SkipClientSANVerify: true,
			MinVersion: tls.VersionTLS13}
		c.PreVote, c.StrictReconfigCheck = true, true
	}
	says, log := zap.NewAtomicLevelAt(zap.ErrorLevel), config.Log
	if log != nil {
		if log = log.With("server", "etcd"); log.Enabled(context.Background(), slog.LevelDebug) {
			says.SetLevel(zap.WarnLevel)
		}
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdlog.New(log, "").WithOptions(zap.IncreaseLevel(says)))
	return c, says
}

// Leaderless says that etcd answers nobody, as most of its members are away; "" while it does.
func (e *Etcd) Leaderless() string {
	if e.etcd.Server.Leader() == 0 {
		return "etcd has no leader: most of its members must run"
	}
	return ""
}

// Unlock has a server with TLS believe whoever shows a certificate, whatever users it was given before: the
// market's other parts are in this process, and come by [Etcd.Client], which has no name.
func (e *Etcd) Unlock(ctx context.Context) error {
	if !e.etcd.Server.AuthStore().IsAuthEnabled() {
		return nil
	}
	_, err := e.etcd.Server.AuthDisable(asRoot(ctx), &etcdserverpb.AuthDisableRequest{})
	if err != nil {
		return fmt.Errorf("embedded etcd: turn its users off: %w", err)
	}
	return nil
}

// asRoot says what is asked as a connection would whose certificate names root.
func asRoot(ctx context.Context) context.Context {
	return metadata.NewIncomingContext(peer.NewContext(ctx, &peer.Peer{AuthInfo: credentials.TLSInfo{
		State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{
			CommonName: natsauth.Root}}}}}}}), metadata.MD{})
}

// RevokeLeases ends every lease and with it the keys under them. It is for whoever knows that all their
// holders are gone, as after a crash of the one process that held them: nobody then waits for them to expire.
func (e *Etcd) RevokeLeases(ctx context.Context) error {
	all, err := e.Client.Leases(ctx)
	if err != nil {
		return fmt.Errorf("embedded etcd: leases: %w", err)
	}
	for _, l := range all.Leases {
		if _, err := e.Client.Revoke(ctx, l.ID); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return fmt.Errorf("embedded etcd: lease %x: %w", int64(l.ID), err)
		}
	}
	return nil
}

// Endpoint is host:port where clients connect, "" if the server does not listen.
func (e *Etcd) Endpoint() string {
	if e.door == nil {
		return ""
	}
	return e.door.listen.Addr().String()
}

// Close stops the server; what was acknowledged is on disk.
func (e *Etcd) Close() error {
	e.stop()
	<-e.tended
	e.says.SetLevel(zapcore.InvalidLevel) // it calls the end of each of its listeners an error
	if e.door != nil {
		e.door.close()
	}
	err := e.Client.Close()
	if errors.Is(err, context.Canceled) {
		err = nil // the client's own end
	}
	e.etcd.Close()
	return errors.Join(err, e.lock.Close())
}
