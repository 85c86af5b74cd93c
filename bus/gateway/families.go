package gateway

import (
	"slices"
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
	gatewayAnswers = families.Counter("souk_gateway_answers_total", "Answers that ended, by the model that was asked for "+
		"or gave them, and the outcome: ok, or why there was none, or no more of it.", "model", "code")
	gatewayFirst = families.Seconds("souk_gateway_first_token_seconds", "From a request until the first token of its "+
		"answer.", firstBounds, "model")
	gatewayInter = families.Seconds("souk_gateway_inter_token_seconds", "Between tokens of an answer, its mean, as the "+
		"gateway had them.", interBounds, "model")
	gatewayWhole = families.Seconds("souk_gateway_answer_seconds", "From a request until the end of its answer.",
		wholeBounds)
	gatewayTokens = families.Counter("souk_gateway_tokens_total", "Tokens of answers: prompt, those of it from cache, "+
		"output.", "model", "kind")
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

// Upper bounds of histograms, in seconds.
var (
	firstBounds = []float64{.02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	interBounds = []float64{.005, .01, .02, .03, .05, .075, .1, .2, .5}
	wholeBounds = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
)

// measures count for a collector what [Stats] does not; the server's lock guards the maps.
type measures struct {
	first, inter, whole *metrics.Recorder

	requests map[[2]string]int64 // by route and code
	answers  map[[2]string]int64 // by model and code
	tokens   map[string]market.Usage
	cost     market.Credits
	premium  market.Credits

	conns, came, sent atomic.Int64 // connections, and their bytes
}

// measure has a collector read what the server counts.
func (s *Server) measure() {
	m := &s.measures
	m.requests, m.answers, m.tokens = map[[2]string]int64{}, map[[2]string]int64{}, map[string]market.Usage{}
	m.first, m.inter = families.Recorder(s.d.Meter, gatewayFirst), families.Recorder(s.d.Meter, gatewayInter)
	m.whole = families.Recorder(s.d.Meter, gatewayWhole)
	families.Observe(s.d.Meter, func(say metrics.Say) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for of, n := range m.requests {
			say(gatewayRequests, float64(n), of[0], of[1])
		}
		for of, n := range m.answers {
			say(gatewayAnswers, float64(n), of[0], of[1])
		}
		for model, u := range m.tokens {
			say(gatewayTokens, float64(u.Prompt), model, "prompt")
			say(gatewayTokens, float64(u.Cached), model, "cached")
			say(gatewayTokens, float64(u.Output), model, "output")
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
	m, model := &s.measures, s.labelled(a, line.Model)
	m.answers[[2]string{model, codeOf(line.Code)}]++
	if line.Usage != (market.Usage{}) {
		u := m.tokens[model]
		u.Prompt += line.Usage.Prompt
		u.Cached += line.Usage.Cached
		u.Output += line.Usage.Output
		m.tokens[model] = u
	}
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
	m.first.Record(line.First.Sub(line.Begin).Seconds(), model)
	if line.Code == "" && a.alone() && line.Usage.Output > 1 {
		m.inter.Record(line.End.Sub(line.First).Seconds()/float64(line.Usage.Output-1), model)
	}
}

// labelled is the model of an answer, as a label: the one that gave it, or the one that was asked for, if it
// is sold here. Clients may ask for any. The lock is held.
func (s *Server) labelled(a *answer, name string) string {
	switch {
	case name == "":
		return openai.Auto
	case a.accepted.Agent == "" && !s.sold(name):
		return metrics.Other
	}
	if _, known := s.measures.tokens[name]; !known && len(s.measures.tokens) >= metrics.MostModels {
		return metrics.Other
	}
	return name
}

// sold reports whether a hub has said that it sells a model. The lock is held.
func (s *Server) sold(name string) bool {
	for _, h := range s.hubs {
		if slices.ContainsFunc(h.status.Models, func(m bus.ModelStatus) bool { return m.Model == name }) {
			return true
		}
	}
	return false
}

// Write counts what a client is sent.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.traffic.sent.Add(int64(n))
	return n, err
}
