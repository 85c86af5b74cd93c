package vllmsim

import (
	"bytes"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/common/expfmt"
)

// stats are the metrics of an engine on /metrics, by vLLM's names, labels and bucket edges.
type stats struct {
	registry *prometheus.Registry

	running, waiting, delayed, kvUsage prometheus.Gauge
	lora                               *prometheus.GaugeVec // nil: there are no adapters

	queries, hits, preemptions, promptTokens, cachedTokens, generated prometheus.Counter
	computed, found, device, stop, length, rejected                   prometheus.Counter

	promptSize, outputSize, maxOutput, paramN, paramMax, iterationTokens, computedTokens, preemptedTimes,
	ttft, itl, perToken, e2e, queue, inference, prefill, decode prometheus.Histogram
}

// Bucket edges of vLLM 0.32.0, which end where max_model_len makes more of them useless; 8192 here.
var (
	edgesTokens    = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
	edgesIteration = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	edgesN         = []float64{1, 2, 5, 10, 20}
	edgesPreempted = []float64{1, 2, 3, 4, 5, 10, 20}
	edgesTTFT      = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5,
		7.5, 10, 20, 40, 80, 160, 640, 2560}
	edgesITL = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5,
		10, 20, 40, 80}
	edgesLatency = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960,
		1920, 7680}
)

func newStats(model string, blocks, block int, adapters bool) *stats {
	st := &stats{registry: prometheus.NewRegistry()}
	in, own := promauto.With(st.registry), prometheus.Labels{"model_name": model, "engine": "0"}
	opts := func(name string) prometheus.Opts {
		return prometheus.Opts{Name: "vllm:" + name, ConstLabels: own}
	}
	gauge := func(name string) prometheus.Gauge { return in.NewGauge(prometheus.GaugeOpts(opts(name))) }
	gauges := func(name, label string) *prometheus.GaugeVec {
		return in.NewGaugeVec(prometheus.GaugeOpts(opts(name)), []string{label})
	}
	counter := func(name string) prometheus.Counter {
		return in.NewCounter(prometheus.CounterOpts(opts(name + "_total")))
	}
	counters := func(o prometheus.Opts, label string, values ...string) (out []prometheus.Counter) {
		v := in.NewCounterVec(prometheus.CounterOpts(o), []string{label})
		for _, x := range values {
			out = append(out, v.WithLabelValues(x))
		}
		return out
	}
	st.running, st.waiting = gauge("num_requests_running"), gauge("num_requests_waiting")
	reasons := gauges("num_requests_waiting_by_reason", "reason")
	st.delayed, _ = reasons.WithLabelValues("capacity"), reasons.WithLabelValues("deferred")
	sleeps := gauges("engine_sleep_state", "sleep_state")
	for i, state := range []string{"awake", "weights_offloaded", "discard_all"} {
		sleeps.WithLabelValues(state).Set(float64(max(0, 1-i)))
	}
	st.kvUsage = gauge("kv_cache_usage_perc")
	st.queries, st.hits = counter("prefix_cache_queries"), counter("prefix_cache_hits")
	for _, name := range []string{"external_prefix_cache_queries", "external_prefix_cache_hits",
		"mm_cache_queries", "mm_cache_hits"} {
		counter(name)
	}
	st.preemptions, st.promptTokens = counter("num_preemptions"), counter("prompt_tokens")
	st.cachedTokens, st.generated = counter("prompt_tokens_cached"), counter("generation_tokens")
	sources := counters(opts("prompt_tokens_by_source_total"), "source", "local_compute", "local_cache_hit",
		"external_kv_transfer")
	st.computed, st.found = sources[0], sources[1]
	st.device = counters(opts("prompt_tokens_cached_by_source_total"), "source", "device", "host", "p2p",
		"disk", "external_unspecified")[0]
	ends := counters(opts("request_success_total"), "finished_reason", "stop", "length", "abort", "error",
		"repetition")
	st.stop, st.length = ends[0], ends[1]
	st.rejected = counters(prometheus.Opts{Name: "vllm:admission_rejections_total",
		ConstLabels: prometheus.Labels{"model_name": model}}, "reason", "max_num_queued_reqs",
		"max_num_queued_tokens")[0]
	for _, h := range []struct {
		name  string
		to    *prometheus.Histogram
		edges []float64
	}{
		{"request_prompt_tokens", &st.promptSize, edgesTokens},
		{"request_generation_tokens", &st.outputSize, edgesTokens},
		{"iteration_tokens_total", &st.iterationTokens, edgesIteration},
		{"request_max_num_generation_tokens", &st.maxOutput, edgesTokens},
		{"request_params_n", &st.paramN, edgesN}, {"request_params_max_tokens", &st.paramMax, edgesTokens},
		{"time_to_first_token_seconds", &st.ttft, edgesTTFT},
		{"inter_token_latency_seconds", &st.itl, edgesITL},
		{"request_time_per_output_token_seconds", &st.perToken, edgesITL},
		{"e2e_request_latency_seconds", &st.e2e, edgesLatency},
		{"request_queue_time_seconds", &st.queue, edgesLatency},
		{"request_inference_time_seconds", &st.inference, edgesLatency},
		{"request_prefill_time_seconds", &st.prefill, edgesLatency},
		{"request_decode_time_seconds", &st.decode, edgesLatency},
		{"request_num_preemptions", &st.preemptedTimes, edgesPreempted},
		{"request_prefill_kv_computed_tokens", &st.computedTokens, edgesTokens},
	} {
		*h.to = in.NewHistogram(prometheus.HistogramOpts{Name: "vllm:" + h.name, ConstLabels: own,
			Buckets: h.edges})
	}
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
	st.delayed.Set(float64(len(e.Waiting)))
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
	st.device.Add(float64(cached))
}

func (st *stats) prefilled(s *sequence) {
	st.promptTokens.Add(float64(s.prompt))
	st.cachedTokens.Add(float64(s.run.Cached))
	st.found.Add(float64(s.run.Cached))
	st.computed.Add(float64(s.prompt - s.run.Cached))
}

func (st *stats) iteration(tokens int) {
	if tokens > 0 {
		st.iterationTokens.Observe(float64(tokens))
	}
}

// ended counts a request that ended by itself. One that its client left is counted nowhere, as on a real
// server.
func (st *stats) ended(s *sequence, now time.Time) {
	switch s.reason {
	case "stop":
		st.stop.Inc()
	case "length":
		st.length.Inc()
	default:
		return
	}
	n := float64(s.output())
	st.promptSize.Observe(float64(s.prompt))
	st.outputSize.Observe(n)
	st.computedTokens.Observe(float64(s.prompt - s.run.Cached))
	st.preemptedTimes.Observe(float64(s.run.Preempted))
	if s.index == 0 {
		st.maxOutput.Observe(n)
		st.paramN.Observe(float64(s.limits.n))
	}
	st.paramMax.Observe(float64(s.limits.max))
	st.e2e.Observe(now.Sub(s.arrived).Seconds())
	st.queue.Observe(s.scheduled.Sub(s.arrived).Seconds())
	st.inference.Observe(now.Sub(s.scheduled).Seconds())
	st.prefill.Observe(s.first.Sub(s.scheduled).Seconds())
	st.decode.Observe(s.last.Sub(s.first).Seconds())
	perToken := 0.0
	if n > 1 {
		perToken = s.last.Sub(s.first).Seconds() / (n - 1)
	}
	st.perToken.Observe(perToken)
}
