package reader

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

// storm is a market as one reader sees it: agents that serve one answer and may die, be started again or
// fall silent, a hub that gives it to another, and a bus that loses, repeats, delays and reorders what
// they say, and may be away. Its clock jumps from event to event.
type storm struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	now  time.Time
	s    *Stream
	c    Config
	todo events
	wake int // number of the last Wake asked for

	words      []string // the answer: chunk n is words[n]
	agents     []*agent // by attempt
	loss       float64
	clean      bool      // nothing fails any more, and nothing is lost
	away       time.Time // until when the bus is away; zero: it is there
	since      time.Time
	asleep     time.Time // until when the reader's machine is
	got        strings.Builder
	read       uint64
	cancelled  bool
	slow, held int
	ticks      int
	asks       int // of the market
	ended      int // how it ended, where nobody is to go on
}

// agent serves one attempt.
type agent struct {
	attempt int
	next    uint64 // to be said
	dead    bool   // says nothing for ever
	forgot  bool   // was started again
	failed  bool   // its end says so
	tails   bool   // its end has the word that is next
}

type event struct {
	at time.Time
	n  int
	do func()
}

type events struct {
	list []event
	n    int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	return e.list[i].at.Before(e.list[j].at) || e.list[i].at.Equal(e.list[j].at) && e.list[i].n < e.list[j].n
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

func (w *storm) in(d time.Duration, do func()) {
	w.todo.n++
	heap.Push(&w.todo, event{w.now.Add(d), w.todo.n, do})
}

func (w *storm) chance(p float64) bool { return !w.clean && w.rng.Float64() < p }

func (w *storm) ms(most int) time.Duration {
	return time.Duration(w.rng.IntN(most)+1) * time.Millisecond
}

// deaf reports whether nothing gets through between the reader and the rest.
func (w *storm) deaf() bool { return w.now.Before(w.away) }

// carry brings something to the other side: perhaps never, perhaps twice, perhaps late.
func (w *storm) carry(do func()) {
	for n := 1 + w.rng.IntN(2)*w.rng.IntN(2); n > 0; n-- {
		if w.deaf() || w.chance(w.loss) {
			continue
		}
		d := w.ms(20)
		if w.chance(0.1) {
			d = w.ms(3000) // late, and out of order
		}
		w.in(d, func() {
			if !w.deaf() {
				do()
			}
		})
	}
}

// say has an agent say a chunk, which the reader hears as bytes would come: a copy of its own.
func (w *storm) say(a *agent, c bus.Chunk) {
	if a.dead {
		return
	}
	c.Task, c.Attempt = "t", a.attempt
	who := a.name()
	if c.Agent != "" {
		who = "h"
	}
	w.carry(func() { w.hear(who, c) })
}

// hear has the reader hear somebody, and now and then somebody else, who says what is none of the answer.
func (w *storm) hear(who string, c bus.Chunk) {
	if w.now.Before(w.asleep) { // it is heard when the machine wakes up
		w.in(w.asleep.Sub(w.now), func() { w.hear(who, c) })
		return
	}
	if w.rng.IntN(4) == 0 {
		forged := bus.Chunk{Task: "t", Attempt: c.Attempt + w.rng.IntN(2), Seq: c.Seq, Text: "forged"}
		if w.rng.IntN(4) == 0 {
			forged.Result = &bus.Result{Chunks: c.Seq}
		}
		w.s.Hear(w.now, fmt.Sprint("eve-", w.rng.IntN(3)), &forged)
		w.after()
	}
	w.s.Hear(w.now, who, &c)
	w.after()
}

func (w *storm) chunk(a *agent, n uint64) {
	w.say(a, bus.Chunk{Seq: n, Text: w.words[n], Tokens: []uint32{uint32(n)}, Count: 1})
}

func (w *storm) end(a *agent) {
	r := &bus.Result{Agent: a.name(), Chunks: a.next, Receipt: &bus.Receipt{ID: "j/1/0"}}
	c := bus.Chunk{Seq: a.next, Result: r}
	if a.tails && int(a.next) < len(w.words) {
		c.Text, c.Tokens, c.Count = w.words[a.next], []uint32{uint32(a.next)}, 1
	}
	if a.failed {
		r.Code = bus.CodeEngineFailed
	}
	if w.cancelled && !w.all(a) {
		r.Code = bus.CodeCancelled
	}
	w.say(a, c)
}

// all reports whether an agent has said all but what its end has.
func (w *storm) all(a *agent) bool {
	n := int(a.next)
	return n == len(w.words) || a.tails && n == len(w.words)-1
}

func (a *agent) name() string { return fmt.Sprint("agent-", a.attempt) }

// serve has an agent begin with a chunk, and go on by itself.
func (w *storm) serve(attempt int, from uint64) *agent {
	a := &agent{attempt: attempt, next: from, tails: w.rng.IntN(2) == 0}
	for len(w.agents) <= attempt {
		w.agents = append(w.agents, nil)
	}
	w.agents[attempt] = a
	var work func()
	work = func() {
		if w.chance(0.002) { // it is cut off from its hub alone
			w.gone(a)
		}
		switch {
		case a.dead || a.forgot || a.failed:
			return
		case w.chance(0.004):
			a.dead = true
			w.gone(a)
			return
		case w.chance(0.004):
			a.forgot = true
			return
		case w.chance(0.004):
			a.failed = true
			w.end(a)
			return
		case w.all(a) || w.cancelled:
			w.end(a)
			return
		case w.chance(0.02):
			w.say(a, bus.Chunk{Seq: a.next, Heartbeat: true, Agent: a.names()})
			w.in(2*time.Second, work) // a long prefill
			return
		}
		w.chunk(a, a.next)
		a.next++
		w.in(w.ms(100), work)
	}
	w.in(w.ms(500), work)
	var beat func()
	beat = func() {
		if a.dead || a.forgot || a.failed || w.all(a) || w.cancelled {
			return
		}
		w.say(a, bus.Chunk{Seq: a.next, Heartbeat: true, Agent: a.names()})
		w.in(2*time.Second, beat)
	}
	w.in(2*time.Second, beat)
	return a
}

// gone has the hub say at times that nobody listens at an agent, twice.
func (w *storm) gone(a *agent) {
	if !w.chance(0.5) {
		return
	}
	for range 2 {
		w.in(w.ms(5000), func() {
			c := bus.Chunk{Task: "t", Attempt: a.attempt, Agent: a.name(), Dead: true}
			w.carry(func() { w.hear("h", c) })
		})
	}
}

// names says who serves a later attempt.
func (a *agent) names() string {
	if a.attempt == 0 {
		return ""
	}
	return a.name()
}

func (w *storm) hears(c Control) {
	w.carry(func() {
		for _, a := range w.agents {
			if a == nil || a.name() != c.Agent || a.dead {
				continue
			}
			switch {
			case c.Cancel:
				w.cancelled = true
			case c.Resume != nil && a.forgot:
				w.say(a, bus.Chunk{Seq: *c.Resume,
					Result: &bus.Result{Agent: a.name(), Code: bus.CodeUnknown}})
			case c.Resume != nil:
				for n := *c.Resume; n < a.next; n++ {
					w.chunk(a, n)
				}
				if a.failed || w.all(a) || w.cancelled {
					w.end(a)
				}
			}
		}
	})
}

// market answers an ask: the first by agent-0, later ones by whoever goes on.
func (w *storm) market(t *bus.Task) {
	w.asks++
	asked := w.asks
	within := func(d time.Duration, x Verdict) {
		w.in(d, func() {
			if asked == w.asks { // else nobody waits for it any more
				w.step(x)
			}
		})
	}
	verdict := func(x Verdict) { within(w.ms(200), x) }
	switch {
	case w.chance(0.2) && t.Resume == nil: // the door dies
		within(time.Minute, Verdict{Err: errors.New("no verdict in time")})
		if w.chance(0.5) {
			return // no hub has it
		}
	case w.deaf():
		verdict(Verdict{Err: bus.ErrNotSent})
		return
	case w.chance(0.1):
		verdict(Verdict{Err: bus.ErrDisconnected})
		if w.chance(0.5) {
			return // it had not arrived
		}
	case w.chance(0.1) && t.Resume != nil:
		verdict(Verdict{Answer: &bus.Answer{Result: &bus.Result{Client: "ada", Task: "t",
			Code: bus.CodeUnavailable}}})
		return
	case w.chance(0.05):
		verdict(Verdict{Err: errors.New("no verdict in time")})
	case t.Resume != nil && t.Failover == "off":
		w.ended++
		verdict(Verdict{Answer: &bus.Answer{Result: &bus.Result{Client: "ada", Task: "t",
			Code: bus.CodeAgentFailed, Receipt: &bus.Receipt{ID: "j/1/0"}}}})
		return
	default:
		takes := &bus.Accepted{Hub: "h", Agent: (&agent{attempt: t.Attempt}).name()}
		defer verdict(Verdict{Answer: &bus.Answer{Accepted: takes}})
	}
	if t.Attempt < len(w.agents) && w.agents[t.Attempt] != nil || t.Resume != nil && t.Failover == "off" {
		return // asked again for what goes on already, or nobody is to go on
	}
	from := uint64(0)
	if r := t.Resume; r != nil {
		from = r.Seq
		whole := strings.Join(w.words[:from], "")
		if len(r.Tokens) > 0 && (r.Text != whole || len(r.Tokens) != int(from)) {
			w.fail("it is to go on from %q and %d tokens, %d chunks were %q", r.Text, len(r.Tokens), from,
				whole)
		}
		for n, k := range r.Tokens {
			if k != uint32(n) {
				w.fail("token %d is %d", n, k)
			}
		}
	}
	w.serve(t.Attempt, from)
}

func (w *storm) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, after %v: %s", w.seed, w.now.Sub(time.Unix(0, 0)), fmt.Sprintf(format, args...))
}

func (w *storm) step(event any) {
	if w.now.Before(w.asleep) { // it is heard when the machine wakes up
		w.in(w.asleep.Sub(w.now), func() { w.step(event) })
		return
	}
	w.s.Step(w.now, event)
	w.after()
}

func (w *storm) tick() {
	if w.ticks++; w.ticks > 15_000 { // it looks for a bus that is away ten times a second, else seldom
		w.fail("it is woken %d times", w.ticks)
	}
	since := w.since
	if w.deaf() {
		since = time.Time{}
	}
	w.s.Step(w.now, Bus{Since: since})
	w.s.Tick(w.now)
	w.after()
}

// after does what is wanted, reads what there is, and checks what must hold at all times.
func (w *storm) after() {
	w.effects()
	if w.slow == 0 {
		w.reads(len(w.words))
	}
	o := &w.s.order
	w.held = max(w.held, o.unread()+len(o.ahead))
	if w.s.waiting.bytes > maxWaiting {
		w.fail("%d bytes wait", w.s.waiting.bytes)
	}
	if w.held > w.c.MaxChunks || o.Unread > w.c.MaxBytes || cap(o.queue) > 4*w.c.MaxChunks+128 {
		w.fail("%d chunks, %d bytes, room for %d are held", w.held, o.Unread, cap(o.queue))
	}
}

// reads takes so many chunks, if they are there.
func (w *storm) reads(most int) {
	for range most + 1 {
		c, ok := w.s.Next()
		if !ok {
			break
		}
		if c.Seq != w.read || c.Text != w.words[c.Seq] {
			w.fail("chunk %d is %q where %d is next", c.Seq, c.Text, w.read)
		}
		w.read++
		w.got.WriteString(c.Text)
	}
	w.effects()
}

// slowly reads now and then.
func (w *storm) slowly() {
	w.reads(w.rng.IntN(10))
	w.in(w.ms(w.slow), w.slowly)
}

func (w *storm) effects() {
	r := w.s.Ready()
	for _, c := range r.Controls {
		w.hears(c)
	}
	if r.CancelTask {
		w.carry(func() { w.cancelled = true })
	}
	if r.Submit != nil {
		w.market(r.Submit)
	}
	w.wake++
	if n := w.wake; !r.Wake.IsZero() {
		w.in(max(0, r.Wake.Sub(w.now)), func() { w.alarm(n) })
	}
}

// alarm ticks, unless it was put off.
func (w *storm) alarm(n int) {
	switch {
	case w.now.Before(w.asleep):
		w.in(w.asleep.Sub(w.now), func() { w.alarm(n) })
	case n == w.wake:
		w.tick()
	}
}

// trouble cuts the bus and puts the machine to sleep now and then.
func (w *storm) trouble() {
	switch {
	case w.chance(0.15):
		w.away = w.now.Add(w.ms(90_000))
		w.in(w.away.Sub(w.now), func() { w.since = w.now })
	case w.chance(0.1):
		w.asleep = w.now.Add(w.ms(30_000))
	}
	w.in(w.ms(10_000), w.trouble)
}

// run plays until the answer is over, and returns how it ended.
func (w *storm) run() (code bus.Code) {
	begun := w.now
	w.after()
	for !w.s.Finished() {
		if w.todo.Len() == 0 {
			w.fail("nothing is due any more, and the answer is not over: %+v", w.s.failover)
		}
		e := heap.Pop(&w.todo).(event)
		w.now = e.at
		e.do()
		if w.now.Sub(begun) > 20*time.Minute {
			w.fail("the answer has no end; %d of %d chunks are read", w.read, len(w.words))
		}
	}
	w.slow = 0
	w.after()
	if err := w.s.Err; err != nil {
		return bus.CodeOf(err)
	}
	return w.s.Result().Code
}

// Whatever is lost, repeated, delayed or reordered, whoever dies, sleeps or is away: the text that is read
// is the answer's, once and in order; it is all of it where the answer ends well; every answer ends; and
// what is held is bounded.
func TestStorm(t *testing.T) {
	ended := map[bus.Code]int{}
	moved, asked := 0, 0
	for seed := range uint64(1000) {
		w := newStorm(t, seed)
		w.loss = []float64{0, 0.02, 0.2, 0.5}[seed%4]
		if seed%5 == 0 {
			w.slow = 1 + w.rng.IntN(3000)
			w.slowly()
		}
		if seed%7 == 0 {
			w.in(w.ms(5000), func() { w.step(Cancel{}) })
		}
		w.in(w.ms(5000), w.trouble)
		code := w.run()
		ended[code]++
		if len(w.agents) > 1 {
			moved++
		}
		asked += w.ended
		got, whole := w.got.String(), strings.Join(w.words, "")
		if !strings.HasPrefix(whole, got) || code == "" && got != whole {
			w.fail("ended with %q; read\n%q of\n%q", code, got, whole)
		}
		if code == bus.CodeCancelled && !w.cancelled {
			w.fail("cancelled by nobody")
		}
	}
	t.Logf("ends: %v; %d answers went on elsewhere, of %d the hub was asked the end", ended, moved, asked)
	if ended[""] < 500 || moved < 100 || asked < 10 || ended[bus.CodeUnknown] == 0 ||
		ended[bus.CodeCancelled] == 0 {
		t.Errorf("a storm that shows little: %v, %d went on elsewhere", ended, moved)
	}
}

// Where one agent fails in any way and nothing else does, the answer is whole.
func TestOneFailureCostsNothing(t *testing.T) {
	for seed := range uint64(600) {
		w := newStorm(t, seed)
		w.clean = true
		at := time.Duration(w.rng.IntN(3000)+600) * time.Millisecond
		w.in(at, func() {
			if len(w.agents) == 0 {
				return
			}
			switch a := w.agents[0]; seed % 3 {
			case 0:
				a.dead = true
			case 1:
				a.forgot = true
			case 2:
				if int(a.next) < len(w.words) {
					a.failed = true
					w.end(a)
				}
			}
		})
		if code := w.run(); code != "" || w.got.String() != strings.Join(w.words, "") {
			w.fail("ended with %q after %d of %d chunks: %v %+v", code, w.read, len(w.words), w.s.Err,
				w.s.Result())
		}
	}
}

func newStorm(t *testing.T, seed uint64) *storm {
	w := &storm{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(0, 0)}
	w.since = w.now
	w.words = make([]string, 1+w.rng.IntN(80))
	for n := range w.words {
		w.words[n] = fmt.Sprint(n, " ")
	}
	w.c = limits(64, 8<<10)
	w.s = New(w.c, &bus.Task{Client: "ada", ID: "t", Body: []byte("{}")}, w.now)
	return w
}

func limits(chunks, bytes int) Config {
	return Config{
		MaxChunks: chunks, MaxBytes: bytes, AckEvery: 8,
		Quiet: 3 * time.Second, Silence: 6 * time.Second, Doze: 2 * time.Second,
		ResumeEvery: time.Second, ResumeWait: 5 * time.Second, MaxOutage: time.Minute,
		MaxAbsence: 15 * time.Second, AskAgain: 2 * time.Second,
	}
}

// FuzzHostile reads whatever an agent says: nothing comes out of order, what is held is bounded, and it ends.
func FuzzHostile(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0x80, 0x43})
	f.Add([]byte{5, 4, 3, 2, 1, 0, 0xff, 7, 0x47, 0xe0})
	f.Add([]byte("the quick brown fox jumps over the lazy dog"))
	f.Fuzz(func(t *testing.T, steps []byte) {
		now := time.Unix(0, 0)
		s := New(limits(4, 1000), &bus.Task{Client: "ada", ID: "t", Body: []byte("{}")}, now)
		var next uint64
		attempt, asked := 0, 0
		after := func() {
			for range 2 { // Next may want something, too
				r := s.Ready()
				if r.Submit != nil {
					asked++
				}
				for got, ok := s.Next(); ok; got, ok = s.Next() {
					if got.Seq != next || got.Attempt < attempt {
						t.Fatalf("chunk %d of attempt %d came out where %d of %d is next", got.Seq,
							got.Attempt, next, attempt)
					}
					attempt, next = got.Attempt, next+1
				}
			}
			held := s.unread() + len(s.ahead)
			if held > 4 || s.Unread > 1000 || s.Unread < 0 || len(s.kept.tokens) > bus.MaxResumeTokens {
				t.Fatalf("%d chunks, %d bytes held", held, s.Unread)
			}
			if s.waiting.bytes > maxWaiting {
				t.Fatalf("%d bytes wait", s.waiting.bytes)
			}
		}
		after()
		s.Step(now, Verdict{Answer: &bus.Answer{Accepted: &bus.Accepted{Agent: "a", Hub: "h"}}})
		after()
		for i, b := range steps {
			now = now.Add(time.Duration(b) * 10 * time.Millisecond)
			chunk := &bus.Chunk{Task: "t", Seq: uint64(b & 0x1f), Attempt: int(b >> 5 & 1)}
			chunk.Tokens, chunk.Text = []uint32{1}, strings.Repeat("x", int(b))
			switch b >> 6 {
			case 1:
				chunk.Heartbeat, chunk.Seq = true, uint64(b&0x1f)<<(2*(i%32))
				chunk.Agent = []string{"", "a", "b"}[i%3]
			case 2:
				code := []bus.Code{"", bus.CodeUnknown, bus.CodeEngineFailed, "nonsense"}[i%4]
				chunk.Result = &bus.Result{Chunks: chunk.Seq << (2 * (i % 32)), Code: code}
			case 3:
				chunk.Attempt = int(b) << (i % 24)
				chunk.Extra = []bus.Extra{{Choice: steps}}
			}
			s.Hear(now, []string{"a", "h", "b", "x"}[b>>3&3], chunk)
			after()
			if s.failover.state == asking && i%3 == 0 {
				code := []bus.Code{bus.CodeUnavailable, bus.CodeNoRoom, ""}[i%9/3]
				s.Step(now, Verdict{Answer: &bus.Answer{Result: &bus.Result{Code: code}}})
				after()
			}
			if i%5 == 0 {
				s.Tick(now)
				after()
			}
		}
		for n := 0; !s.Finished(); n++ {
			if n > 3000 {
				t.Fatalf("it has no end: %+v", s.failover)
			}
			if s.failover.state == asking {
				s.Step(now, Verdict{Err: errors.New("no verdict in time")})
			}
			now = now.Add(100 * time.Millisecond)
			s.Step(now, Bus{Since: time.Unix(0, 0)})
			s.Tick(now)
			after()
		}
		if asked > 40 {
			t.Fatalf("the market was asked %d times", asked)
		}
	})
}
