package reader

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"souk/bus"
)

func text(seq uint64, s string) bus.Chunk { return bus.Chunk{Task: "t", Seq: seq, Text: s} }

func endFrame(chunks uint64) bus.Chunk {
	return bus.Chunk{Task: "t", Seq: chunks, Result: &bus.Result{Client: "c", Task: "t", Chunks: chunks}}
}

func drain(o *order) string {
	var b strings.Builder
	for {
		c, ok := o.pop()
		if !ok {
			return b.String()
		}
		b.WriteString(c.Text)
	}
}

// Steps are read from left to right: 0a is chunk 0 with text a, h3 a heartbeat that says 3 is next, e3 the
// end frame after 3 chunks, /2b chunk 2 of the next attempt, which goes on where the first came to.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name, steps, out string
		gap, done        bool
	}{
		{"in order", "0a 1b 2c e3", "abc", false, true},
		{"twice", "0a 0a 1b 1b 0a e2", "ab", false, true},
		{"the other way round", "2c 1b 0a e3", "abc", false, true},
		{"one is missing", "0a 2c e3", "a", true, false},
		{"and comes late", "0a 2c e3 1b", "abc", false, true},
		{"the end before the rest", "e2 1b 0a", "ab", false, true},
		{"a heartbeat shows a gap", "0a h2", "a", true, false},
		{"a heartbeat shows none", "0a h1", "a", false, false},
		{"a heartbeat of less than was said before", "0a h9 h1", "a", false, false},
		{"a chunk that cannot be, and the count after it", "0a 9x h1 1b 2c e3", "abc", false, true},
		{"no text at all", "e0", "", false, true},
		{"the end has all of it", "E0a", "a", false, true},
		{"the last of it", "0a 1b E2c", "abc", false, true},
		{"that twice", "0a E1b E1b e1", "ab", false, true},
		{"that before the rest", "E2c 1b 0a", "abc", false, true},
		{"that beyond a gap", "0a 2c E3d", "a", true, false},
		{"a gap that is filled", "0a 2c E3d 1b", "abcd", false, true},
		{"what is none of it", "0a E1b 1x 2x", "ab", false, true},
		{"another goes on after what the end had", "0a E1b /2c /e3", "abc", false, true},
		{"another goes on before that had its turn", "0a E2x /1b /E2c", "abc", false, true},
		{"another server goes on", "0a 1b /2c /3d /e4", "abcd", false, true},
		{"the first server speaks again", "0a /1b 1x e9 /2c /e3", "abc", false, true},
		{"what lay beyond the gap of the first is let go", "0a 5x /1b /e2", "ab", false, true},
	} {
		o := order{maxChunks: 100, maxBytes: 1 << 20}
		for _, step := range strings.Fields(c.steps) {
			step, next := strings.CutPrefix(step, "/")
			var chunk bus.Chunk
			switch n, _ := strconv.ParseUint(step[1:], 10, 64); step[0] {
			case 'h':
				chunk = bus.Chunk{Heartbeat: true, Seq: n}
			case 'e':
				chunk = endFrame(n)
			case 'E':
				n, _ = strconv.ParseUint(step[1:2], 10, 64)
				chunk = endFrame(n)
				chunk.Text = step[2:]
			default:
				chunk = text(uint64(step[0]-'0'), step[1:])
			}
			if next {
				chunk.Attempt = 1
			}
			if err := o.take(&chunk); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if got := drain(&o); got != c.out || o.gap() != c.gap || o.done() != c.done {
			t.Errorf("%s: %s gives %q, gap %v, done %v; want %q, %v, %v", c.name, c.steps, got, o.gap(),
				o.done(), c.out, c.gap, c.done)
		}
	}
}

// Any order, any repetition, asked again whenever something is missing: the text comes out once and whole,
// also what the end has of it, and what is held is bounded.
func TestOrderFindsTheText(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 + rng.IntN(60)
		var want strings.Builder
		all := make([]bus.Chunk, n)
		for i := range all {
			s := strconv.Itoa(i) + ","
			want.WriteString(s)
			all[i] = text(uint64(i), s)
		}
		last := endFrame(uint64(n))
		if rng.IntN(2) == 0 {
			n--
			last = endFrame(uint64(n))
			last.Text, all = all[n].Text, all[:n]
		}
		o := order{maxChunks: 8, maxBytes: 1 << 20}
		var got strings.Builder
		for rounds := 0; !o.done(); rounds++ {
			if rounds > 1000 {
				t.Fatalf("seed %d: no end in sight at chunk %d of %d", seed, o.next, n)
			}
			from := min(n, int(o.next))
			batch := append([]bus.Chunk{}, all[from:]...)
			rng.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
			for _, c := range append(batch, last) {
				if rng.IntN(3) == 0 {
					continue // lost
				}
				for range 1 + rng.IntN(2) {
					if err := o.take(&c); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				}
				if held := o.unread() + len(o.ahead); held > 8 {
					t.Fatalf("seed %d: %d chunks held, at most 8 wanted", seed, held)
				}
				got.WriteString(drain(&o))
			}
		}
		if got.String() != want.String() {
			t.Fatalf("seed %d: %q, want %q", seed, got.String(), want.String())
		}
		if o.Unread != 0 || len(o.ahead) != 0 {
			t.Fatalf("seed %d: %d bytes and %d chunks are left", seed, o.Unread, len(o.ahead))
		}
	}
}

// An end frame may have nothing of the answer but that its engine had ended it: then no other agent is to go
// on, whatever became of its account.
func TestTheEngineEndedItInTheEnd(t *testing.T) {
	o := order{maxChunks: 8, maxBytes: 1 << 20}
	first, last := text(0, "a"), endFrame(1)
	first.Tokens, last.Finish = []uint32{7}, true
	for _, c := range []*bus.Chunk{&first, &last} {
		if err := o.take(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := drain(&o); got != "a" || !o.done() || !o.kept.ends {
		t.Errorf("%q, done %v, ended by its engine %v", got, o.done(), o.kept.ends)
	}
}

func TestOrderIsBounded(t *testing.T) {
	o := order{maxChunks: 3, maxBytes: 1 << 20}
	var err error
	for i := uint64(0); err == nil && i < 100; i++ {
		c := text(i, "x")
		err = o.take(&c)
	}
	if bus.CodeOf(err) != bus.CodeSlowReader || o.unread() != 3 {
		t.Errorf("%d chunks wait, error %v; want 3 and slow_reader", o.unread(), err)
	}
	o = order{maxChunks: 1000, maxBytes: 5000}
	err = nil
	for i := uint64(0); err == nil && i < 100; i++ {
		c := text(i, strings.Repeat("x", 1000))
		err = o.take(&c)
	}
	if bus.CodeOf(err) != bus.CodeSlowReader || o.Unread > 5000 {
		t.Errorf("%d bytes wait, error %v; want at most 5000 and slow_reader", o.Unread, err)
	}
	last := endFrame(9)
	last.Text = strings.Repeat("x", 1000)
	if err = o.take(&last); bus.CodeOf(err) != bus.CodeSlowReader || o.Unread > 5000 || o.end != nil {
		t.Errorf("%d bytes wait after the end, error %v", o.Unread, err)
	}
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0x80, 0x43})
	f.Add([]byte{5, 4, 3, 2, 1, 0, 0xff})
	f.Fuzz(func(t *testing.T, steps []byte) {
		o := order{maxChunks: 4, maxBytes: 1000}
		var next uint64
		attempt := 0
		for _, b := range steps {
			c := bus.Chunk{Seq: uint64(b & 0x1f), Attempt: int(b >> 5 & 1)}
			switch b >> 6 {
			case 1:
				c.Heartbeat = true
			case 2:
				c.Result = &bus.Result{Chunks: c.Seq}
			case 3:
				c.Result, c.Task, c.Text = &bus.Result{Chunks: c.Seq}, "t", "last"
			}
			if o.take(&c) != nil {
				return
			}
			for got, ok := o.pop(); ok; got, ok = o.pop() {
				if got.Attempt < attempt {
					t.Fatalf("chunk %d of attempt %d came out after attempt %d", got.Seq, got.Attempt,
						attempt)
				}
				attempt = got.Attempt
				if got.Seq != next {
					t.Fatalf("chunk %d came out where %d is next", got.Seq, next)
				}
				next++
			}
			if len(o.ahead) > 4 || o.Unread > 1000 || o.Unread < 0 {
				t.Fatalf("%d chunks, %d bytes held", len(o.ahead), o.Unread)
			}
		}
	})
}

func BenchmarkOrder(b *testing.B) {
	o := order{maxChunks: 100, maxBytes: 1 << 20}
	b.ReportAllocs()
	var n uint64
	for b.Loop() {
		c := text(n, "word")
		o.take(&c)
		o.pop()
		n++
	}
}
