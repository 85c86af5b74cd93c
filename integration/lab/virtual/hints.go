package virtual

import "time"

// PlayNamed plays a setting on the real market, which is told the names of sessions. change may set more. It
// returns the tasks.
func PlayNamed(s Setting, change func(*MarketOptions)) ([]*Request, error) {
	o := NewMarketOptions(s)
	o.Hub.Deadline, o.Hub.MaxDeadline = max(s.Patient, o.Hub.Deadline), max(s.Patient, o.Hub.MaxDeadline)
	o.Quiet, o.Named = s.Quiet, true
	change(&o)
	all, _, _, err := playMarket(s, o)
	return all, err
}

// Back returns how long after the end of a turn the next one of its session is asked, as recorded, and
// whether there is none.
func (r *Request) Back() (pause time.Duration, last bool) {
	if r.Turn+1 >= len(r.script.turns) {
		return 0, true
	}
	return r.script.turns[r.Turn+1].think, false
}

// HintsSetting is a setting in which hints can matter: coding agents with recorded pauses on two engines,
// whose open sessions need as much as the caches hold.
func HintsSetting(callers int) (Setting, error) {
	return cliff{kind: "agents.jsonl.gz", callers: 4 * callers, pressure: 1, prefill: 40}.setting(2)
}
