package flood

import (
	"context"
	"crypto/tls"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Etcd is an agent's flood of the registry: its own keys written without a pause, on many connections and by
// turns, in values that are as large as may be and larger ones, with leases, watches and reads beside.
type Etcd struct {
	Endpoint    string
	TLS         *tls.Config // with its certificate
	Keys        []string    // its own
	Reads       string      // what it may read, and watch
	Connections int
	Values      []int // bytes, by turns
}

// Run floods until ctx ends.
func (f Etcd) Run(ctx context.Context) Did {
	var d struct{ opened, closed, asked, refused atomic.Int64 }
	var all sync.WaitGroup
	for i := range f.Connections {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := clientv3.New(clientv3.Config{Endpoints: []string{f.Endpoint}, TLS: f.TLS,
					Context: ctx, DialTimeout: time.Second, Logger: zap.NewNop()})
				if err != nil {
					d.refused.Add(1)
					continue
				}
				d.opened.Add(1)
				f.on(ctx, c, i, &d.asked, &d.refused)
				c.Close()
				if ctx.Err() == nil {
					d.closed.Add(1)
				}
			}
		})
	}
	all.Wait()
	return Did{d.opened.Load(), d.closed.Load(), d.asked.Load(), d.refused.Load()}
}

// on floods by one connection, until it has failed a hundred times in a row.
func (f Etcd) on(ctx context.Context, c *clientv3.Client, i int, asked, refused *atomic.Int64) {
	failed := 0
	do := func(ask func(context.Context) error) {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		asked.Add(1)
		if failed++; ask(within) != nil {
			refused.Add(1)
		} else {
			failed = 0
		}
	}
	for n := i; ctx.Err() == nil && failed < 100; n++ {
		value := strings.Repeat("x", f.Values[n%len(f.Values)])
		key := f.Keys[n%len(f.Keys)]
		do(func(ctx context.Context) error { _, err := c.Put(ctx, key, value); return err })
		if n%8 == 0 {
			do(func(ctx context.Context) error { _, err := c.Grant(ctx, 3600); return err })
			do(func(ctx context.Context) error {
				_, err := c.Get(ctx, f.Reads, clientv3.WithPrefix())
				return err
			})
			c.Watch(ctx, f.Reads, clientv3.WithPrefix()) // nothing is read of it
		}
	}
}
