package serve

import (
	"souk/bus"
	"souk/bus/metrics"
)

// what an operator sees of the treasury
var (
	families metrics.Set

	treasuryLeading = families.Gauge("souk_treasury_leading", "1 where this process is the market's treasury, else 0: it "+
		"stands by.")
	treasuryRequests = families.Counter("souk_treasury_requests_total", "Requests that were answered, by what was asked and "+
		"the outcome.", "op", "code")
	treasuryDropped = families.Counter("souk_treasury_dropped_total", "Requests turned away: malformed, or the queue was "+
		"full.")
	treasuryRecords = families.Counter("souk_treasury_records_total", "Records made durable since the start.")
	treasuryPending = families.Gauge("souk_treasury_pending", "Requests that wait for the next sync.")
	treasuryClosed  = families.Gauge("souk_treasury_closed", "1 where nothing is taken in, granted or paid out, as "+
		"/readyz says why, else 0.")
	treasuryDenied = families.Gauge("souk_treasury_hubs_denied", "Hubs that contradict the treasury's journal alone, and "+
		"are refused.")
	treasuryClients = families.Gauge("souk_treasury_clients", "Clients by the money that they have here and no hub has: "+
		"none, low (less than a credit), or more.", "balance")
	treasuryCredits = families.Gauge("souk_treasury_credits", "Credits in the treasury's book: prepaid by clients, and with "+
		"hubs.", "account")
)

// observe has a collector read what the treasury counts.
func (s *Server) observe() {
	families.Observe(s.d.Meter, func(say metrics.Say) {
		s.mu.Lock()
		defer s.mu.Unlock()
		say(treasuryLeading, metrics.Bool(s.Leading()))
		for of, n := range s.answers {
			say(treasuryRequests, float64(n), of[0], of[1])
		}
		say(treasuryDropped, float64(s.dropped.Load()))
		say(treasuryRecords, float64(s.records.Load()))
		say(treasuryPending, float64(len(s.queue)))
		say(treasuryClosed, metrics.Bool(s.t.Closed() != ""))
		say(treasuryDenied, float64(len(s.t.Denied())))
		sums := s.t.Book.Totals()
		say(treasuryClients, float64(sums.Empty), "none")
		say(treasuryClients, float64(sums.Low), "low")
		say(treasuryClients, float64(sums.Clients-sums.Empty-sums.Low), "more")
		say(treasuryCredits, metrics.Credits(sums.Prepaid), "prepaid")
		say(treasuryCredits, metrics.Credits(sums.Clearing), "hubs")
	})
}

// mostOutcomes bounds what is counted apart: whoever asks may name any op.
const mostOutcomes = 512

// count counts an answer.
func (s *Server) count(op string, code bus.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := [2]string{op, metrics.Code(code)}
	if _, known := s.answers[of]; !known && len(s.answers) >= mostOutcomes {
		of[0] = metrics.Other
	}
	s.answers[of]++
}
