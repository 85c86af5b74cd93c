package vllm

import (
	"sync"
	"time"
)

// beat has the streams of a busy server read together, and not more often than a reader would notice:
// relaying a token costs as much as relaying three that came in one read. vLLM's --stream-interval does the
// same by count, for all streams and always; here a stream whose tokens come more slowly than the beat never
// waits, nor does the first token, nor anybody while the server says little.
type beat struct {
	every time.Duration

	mu     sync.Mutex
	since  time.Time // when the counting began
	tokens int       // since then
	busy   bool
	turn   chan struct{} // closed at the next beat; nil: nobody waits for one
}

// busyTokens is how many tokens a second make a server busy: some hundredths of a processor's time.
const busyTokens = 1000

// window is over how many beats tokens are counted.
const window = 10

// saw counts tokens that came from any stream.
func (b *beat) saw(now time.Time, tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if past := now.Sub(b.since); past >= window*b.every {
		b.busy = float64(b.tokens) >= busyTokens*past.Seconds()
		b.since, b.tokens = now, 0
	}
	b.tokens += tokens
}

// wait returns at the next beat if the server is busy and a token comes every gap on this stream, else at
// once.
func (b *beat) wait(gap time.Duration) {
	if gap <= 0 || gap > b.every*3/4 {
		return
	}
	b.mu.Lock()
	if !b.busy {
		b.mu.Unlock()
		return
	}
	if b.turn == nil {
		turn := make(chan struct{})
		b.turn = turn
		time.AfterFunc(b.every, func() {
			b.mu.Lock()
			b.turn = nil
			b.mu.Unlock()
			close(turn)
		})
	}
	turn := b.turn
	b.mu.Unlock()
	<-turn
}
