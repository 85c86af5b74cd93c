package embedded

import (
	"time"

	"souk/bus"
)

// EtcdLimits bound what one member, by the name in its certificate, takes of a server that others use, too.
// Who is beyond a rate waits, and who waits for too long, or has too much open, is refused. Members of this
// process, and who shows the certificate of root, are bound by the size of values alone.
type EtcdLimits struct {
	Connections int           // a process has one, an operator's commands one each
	Streams     int           // open watches and lease streams: an agentd has two for each of its agents
	Watches     int           // all together, however they are spread over streams: twice that
	Leases      int           // an agentd has one for each agent; a hub that it leads, and ten of what it led
	LeaseTTL    time.Duration // the longest: what hubs led is known for nine minutes

	InFlight int // requests at work: so many are before another's, at most
	Waiting  int // and so many wait for them

	Requests bus.Rate // a lease is kept alive three times in its time: 256 agents ask 80 times a second
	Writes   bus.Rate // a hub that begins claims a thousand agents
	Written  bus.Rate // bytes: 256 agents come with a few KB each, and say little after that
	Read     bus.Rate // bytes: a hub reads a thousand agents, and again after each outage

	Unread   int           // bytes that a member has not read: then nothing more is said to it
	ReadIn   time.Duration // for how long it may leave anything unread
	MaxDelay time.Duration // the longest that a rate makes anybody wait: clients give up soon after

	Strangers  int           // connections that have not shown a certificate yet, of anybody
	ShakeIn    time.Duration // and how long they may take
	AllInAll   int           // connections of everybody
	QuotaBytes int64         // of the database: beyond it etcd takes no more, from anybody
	GrowBytes  int64         // what it may grow by before what is no longer said is let go of
	WasteBytes int64         // what a file may have of pages that are free before it is written anew
	Revisions  int64         // what may be kept of earlier revisions by number: more than watches fall behind
}

// DefaultEtcdLimits suit a market of a thousand agents and a registry of 64 MB, on a server that stays below
// 512 MB.
func DefaultEtcdLimits() EtcdLimits {
	return EtcdLimits{
		Connections: 64, Streams: 1024, Watches: 2048, Leases: 1024, LeaseTTL: time.Hour,
		InFlight: 16, Waiting: 128,
		Requests: bus.Rate{Each: 500, Burst: 10_000}, Writes: bus.Rate{Each: 100, Burst: 2000},
		Written: bus.Rate{Each: 256 << 10, Burst: 4 << 20}, Read: bus.Rate{Each: 16 << 20, Burst: 256 << 20},
		Unread: 64 << 20, ReadIn: 5 * time.Second, MaxDelay: 3 * time.Second,
		Strangers: 256, ShakeIn: shakeWithin, AllInAll: 4096,
		QuotaBytes: 256 << 20, GrowBytes: 32 << 20, WasteBytes: 64 << 20, Revisions: 10_000,
	}
}

// What etcd takes of one request, whoever makes it: a claim has its value twice, for whether the key is there
// or not, and no transaction of ours has more than four parts.
const (
	maxRequest = 2*bus.MaxEntry + 16<<10
	maxTxnOps  = 16
	maxEtcdKey = 512 // bytes; ours are an id behind a prefix

	streamWindow = 64 << 10 // bytes of a stream that the server takes before it looks at them
)

// What etcd keeps of its log in memory, beside its database: requests since the last snapshot, and those
// before it. Nobody catches up with a cluster of one.
const (
	snapshotEvery = 500
	catchUp       = 50
)
