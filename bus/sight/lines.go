// Package sight is what shells and drivers show an operator of single requests: a line in the log for each,
// and spans. Nothing of a prompt or an answer, no secret and no message of an error is in either.
package sight

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"souk/bus"
	"souk/market"
)

// Line has the log's words on one request. Zero values are left out of it.
type Line struct {
	Begin, End time.Time
	First      time.Time // when the first of the answer came
	Route      string    // of HTTP, as "POST /v1/chat/completions"
	Status     int       // of HTTP
	Code       bus.Code  // "": served
	Request    string
	Trace      string // id of its trace
	Key        string // id of the API key
	Client     string
	Task       string
	Model      string
	Hub, Agent string
	Usage      market.Usage
	Paid       market.Credits
	Receipt    string // of an answer by one task
}

// Lines writes them, some at a time. Whoever adds one does not wait: a log that takes no more, as a pipe that
// nobody reads, costs lines, which the next one counts.
type Lines struct {
	log *slog.Logger
	c   bus.RequestLog

	mu      sync.Mutex
	queue   []Line
	writing bool // or about to, by soon
	soon    *time.Timer
	idle    chan struct{} // closed once nothing is written; nil: nobody waits
	second  int64         // of which refused counts
	refused [2]int        // of strangers, and of known clients
	missing int64
}

const (
	mostLines = 4096 // that wait to be written
	// for so long lines gather: each that is written as it comes costs a wakeup, also of who reads the log
	gatherLines = 200 * time.Millisecond
	// lines of refused requests a second, of strangers, who make as many as they like, and of all clients
	mostRefused = 100
)

// NewLines returns what writes to a log as a setting says.
func NewLines(log *slog.Logger, c bus.RequestLog) *Lines { return &Lines{log: log, c: c} }

// wants reports whether the log is to have a line.
func (l *Lines) wants(line *Line) bool {
	switch {
	case l.c.Log == bus.LogOff, !l.log.Enabled(context.Background(), slog.LevelInfo):
		return false
	case line.Code != "":
		return true
	}
	return l.c.Log == bus.LogAll && (l.c.Sample >= 1 || rand.Float64() < l.c.Sample)
}

// Add writes a line, soon, if the setting and its luck want it.
func (l *Lines) Add(line Line) {
	if !l.wants(&line) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	over := false
	if line.Code != "" {
		if now := line.End.Unix(); now != l.second {
			l.second, l.refused = now, [2]int{}
		}
		of := &l.refused[0]
		if line.Client != "" {
			of = &l.refused[1]
		}
		*of++
		over = *of > mostRefused
	}
	if len(l.queue) >= mostLines || over {
		l.missing++
		return
	}
	if l.queue = append(l.queue, line); !l.writing {
		l.writing = true
		l.soon = time.AfterFunc(gatherLines, l.write)
	}
}

// write writes what waits.
func (l *Lines) write() {
	for {
		l.mu.Lock()
		lines := l.queue
		l.queue = nil
		missing := l.missing
		if l.missing = 0; len(lines) == 0 {
			if l.missing, l.writing = missing, false; l.idle != nil {
				close(l.idle)
				l.idle = nil
			}
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		h := l.log.Handler()
		room := make([]slog.Attr, 0, 20)
		for i := range lines {
			h.Handle(context.Background(), lines[i].record(room, missing))
			missing = 0
		}
	}
}

// Close waits until all is written, or ctx ends, and says how many lines are missing since the last.
func (l *Lines) Close(ctx context.Context) {
	l.Flush(ctx)
	l.mu.Lock()
	missing := l.missing
	l.missing = 0
	l.mu.Unlock()
	if missing > 0 {
		l.log.Warn("requests had no line", "lines_missing", missing)
	}
}

// Flush waits until all is written, or ctx ends.
func (l *Lines) Flush(ctx context.Context) {
	l.mu.Lock()
	if !l.writing {
		l.mu.Unlock()
		return
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	if l.soon.Stop() {
		go l.write()
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// record is the line as the log has it, in a room that is empty. A fault of ours is a warning.
func (n *Line) record(as []slog.Attr, missing int64) slog.Record {
	level := slog.LevelInfo
	if n.Code == bus.CodeInternal {
		level = slog.LevelWarn
	}
	r := slog.NewRecord(n.End, level, "request", 0)
	text := func(key, value string) {
		if value != "" {
			as = append(as, slog.String(key, Plainly(value)))
		}
	}
	number := func(key string, value int64) {
		if value != 0 {
			as = append(as, slog.Int64(key, value))
		}
	}
	text("request", n.Request)
	text("trace", n.Trace)
	text("key", n.Key)
	text("client", n.Client)
	text("route", n.Route)
	text("model", n.Model)
	number("status", int64(n.Status))
	text("code", string(n.Code))
	text("hub", n.Hub)
	text("agent", n.Agent)
	if !n.First.IsZero() {
		as = append(as, slog.Float64("first_ms", millis(n.First.Sub(n.Begin))))
	}
	as = append(as, slog.Float64("ms", millis(n.End.Sub(n.Begin))))
	if n.Usage != (market.Usage{}) {
		as = append(as, slog.Int("tokens_in", n.Usage.Prompt), slog.Int("cached", n.Usage.Cached),
			slog.Int("out", n.Usage.Output))
	}
	if n.Usage != (market.Usage{}) || n.Paid != 0 {
		text("paid", n.Paid.String())
	}
	text("task", n.Task)
	text("receipt", n.Receipt)
	number("lines_missing", missing)
	r.AddAttrs(slog.Attr{Value: slog.GroupValue(as...)}) // without a name: they stand by themselves
	return r
}

// millis is a time in milliseconds, to a hundredth.
func millis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond).Microseconds()) / 1000
}

// mostText bounds a text that others chose, in bytes.
const mostText = 128

// Plainly is a text that anybody may have chosen, bounded and without what a terminal obeys or a line ends
// with.
func Plainly(s string) string {
	odd := func(r rune) bool { return !strconv.IsPrint(r) }
	if s = bus.Clip(s, mostText); utf8.ValidString(s) && !strings.ContainsFunc(s, odd) {
		return s
	}
	s = strconv.Quote(s)
	return bus.Clip(s[1:len(s)-1], 2*mostText)
}
