package vllm

import (
	"sync"
	"time"
)

// beat lets the streams of a busy server be read all at once, at intervals that a reader does not notice: to
// relay one token costs as much as to relay three that came in one read. vLLM's --stream-interval does the
// same by count, for all streams and always. Here nothing waits while the server is not busy. A first token
// never waits, and neither does a stream whose tokens come more slowly than the beat.
type beat struct {
	every time.Duration

	mu     sync.Mutex
	since  time.Time // when the counting began
	tokens int       // since then
	busy   bool
	turn   chan struct{} // closed at the next beat; nil: nobody waits for one
}

// busyTokens a second make a server busy: to relay them takes a few hundredths of a processor.
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
