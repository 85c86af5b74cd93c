package virtual

import (
	"fmt"
	"time"
)

// PlayKept plays a setting on the real market, which is told the names of sessions, and a policy of the hook
// keep; "" is none. change may set more. It returns the tasks and the market, which is over.
func PlayKept(s Setting, policy string, change func(*MarketOptions)) ([]*Request, *Market, error) {
	o := NewMarketOptions(s)
	o.Hub.Policies.Keep = policy
	o.Hub.Deadline, o.Hub.MaxDeadline = max(s.Patient, o.Hub.Deadline), max(s.Patient, o.Hub.MaxDeadline)
	o.Quiet, o.Named = s.Quiet, true
	change(&o)
	all, _, m, err := playMarket(s, o)
	if err != nil {
		return nil, nil, fmt.Errorf("keep %q: %w", policy, err)
	}
	return all, m, nil
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

// AheadSettings are settings in which texts computed ahead can matter, on two engines whose caches hold twice
// what the open sessions need: people who ask about what they have read, and coding agents. Each answer
// begins with so many tokens of reasoning, which later prompts leave out.
func AheadSettings(callers, thought int) (all []Trace) {
	for _, t := range []Trace{
		NewTrace("chat", "mtRAG without passages, people's pauses of 10 s on the mean, 100 us a token", cliff{
			kind: "mtrag.jsonl.gz", callers: 4 * callers, pressure: 0.5, sigma: 1, prefill: 100}.setting),
		NewTrace("agents", "coding agents with their recorded pauses, 40 us a token", cliff{
			kind: "agents.jsonl.gz", callers: 4 * callers, pressure: 0.5, prefill: 40}.setting),
	} {
		of := t.setting
		t.setting = func(engines int) (Setting, error) {
			s, err := of(engines)
			s.Thought, s.Midway = thought, false
			return s, err
		}
		all = append(all, t)
	}
	return all
}

// Setting returns the setting of a trace for so many engines.
func (t *Trace) Setting(engines int) (Setting, error) { return t.setting(engines) }
