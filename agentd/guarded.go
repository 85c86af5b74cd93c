package agentd

import (
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"

	"souk/agentd/policy"
	"souk/agentd/policy/adapter"
	"souk/agentd/policy/guard"
	"souk/bus"
	runtimepolicy "souk/bus/policy"
)

// Runtime policies see the events of an agent's tasks, and may look at answers while they are streamed.
// Package agentd/policy hosts them; this file passes events to that host and carries out its decisions.
// Without a policy it does nothing.

const (
	patterns    = "patterns" // the policy that looks for patterns in answers
	nextAdapter = "next"     // the one that has adapters ready which sessions are likely to need next
)

// knownPolicies are the policies that an agent may be told to run. The configuration was judged before one is
// made.
func (c *Config) knownPolicies(e *EngineConfig) *policy.Known {
	return &policy.Known{
		policy.Guard: {patterns: func() runtimepolicy.Policy {
			g, err := guard.New(c.Patterns)
			if err != nil {
				panic("agentd: patterns that are valid: " + err.Error())
			}
			return g
		}},
		policy.Adapter: {nextAdapter: func() runtimepolicy.Policy {
			return adapter.New(e.Adapters)
		}},
	}
}

// overheard reports whether anybody hears of dispatches.
func (a *Agent) overheard() bool { return a.policies.Any() || a.tells }

func (a *Agent) turnOf(d *bus.Dispatch) runtimepolicy.Turn {
	m := &d.Task
	return runtimepolicy.Turn{Client: m.Client, Session: bus.SessionKey(m.Client, m.Session), Agent: a.cfg.ID,
		Role: m.RoleKey()}
}

func (a *Agent) hearArrived(d *bus.Dispatch) {
	if a.overheard() {
		x := a.turnOf(d)
		a.hear(x.Event(a.now, runtimepolicy.Arrived))
	}
}

func (a *Agent) hearEnded(d *bus.Dispatch, e *Ending) {
	if a.overheard() {
		x := a.turnOf(d)
		a.hear(x.Ended(a.now, &e.Completion))
		if d.Task.SessionEnd && e.Completion.Outcome == bus.OutcomeDone {
			a.hear(x.Event(a.now, runtimepolicy.Ended))
		}
	}
	for _, name := range e.Caught {
		if a.counts.Caught == nil {
			a.counts.Caught = map[string]int64{}
		}
		a.counts.Caught[name]++
	}
}

// watch has a policy look at the answer to a dispatch; nil if none does.
func (a *Agent) watch(d *bus.Dispatch) *watch {
	if !a.overheard() {
		return nil
	}
	by := a.policies.Watch(a.now, d.Domain)
	if from := d.Task.Resume; from != nil && by != nil {
		// A match may have begun in what another agent delivered.
		for lane, said := range [guard.Lanes]string{guard.Text: from.Text, guard.Thought: from.Reasoning} {
			by.Add(a.now, guard.Lane(lane), a.sincePast(d.Domain, said))
		}
	}
	if by == nil {
		return nil
	}
	return &watch{by: by, lag: lagOf(d.Task.Body)}
}

// sincePast is the end of a text in which a match may have begun: what follows those that have ended there,
// which are past.
func (a *Agent) sincePast(domain, said string) string {
	end := said[max(0, len(said)-guard.MaxMatch):]
	for end != "" && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	by, left := a.policies.Watch(a.now, domain), end
	for by != nil && end != "" {
		_, n := utf8.DecodeRuneInString(end)
		_, past := by.Add(a.now, guard.Text, end[:n])
		if end = end[n:]; past {
			by, left = a.policies.Watch(a.now, domain), end
		}
	}
	return left
}

// watch holds back what the engine said of an answer as long as that may begin a match: whole chunks, so that
// text, tokens and counts that are passed on stay those of one another.
type watch struct {
	by    *policy.Watch
	held  []piece
	count int // tokens of these
	read  [guard.Lanes]int
	free  [guard.Lanes]int // so far nothing begins a match
	call  int              // the tool call that is read, by its index
	lag   int              // bytes by which the text may come later than its tokens
}

// piece is a chunk that is held back, and how far each lane goes with it.
type piece struct {
	Chunk
	to  [guard.Lanes]int
	all int // bytes of all lanes together when its tokens have been read, whatever comes later than they do
}

// nowhere is beyond all that a lane has.
const nowhere = math.MaxInt

// pass takes a chunk in, and returns what may be passed on by now. The error says that what follows may not,
// and that the answer ends.
func (w *watch) pass(now time.Time, c Chunk) (Chunk, error) {
	at, spoke, caught := [guard.Lanes]int{nowhere, nowhere, nowhere}, [guard.Lanes]bool{}, false
	look := func(lane guard.Lane, held int, cut bool) {
		if w.free[lane] = w.read[lane] - held; cut {
			at[lane], caught = w.free[lane], true
		}
	}
	end := func(lane guard.Lane) {
		if at[lane] == nowhere {
			held, cut := w.by.End(now, lane)
			look(lane, held, cut)
		}
	}
	parts := w.parts(&c)
	for _, p := range parts {
		if p.anew {
			end(p.lane)
		}
		spoke[p.lane] = true
		if at[p.lane] != nowhere {
			continue
		}
		w.read[p.lane] += len(p.text)
		held, cut := w.by.Add(now, p.lane, p.text)
		look(p.lane, held, cut)
	}
	for lane := range guard.Lanes {
		if len(parts) > 0 && !spoke[lane] { // another goes on: nothing waits for this one
			w.free[lane] = w.read[lane]
		}
		if c.Finish {
			end(lane)
		}
	}
	w.held = append(w.held, piece{c, w.read, sum(&w.read) + w.lag})
	w.count += c.Count
	if caught {
		return w.cut(&at), errCaught
	}
	return w.release(c.Finish), nil
}

// release is the chunks of which nothing may begin a match, as one; all of them at the end.
func (w *watch) release(all bool) (out Chunk) {
	n := 0
	for n < len(w.held) && (all || w.passes(&w.held[n])) {
		n++
	}
	for i := range n {
		w.count -= w.held[i].Count
		join(&out, &w.held[i].Chunk)
	}
	w.held = w.held[:copy(w.held, w.held[n:])]
	return out
}

func (w *watch) passes(p *piece) bool {
	for lane, to := range p.to {
		if to > w.free[lane] {
			return false
		}
	}
	return p.all <= sum(&w.free)
}

func sum(lanes *[guard.Lanes]int) (n int) {
	for _, x := range lanes {
		n += x
	}
	return n
}

// lagOf bounds by how many bytes the text of an answer may lag behind its tokens, which log probabilities
// spell: vLLM holds back letters that may begin a stop string.
func lagOf(body []byte) (bytes int) {
	var asked struct{ Stop json.RawMessage }
	var all []string
	if json.Unmarshal(body, &asked) != nil {
		return 0
	}
	if json.Unmarshal(asked.Stop, &all) != nil {
		all = make([]string, 1)
		json.Unmarshal(asked.Stop, &all[0]) // else there is none
	}
	for _, s := range all {
		bytes = max(bytes, utf8.UTFMax*(utf8.RuneCountInString(s)-1))
	}
	return bytes
}

// cut returns the part of the held-back chunks before the matches, which begin at these places of the lanes:
// all chunks before them, then the text before a match within a chunk, without tokens, so that nobody pays
// for it.
func (w *watch) cut(at *[guard.Lanes]int) (out Chunk) {
	for i := range w.held {
		p := &w.held[i]
		before := [guard.Lanes]bool{}
		for lane, to := range p.to {
			before[lane] = to <= at[lane]
		}
		switch whole := before == [guard.Lanes]bool{true, true, true}; {
		case whole && p.all <= sum(&w.free):
			join(&out, &p.Chunk)
			continue
		case whole: // its tokens may be the match's, and without them nobody pays for its text
			w.drop()
			return out
		}
		from := p.to[guard.Text] - len(p.Text)
		if before[guard.Thought] && before[guard.Calls] && at[guard.Text] > from {
			out.Text += p.Text[:at[guard.Text]-from]
		}
		break
	}
	w.drop()
	return out
}

// drop forgets what is held back, and says how many tokens that was.
func (w *watch) drop() (count int) {
	count, w.held, w.count = w.count, nil, 0
	return count
}

// join puts a chunk after another.
func join(to, c *Chunk) {
	for _, x := range c.Extra {
		x.At += len(to.Text)
		to.Extra = append(to.Extra, x)
	}
	to.Text += c.Text
	to.Tokens = append(to.Tokens, c.Tokens...)
	to.Count += c.Count
	to.Finish = to.Finish || c.Finish
}

// part is some of a lane's text in a chunk.
type part struct {
	lane guard.Lane
	text string
	anew bool // what was read of the lane before is another text
}

// parts are the texts of a chunk, none of them empty. The arguments of each tool call are a text; an engine
// says one call after the other.
func (w *watch) parts(c *Chunk) (all []part) {
	thought := ""
	if c.Text != "" {
		all = append(all, part{guard.Text, c.Text, false})
	}
	for _, x := range c.Extra {
		var said struct {
			Delta struct {
				Reasoning *string `json:"reasoning"` // as vLLM names it, and as it did
				Former    string  `json:"reasoning_content"`
				Calls     []struct {
					Index    int
					Function struct{ Arguments string } `json:"function"`
				} `json:"tool_calls"`
			} `json:"delta"`
		}
		if json.Unmarshal(x.Choice, &said) != nil { // it is passed on as it is, and means nothing here
			continue
		}
		if r := said.Delta.Reasoning; r != nil {
			thought += *r
		} else {
			thought += said.Delta.Former
		}
		for _, call := range said.Delta.Calls {
			if text := call.Function.Arguments; text != "" {
				all = append(all, part{guard.Calls, text, call.Index != w.call})
				w.call = call.Index
			}
		}
	}
	if thought != "" {
		all = append(all, part{guard.Thought, thought, false})
	}
	return all
}
