package embedded

import (
	"github.com/nats-io/nats-server/v2/server"

	"souk/bus/metrics"
)

// what an operator sees of a NATS server
var (
	ofNATS metrics.Set

	natsConnections = ofNATS.Gauge("souk_infra_nats_connections", "Connections to the NATS server.")
	natsSubs        = ofNATS.Gauge("souk_infra_nats_subscriptions", "Subscriptions at the NATS server.")
	natsMessages    = ofNATS.Counter("souk_infra_nats_messages_total", "Messages that the NATS server was sent, in, and "+
		"passed on, out.", "way")
	natsBytes = ofNATS.Counter("souk_infra_nats_bytes_total", "Bytes of these messages.", "way")
	natsSlow  = ofNATS.Counter("souk_infra_nats_slow_consumers_total", "Connections that were closed, as they did not "+
		"read what they were sent.")
)

// Observe has a collector read them.
func (n *NATS) Observe(m metrics.Meter) {
	ofNATS.Observe(m, func(say metrics.Say) {
		v, err := n.server.Varz(&server.VarzOptions{})
		if err != nil {
			return
		}
		say(natsConnections, float64(v.Connections))
		say(natsSubs, float64(v.Subscriptions))
		say(natsMessages, float64(v.InMsgs), "in")
		say(natsMessages, float64(v.OutMsgs), "out")
		say(natsBytes, float64(v.InBytes), "in")
		say(natsBytes, float64(v.OutBytes), "out")
		say(natsSlow, float64(v.SlowConsumers))
	})
}

// what an operator sees of an etcd server
var (
	ofEtcd metrics.Set

	etcdLeader = ofEtcd.Gauge("souk_infra_etcd_has_leader", "1 where etcd has a leader, and so takes what is written, "+
		"else 0.")
	etcdSize     = ofEtcd.Gauge("souk_infra_etcd_db_bytes", "Size of etcd's database.")
	etcdInUse    = ofEtcd.Gauge("souk_infra_etcd_db_in_use_bytes", "Of it, what is in use; the rest is free for more.")
	etcdQuota    = ofEtcd.Gauge("souk_infra_etcd_quota_bytes", "Beyond this size etcd takes nothing more.")
	etcdRevision = ofEtcd.Counter("souk_infra_etcd_revisions_total", "Changes that etcd has taken, in its life.")
)

// Observe has a collector read them.
func (e *Etcd) Observe(m metrics.Meter) {
	ofEtcd.Observe(m, func(say metrics.Say) {
		s := e.etcd.Server
		say(etcdLeader, metrics.Bool(s.Leader() != 0))
		say(etcdSize, float64(s.Backend().Size()))
		say(etcdInUse, float64(s.Backend().SizeInUse()))
		say(etcdQuota, float64(s.Cfg.QuotaBackendBytes))
		say(etcdRevision, float64(s.KV().Rev()))
	})
}
