package reader

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest/script"
)

// The scripts of testdata read as a manual. A line that begins with a time says what happens then; the
// indented lines below it are what the reader wants done, and what comes out of it. Between two lines the
// clock runs, and the reader is woken when it asked to be. What happens:
//
//	task BODY            the answer is opened; failover=off may stand before the body
//	accepted AGENT [N]   the market's verdict, of attempt N; refused CODE [of AGENT], no-verdict REASON are
//	                     others, for each submit; settled CODE is a refusal that names a hold which was
//	                     void; again behind CODE: it is worth asking again
//	N TEXT               chunk N; its token id is 100+N. a1 before it: of attempt 1
//	N tool JSON          chunk N with this delta of the engine's parsers
//	beat N [AGENT]       a heartbeat: N is the next chunk; with AGENT it is the hub's, h
//	gone AGENT           nobody listens there, says the hub
//	WHO> ...             one of these by somebody else than agent a, or, of attempt 1, b
//	end N [CODE]         the end frame after N chunks; CODE forgot: of an agent that knows nothing of the
//	                     task; "end N with TEXT" or "end N CODE with TEXT" has the last of the answer too
//	bus away, bus back   the connection
//	sleep                nobody ticks until the next line: the machine was asleep
//	stop reading, read   nothing is read meanwhile
//	cancel, leave
func TestScripts(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	script.Run(t, "testdata/*.txt", start, func(t *testing.T, say script.Say) script.Scene {
		return &scene{t: t, say: say, now: start, since: start}
	})
}

// scene plays one script.
type scene struct {
	t      *testing.T
	s      *Stream
	say    script.Say
	now    time.Time
	away   bool
	since  time.Time // of the bus
	wake   time.Time
	asleep bool
	still  bool // nobody reads
	over   bool // said
}

func (p *scene) Wake(to time.Time) time.Time {
	if p.asleep {
		return to
	}
	return p.wake
}

func (p *scene) Tick(now time.Time) {
	p.now, p.asleep = now, false
	since := p.since
	if p.away {
		since = time.Time{}
	}
	p.s.Step(p.now, Bus{Since: since})
	p.s.Tick(p.now)
	p.ready()
}

func (p *scene) Do(now time.Time, what string) {
	p.now = now
	p.happens(what)
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
			AskAgain: 3 * time.Second,
		}, &task, p.now)
	case verb == "accepted":
		agent, attempt, _ := strings.Cut(rest, " ")
		a := &bus.Accepted{Client: "ada", Task: "t", Hub: "h", Agent: agent}
		a.Attempt, _ = strconv.Atoi(attempt)
		p.step(Verdict{Answer: &bus.Answer{Accepted: a}})
	case verb == "refused", verb == "settled":
		rest, again := strings.CutSuffix(rest, " again")
		code, agent, _ := strings.Cut(rest, " of ")
		r := &bus.Result{Client: "ada", Task: "t", Hub: "h", Agent: agent, Code: bus.Code(code),
			Message: "said the hub"}
		if again {
			r.RetryMS = 1000
		}
		if verb == "settled" {
			r.Receipt = &bus.Receipt{ID: "j/1/0"}
		}
		p.step(Verdict{Answer: &bus.Answer{Result: r}})
	case verb == "no-verdict":
		err := errors.New(rest)
		switch rest {
		case "disconnected":
			err = bus.ErrDisconnected
		case "not sent":
			err = bus.ErrNotSent
		case "nobody listens":
			err = bus.ErrNoResponders
		}
		p.step(Verdict{Err: err})
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
		p.ready()
	case what == "cancel":
		p.step(Cancel{})
	case what == "leave":
		p.step(Leave{Err: bus.ErrClosed})
	default:
		p.hear(what)
	}
	if verb == "task" {
		p.ready()
	}
}

func (p *scene) hear(what string) {
	who, rest, named := strings.Cut(what, "> ")
	if named {
		what = rest
	}
	c := p.chunk(what)
	switch {
	case named:
	case c.Agent != "":
		who = "h"
	case c.Attempt == 0:
		who = "a"
	default:
		who = "b"
	}
	p.s.Hear(p.now, who, c)
	p.ready()
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
	if rest, text, ok := strings.Cut(third, "with "); ok && word[0] == "end" {
		third, c.Text = strings.TrimSpace(rest), text
		c.Tokens = []uint32{uint32(100 + number(word[1]))}
	}
	switch {
	case word[0] == "gone":
		c.Dead, c.Agent = true, word[1]
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
	p.ready()
}

// ready prints what the reader wants done, and what can be read.
func (p *scene) ready() {
	say := p.say
	effects := func() {
		r := p.s.Ready()
		p.wake = r.Wake
		if r.CancelTask {
			say("cancel task")
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
		if t := r.Submit; t != nil && t.Resume == nil {
			say("submit%s", []string{"", " again, unheard", " again, heard"}[t.Again])
		} else if t != nil {
			r, calls := t.Resume, ""
			if len(r.Calls) > 0 {
				calls = fmt.Sprintf(", calls %v", r.Calls)
			}
			what := "submit"
			if t.Failover == "off" {
				what = "ask how it ended"
			}
			say("%s %s for another than %s, attempt %d from chunk %d: tokens %v %q%s", what,
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
		if err := p.s.Err; err != nil {
			say("over: %v", err)
		} else {
			r := p.s.Result()
			say("over: %s", cmp.Or(strings.TrimSpace(string(r.Code)+" "+r.Message), "served to its end"))
			if n := p.s.next; r.Chunks != n && (!p.s.tailed || r.Chunks != n-1) {
				say("the end says %d chunks, and %d came", r.Chunks, p.s.next)
			}
		}
	}
}
