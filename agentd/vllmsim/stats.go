package vllmsim

import "time"

// stats are an engine's counters and histograms, those of /metrics.
type stats struct {
	queries, hits              int // prefix cache, in tokens
	promptTokens, cachedTokens int
	generated                  int
	preemptions                int
	stop, length               int // finished requests by reason
	rejected                   int // by --max-num-queued-reqs

	promptSize, outputSize, maxOutput, paramN, paramMax, iterationTokens, computedTokens,
	preemptedTimes histogram
	ttft, itl, perToken, e2e, queue, inference, prefill, decode histogram
}

func newStats() stats {
	return stats{
		promptSize: newHistogram(edgesTokens), outputSize: newHistogram(edgesTokens),
		maxOutput: newHistogram(edgesTokens),
		paramN:    newHistogram(edgesN), paramMax: newHistogram(edgesTokens),
		iterationTokens: newHistogram(edgesIteration),
		computedTokens:  newHistogram(edgesTokens), preemptedTimes: newHistogram(edgesPreempted),
		ttft: newHistogram(edgesTTFT), itl: newHistogram(edgesITL), perToken: newHistogram(edgesITL),
		e2e: newHistogram(edgesLatency), queue: newHistogram(edgesLatency),
		inference: newHistogram(edgesLatency),
		prefill:   newHistogram(edgesLatency), decode: newHistogram(edgesLatency),
	}
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

type histogram struct {
	edges  []float64
	counts []int // by bucket, not cumulative; the last is +Inf
	sum    float64
	count  int
}

func newHistogram(edges []float64) histogram {
	return histogram{edges: edges, counts: make([]int, len(edges)+1)}
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.edges) && v > h.edges[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
	h.count++
}

func (st *stats) queried(tokens, cached int) {
	st.queries += tokens
	st.hits += cached
}

func (st *stats) prefilled(s *sequence) {
	st.promptTokens += s.prompt
	st.cachedTokens += s.run.Cached
}

func (st *stats) iteration(tokens int) {
	if tokens > 0 {
		st.iterationTokens.observe(float64(tokens))
	}
}

// ended counts a request that ended by itself. One that its client left is counted nowhere, as on a real
// server.
func (st *stats) ended(s *sequence, now time.Time) {
	switch s.reason {
	case "stop":
		st.stop++
	case "length":
		st.length++
	default:
		return
	}
	n := float64(s.output())
	st.promptSize.observe(float64(s.prompt))
	st.outputSize.observe(n)
	st.computedTokens.observe(float64(s.prompt - s.run.Cached))
	st.preemptedTimes.observe(float64(s.run.Preempted))
	if s.index == 0 {
		st.maxOutput.observe(n)
		st.paramN.observe(float64(s.limits.n))
	}
	st.paramMax.observe(float64(s.limits.max))
	st.e2e.observe(now.Sub(s.arrived).Seconds())
	st.queue.observe(s.scheduled.Sub(s.arrived).Seconds())
	st.inference.observe(now.Sub(s.scheduled).Seconds())
	st.prefill.observe(s.first.Sub(s.scheduled).Seconds())
	st.decode.observe(s.last.Sub(s.first).Seconds())
	if n > 1 {
		st.perToken.observe(s.last.Sub(s.first).Seconds() / (n - 1))
	} else {
		st.perToken.observe(0)
	}
}
