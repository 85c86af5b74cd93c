package fleet

import (
	"slices"
	"time"

	"souk/hub/estimate"
)

// Queue estimates the prompts that an agent has yet to compute, of the hub's own dispatches. A hub hears of
// first tokens only with completions, so until then it goes by its forecasts. An agent computes one prompt
// after the other. Times are nanoseconds of one clock that never goes back.
type Queue struct {
	jobs []job  // as they were dispatched
	last int64  // when the last first token came that is known
	sent uint64 // dispatches in all
}

type job struct {
	number uint64
	sent   int64
	first  int64         // when its first token is expected
	work   time.Duration // to compute its prompt
	prompt int           // tokens of that
}

// Load returns the agent's load. The rest of the prompt that is computed now is the mean of two estimates: by
// the time since the last first token, and by the time until the prompt's own is expected.
func (q *Queue) Load(now int64) (l estimate.Load) {
	began, until := q.last, int64(0)
	var head time.Duration
	for i := range q.jobs {
		j := &q.jobs[i]
		if j.first <= now {
			l.Decoding++
			l.Resident += j.prompt
			began = max(began, j.first)
			continue
		}
		if l.Waiting++; l.Waiting == 1 {
			head, began, until = j.work, max(began, j.sent), j.first-now
		}
		l.Left += j.work
	}
	if l.Waiting > 0 {
		since := max(0, head-time.Duration(max(0, now-began)))
		l.Left += (since+min(head, time.Duration(until)))/2 - head
	}
	return l
}

// Sent takes in a dispatch: its prompt's tokens, the time to compute what of them is not cached, and when its
// first token is expected. It returns its number.
func (q *Queue) Sent(now int64, prompt int, work, ttft time.Duration) uint64 {
	q.sent++
	q.jobs = append(q.jobs, job{number: q.sent, sent: now, first: now + int64(max(0, ttft)),
		work: max(0, work), prompt: prompt})
	return q.sent
}

// Ended takes in the end of a task, and how long its first token took; 0: it is not known.
func (q *Queue) Ended(number uint64, ttft time.Duration) {
	i := slices.IndexFunc(q.jobs, func(j job) bool { return j.number == number })
	if i < 0 {
		return
	}
	if ttft > 0 {
		q.last = max(q.last, q.jobs[i].sent+int64(ttft))
	}
	q.jobs = slices.Delete(q.jobs, i, i+1)
}

// Said takes in how many tasks have no first token yet, by the agent's word. An agent computes prompts in the
// order in which they came: if fewer wait than was believed, the oldest have begun, and if more do, the
// latest of those that were believed to have begun have not, and all behind them are as late. Of what was
// dispatched since a moment nobody knows whether the agent had heard of it. What an agent says moves its own
// forecasts alone.
func (q *Queue) Said(now, before int64, prefills int) {
	waiting, fresh := 0, 0
	for i := range q.jobs {
		switch j := &q.jobs[i]; {
		case j.sent >= before:
			fresh++
		case j.first > now:
			waiting++
		}
	}
	for i := range q.jobs {
		if j := &q.jobs[i]; waiting > max(0, prefills) && j.sent < before && j.first > now {
			j.first = now
			waiting--
		}
	}
	late := int64(0)
	for i := len(q.jobs) - 1; i >= 0 && waiting+fresh < prefills; i-- {
		if j := &q.jobs[i]; j.sent < before && j.first <= now {
			late = max(late, min(now-j.first, int64(later)))
			j.first = now + int64(min(max(j.work/2, sooner), later))
			waiting++
		}
	}
	for i := range q.jobs {
		if j := &q.jobs[i]; j.first > now {
			j.first += late
		}
	}
}

// A first token that is late is looked for again after half as long as its prompt takes, within these.
const sooner, later = 20 * time.Millisecond, 2 * time.Second
