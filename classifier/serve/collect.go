package serve

import (
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/reader"
	"souk/classifier"
)

// whole is an answer that the door collects: it runs the reader of it.
type whole struct {
	r    *request
	task *bus.Task
	news chan struct{} // cap 1: something happened

	mu     sync.Mutex
	m      *reader.Stream // decides
	submit *bus.Task      // to be placed
	due    time.Time      // it is to be ticked
}

func newWhole(r *request, now time.Time) *whole {
	return &whole{r: r, task: r.task, news: make(chan struct{}, 1),
		m: reader.New(r.s.c.Reader(), r.task, now)}
}

// collect waits for the whole answer.
func (w *whole) collect() *bus.Result {
	s := w.r.s
	w.mu.Lock()
	w.do()
	w.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		w.mu.Lock()
		task, due, over := w.submit, w.due, w.m.Over()
		w.submit = nil
		w.mu.Unlock()
		switch {
		case over && w.m.Err != nil:
			return w.r.result(w.m.Err)
		case over:
			return w.m.Result()
		case task != nil:
			if task != w.task { // it goes on elsewhere
				s.mu.Lock()
				w.r.placing = s.desk.Place(time.Now(), task, w.r.ownID, w.r.want)
				s.mu.Unlock()
			}
			a := w.r.place(task)
			w.r.taken = time.Now()
			w.step(reader.Verdict{Answer: &a})
			continue
		}
		if due.IsZero() {
			due = time.Now().Add(time.Hour)
		}
		timer.Reset(time.Until(due))
		select {
		case <-w.news:
		case <-timer.C:
			w.tick()
		case <-s.life.Done():
			return w.r.result(&bus.Error{Code: bus.CodeUnknown,
				Message: "the door closed before the answer ended; what was served may still be settled"})
		}
	}
}

func (w *whole) hear(sender string, c *bus.Chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.Hear(time.Now(), sender, c)
	w.do()
}

func (w *whole) step(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.Step(time.Now(), event)
	w.do()
}

func (w *whole) tick() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.Step(now, reader.Bus{Since: w.r.s.d.Bus.Connected()})
	w.m.Tick(now)
	w.do()
}

// do does what the reader wants done. The lock is held.
func (w *whole) do() {
	for ok := true; ok; _, ok = w.m.Next() {
		// who asked for a whole answer wants no chunks: the end frame has all of it
	}
	out := w.m.Ready()
	if out.CancelTask {
		w.r.cancel()
	}
	for i := range out.Controls {
		c := &out.Controls[i]
		if c.Resume != nil {
			w.r.s.count((*classifier.Desk).Resumed)
		}
		w.r.s.publish(bus.StreamSubject(c.Agent, w.r.s.c.ID), &c.StreamControl)
	}
	if out.Submit != nil {
		w.submit = out.Submit
	}
	w.due = out.Wake
	follow.Nudge(w.news)
}
