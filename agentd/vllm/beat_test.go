package vllm

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd"
)

// timed is the body of an answer whose tokens come at their time; a read takes what is there by then, as a
// socket's does.
type timed struct {
	begin time.Time
	first time.Duration // until the first token
	gap   time.Duration // from then on
	n     int           // tokens in all
	said  int
	rest  string
}

func (b *timed) Read(p []byte) (int, error) {
	if b.rest == "" && b.said == b.n {
		return 0, io.EOF
	}
	at := func(i int) time.Time { return b.begin.Add(b.first + time.Duration(i)*b.gap) }
	if b.rest == "" {
		time.Sleep(time.Until(at(b.said)))
	}
	for b.said < b.n && !at(b.said).After(time.Now()) {
		finish := "null"
		if b.said == b.n-1 {
			finish = `"length"`
		}
		b.rest += fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w%d "+
			"\"},\"finish_reason\":%s,\"token_ids\":[%d]}]}\n\n", b.said, finish, b.said)
		b.said++
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// relayed records one answer: when each message was handed on, and how many tokens it held.
type relayed struct {
	at     []time.Duration
	tokens []int
	text   string
	err    error
}

// relayAll reads so many answers of one engine at once, in virtual time.
func relayAll(t *testing.T, every time.Duration, streams int, body func(i int) *timed) []relayed {
	t.Helper()
	e := New(agentd.EngineConfig{RelayEvery: every})
	out := make([]relayed, streams)
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() {
			begin, r := time.Now(), &out[i]
			b := body(i)
			b.begin = begin
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			dog := e.watch(ctx, &agentd.Request{}, 0, cancel)
			defer dog.stop()
			s, m := stream{body: b, buf: make([]byte, readSize), max: 1 << 20}, meter{start: begin}
			r.err = e.relay(&s, &m, dog, func(c agentd.Chunk) error {
				r.at, r.tokens = append(r.at, time.Since(begin)), append(r.tokens, c.Count)
				r.text += c.Text
				return nil
			})
		})
	}
	all.Wait()
	return out
}

func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return b.String()
}

// Streams of a busy engine that are faster than the beat are relayed once a beat, whole and in order; their
// first tokens come as soon as the engine says them.
func TestABusyEngineIsReadByTheBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, tokens, every, gap = 40, 400, 20 * time.Millisecond, 10 * time.Millisecond
		for i, r := range relayAll(t, every, streams,
			func(int) *timed { return &timed{first: 7 * time.Millisecond, gap: gap, n: tokens} }) {
			if r.err != nil || r.text != words(tokens) {
				t.Fatalf("stream %d: %v, %d bytes of text, want %d", i, r.err, len(r.text),
					len(words(tokens)))
			}
			if r.at[0] != 7*time.Millisecond || r.tokens[0] != 1 {
				t.Errorf("stream %d: the first token came after %v with %d tokens, want 7ms, 1", i, r.at[0],
					r.tokens[0])
			}
			if n := len(r.at); n > tokens*3/4 { // half, once the engine is known to be busy
				t.Errorf("stream %d: %d tokens in %d messages", i, tokens, n)
			}
			for j := 1; j < len(r.at); j++ {
				if d := r.at[j] - r.at[j-1]; d > every+gap {
					t.Errorf("stream %d: %v between two messages, want at most %v", i, d, every+gap)
				}
			}
			if last, due := r.at[len(r.at)-1], 7*time.Millisecond+(tokens-1)*gap; last > due+every {
				t.Errorf("stream %d ended after %v, its last token came after %v", i, last, due)
			}
		}
	})
}

// Whoever is slower than the beat, or alone, or first, never waits for it.
func TestNobodyElseWaitsForTheBeat(t *testing.T) {
	for _, c := range []struct {
		name    string
		streams int
		gap     time.Duration
		every   time.Duration
	}{
		{"an engine that says little", 3, 10 * time.Millisecond, 20 * time.Millisecond},
		{"streams slower than the beat", 60, 33 * time.Millisecond, 20 * time.Millisecond},
		{"no beat", 40, 10 * time.Millisecond, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const tokens = 100
				for i, r := range relayAll(t, c.every, c.streams, func(i int) *timed {
					return &timed{first: time.Duration(i) * time.Millisecond, gap: c.gap, n: tokens}
				}) {
					if r.err != nil || r.text != words(tokens) || len(r.at) != tokens {
						t.Fatalf("stream %d: %v, %d messages of %d tokens", i, r.err, len(r.at), tokens)
					}
					for j, at := range r.at {
						if want := time.Duration(i)*time.Millisecond + time.Duration(j)*c.gap; at != want {
							t.Fatalf("stream %d: token %d was relayed after %v, want %v", i, j, at, want)
						}
					}
				}
			})
		})
	}
}
