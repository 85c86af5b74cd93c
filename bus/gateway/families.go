package gateway

import (
	"sync/atomic"

	"souk/bus"
	"souk/bus/metrics"
	"souk/bus/openai"
	"souk/bus/sight"
	"souk/market"
)

// what an operator sees of a gateway
var (
	families metrics.Set

	gatewayRequests = families.Counter("souk_gateway_requests_total", "Requests over HTTP that were answered, by the "+
		"endpoint and the outcome: ok, or why the request was refused.", "route", "code")
	gatewayAnswers = families.Counter("souk_gateway_answers_total", "Answers that ended, by the outcome: ok, or why there "+
		"was none, or no more of it.", "code")
	gatewayFirst = families.Seconds("souk_gateway_first_token_seconds", "From a request until the first token of its "+
		"answer, by the model that gave it.", firstBounds, "model")
	gatewayInter = families.Seconds("souk_gateway_inter_token_seconds", "Between tokens of a stream, its mean, as the "+
		"gateway had them.", interBounds)
	gatewayWhole = families.Seconds("souk_gateway_answer_seconds", "From a request until the end of its answer.",
		wholeBounds)
	gatewayPaid = families.Counter("souk_gateway_paid_credits_total", "Credits that clients paid: cost and premium.",
		"kind")
	gatewayLeft = families.Counter("souk_gateway_left_total", "Answers whose client left before their end.")

	gatewayOpen        = families.Gauge("souk_gateway_open_answers", "Answers that are open.")
	gatewayKept        = families.Gauge("souk_gateway_kept_answers", "Answers that are kept for who comes back.")
	gatewayConnections = families.Gauge("souk_gateway_connections", "Connections of clients.")
	gatewayBytes       = families.Counter("souk_gateway_bytes_total", "Bytes that clients sent, in, and were sent, out.",
		"way")
	gatewayMemory = families.Gauge("souk_gateway_memory_bytes", "What requests and answers take, and what is kept of "+
		"them.")
	gatewayMemoryLimit = families.Gauge("souk_gateway_memory_limit_bytes", "What they may take: gateway.max_memory "+
		"without what is set aside for connections.")
)

// Upper bounds of histograms, in seconds. That of first tokens alone is there for each model.
var (
	firstBounds = []float64{.05, .1, .25, .5, 1, 2.5, 10, 30}
	interBounds = []float64{.005, .01, .02, .03, .05, .075, .1, .2, .5}
	wholeBounds = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
)

// measures count for a collector what [Stats] does not; the server's lock guards the maps.
type measures struct {
	first, inter, whole *metrics.Recorder

	requests map[[2]string]int64 // by route and code
	answers  map[string]int64    // by code
	cost     market.Credits
	premium  market.Credits

	conns, came, sent atomic.Int64 // connections, and their bytes
}

// measure has a collector read what the server counts.
func (s *Server) measure() {
	m := &s.measures
	m.requests, m.answers = map[[2]string]int64{}, map[string]int64{}
	m.first, m.inter = families.Recorder(s.d.Meter, gatewayFirst), families.Recorder(s.d.Meter, gatewayInter)
	m.whole = families.Recorder(s.d.Meter, gatewayWhole)
	families.Observe(s.d.Meter, func(say metrics.Say) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for of, n := range m.requests {
			say(gatewayRequests, float64(n), of[0], of[1])
		}
		for code, n := range m.answers {
			say(gatewayAnswers, float64(n), code)
		}
		say(gatewayPaid, metrics.Credits(m.cost), "cost")
		say(gatewayPaid, metrics.Credits(m.premium), "premium")
		say(gatewayLeft, float64(s.stats.Left))
		say(gatewayOpen, float64(len(s.open)))
		say(gatewayKept, float64(len(s.kept)))
		say(gatewayConnections, float64(m.conns.Load()))
		say(gatewayBytes, float64(m.came.Load()), "in")
		say(gatewayBytes, float64(m.sent.Load()), "out")
		say(gatewayMemory, float64(s.memory.used.Load()))
		say(gatewayMemoryLimit, float64(s.memory.most))
	})
}

// answered counts a request to an endpoint.
func (s *Server) answered(route string, code bus.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measures.requests[[2]string{route, codeOf(code)}]++
}

// codeOf is an outcome as a label: codes of OpenAI's that a gateway gives are known, too.
func codeOf(code bus.Code) string {
	if code == openai.CodeInvalidKey || code == openai.CodeNoEndpoint {
		return string(code)
	}
	return metrics.Code(code)
}

// tally counts an answer that has ended. The lock is held.
func (s *Server) tally(a *answer, line *sight.Line) {
	m := &s.measures
	m.answers[codeOf(line.Code)]++
	for _, r := range a.results {
		if r != nil {
			m.cost, _ = m.cost.Add(r.Cost)
			m.premium, _ = m.premium.Add(r.Premium)
		}
	}
	m.whole.Record(line.End.Sub(line.Begin).Seconds())
	if line.First.IsZero() {
		return
	}
	m.first.Record(line.First.Sub(line.Begin).Seconds(), line.Model)
	if line.Code == "" && a.asked.Stream && a.alone() && line.Usage.Output > 1 {
		m.inter.Record(line.End.Sub(line.First).Seconds() / float64(line.Usage.Output-1))
	}
}

// Write counts what a client is sent.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.traffic.sent.Add(int64(n))
	return n, err
}
