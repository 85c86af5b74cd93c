package vllmsim

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// page appends what /metrics shows: vLLM's names, labels, bucket edges and order, in the text format of
// Python's Prometheus client, without its lines of help. Engine-side only: the web framework's own http_* and
// Python's process_* are not imitated.
type page struct {
	b      []byte
	labels string // engine and model
	model  string
	born   time.Time
	stats  *stats
}

// gauges are what is true at the moment of a scrape.
type gauges struct {
	running, waiting []*sequence
	kvUsage          float64 // share of blocks that running requests hold
	blocks, block    int
	adapters         *adapters
}

func render(b []byte, model string, born time.Time, st *stats, g gauges) []byte {
	name := labelValue(model)
	p := &page{b: b, model: `model_name="` + name + `"`, born: born, stats: st}
	p.labels = `engine="0",` + p.model
	p.gauges(g)
	p.counters()
	p.histograms()
	if a := g.adapters; len(a.Names) > 0 {
		p.head("vllm:lora_requests_info", "gauge")
		p.sample("vllm:lora_requests_info", `max_lora="`+strconv.Itoa(a.AtOnce)+`",running_lora_adapters="`+
			labelValue(a.named(g.running))+`",waiting_lora_adapters="`+labelValue(a.named(g.waiting))+`"`,
			seconds(time.Now()))
	}
	p.config(g)
	return p.b
}

func labelValue(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

func (p *page) head(name, kind string) {
	p.b = append(p.b, "# TYPE "...)
	p.b = append(append(append(append(p.b, name...), ' '), kind...), '\n')
}

func (p *page) sample(name, labels string, v float64) {
	p.b = append(append(p.b, name...), '{')
	p.b = append(append(p.b, labels...), "} "...)
	p.b = append(appendFloat(p.b, v), '\n')
}

// appendFloat writes a number as Python does: 3.0, 1e+16, 1.7951753518594904e+09.
func appendFloat(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e6:
		return strconv.AppendFloat(b, v, 'f', 1, 64)
	case math.Abs(v) >= 1e6:
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

func (p *page) gauge(name string, v float64) {
	p.head(name, "gauge")
	p.sample(name, p.labels, v)
}

// labelled is one value of a counter or gauge that has a label of its own; the label goes where the alphabet
// puts it.
type labelled struct {
	labels string
	value  int
}

func (p *page) counter(name string, values ...labelled) {
	name = "vllm:" + name
	p.head(name+"_total", "counter")
	for _, v := range values {
		p.sample(name+"_total", v.labels, float64(v.value))
	}
	p.head(name+"_created", "gauge")
	for _, v := range values {
		p.sample(name+"_created", v.labels, seconds(p.born))
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

func (p *page) plain(v int) labelled { return labelled{p.labels, v} }

func (p *page) with(label, value string, v int) labelled {
	l := label + `="` + value + `"`
	if label < "model_name" {
		return labelled{`engine="0",` + l + "," + p.model, v}
	}
	return labelled{p.labels + "," + l, v}
}

func (p *page) gauges(g gauges) {
	p.gauge("vllm:num_requests_running", float64(len(g.running)))
	p.gauge("vllm:num_requests_waiting", float64(len(g.waiting)))
	p.head("vllm:num_requests_waiting_by_reason", "gauge")
	p.sample("vllm:num_requests_waiting_by_reason", p.labels+`,reason="capacity"`, float64(len(g.waiting)))
	p.sample("vllm:num_requests_waiting_by_reason", p.labels+`,reason="deferred"`, 0)
	p.head("vllm:engine_sleep_state", "gauge")
	for i, state := range []string{"awake", "weights_offloaded", "discard_all"} {
		p.sample("vllm:engine_sleep_state", p.labels+`,sleep_state="`+state+`"`, float64(max(0, 1-i)))
	}
	p.gauge("vllm:kv_cache_usage_perc", g.kvUsage)
}

func (p *page) counters() {
	s := p.stats
	p.counter("prefix_cache_queries", p.plain(s.queries))
	p.counter("prefix_cache_hits", p.plain(s.hits))
	p.counter("external_prefix_cache_queries", p.plain(0))
	p.counter("external_prefix_cache_hits", p.plain(0))
	p.counter("mm_cache_queries", p.plain(0))
	p.counter("mm_cache_hits", p.plain(0))
	p.counter("num_preemptions", p.plain(s.preemptions))
	p.counter("prompt_tokens", p.plain(s.promptTokens))
	p.counter("prompt_tokens_by_source", p.with("source", "local_compute", s.promptTokens-s.cachedTokens),
		p.with("source", "local_cache_hit", s.cachedTokens), p.with("source", "external_kv_transfer", 0))
	p.counter("prompt_tokens_cached", p.plain(s.cachedTokens))
	p.counter("prompt_tokens_cached_by_source", p.with("source", "device", s.hits),
		p.with("source", "host", 0), p.with("source", "p2p", 0), p.with("source", "disk", 0),
		p.with("source", "external_unspecified", 0))
	p.counter("generation_tokens", p.plain(s.generated))
	p.counter("request_success", p.with("finished_reason", "stop", s.stop),
		p.with("finished_reason", "length", s.length), p.with("finished_reason", "abort", 0),
		p.with("finished_reason", "error", 0), p.with("finished_reason", "repetition", 0))
	p.counter("admission_rejections", labelled{p.model + `,reason="max_num_queued_reqs"`, s.rejected},
		labelled{p.model + `,reason="max_num_queued_tokens"`, 0})
}

func (p *page) histograms() {
	s := p.stats
	for _, h := range []struct {
		name string
		h    *histogram
	}{
		{"request_prompt_tokens", &s.promptSize}, {"request_generation_tokens", &s.outputSize},
		{"iteration_tokens_total", &s.iterationTokens}, {"request_max_num_generation_tokens", &s.maxOutput},
		{"request_params_n", &s.paramN}, {"request_params_max_tokens", &s.paramMax},
		{"time_to_first_token_seconds", &s.ttft}, {"inter_token_latency_seconds", &s.itl},
		{"request_time_per_output_token_seconds", &s.perToken}, {"e2e_request_latency_seconds", &s.e2e},
		{"request_queue_time_seconds", &s.queue}, {"request_inference_time_seconds", &s.inference},
		{"request_prefill_time_seconds", &s.prefill}, {"request_decode_time_seconds", &s.decode},
		{"request_num_preemptions", &s.preemptedTimes},
		{"request_prefill_kv_computed_tokens", &s.computedTokens},
	} {
		p.histogram("vllm:"+h.name, h.h)
	}
}

func (p *page) histogram(name string, h *histogram) {
	p.head(name, "histogram")
	sum := 0
	for i, n := range h.counts {
		sum += n
		edge := math.Inf(1)
		if i < len(h.edges) {
			edge = h.edges[i]
		}
		le := string(appendFloat([]byte(`engine="0",le="`), edge)) + `",` + p.model
		p.sample(name+"_bucket", le, float64(sum))
	}
	p.sample(name+"_count", p.labels, float64(h.count))
	p.sample(name+"_sum", p.labels, h.sum)
	p.head(name+"_created", "gauge")
	p.sample(name+"_created", p.labels, seconds(p.born))
}

// config is vllm:cache_config_info with the labels that say something about the stand-in.
func (p *page) config(g gauges) {
	n := strconv.Itoa
	p.head("vllm:cache_config_info", "gauge")
	p.sample("vllm:cache_config_info", `block_size="`+n(g.block)+
		`",cache_dtype="auto",enable_prefix_caching="True",engine="0",kv_cache_size_tokens="`+n(g.blocks*g.block)+`",num_cpu_blocks="None",num_gpu_blocks="`+
		n(g.blocks)+
		`",num_gpu_blocks_override="`+n(g.blocks)+`",prefix_caching_hash_algo="xxhash",sliding_window="None"`,
		1)
}
