package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/follow"
	"souk/bus/natsauth"
)

// Admit gives an etcd the names of a market's keys, each with what its role may do there, and takes away
// those that were revoked. Only where the CA's key is can it.
func Admit(ctx context.Context, keys *natsauth.Store, etcd []string) error {
	names, err := keys.List()
	if err != nil {
		return err
	}
	return admit(ctx, keys, names, etcd)
}

func admit(ctx context.Context, keys *natsauth.Store, names []natsauth.User, etcd []string) error {
	var users []etcdreg.User
	for _, n := range names {
		access, err := bus.AccessOf(n.Role, bus.IDs{Name: n.Name, Domain: n.Domain, Agents: n.Agents})
		if err != nil {
			return err
		}
		users = append(users, etcdreg.User{Name: n.Name, Access: access,
			Gone: n.Revoked || access.Probe() == ""})
	}
	files, err := natsauth.ClientCert(keys.Dir, natsauth.Root, time.Now())
	if err != nil {
		return err
	}
	root, err := natsauth.TLSOf(files)
	if err != nil {
		return err
	}
	config := etcdreg.Config{Endpoints: etcd, TLS: root, Probe: bus.RevokedPrefix}
	if err := rememberRevoked(ctx, keys, config); err != nil {
		return err
	}
	return etcdreg.Admit(ctx, config, users)
}

// rememberRevoked has an etcd know of the keys' revocations. It lets nobody in who was revoked since the keys
// were copied: an etcd that knows of revocations which they lack is told nothing.
func rememberRevoked(ctx context.Context, keys *natsauth.Store, config etcdreg.Config) error {
	_, token, err := keys.Account()
	if err != nil {
		return err
	}
	own, err := natsauth.Revocations(token)
	if err != nil {
		return err
	}
	r, err := etcdreg.Dial(ctx, config)
	if err != nil {
		return err
	}
	defer r.Close()
	kvs, err := r.Get(ctx, bus.RevokedPrefix)
	if err != nil {
		return err
	}
	there, now := map[string]int64{}, time.Now()
	for _, kv := range kvs {
		key := strings.TrimPrefix(kv.Key, bus.RevokedPrefix)
		if there[key], err = strconv.ParseInt(string(kv.Value), 10, 64); err != nil {
			return fmt.Errorf("etcd: %s: %w", kv.Key, err)
		}
	}
	if err := keys.Newest(there, now); err != nil {
		return err
	}
	for key, until := range there {
		if until <= now.Unix() { // nobody comes by them any more
			err = errors.Join(err, r.Delete(ctx, bus.RevokedPrefix+key))
		}
	}
	for key, until := range own {
		if until > now.Unix() && there[key] != until {
			err = errors.Join(err, r.Put(ctx, bus.RevokedPrefix+key, strconv.AppendInt(nil, until, 10)))
		}
	}
	return err
}

// How soon a new name may use etcd, or one that was revoked may no more; and how often the servers'
// certificate and users' creds are looked at, which are renewed a month before their time is over.
const (
	namesEvery = time.Second
	certEvery  = time.Hour
)

// Tend keeps the servers of this process in step with a market's keys until it is told to end: their
// certificate, and, where etcd is given, who may use that. It renews the creds in the directory of keys.
func Tend(keys *natsauth.Store, hosts, etcd []string, log *slog.Logger) (end func() error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tend(ctx, keys, hosts, etcd, log)
	}()
	return func() error {
		stop()
		<-done
		return nil
	}
}

func tend(ctx context.Context, keys *natsauth.Store, hosts, etcd []string, log *slog.Logger) {
	var known []natsauth.User
	var looked time.Time
	var outage bus.Outage
	failed := func(what string, err error) bool {
		if err != nil && ctx.Err() == nil && outage.Failed(time.Now(), what) {
			log.Warn(what+"; trying on", "err", err)
		}
		return err != nil
	}
	for ; ctx.Err() == nil; follow.Pause(ctx, namesEvery) {
		if time.Since(looked) > certEvery {
			files, err := natsauth.ServerCert(keys.Dir, hosts, time.Now())
			if ends := files.Expires(); err == nil && time.Until(ends) < natsauth.Warn {
				log.Warn("the servers' certificate ends soon: bring server.* and peer.* anew from where "+
					"the CA's key is", "file", files.Cert, "ends", ends.UTC())
			}
			renewed, wrong := keys.RenewDue(time.Now())
			if len(renewed) > 0 {
				log.Info("creds renewed, for their time was nearly over", "names", renewed)
			}
			if !failed("the servers' certificate cannot be looked after", err) &&
				!failed("creds cannot be renewed", wrong) {
				looked = time.Now()
			}
		}
		if len(etcd) == 0 {
			continue
		}
		names, err := keys.List()
		if !failed("the market's keys cannot be read", err) && !reflect.DeepEqual(names, known) &&
			!failed("etcd is not told who may use it", admit(ctx, keys, names, etcd)) {
			known = names
		}
	}
}

// OperatorFiles returns the files by which etcd knows the operator, made or renewed where the keys of a data
// directory can: none where it has no keys.
func OperatorFiles(data string) (natsauth.Files, error) {
	keys, err := natsauth.Open(natsauth.Dir(data))
	if errors.Is(err, natsauth.ErrNoStore) {
		return natsauth.Files{}, nil
	}
	if err != nil {
		return natsauth.Files{}, err
	}
	path, err := keys.Ensure(bus.RoleOperator, bus.IDs{Name: Operator}, time.Now())
	return natsauth.Beside(path), err
}
