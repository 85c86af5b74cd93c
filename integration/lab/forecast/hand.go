package forecast

import (
	"slices"
	"time"
)

// hand is a hub's belief of an agent's load, of its own dispatches: those that have no first token yet, by
// its own forecasts, corrected by the agent's reports, and those that answer.
type hand struct {
	jobs []inHand // as they were sent
	last time.Duration
}

type inHand struct {
	id, prompt, uncached int
	sent, first          time.Duration // first: when its first token is expected, or was
	work                 float64       // seconds to compute its prompt
}

// load is the load that a task finds if it is sent now.
type load struct {
	left               float64 // seconds of prompts to compute
	ahead              int     // tokens of these
	decoding, resident int     // tasks that answer, tokens of their prompts
}

func (h *hand) load(now time.Duration) (l load) {
	began, head := h.last, true
	for i := range h.jobs {
		j := &h.jobs[i]
		if j.first <= now {
			l.decoding++
			l.resident += j.prompt
			began = max(began, j.first)
			continue
		}
		l.left += j.work
		l.ahead += j.uncached
		if head {
			head, began = false, max(began, j.sent)
		}
	}
	if !head {
		l.left = max(0, l.left-max(0, now-began).Seconds())
	}
	return l
}

func (h *hand) sent(now time.Duration, t *Task, ttft, work float64) {
	h.jobs = append(h.jobs, inHand{t.ID, t.Prompt, t.Prompt - t.Believed, now, now +
		time.Duration(ttft*1e9), work})
}

func (h *hand) ended(t *Task) {
	i := slices.IndexFunc(h.jobs, func(j inHand) bool { return j.id == t.ID })
	h.last = max(h.last, h.jobs[i].sent+time.Duration(t.TTFT*1e9))
	h.jobs = slices.Delete(h.jobs, i, i+1)
}

// said puts right how many have no first token: an agent begins with what came first.
func (h *hand) said(now time.Duration, prefills int) {
	waiting := 0
	for i := range h.jobs {
		if h.jobs[i].first > now {
			waiting++
		}
	}
	for i := range h.jobs { // the oldest have theirs
		if j := &h.jobs[i]; waiting > prefills && j.first > now {
			j.first = now
			waiting--
		}
	}
	late := time.Duration(0)
	for i := len(h.jobs) - 1; i >= 0 && waiting < prefills; i-- { // the newest have not
		if j := &h.jobs[i]; j.first <= now {
			late = max(late, now-j.first)
			j.first = now + time.Duration(j.work*1e9/2)
			waiting++
		}
	}
	if late > 0 {
		for i := range h.jobs {
			if j := &h.jobs[i]; j.first > now {
				j.first += late
			}
		}
	}
}
