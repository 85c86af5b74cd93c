package vllmsim

import (
	"bytes"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/common/expfmt"
)

// stats are the metrics of an engine on /metrics, by vLLM's names, labels and bucket edges: those that tell
// its load, what its cache holds and how soon it answers.
type stats struct {
	registry *prometheus.Registry

	running, waiting, kvUsage prometheus.Gauge
	lora                      *prometheus.GaugeVec // nil: there are no adapters

	queries, hits, preemptions, promptTokens, generated prometheus.Counter
	success                                             *prometheus.CounterVec // by finished_reason

	ttft, itl prometheus.Histogram
}

// Bucket edges of vLLM 0.32.0.
var (
	edgesTTFT = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5,
		7.5, 10, 20, 40, 80, 160, 640, 2560}
	edgesITL = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5,
		10, 20, 40, 80}
)

func newStats(model string, blocks, block int, adapters bool) *stats {
	st := &stats{registry: prometheus.NewRegistry()}
	in, own := promauto.With(st.registry), prometheus.Labels{"model_name": model, "engine": "0"}
	gauge := func(name string) prometheus.Gauge {
		return in.NewGauge(prometheus.GaugeOpts{Name: "vllm:" + name, ConstLabels: own})
	}
	counted := func(name string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "vllm:" + name + "_total", ConstLabels: own}
	}
	counter := func(name string) prometheus.Counter { return in.NewCounter(counted(name)) }
	seconds := func(name string, edges []float64) prometheus.Histogram {
		return in.NewHistogram(prometheus.HistogramOpts{Name: "vllm:" + name + "_seconds", ConstLabels: own,
			Buckets: edges})
	}
	st.running, st.waiting = gauge("num_requests_running"), gauge("num_requests_waiting")
	st.kvUsage = gauge("kv_cache_usage_perc")
	st.queries, st.hits = counter("prefix_cache_queries"), counter("prefix_cache_hits")
	st.preemptions, st.promptTokens = counter("num_preemptions"), counter("prompt_tokens")
	st.generated = counter("generation_tokens")
	st.success = in.NewCounterVec(counted("request_success"), []string{"finished_reason"})
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		st.success.WithLabelValues(reason)
	}
	st.ttft = seconds("time_to_first_token", edgesTTFT)
	st.itl = seconds("inter_token_latency", edgesITL)
	// The labels that say something about the stand-in.
	n := strconv.Itoa
	sizes := prometheus.Labels{"block_size": n(block), "cache_dtype": "auto", "enable_prefix_caching": "True",
		"engine": "0", "kv_cache_size_tokens": n(blocks * block), "num_cpu_blocks": "None",
		"num_gpu_blocks": n(blocks), "num_gpu_blocks_override": n(blocks),
		"prefix_caching_hash_algo": "xxhash", "sliding_window": "None"}
	in.NewGauge(prometheus.GaugeOpts{Name: "vllm:cache_config_info", ConstLabels: sizes}).Set(1)
	if adapters {
		st.lora = in.NewGaugeVec(prometheus.GaugeOpts{Name: "vllm:lora_requests_info"},
			[]string{"max_lora", "running_lora_adapters", "waiting_lora_adapters"})
	}
	return st
}

// page is /metrics as it is now.
func (e *engine) page() []byte {
	st := e.stats
	st.running.Set(float64(len(e.Running)))
	st.waiting.Set(float64(len(e.Waiting)))
	st.kvUsage.Set(float64(e.Cache.Used()) / float64(e.Cache.Capacity()))
	if st.lora != nil {
		st.lora.Reset()
		st.lora.WithLabelValues(strconv.Itoa(e.adapters.AtOnce), e.adapters.named(e.Running),
			e.adapters.named(e.Waiting)).SetToCurrentTime()
	}
	families, err := st.registry.Gather()
	if err != nil {
		panic("vllmsim: " + err.Error())
	}
	var b bytes.Buffer
	to := expfmt.NewEncoder(&b, expfmt.NewFormat(expfmt.TypeOpenMetrics), expfmt.WithCreatedLines())
	for _, f := range families {
		f.Help = nil
		_ = to.Encode(f) // to memory
	}
	// vLLM's page names counters as their samples in their TYPE lines, which alone end so.
	return bytes.ReplaceAll(b.Bytes(), []byte(" counter\n"), []byte("_total counter\n"))
}

func (st *stats) queried(tokens, cached int) {
	st.queries.Add(float64(tokens))
	st.hits.Add(float64(cached))
}

// ended counts a request that ended by itself. One that its client left is counted nowhere, as on a real
// server.
func (st *stats) ended(reason string) {
	if reason != "abort" {
		st.success.WithLabelValues(reason).Inc()
	}
}
