package vllmsim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// small is an engine whose steps take a second each, so that a diagram of steps can be drawn.
func small(blocks, seqs, batched int) *engine {
	p := Profile{Base: 1e6}
	return newEngine(engineConfig{profile: p, maxSeqs: seqs, maxBatched: batched}, blocks, 4, 1)
}

func ask(id, prompt, output int) *sequence {
	q := &sequence{prompt: prompt, root: uint64(id), ready: make(chan struct{}, 1)}
	for i := range prompt {
		q.tokens = append(q.tokens, uint32(300+i))
	}
	q.limits = limits{max: output, ignoreEOS: true, total: 1000}
	q.script.prose = newProse(uint64(id), 50)
	return q
}

// draw runs an engine until it is idle. Each row is a request, each column a step: p a piece of prompt, t a
// token, . waiting.
func draw(e *engine, all ...*sequence) string {
	rows := make([]strings.Builder, len(all))
	now := time.Unix(0, 0)
	for _, q := range all {
		e.add(q, now)
	}
	wake, _ := e.step(now, nil)
	for !wake.IsZero() {
		before := make([]int, len(all))
		for i, q := range all {
			before[i] = q.output()
			if slices.Contains(e.Waiting, q) {
				rows[i].WriteByte('.')
			}
		}
		working := map[*sequence]bool{}
		for _, w := range e.Batch {
			working[w.Seq] = true
		}
		wake, _ = e.step(wake, nil)
		for i, q := range all {
			switch {
			case q.output() > before[i]:
				rows[i].WriteByte('t')
			case working[q]:
				rows[i].WriteByte('p')
			}
		}
	}
	lines := make([]string, len(all))
	for i := range rows {
		lines[i] = rows[i].String()
	}
	return strings.Join(lines, "\n")
}

func TestScheduling(t *testing.T) {
	for _, c := range []struct {
		name string
		e    *engine
		all  []*sequence
		want string
	}{
		{"one slot: first come, first served", small(100, 1, 64), []*sequence{ask(1, 8, 3), ask(2, 8, 2)},
			"ttt\n...tt"},
		{"two slots", small(100, 2, 64), []*sequence{ask(1, 8, 3), ask(2, 8, 2), ask(3, 8, 2)},
			"ttt\ntt\n..tt"},
		{"a long prompt is computed in pieces beside the tokens of others", small(100, 4, 10),
			[]*sequence{ask(1, 4, 6), ask(2, 22, 2)}, "tttttt\npptt"},
		{"nobody is admitted beyond the budget of a step", small(100, 4, 8),
			[]*sequence{ask(1, 8, 2), ask(2, 7, 2)}, "tt\n.tt"},
		{"no room: the newest is pushed out, and computed again when there is", small(7, 4, 64),
			[]*sequence{ask(1, 8, 9), ask(2, 8, 9)}, "ttttttttt\nttttt....tttt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := draw(c.e, c.all...); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if c.e.Cache.Used() != 0 {
				t.Errorf("%d blocks are still held", c.e.Cache.Used())
			}
		})
	}
}

// Whatever comes, is aborted, and runs out of room: everybody who is not aborted gets all tokens, the budget
// is kept, no block leaks, and a prefix is never said to be cached beyond the prompt's last token.
func TestEngineKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seqs, batched := rapid.IntRange(1, 5).Draw(t, "seqs"), rapid.IntRange(4, 40).Draw(t, "batched")
		e := small(rapid.IntRange(16, 40).Draw(t, "blocks"), seqs, batched)
		now := time.Unix(0, 0)
		var all []*sequence
		aborted := map[*sequence]bool{}
		var wake time.Time
		check := func() {
			tokens := 0
			for _, w := range e.Batch {
				if w.Seq != nil {
					tokens += w.Tokens
				}
			}
			if tokens > batched || len(e.Running) > seqs {
				t.Fatalf("%d tokens of %d in a step, %d of %d sequences", tokens, batched, len(e.Running),
					seqs)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			switch rapid.IntRange(0, 5).Draw(t, "move") {
			case 0, 1:
				q := ask(rapid.IntRange(1, 3).Draw(t, "prefix"), rapid.IntRange(1, 30).Draw(t, "prompt"),
					rapid.IntRange(1, 20).Draw(t, "output"))
				e.add(q, now)
				all = append(all, q)
			case 2:
				if len(all) > 0 {
					q := all[rapid.IntRange(0, len(all)-1).Draw(t, "whom")]
					aborted[q] = aborted[q] || !q.ended
					e.abort(q)
				}
			}
			now = now.Add(time.Second)
			wake, _ = e.step(now, nil)
			check()
		}
		for range 5000 {
			if wake.IsZero() && e.unfinished() == 0 {
				break
			}
			now = now.Add(time.Second)
			wake, _ = e.step(now, nil)
			check()
		}
		for i, q := range all {
			switch {
			case aborted[q]:
			case !q.ended || q.output() != q.limits.max:
				t.Fatalf("request %d has %d of %d tokens, ended %v", i, q.output(), q.limits.max, q.ended)
			case q.run.Cached < 0 || q.run.Cached > q.prompt-1 || q.run.Cached%4 != 0:
				t.Fatalf("request %d: %d of %d prompt tokens cached", i, q.run.Cached, q.prompt)
			}
		}
		if e.Cache.Used() != 0 {
			t.Fatalf("%d blocks are still held", e.Cache.Used())
		}
	})
}

// Steps follow each other without a gap although they are noticed late, but a long pause is not caught up.
func TestLateTimers(t *testing.T) {
	e := small(100, 1, 64)
	e.profile.Base = 10_000
	zero := time.Unix(0, 0)
	e.add(ask(1, 4, 100), zero)
	wake, _ := e.step(zero, nil)
	for range 5 {
		wake, _ = e.step(wake.Add(3*time.Millisecond), nil)
	}
	if got := fmt.Sprint(wake.Sub(zero)); got != "60ms" {
		t.Errorf("the sixth step ends at %s, want 60ms", got)
	}
	wake, _ = e.step(wake.Add(time.Second), nil)
	if got := fmt.Sprint(wake.Sub(zero)); got != "1.07s" {
		t.Errorf("the step after a second's pause ends at %s, want 1.07s", got)
	}
}
