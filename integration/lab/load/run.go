package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/cmd/replay"
	"souk/integration/lab/load/proc"
)

// Market asks one task, calls each with every chunk of its answer, and returns the last word. An error means
// that the market could not be spoken to.
type Market func(ctx context.Context, t bus.Task, each func(bus.Chunk)) (replay.Answer, error)

// Config says how a market is loaded.
type Config struct {
	Rate float64 // tasks sent a second, whatever becomes of them: an open loop. 0: a closed loop
	// of a closed loop: callers that each send when their last answer has ended. Of an open one: most tasks
	// under way
	Concurrency int
	Ramp        time.Duration // in which the load rises; not measured
	Duration    time.Duration // tasks are sent for so long, the ramp included
	Seed        uint64        // of the arrivals
	SLO         SLO
	Processes   []Process // whose use is measured
	Answers     int       // of a closed loop: end after so many tasks; 0: after Duration alone

	// Progress, if not nil, is called each second.
	Progress func(line string)
}

// Process names a process whose CPU and memory are measured.
type Process struct {
	Name  string
	PID   int
	Apart bool       // an engine: not part of what the market uses
	Find  func() int // if not nil: its process id now
}

// Validate says what to write instead.
func (c Config) Validate() error {
	switch {
	case c.Rate < 0:
		return fmt.Errorf("the rate is %g tasks a second: it is not negative", c.Rate)
	case c.Concurrency < 1:
		return errors.New("the concurrency is at least 1")
	case c.Ramp < 0 || c.Duration <= c.Ramp:
		return fmt.Errorf("the ramp of %v must be over before the duration of %v is", c.Ramp, c.Duration)
	}
	return nil
}

// afterRefusal is the least that a caller of a closed loop waits after a refusal. Without it the caller would
// only collect refusals as fast as it can.
const afterRefusal = 50 * time.Millisecond

// maxRefusalWait bounds what it waits where the market says how long.
const maxRefusalWait = 2 * time.Second

// Run loads a market, waits for the last answers, and reports. When ctx ends, running tasks are cancelled,
// and what was measured so far is reported.
func Run(ctx context.Context, c Config, q *Questions, market Market) (Report, error) {
	if err := c.Validate(); err != nil {
		return Report{}, err
	}
	l := &load{c: c, q: q, market: market, tally: NewTally(c.SLO, c.Rate == 0), begun: time.Now()}
	watched := make(chan []Usage, 1)
	over := make(chan struct{})
	go func() { watched <- l.watch(ctx, over) }()
	if c.Rate > 0 {
		l.open(ctx)
	} else {
		l.closed(ctx)
	}
	close(over)
	r := l.tally.Report(time.Now(), <-watched)
	r.Rate, r.Concurrency = c.Rate, c.Concurrency
	return r, nil
}

type load struct {
	c      Config
	q      *Questions
	market Market
	tally  *Tally
	begun  time.Time
}

// open sends tasks at their times.
func (l *load) open(ctx context.Context) {
	room := make(chan struct{}, l.c.Concurrency)
	var all sync.WaitGroup
	defer all.Wait()
	n := 0
	for at := range Arrivals(l.c.Seed, l.c.Rate, l.c.Ramp, l.c.Duration) {
		due := l.begun.Add(at)
		if !follow.Pause(ctx, time.Until(due)) {
			return
		}
		select {
		case room <- struct{}{}: // a task that waits here is late, and is measured from when it was due
		case <-ctx.Done():
			return
		}
		task := l.q.Task(n)
		n++
		all.Go(func() {
			defer func() { <-room }()
			l.ask(ctx, task, due)
		})
	}
}

// closed lets callers ask one task after the other.
func (l *load) closed(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	end := l.begun.Add(l.c.Duration)
	var mu sync.Mutex
	n := 0
	next := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || !time.Now().Before(end) || l.c.Answers > 0 && n >= l.c.Answers {
			return 0, false
		}
		n++
		return n - 1, true
	}
	for i := range l.c.Concurrency {
		all.Go(func() {
			begin := l.begun.Add(l.c.Ramp * time.Duration(i) / time.Duration(l.c.Concurrency))
			if !follow.Pause(ctx, time.Until(begin)) {
				return
			}
			for {
				n, ok := next()
				if !ok {
					return
				}
				if r := l.ask(ctx, l.q.Task(n), time.Now()); r.Code != "" {
					wait := min(max(time.Duration(r.RetryMS)*time.Millisecond, afterRefusal), maxRefusalWait)
					if !follow.Pause(ctx, wait/2+rand.N(wait/2)) {
						return
					}
				}
			}
		})
	}
}

// ask asks one task that was due at a time.
func (l *load) ask(ctx context.Context, t bus.Task, due time.Time) bus.Result {
	a := l.tally.Begin(due)
	got, err := l.market(ctx, t, func(c bus.Chunk) { a.Chunk(time.Now(), c) })
	r := got.Result
	if err != nil {
		r.Code, r.Message = bus.CodeUnavailable, err.Error()
		if e := new(bus.Error); errors.As(err, &e) {
			r.Code = e.Code
		}
	}
	if r.Code != "" && ctx.Err() != nil {
		r.Code = bus.CodeCancelled
	}
	a.End(time.Now(), r)
	return r
}

// watch ends the ramp, tells the progress, and says in the end what the processes used.
func (l *load) watch(ctx context.Context, over <-chan struct{}) []Usage {
	ps := slices.Clone(l.c.Processes)
	ps = append(ps, Process{Name: "this load", PID: os.Getpid(), Apart: true})
	ramp := time.NewTimer(l.c.Ramp)
	defer ramp.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	m := newMeters(ps)
	for {
		select {
		case <-over:
			return m.used()
		case <-ramp.C:
			l.tally.Measure(time.Now())
			m.begin()
		case <-second.C:
			m.look()
			if l.c.Progress != nil {
				l.c.Progress(l.tally.Line(time.Since(l.begun)))
			}
		}
	}
}

// meters follow processes. A process that was started again counts its CPU time from zero, so each meter adds
// up over its lives.
type meters []*meter

type meter struct {
	Process
	last  time.Duration // CPU of this life so far
	total time.Duration // of all lives, since begin
	lives int
	rss   int64 // last seen
	peak  int64 // since begin
	first int64 // at begin
	err   error
}

func newMeters(ps []Process) meters {
	var ms meters
	for _, p := range ps {
		ms = append(ms, &meter{Process: p, lives: 1})
	}
	ms.begin()
	return ms
}

func (ms meters) begin() {
	for _, m := range ms {
		m.look()
		m.total, m.first, m.peak = 0, m.rss, m.rss
	}
}

func (ms meters) look() {
	for _, m := range ms {
		m.look()
	}
}

func (m *meter) look() {
	if m.Find != nil {
		if pid := m.Find(); pid != 0 && pid != m.PID {
			m.PID, m.last = pid, 0
			m.lives++
		}
	}
	cpu, err := proc.CPU(m.PID)
	if err != nil {
		m.err = err
		return
	}
	m.total += cpu - m.last
	m.last, m.err = cpu, nil
	if rss, err := proc.RSS(m.PID); err == nil {
		m.rss, m.peak = rss, max(m.peak, rss)
	}
}

func (ms meters) used() []Usage {
	var out []Usage
	for _, m := range ms {
		m.look()
		u := Usage{Name: m.Name, PID: m.PID, Apart: m.Apart, CPU: m.total.Seconds(),
			RSS: float64(m.rss) / (1 << 20), Before: float64(m.first) / (1 << 20),
			Peak: float64(m.peak) / (1 << 20)}
		switch {
		case m.err != nil:
			u.Note = "ended"
		case m.lives > 1:
			u.Note = fmt.Sprintf("started %d times more", m.lives-1)
		}
		out = append(out, u)
	}
	return out
}
