package predict

import (
	"slices"
	"time"
)

// Load is what an agent has in hand when a task comes.
type Load struct {
	// of computing prompts that came before, until the last of them has a first token
	Left     time.Duration
	Decoding int // tasks that have theirs
	Resident int // tokens of these in its cache
}

// Queue is what a hub believes of the prompts that an agent is to compute, of its own dispatches: first
// tokens come to a hub with completions alone, so it believes those that it forecast until it hears better.
// An agent computes one prompt after the other. Times are nanoseconds of one clock that never goes back.
type Queue struct {
	jobs []job  // as they were dispatched
	last int64  // when the last first token came that is known
	sent uint64 // dispatches in all
}

type job struct {
	number   uint64
	sent     int64
	first    int64         // when its first token is expected
	work     time.Duration // to compute its prompt
	resident int           // tokens of its prompt
	token    time.Duration // between tokens of its answer
	most     int           // tokens of its answer
}

// Len is how many tasks there are.
func (q *Queue) Len() int { return len(q.jobs) }

// Load is what there is in hand.
func (q *Queue) Load(now int64) (l Load) {
	began := q.last
	head := true
	for i := range q.jobs {
		j := &q.jobs[i]
		if j.first <= now {
			l.Decoding++
			l.Resident += j.resident
			if j.token > 0 {
				l.Resident += int(min(int64(j.most), (now-j.first)/int64(j.token)))
			}
			began = max(began, j.first)
			continue
		}
		if l.Left += j.work; head {
			head, began = false, max(began, j.sent)
		}
	}
	if !head {
		l.Left = max(0, l.Left-time.Duration(max(0, now-began)))
	}
	return l
}

// Sent takes in a dispatch: its prompt's tokens and the time to compute what is not cached of it, when its
// first token is expected, and how long its answer is to be and how fast it comes. It returns its number.
func (q *Queue) Sent(now int64, prompt int, work, ttft time.Duration, output int, itl time.Duration) uint64 {
	q.sent++
	q.jobs = append(q.jobs, job{number: q.sent, sent: now, first: now + int64(max(0, ttft)),
		work: max(0, work), resident: prompt, token: itl, most: output})
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
