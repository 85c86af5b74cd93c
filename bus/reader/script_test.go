package reader

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
)

var update = flag.Bool("update", false, "write what the scripts print into testdata")

// The scripts of testdata read as a manual. A line that begins with a time says what happens then; the
// indented lines below it are what the reader wants done, and what comes out of it. Between two lines the
// clock runs, and the reader is woken when it asked to be. What happens:
//
//	task BODY            the answer is opened; failover=off may stand before the body
//	accepted AGENT       the market's word; refused CODE, wordless REASON are others, for each ask
//	N TEXT               chunk N; its token id is 100+N. a1 before it: of attempt 1
//	N tool JSON          chunk N with this delta of the engine's parsers
//	beat N [AGENT]       a heartbeat: N is the next chunk
//	end N [CODE]         the end frame after N chunks; CODE forgot: of an agent that knows nothing of the task
//	bus away, bus back   the connection
//	sleep                nobody ticks until the next line: the machine was asleep
//	stop reading, read   nothing is read meanwhile
//	cancel, leave
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, script := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
			got := play(t, script)
			if out = append(out, got); got != script && !*update {
				t.Errorf("%s: want\n%s\ngot\n%s", file, script, got)
			}
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// scene plays one script.
type scene struct {
	t      *testing.T
	s      *Stream
	out    *strings.Builder
	start  time.Time
	now    time.Time
	away   bool
	since  time.Time // of the bus
	wake   time.Time
	asleep bool
	still  bool // nobody reads
	over   bool // said
}

func play(t *testing.T, script string) string {
	start := time.Unix(1_000_000, 0)
	p := &scene{t: t, out: new(strings.Builder), start: start, now: start, since: start}
	for _, line := range strings.Split(script, "\n") {
		if strings.HasPrefix(line, " ") {
			continue // as it was
		}
		if at, what, ok := strings.Cut(line, " "); ok {
			if d, err := time.ParseDuration(at); err == nil {
				p.until(start.Add(d))
				fmt.Fprintln(p.out, line)
				p.happens(strings.TrimSpace(what))
				continue
			}
		}
		fmt.Fprintln(p.out, line) // a name, or a comment
	}
	return strings.TrimSpace(p.out.String())
}

// until lets time pass.
func (p *scene) until(to time.Time) {
	for n := 0; p.s != nil && !p.asleep && !p.wake.IsZero() && !p.wake.After(to); n++ {
		if n > 5000 {
			p.t.Fatalf("the reader wants to be woken without end at %v", p.wake.Sub(p.start))
		}
		p.now = p.wake
		p.tick()
	}
	p.now = to
	if p.asleep {
		p.asleep = false
		p.tick()
	}
}

func (p *scene) tick() {
	since := p.since
	if p.away {
		since = time.Time{}
	}
	p.s.Step(p.now, Bus{Since: since})
	p.s.Tick(p.now)
	p.ready(true)
}

func (p *scene) happens(what string) {
	verb, rest, _ := strings.Cut(what, " ")
	switch {
	case verb == "task":
		task := bus.Task{Client: "ada", ID: "t", DeadlineMS: 7}
		if body, off := strings.CutPrefix(rest, "failover=off "); off {
			task.Failover, rest = "off", body
		}
		task.Body = []byte(rest)
		p.s = New(Config{
			MaxChunks: 8, MaxBytes: 1 << 20, AckEvery: 4,
			Quiet: 3 * time.Second, Silence: 6 * time.Second, Doze: 2 * time.Second,
			ResumeEvery: time.Second, ResumeWait: 5 * time.Second,
			MaxOutage: time.Minute, MaxAbsence: 15 * time.Second, MaxAnswer: time.Hour,
		}, &task, p.now)
	case verb == "accepted":
		p.step(Word{Answer: &bus.Answer{Accepted: &bus.Accepted{Client: "ada", Task: "t", Hub: "h",
			Agent: rest}}})
	case verb == "refused":
		r := &bus.Result{Client: "ada", Task: "t", Code: bus.Code(rest), Message: "said the hub"}
		p.step(Word{Answer: &bus.Answer{Result: r}})
	case verb == "wordless":
		err := errors.New(rest)
		switch rest {
		case "disconnected":
			err = bus.ErrDisconnected
		case "not sent":
			err = bus.ErrNotSent
		case "nobody listens":
			err = bus.ErrNoResponders
		}
		p.step(Word{Err: err})
	case what == "bus away":
		p.away = true
	case what == "bus back":
		p.away, p.since = false, p.now
	case what == "sleep":
		p.asleep = true
	case what == "stop reading":
		p.still = true
	case what == "read":
		p.still = false
		p.ready(false)
	case what == "cancel":
		p.step(Cancel{})
	case what == "leave":
		p.step(Leave{Err: bus.ErrClosed})
	default:
		p.step(p.chunk(what))
	}
	if verb == "task" {
		p.ready(false)
	}
}

func (p *scene) chunk(what string) *bus.Chunk {
	c := &bus.Chunk{Task: "t"}
	if n, rest, ok := strings.Cut(what, " "); ok && n[0] == 'a' {
		c.Attempt, _ = strconv.Atoi(n[1:])
		what = rest
	}
	word := strings.SplitN(what, " ", 3)
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			p.t.Fatalf("%q: %v", what, err)
		}
		return n
	}
	third := ""
	if len(word) > 2 {
		third = word[2]
	}
	switch {
	case word[0] == "beat":
		c.Heartbeat, c.Seq, c.Agent = true, number(word[1]), third
	case word[0] == "end":
		c.Seq = number(word[1])
		c.Result = &bus.Result{Chunks: c.Seq, Code: bus.Code(third), Receipt: &bus.Receipt{ID: "j/1/0"}}
		if third == "forgot" {
			c.Result.Code, c.Result.Receipt = bus.CodeUnknown, nil
		}
	case word[1] == "tool":
		c.Seq, c.Tokens = number(word[0]), []uint32{uint32(100 + number(word[0]))}
		c.Extra = []bus.Extra{{Choice: []byte(`{"index":0,"delta":` + third + `}`)}}
	default:
		c.Seq, c.Tokens = number(word[0]), []uint32{uint32(100 + number(word[0]))}
		c.Text = strings.TrimPrefix(what, word[0]+" ")
	}
	return c
}

func (p *scene) step(event any) {
	p.s.Step(p.now, event)
	p.ready(false)
}

// ready prints what the reader wants done, and what can be read. woken says that it happens by itself.
func (p *scene) ready(woken bool) {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	effects := func() {
		r := p.s.Ready()
		p.wake = r.Wake
		if r.Withdraw {
			say("withdraw")
		}
		for _, c := range r.Controls {
			switch {
			case c.Cancel:
				say("%s: cancel", c.Agent)
			case c.Ack != nil:
				say("%s: ack %d", c.Agent, *c.Ack)
			case c.Resume != nil:
				say("%s: resume %d", c.Agent, *c.Resume)
			}
		}
		if t := r.Ask; t != nil && t.Resume == nil {
			say("ask")
		} else if t != nil {
			r, calls := t.Resume, ""
			if len(r.Calls) > 0 {
				calls = fmt.Sprintf(", calls %v", r.Calls)
			}
			say("ask %s for another than %s, attempt %d from chunk %d: tokens %v %q%s",
				t.Hub, r.Agent, t.Attempt, r.Seq, r.Tokens, r.Text, calls)
			if t.DeadlineMS != 0 {
				p.t.Errorf("an answer that has begun is sent on with its deadline")
			}
		}
	}
	effects()
	var text strings.Builder
	for !p.still {
		c, ok := p.s.Next()
		if !ok {
			break
		}
		text.WriteString(c.Text)
		if len(c.Extra) > 0 {
			text.WriteString(string(c.Extra[0].Choice))
		}
	}
	if text.Len() > 0 {
		say("read %q", text.String())
	}
	effects()
	if p.s.Over() && !p.over && !p.still {
		p.over = true
		if err := p.s.Err(); err != nil {
			say("over: %v", err)
		} else {
			r := p.s.Result()
			say("over: %s", cmp.Or(strings.TrimSpace(string(r.Code)+" "+r.Message), "served to its end"))
		}
	}
	for _, line := range lines {
		if woken {
			line = p.now.Sub(p.start).Round(time.Millisecond).String() + " " + line
		}
		fmt.Fprintln(p.out, "  "+line)
	}
}
