package forecast

import "souk/hub/estimate"

// Sheet has the estimates of rounds. Each is made once, for all agents of a class that hold as much of a
// task's prompt, and stays as it was in the round before where it would be made the same.
type Sheet struct {
	rows, before []row // of this round, and of the one before
	round        uint64
	task         *Task // at hand
	was          []row // of its rows before: those behind the last that was asked for again
}

type row struct {
	class  *Class
	held   estimate.Held
	fits   uint64 // of the class's line
	answer int    // tokens that were expected
	estimate.Estimate
}

// extent tells where the rows of a task stand.
type extent struct {
	round      uint64
	from, upto int
}

// Clear begins a round. Its estimates stay as they are until the next but one begins.
func (s *Sheet) Clear() { s.rows, s.before, s.round = s.before[:0], s.rows, s.round+1 }

// Next says that the next estimates are of another task.
func (s *Sheet) Next(t *Task) {
	s.task, s.was = t, nil
	if x := &t.sheet; x.round == s.round-1 && x.upto <= len(s.before) {
		s.was = s.before[x.from:x.upto]
	}
	t.sheet = extent{s.round, len(s.rows), len(s.rows)}
}

// Of is [Room.Estimate] of the task at hand.
func (s *Sheet) Of(r *Room, now int64, c *Class, h estimate.Held) *estimate.Estimate {
	t := s.task
	own := s.rows[max(t.sheet.from, len(s.rows)-near):]
	if i := find(own, c, h); i >= 0 {
		return &own[i].Estimate
	}
	x := row{class: c, held: h, fits: c.Line.Fits(), answer: r.Answer(now, t, c)}
	i := find(s.was[:min(near, len(s.was))], c, h)
	if i >= 0 && s.was[i].fits == x.fits && s.was[i].answer == x.answer {
		x.Estimate = s.was[i].Estimate
		x.Service, x.Worst = c.Service.Of(x.Own), r.worst(t, c, &x.Estimate)
	} else {
		x.Estimate = r.Estimate(now, t, c, h)
	}
	s.was = s.was[i+1:] // they mostly come in one order
	s.rows = append(s.rows, x)
	t.sheet.upto = len(s.rows)
	return &s.rows[len(s.rows)-1].Estimate
}

// near bounds the rows that are looked through for one: of more kinds of agents some have two.
const near = 16

// find is the first row of such a kind; -1: there is none.
func find(rows []row, c *Class, h estimate.Held) int {
	for i := range rows {
		if x := &rows[i]; x.class == c && x.held == h {
			return i
		}
	}
	return -1
}
