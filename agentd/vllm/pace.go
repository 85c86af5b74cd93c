package vllm

import (
	"cmp"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// pace measures how fast one server answers, over all its streams, to judge which silence is unusual for that
// server.
type pace struct {
	mu   sync.Mutex
	last time.Time // when any stream moved
	// between two reads of one stream, in microseconds: the recent ones
	gaps    *hdrhistogram.WindowedHistogram
	prefill time.Duration // for one chunk of a prompt: the slowest of the recent ones
	each    time.Duration // for one token of a prompt, until the answer's first token
	timed   bool          // these two are of prompts of which it is known how much was cached
	first   time.Duration // from a request to its first token, whatever the prompt
	hung    time.Time     // when the server was last found hanging
	served  kinds         // of which it has had requests
	novel   int           // requests in hand of others
}

// meets notes a request that asks for some kinds, and reports whether one of them is the first.
func (p *pace) meets(asks kinds) bool {
	if asks == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if asks&^p.served == 0 {
		return false
	}
	p.novel++
	return true
}

// met ends that: it was served, or for 0 it was not.
func (p *pace) met(served kinds) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.novel--
	p.served |= served
}

// patience is a silence that is suspicious, as far as all is known that is asked for.
func (p *pace) patience(d time.Duration) time.Duration {
	if p.novel > 0 {
		return max(d, firstOfKind)
	}
	return d
}

// chunkTokens is the least number of prompt tokens that a server takes at once, on hardware as it is sold.
const chunkTokens = 2048

// began notes a first token after so long, on a prompt of so many tokens; 0: not known.
func (p *pace) began(now time.Time, after time.Duration, prompt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = now
	p.first = slower(p.first, after)
	if prompt > 0 && !p.timed {
		p.slows(after, prompt)
	}
}

// leastTokens of a prompt are enough to tell their time from that of a step.
const leastTokens = 64

// computed notes that so many tokens of an answer's prompt were not cached. Once these were enough to tell
// how fast the server computes prompts, those that are short or may have been cached count no more.
func (p *pace) computed(after time.Duration, tokens int) {
	if tokens < leastTokens || after <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.timed {
		p.timed, p.each, p.prefill = true, 0, 0
	}
	p.slows(after, tokens)
}

// slows takes in how long so many tokens of a prompt took.
func (p *pace) slows(after time.Duration, tokens int) {
	n := time.Duration(tokens)
	p.each, p.prefill = slower(p.each, after/n), slower(p.prefill, after*min(n, chunkTokens)/n)
}

// slower follows a slower value at once and a faster one in small steps.
func slower(old, d time.Duration) time.Duration { return max(d, old-old/16) }

// moved notes the gap between two reads of one stream.
func (p *pace) moved(now time.Time, gap time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = now
	if p.gaps == nil {
		p.gaps = hdrhistogram.NewWindowed(2, 1, maxGap.Microseconds(), 1)
	}
	_ = p.gaps.Current.RecordValue(min(gap, maxGap).Microseconds()) // within its range
	if p.gaps.Current.TotalCount() == 1<<13 {
		p.gaps.Rotate()
	}
}

// maxGap is the longest that is told apart.
const maxGap = time.Hour

// p99 is the 99th percentile of the gaps; 0: there was none.
func (p *pace) p99() time.Duration {
	if p.gaps == nil {
		return 0
	}
	return time.Duration(p.gaps.Merge().ValueAtQuantile(99)) * time.Microsecond
}

// long returns how long a stream that has begun may be silent before its server is checked. It is far longer
// than the gaps of decoding, even while the server computes the prompts of others.
func (p *pace) long(least time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.patience(max(least, 20*p.p99(), 3*p.prefill))
}

// longFirst is the same before the first token, for a prompt of so many tokens; false if there is nothing to
// judge by.
func (p *pace) longFirst(least time.Duration, prompt int) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	each := cmp.Or(p.each, unknownToken)
	return p.patience(max(2*least, 4*p.first, 4*each*time.Duration(prompt))), p.first > 0
}

// unknownToken is the time for a token of a prompt as long as nothing was measured.
const unknownToken = 10 * time.Millisecond

// since reports whether a moment of the server's is after t.
func (p *pace) since(moment *time.Time, t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return moment.After(t)
}

// still returns how long no stream has moved.
func (p *pace) still(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.last)
}

// hangs notes that the server was found hanging. It is started anew then, and has everything to load again.
func (p *pace) hangs(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung, p.served = now, 0
}

// starts notes that the server may be another than before.
func (p *pace) starts() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served = 0
}
