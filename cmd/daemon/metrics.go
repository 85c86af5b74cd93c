package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"

	"souk/bus/metrics"
)

// figures are the metrics of a process: OpenTelemetry's SDK, which /metrics and a collector read.
type figures struct {
	provider *sdk.MeterProvider
	registry *prometheus.Registry
	log      *slog.Logger
	amiss    sync.Once

	reading chan struct{} // cap 1: one reads, the others wait for its page
	page    []byte
	read    time.Time
}

// newFigures measures a process for /metrics, if it is served, and for the collector that OpenTelemetry's
// variables name; nil where there is neither.
func newFigures(part string, served bool, log *slog.Logger) (*figures, error) {
	f := &figures{registry: prometheus.NewRegistry(), log: log, reading: make(chan struct{}, 1)}
	options := []sdk.Option{sdk.WithResource(resourceOf(part)),
		sdk.WithExemplarFilter(exemplar.AlwaysOffFilter)}
	pushed, err := pusher()
	switch {
	case err != nil:
		return nil, err
	case pushed != nil:
		options = append(options, sdk.WithReader(pushed))
	case !served:
		return nil, nil
	}
	if served {
		scraped, err := otelprom.New(otelprom.WithRegisterer(f.registry), otelprom.WithoutScopeInfo(),
			otelprom.WithoutTargetInfo(), otelprom.WithTranslationStrategy(otlptranslator.NoTranslation))
		if err != nil {
			return nil, err
		}
		options = append(options, sdk.WithReader(scraped))
		f.registry.MustRegister(collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	f.provider = sdk.NewMeterProvider(options...)
	return f, nil
}

// pusher sends metrics to a collector by OTLP; nil where the environment names none. It sends and waits on
// its own: a collector that is slow or away costs nobody else anything, and what it misses it has with the
// next.
func pusher() (sdk.Reader, error) {
	protocol, err := otlp("METRICS")
	if err != nil || protocol == "" {
		return nil, err
	}
	var to sdk.Exporter
	if protocol == "grpc" {
		to, err = otlpmetricgrpc.New(context.Background())
	} else {
		to, err = otlpmetrichttp.New(context.Background())
	}
	if err != nil {
		return nil, fmt.Errorf("metrics by OTLP: %w", err)
	}
	return sdk.NewPeriodicReader(to), nil
}

// meter makes the instruments of a process; nil where nobody collects.
func (f *figures) meter() metrics.Meter {
	if f == nil {
		return nil
	}
	return f.provider.Meter("souk")
}

// close has the collector get the last figures, within a second.
func (f *figures) close() {
	if f != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		f.provider.Shutdown(ctx)
	}
}

const (
	// pageFor is how long a page is good: however many ask, the process is read no more often.
	pageFor = 250 * time.Millisecond
	// pageWithin is how long who asks waits for one.
	pageWithin = 5 * time.Second
)

// ServeHTTP writes the figures as Prometheus reads them.
func (f *figures) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case f.reading <- struct{}{}:
	case <-time.After(pageWithin):
		http.Error(w, "the figures are not read within 5 s", http.StatusServiceUnavailable)
		return
	case <-r.Context().Done():
		return
	}
	if time.Since(f.read) >= pageFor {
		f.page, f.read = f.collect(), time.Now()
	}
	page := f.page
	<-f.reading
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	w.Write(page)
}

// collect reads all figures.
func (f *figures) collect() []byte {
	all, err := f.registry.Gather()
	if err != nil { // what could be read is shown
		f.amiss.Do(func() { f.log.Warn("not all metrics can be shown", "err", err) })
	}
	var page bytes.Buffer
	for _, family := range all {
		expfmt.MetricFamilyToText(&page, family)
	}
	return page.Bytes()
}

// of every process
var (
	families  metrics.Set
	buildInfo = families.Gauge("souk_build_info", "Always 1: the labels say which part of the market the process is, "+
		"of which version, and of which commit.", "part", "version", "commit", "goversion")
	isReady = families.Gauge("souk_ready", "1 where the process is ready, as /readyz says, else 0.")
)

// of every process that joins a market
var (
	ofMarket    metrics.Set
	connectedTo = ofMarket.Gauge("souk_connected", "1 where the process is connected to nats, or to etcd, else 0.",
		"to")
	natsMessages = ofMarket.Counter("souk_nats_messages_total", "Messages that came in and went out over NATS.",
		"way")
	natsBytes      = ofMarket.Counter("souk_nats_bytes_total", "Bytes of these messages.", "way")
	natsReconnects = ofMarket.Counter("souk_nats_reconnects_total", "Times that NATS was away and is back.")
	natsDropped    = ofMarket.Counter("souk_nats_dropped_total", "Messages over NATS that were dropped, as they came "+
		"faster than they were taken.")
	etcdFull     = ofMarket.Counter("souk_etcd_full_total", "Times that etcd was found to take nothing more.")
	etcdWentBack = ofMarket.Counter("souk_etcd_went_back_total", "Times that etcd was found at an older revision.")
	expire       = ofMarket.Gauge("souk_credentials_expire_seconds", "Time until the process's creds for NATS, and its "+
		"certificate for etcd, end; below 0 they have.", "of")
)

// observe has the figures say what every process has.
func (h *health) observe() {
	version, commit := Build()
	families.Observe(h.figures.meter(), func(say metrics.Say) {
		say(buildInfo, 1, h.name, version, commit, runtime.Version())
		say(isReady, metrics.Bool(h.report().Ready))
	})
}

// observe has the figures say how a process stands with NATS and etcd.
func (l *Link) observe(m metrics.Meter) {
	ofMarket.Observe(m, func(say metrics.Say) {
		say(connectedTo, metrics.Bool(!l.Bus.Connected().IsZero()), "nats")
		say(connectedTo, metrics.Bool(l.Registry.Connected()), "etcd")
		n := l.Bus.Traffic()
		say(natsMessages, float64(n.InMsgs), "in")
		say(natsMessages, float64(n.OutMsgs), "out")
		say(natsBytes, float64(n.InBytes), "in")
		say(natsBytes, float64(n.OutBytes), "out")
		say(natsReconnects, float64(n.Reconnects))
		say(natsDropped, float64(l.Bus.Dropped()))
		t := l.Registry.Troubles()
		say(etcdFull, float64(t.Full))
		say(etcdWentBack, float64(t.WentBack))
		if l.creds != nil {
			if i, err := l.creds(); err == nil && !i.Expires.IsZero() {
				say(expire, time.Until(i.Expires).Seconds(), "creds")
			}
		}
		if ends := l.files.Expires(); !ends.IsZero() {
			say(expire, time.Until(ends).Seconds(), "certificate")
		}
	})
}
