package predict

import (
	"math/rand/v2"
	"testing"
	"time"
)

// An engine that computes prompts one after the other, behind a long queue: what it takes for a token is
// found though each waits for many, and though answers end in another order than they began.
func TestRateBehindAQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 5))
	var r Rate
	type answer struct {
		sent, first time.Duration
		tokens      int
	}
	var open []answer
	free := time.Duration(0)
	for i := range 300 {
		sent := time.Duration(i) * 400 * time.Millisecond
		tokens := 200 + random.IntN(2000)
		free = max(free, sent) + time.Duration(tokens)*500*time.Microsecond
		if open = append(open, answer{sent, free, tokens}); len(open) > 6 {
			k := random.IntN(len(open))
			r.Learn(open[k].sent, open[k].first, open[k].tokens)
			open = append(open[:k], open[k+1:]...)
		}
	}
	if took, ok := r.Takes(1000); !ok || took < 400*time.Millisecond || took > 700*time.Millisecond {
		t.Errorf("1000 tokens take %v, want some 500ms", took)
	}
	if _, ok := new(Rate).Takes(1000); ok {
		t.Error("who has seen nothing knows what it takes")
	}
}

// What a prompt takes at worst follows a slower one at once, and a faster one slowly; a few tokens say
// nothing of it, and a cut is as good as an answer.
func TestSlowestRate(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	var r Rate
	at := time.Duration(0)
	takes := func(tokens int, took time.Duration) {
		at += time.Hour
		r.Learn(at, at+took, tokens)
	}
	want := func(least, most time.Duration) {
		t.Helper()
		got, known := r.Slowest(1000)
		if known != (least > 0) || got < least || got > most {
			t.Errorf("1000 tokens take %v, want %v to %v", got, least, most)
		}
	}
	want(0, 0)
	takes(0, s) // all cached
	r.Cut(time.Minute, 10)
	takes(10, 70*ms)
	want(0, 0)
	takes(1000, s)
	want(s-ms, s+ms)
	takes(10, 70*ms)
	want(s-ms, s+ms)
	r.Cut(20*s, 1000)
	want(20*s-ms, 20*s+ms)
	takes(1000, s)
	want(18*s, 19*s)
	for range 60 {
		takes(1000, s)
	}
	want(s-ms, s+ms)
	r.Cut(1<<62, 1000)
	want(time.Hour, time.Hour)
}
