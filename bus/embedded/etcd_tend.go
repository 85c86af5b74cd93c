package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"souk/bus"
	"souk/bus/follow"
)

// tendEvery is how often the database's size is checked: at the rates that members have it grows by a few MB
// meanwhile.
const tendEvery = time.Second

// tender keeps a database small: etcd keeps each value that ever was until it is told otherwise, tells so by
// itself every five minutes at most, and once its quota is used up takes no more from anybody, for good.
type tender struct {
	etcd   *etcdserver.EtcdServer
	limits EtcdLimits
	log    *slog.Logger
	guard  *guard // nil: members of this process alone come

	compacted int64 // revision
	rev       int64 // the last one, a look ago
	written   int64 // revision at which the file was written anew
	least     int64 // bytes in use after that
	outage    bus.Outage
}

func (t *tender) run(ctx context.Context) {
	t.least = t.limits.GrowBytes // of what was there before its start nobody knows what is of use
	for again := true; again; again = follow.Pause(ctx, tendEvery) {
		if t.guard != nil {
			t.guard.look(time.Now())
		}
		if err := t.tend(ctx); err != nil && ctx.Err() == nil && t.log != nil &&
			t.outage.Failed(time.Now(), "etcd's database") {
			t.log.Error("etcd's database cannot be kept small; trying on", "err", err)
		}
	}
}

// tend does what is due: it lets go of what was said earlier, writes a file anew that is mostly free, and
// takes back the alarm by which etcd takes no more.
func (t *tender) tend(ctx context.Context) error {
	db := t.etcd.Backend()
	alarm := len(t.etcd.Alarms()) > 0
	full := alarm || db.Size() > t.limits.QuotaBytes/4*3
	if full {
		db.ForceCommit() // what somebody still read at the last is free by now
	}
	rev := t.etcd.KV().Rev()
	t.least = min(t.least, db.SizeInUse()) // pages are free only once nobody reads what was in them
	// behind a flood, what is let go of counts as in use until something else is written, or the file anew
	over := rev == t.rev && rev != t.written && db.SizeInUse() > t.limits.QuotaBytes/2
	t.rev = rev
	switch grown := db.SizeInUse() - t.least; {
	case (full || over || grown > t.limits.GrowBytes) && rev > t.compacted:
		if err := t.compact(ctx, rev); err != nil {
			return err
		}
	case rev-t.compacted > t.limits.Revisions+t.limits.Revisions/10:
		if err := t.compact(ctx, rev-t.limits.Revisions/10); err != nil {
			return err
		}
	}
	waste := db.Size() - db.SizeInUse()
	if waste > t.limits.WasteBytes || over || full && waste > t.limits.QuotaBytes/4 {
		t.written = rev
		if err := db.Defrag(); err != nil {
			return fmt.Errorf("defragment: %w", err)
		}
	}
	if alarm && db.Size() < t.limits.QuotaBytes/4*3 {
		return t.disarm(ctx)
	}
	return t.tooFull(db)
}

func (t *tender) compact(ctx context.Context, rev int64) error {
	_, err := t.etcd.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
	if err != nil && !errors.Is(err, mvcc.ErrCompacted) { // before a start that is
		return fmt.Errorf("compact: %w", err)
	}
	t.etcd.Backend().ForceCommit() // so that what is free counts as free
	t.compacted, t.least = rev, t.etcd.Backend().SizeInUse()
	return nil
}

func (t *tender) disarm(ctx context.Context) error {
	for _, a := range t.etcd.Alarms() {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		_, err := t.etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID,
			Alarm: a.Alarm})
		if err != nil {
			return fmt.Errorf("disarm: %w", err)
		}
		if t.log != nil {
			t.log.Warn("etcd's quota was used up: it is compacted, and takes values again")
		}
	}
	return nil
}

// tooFull says that what is in use is more than may be, which nothing here can change.
func (t *tender) tooFull(db backend.Backend) error {
	if used := db.SizeInUse(); used > t.limits.QuotaBytes/4*3 {
		return fmt.Errorf("%d of %d bytes are in use: see which keys are too many "+
			"(etcdctl get /souk/v1/ --prefix --keys-only)", used, t.limits.QuotaBytes)
	}
	return nil
}
