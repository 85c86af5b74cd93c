package prefix

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

var t0 = time.Unix(1000, 0)

// chat builds a prompt from messages as the door does: a mark at the end of every message and every MarkEvery
// bytes inside it, each with the hash of all text before it; four bytes a token.
func chat(messages ...string) bus.Prompt {
	p := bus.Prompt{Messages: len(messages)}
	h := fnv.New64a()
	for _, m := range messages {
		m += "\x00"
		for len(m) > 0 {
			n := min(bus.MarkEvery, len(m))
			h.Write([]byte(m[:n]))
			p.Bytes += n
			p.Marks = append(p.Marks, bus.Mark{Bytes: p.Bytes, Hash: h.Sum64()})
			m = m[n:]
		}
	}
	p.Tokens = p.Bytes / 4
	return p
}

func text(seed byte, tokens int) string {
	return strings.Repeat(string('a'+rune(seed)), 4*tokens-1)
}

func TestOverlap(t *testing.T) {
	system, ask, answer, again := text(0, 96), text(1, 32), text(2, 64), text(3, 32)
	first := chat(system, ask) // 128 tokens, 64 out
	for _, c := range []struct {
		name   string
		prompt bus.Prompt
		want   int
	}{
		{"the next turn finds prompt and answer", chat(system, ask, answer, again), 192},
		{"the same prompt again computes its last block", first, 112},
		{"another question after the same system prompt", chat(system, again), 96},
		{"another system prompt", chat(text(9, 96), ask), 0},
		{"a shorter prompt is no longer than itself", chat(system), 80},
	} {
		b := New(DefaultLimits(), 16, 0)
		b.Served(t0, 7, first, 128, 64, 0, 0)
		if got := b.Overlap(7, c.prompt, c.prompt.Tokens); got != c.want {
			t.Errorf("%s: %d tokens, want %d", c.name, got, c.want)
		}
		if got := b.Overlap(8, c.prompt, c.prompt.Tokens); got != 0 {
			t.Errorf("%s: %d tokens in a session never served here", c.name, got)
		}
	}
}

// The common prefix by bisection on marks against a byte for byte comparison of the texts.
func TestOverlapAgainstBytes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		var a, b []string
		for range 1 + r.IntN(5) {
			m := text(byte(r.IntN(3)), 1+r.IntN(400))
			a = append(a, m)
			if r.IntN(4) > 0 {
				b = append(b, m)
			} else {
				b = append(b, text(byte(r.IntN(3)), 1+r.IntN(400)))
			}
		}
		pa, pb := chat(a...), chat(b...)
		ta, tb := strings.Join(a, "\x00")+"\x00", strings.Join(b, "\x00")+"\x00"
		lcp := 0
		for lcp < min(len(ta), len(tb)) && ta[lcp] == tb[lcp] {
			lcp++
		}
		n := common(pa.Marks, pb.Marks)
		at := 0
		if n > 0 {
			at = pa.Marks[n-1].Bytes
		}
		if at > lcp || lcp-at > bus.MarkEvery {
			t.Fatalf("marks say %d bytes, texts %d", at, lcp)
		}
	}
}

func TestForgetting(t *testing.T) {
	b := New(Limits{Sessions: 3, Marks: 1000}, 16, 0)
	p := chat(text(0, 64))
	for key := range uint64(5) {
		b.Served(t0, key, p, 64, 0, 0, 0)
	}
	held := func() (s string) {
		for key := range uint64(5) {
			if b.Overlap(key, p, 64) > 0 {
				s += fmt.Sprint(key)
			}
		}
		return s
	}
	if got := held(); got != "234" {
		t.Errorf("three sessions are remembered: %s", got)
	}

	// Session 3 was expected to be cached and was not: 2, used before it, is gone as well.
	b.Served(t0, 3, p, 64, 0, 0, 48)
	if got := held(); got != "34" {
		t.Errorf("after a miss: %s, want 34", got)
	}

	// A partial list drops nothing, a complete one drops what it leaves out, and only if that is old news.
	b.Listed([]bus.SessionState{{Key: 4, Tokens: 64}}, false, t0.Add(time.Second))
	if got := held(); got != "34" {
		t.Errorf("a partial list dropped: %s", got)
	}
	b.Served(t0.Add(5*time.Second), 1, p, 64, 0, 0, 0)
	b.Listed([]bus.SessionState{{Key: 4, Tokens: 64}}, true, t0.Add(time.Second))
	if got := held(); got != "14" {
		t.Errorf("a complete list: %s, want 14", got)
	}

	// Listed with half of its tokens.
	b.Listed([]bus.SessionState{{Key: 4, Tokens: 32}}, false, t0.Add(time.Second))
	if got := b.Overlap(4, p, 64); got > 32 {
		t.Errorf("%d tokens believed of 32 listed", got)
	}

	b.Listed(nil, true, t0.Add(time.Minute))
	if len(b.sessions) != 0 || b.marks != 0 || b.tokens != 0 {
		t.Errorf("an agent that says it holds nothing: %d sessions, %d marks, %d tokens", len(b.sessions),
			b.marks, b.tokens)
	}
}

func TestCapacityAndMarksBound(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	b := New(Limits{Sessions: 50, Marks: 60}, 16, 5000)
	for i := range 3000 {
		p := chat(text(byte(r.IntN(4)), 1+r.IntN(900)))
		b.Served(t0, uint64(r.IntN(80)), p, p.Tokens, r.IntN(200), r.IntN(2)*16, r.IntN(2)*16)
		if r.IntN(20) == 0 {
			b.Listed([]bus.SessionState{{Key: uint64(r.IntN(80)), Tokens: r.IntN(900)}}, r.IntN(2) == 0,
				t0.Add(time.Duration(r.IntN(2))))
		}
		marks, tokens := 0, 0
		for e := b.recent.Front(); e != nil; e = e.Next() {
			s := e.Value.(*session)
			marks += len(s.marks)
			tokens += s.prompt + s.output
		}
		if marks != b.marks || tokens != b.tokens || b.recent.Len() != len(b.sessions) {
			t.Fatalf("step %d: sums are off: marks %d/%d tokens %d/%d", i, marks, b.marks, tokens, b.tokens)
		}
		if len(b.sessions) > 50 || marks > 60 || tokens > 5000 && len(b.sessions) > 1 {
			t.Fatalf("step %d: beyond a bound: %d sessions, %d marks, %d tokens", i, len(b.sessions), marks,
				tokens)
		}
	}
}

func BenchmarkOverlap(b *testing.B) {
	long := make([]string, 60)
	for i := range long {
		long[i] = text(byte(i%5), 300)
	}
	p := chat(long...)
	l := New(DefaultLimits(), 16, 0)
	l.Served(t0, 1, chat(long[:58]...), 17000, 300, 0, 0)
	b.ReportAllocs()
	for b.Loop() {
		if l.Overlap(1, p, p.Tokens) == 0 {
			b.Fatal("no overlap")
		}
	}
}

// What is billed as cached where an engine did not say so is what the same text implies, never what is
// merely likely.
func TestImplied(t *testing.T) {
	marks := func(ends ...int) (p bus.Prompt) {
		for i, at := range ends {
			p.Marks = append(p.Marks, bus.Mark{Bytes: at, Hash: uint64(at*7 + i)})
			p.Bytes = at
		}
		return p
	}
	b := New(DefaultLimits(), 16, 0)
	b.Served(time.Unix(0, 0), 1, marks(1000, 2000), 800, 3000, 0, 0)
	for _, c := range []struct {
		name string
		key  uint64
		p    bus.Prompt
		want int
	}{
		{"the same text", 1, marks(1000, 2000), 800},
		{"it goes on: not with the answer, and not with the block in which that began", 1,
			marks(1000, 2000, 9000), 784},
		{"half of it, which may be as few tokens as one", 1, marks(1000), 0},
		{"another text under the same name", 1,
			bus.Prompt{Bytes: 2000, Marks: []bus.Mark{{Bytes: 2000, Hash: 5}}}, 0},
		{"another session", 2, marks(1000, 2000), 0},
	} {
		if got := b.Implied(c.key, c.p); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
