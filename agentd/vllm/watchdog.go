package vllm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"souk/agentd"
	"souk/bus"
	"souk/bus/follow"
)

// watchdog ends a stream that is silent for too long, or whose server hangs. Comments in the stream and
// /health are no sign of life: the API server sends both while the engine behind it hangs.
//
// A server hangs if a stream is silent for longer than the server's pace explains, no other stream of it
// moved for nearly as long, and two readings of its counters, the last at the end of that time, are the same.
// If the counters move, the stream was preempted or starved, and waits.
//
// While the first request of a kind waits for its first token, a silence of all streams may be the engine's,
// which compiles: it is given firstOfKind.
type watchdog struct {
	e      *Engine
	ctx    context.Context // of the request
	prompt int
	born   time.Time
	due    atomic.Int64 // nanoseconds after born: the end in any case
	heard  atomic.Int64 // nanoseconds after born; 0: nothing yet
	timer  *time.Timer
	cancel context.CancelCauseFunc
	limit  atomic.Int64
	asks   kinds
	novel  atomic.Bool // of a kind that the server has not served yet, and without a token
}

// firstOfKind is the least silence that is suspicious while the server has the first request of a kind.
const firstOfKind = 30 * time.Second

// unknownFirst is the time for a first token of which nobody has said how long it may take.
const unknownFirst = 2 * time.Minute

func (e *Engine) watch(ctx context.Context, r *agentd.Request, asks kinds,
	cancel context.CancelCauseFunc) *watchdog {
	d := &watchdog{e: e, ctx: ctx, prompt: r.Prompt, born: time.Now(), asks: asks, cancel: cancel}
	d.novel.Store(e.pace.meets(asks))
	limit := cmp.Or(e.cfg.FirstEvent, r.First, unknownFirst)
	d.due.Store(int64(limit))
	d.limit.Store(int64(limit))
	if long, ok := e.pace.longFirst(e.cfg.Suspect, r.Prompt); ok {
		limit = min(limit, long-apart(long))
	}
	d.timer = time.AfterFunc(math.MaxInt64, d.look)
	d.timer.Reset(limit) // a look has the timer
	return d
}

// pat notes a sign of life. It is cheap: the timer is set again only when it fires, or when the limit
// changes, as it does with the first token.
func (d *watchdog) pat(now time.Time, limit time.Duration) {
	at := now.Sub(d.born)
	begins := d.heard.Swap(int64(max(at, 1))) == 0
	d.due.Store(int64(at + limit))
	if d.limit.Swap(int64(limit)) != int64(limit) || begins {
		long := d.e.pace.long(d.e.cfg.Suspect)
		d.timer.Reset(min(limit, long-apart(long)))
	}
}

func (d *watchdog) look() {
	if d.ctx.Err() != nil {
		return // the answer ended while this was about to begin, or a look before it was under way
	}
	age := time.Since(d.born)
	left := time.Duration(d.due.Load()) - age
	if left <= 0 && d.e.cfg.FirstEvent == 0 && d.heard.Load() == 0 {
		if d.atIt() {
			d.due.Add(d.limit.Load())
		}
		age = time.Since(d.born)
		left = time.Duration(d.due.Load()) - age // a token may have come meanwhile
	}
	if left <= 0 {
		d.end(fmt.Sprintf("the engine sent nothing for %v", time.Duration(d.limit.Load())))
		return
	}
	heard := time.Duration(d.heard.Load())
	long, ok := d.long(heard)
	if !ok {
		d.timer.Reset(left)
		return
	}
	quiet, silent := long-apart(long), age-heard
	switch {
	case silent < quiet:
		d.timer.Reset(min(left, quiet-silent))
	case d.e.pace.since(&d.e.pace.hung, d.born.Add(heard)):
		d.hung(heard)
	default:
		if moved := d.e.pace.still(time.Now()); moved < quiet { // until all of it is silent
			d.timer.Reset(min(left, quiet-moved))
		} else if stands, _, _ := d.motion(heard, apart(long)); stands {
			d.hung(heard)
		} else {
			d.timer.Reset(min(max(time.Duration(d.due.Load())-time.Since(d.born), 0), max(between, long/4)))
		}
	}
}

// hung ends the stream of a server that hangs.
func (d *watchdog) hung(heard time.Duration) {
	d.e.pace.hangs(time.Now())
	d.end(fmt.Sprintf("the engine hangs: nothing came for %v, and its counters stand still",
		time.Since(d.born.Add(heard)).Round(time.Millisecond)))
}

// long returns which silence is suspicious; false if nothing has been measured.
func (d *watchdog) long(heard time.Duration) (time.Duration, bool) {
	if heard == 0 {
		return d.e.pace.longFirst(d.e.cfg.Suspect, d.prompt)
	}
	return d.e.pace.long(d.e.cfg.Suspect), true
}

// between is the most time between the two readings.
const between = time.Second

// apart is the time between them, where a silence of so long is suspicious: the last of it.
func apart(long time.Duration) time.Duration { return min(between, long/4) }

// motion compares two readings of the server's counters, unless a stream of it moves meanwhile. A server that
// answers neither stands still; one that reports no counters cannot be judged, and neither can one that
// counts an answer's tokens when it has ended, as all but vLLM.
func (d *watchdog) motion(heard, apart time.Duration) (stands, moves bool, page []byte) {
	began := time.Now()
	still := func() bool {
		return d.ctx.Err() == nil && d.heard.Load() == int64(heard) && !d.e.pace.since(&d.e.pace.last, began)
	}
	was, before, err1 := d.e.alive(d.ctx)
	if !follow.Pause(d.ctx, apart) {
		return false, false, nil
	}
	is, after, err2 := d.e.alive(d.ctx)
	switch {
	case !still():
		return false, false, after
	case err1 != nil || err2 != nil:
		return err1 != nil && err2 != nil, false, after
	case !d.e.server.Load().vllm() || was == nil || is == nil:
		return false, false, after
	}
	moves = !slices.Equal(counters(before), counters(after))
	return !moves, moves, after
}

// atIt reports whether the engine's counters say that a first token is to come still: they move, and no
// stream of the engine does; or it has requests waiting, of which this may be one.
func (d *watchdog) atIt() bool {
	_, moves, page := d.motion(0, between)
	waiting, _ := total(page, "vllm:num_requests_waiting")
	return moves || waiting > 0
}

// counters returns those that move while the engine does anything: a prompt that is computed in chunks fills
// its cache.
func counters(page []byte) (all []float64) {
	for _, name := range []string{"generation_tokens_total", "prompt_tokens_total", "kv_cache_usage_perc"} {
		sum, _ := total(page, "vllm:"+name)
		all = append(all, sum)
	}
	return all
}

func (d *watchdog) end(why string) {
	d.cancel(&agentd.EngineError{Code: bus.CodeEngineFailed, Stalled: true, Message: why})
}

// began notes the first token: what the request asks for is there now.
func (d *watchdog) began() {
	if d.novel.CompareAndSwap(true, false) {
		d.e.pace.met(d.asks)
	}
}

func (d *watchdog) stop() {
	d.timer.Stop()
	if d.novel.CompareAndSwap(true, false) {
		d.e.pace.met(0)
	}
}
