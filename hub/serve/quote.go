package serve

import (
	"time"

	"souk/bus"
	"souk/hub"
)

// How many quotes a hub gives a second, and how many at once.
const (
	quoteEvery = 5 * time.Millisecond
	quoteBurst = 20
)

// quoting deals out the quotes of a hub.
type quoting struct {
	next  time.Time      // when the next may be given, or how long since it might
	since time.Time      // it was counted, at most a second ago
	given map[string]int // by client
	all   int
}

// take gives a client one, or says how long there is none. Where none is left, whoever had none this second,
// or less than others, has one in advance, for which those wait.
func (q *quoting) take(now time.Time, client string) (wait time.Duration) {
	if now.Sub(q.since) >= time.Second {
		q.since, q.given, q.all = now, map[string]int{}, 0
	}
	if first := now.Add(-(quoteBurst - 1) * quoteEvery); q.next.Before(first) {
		q.next = first
	}
	wait = q.next.Sub(now)
	had := q.given[client] * len(q.given)
	if wait > quoteBurst*quoteEvery || wait > 0 && had > 0 && had >= q.all {
		return wait + quoteEvery
	}
	q.next = q.next.Add(quoteEvery)
	q.given[client]++
	q.all++
	return 0
}

// onQuote answers a question what a task would be given, unless there are too many. They come one after
// another, so a turn waits for one quote.
func (s *Server) onQuote(m bus.Msg) {
	if m.Reply == "" {
		s.measures.bad.Add(1)
		return
	}
	if s.misled(m) {
		return
	}
	t := new(bus.Task)
	if err := bus.Decode(m.Data, t); err != nil {
		s.refuseQuote(m.Reply, err, 0)
		return
	}
	if wait := s.quotes.take(time.Now(), t.Client); wait > 0 {
		s.refuseQuote(m.Reply, errManyQuotes, wait)
		return
	}
	var out *bus.HubQuote
	s.with(func(n *hub.Node) {
		begun := time.Now()
		out = n.Quote(begun, t)
		s.measures.quote.Record(time.Since(begun).Seconds())
	})
	s.sayQuote(m.Reply, out)
}

var errManyQuotes = &bus.Error{Code: bus.CodeNoRoom,
	Message: "the hub is asked for more quotes than it gives; try again"}

// refuseQuote answers a question that does not reach the Node.
func (s *Server) refuseQuote(to string, wrong error, retry time.Duration) {
	s.sayQuote(to, &bus.HubQuote{Hub: s.cfg.Domain, Code: bus.CodeOf(wrong), RetryMS: retry.Milliseconds(),
		Message: bus.Clip(bus.MessageOf(wrong), bus.MaxText)})
}

func (s *Server) sayQuote(to string, q *bus.HubQuote) {
	s.measures.count(s.measures.quotes, q.Code)
	if err := s.publish(bus.Msg{Subject: to}, q); err != nil {
		s.log.Debug("quote not sent", "err", err)
	}
}
