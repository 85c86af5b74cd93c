// Package truth measures what it costs a market, and rules that believe what they are told, when callers and
// owners of engines learn to lie as it pays them best.
//
// A play is one long run in virtual time, the market's hub or a rule before simulated engines. Time is cut
// into epochs. Liars try lies while they learn, and then say what has paid best; the epochs behind are
// measured. What is measured goes by true terms and true costs.
package truth
