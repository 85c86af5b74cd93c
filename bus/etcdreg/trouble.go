package etcdreg

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// troubleEvery is how often etcd is asked whether it is well, and askWithin bounds each question.
const (
	troubleEvery = 5 * time.Second
	askWithin    = 3 * time.Second
)

// trouble notes the faults of an etcd that answers.
type trouble struct {
	mu       sync.Mutex
	full     int64 // the revision at which it took no more; 0: it takes what is written
	rev      int64 // the highest revision seen
	wentBack int64 // and the one, below it, of an etcd that was restored; 0: it was not

	count Troubles
}

// Troubles counts how often etcd was found to have a fault that it had not before.
type Troubles struct{ Full, WentBack int64 }

// Troubles returns how often etcd had each fault since the registry was opened.
func (r *Registry) Troubles() Troubles {
	r.trouble.mu.Lock()
	defer r.trouble.mu.Unlock()
	return r.trouble.count
}

// Trouble says what is wrong with etcd although it answers, and how it is mended; nil if nothing is.
func (r *Registry) Trouble() error {
	t := &r.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.full > 0:
		return fmt.Errorf("etcd takes nothing more, as its quota is used up (alarm NOSPACE): as root, etcdctl "+
			"compact %d, etcdctl defrag, etcdctl alarm disarm (runbook: a full etcd)", t.full)
	case t.wentBack > 0:
		return fmt.Errorf("etcd went back from revision %d to %d, so it is an older copy: agents and hubs obey "+
			"nobody who comes with lower ones: restore it with etcdutl snapshot restore --bump-revision "+
			"(runbook: etcd)", t.rev, t.wentBack)
	}
	return nil
}

// heard notes a revision that etcd said when it was asked after before had been heard.
func (t *trouble) heard(before, rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case rev >= t.rev:
		t.rev, t.wentBack = rev, 0
	case rev < before:
		if t.wentBack == 0 {
			t.count.WentBack++
		}
		t.wentBack = rev
	}
}

func (t *trouble) alarmed(rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full == 0 && rev > 0 {
		t.count.Full++
	}
	t.full = rev
}

// diagnose asks etcd how it is until ctx ends. An etcd that is out of reach says nothing: nothing changes.
func (r *Registry) diagnose(ctx context.Context, probe string, often time.Duration) {
	every := time.Tick(often)
	for {
		r.ask(ctx, probe)
		select {
		case <-every:
		case <-r.reconnected():
		case <-ctx.Done():
			return
		}
	}
}

func (r *Registry) ask(ctx context.Context, probe string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	r.trouble.mu.Lock()
	before := r.trouble.rev
	r.trouble.mu.Unlock()
	// what a majority knows: a member that is behind is none that went back
	out, err := r.client.Get(ctx, probe, append(span(probe), clientv3.WithCountOnly())...)
	if err != nil {
		return
	}
	r.trouble.heard(before, out.Header.Revision)
	alarms, err := r.client.AlarmList(ctx)
	if err != nil {
		return
	}
	full := int64(0)
	for _, a := range alarms.Alarms {
		if a.Alarm == pb.AlarmType_NOSPACE {
			full = max(1, out.Header.Revision)
		}
	}
	r.trouble.alarmed(full)
}
