package agentd

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

func words(n int) Chunk { return Chunk{Text: strings.Repeat("w", n), Count: n, Events: n} }

// premiumed adds to a cost what is due beside it of the premium of [bustest.Dispatch], 9 and a fee of 2.
func premiumed(cost market.Credits) market.Credits { return cost + 9*cost/60_000 + 2 }

// cancelled is the same where the client has ended the answer, sooner than was expected.
func cancelled(cost market.Credits) market.Credits { return cost + 9 + 2 }

// A served task: what is relayed, what it costs, and that client and hub hear the same.
func TestRunServed(t *testing.T) {
	r := NewRun(dispatch("h"), "a1", "tiny", 16)
	first, err := r.Take(Chunk{Prompt: 48, Events: 1}) // the role, with the prompt's ids
	if first != nil || err != nil {
		t.Fatalf("%+v %v", first, err)
	}
	for i := range 2 {
		c, err := r.Take(Chunk{Text: "ab", Tokens: []uint32{7, 8}, Count: 2, Events: 2})
		if err != nil || c.Seq != uint64(i) || c.Text != "ab" || c.Task != "t-h" || c.Count != 2 {
			t.Fatalf("%+v %v", c, err)
		}
	}
	if h := r.Heartbeat(); !h.Heartbeat || h.Seq != 2 {
		t.Errorf("%+v", h)
	}
	e := r.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 48, Cached: 32, Output: 5},
		TTFT: 3 * time.Millisecond, ITL: time.Millisecond}, nil)
	// 16 missed at 1000, 32 hit at 100, 5 out at 4000 nano-credits
	if want := market.Credits(16*1000 + 32*100 + 5*4000); e.Completion.Cost != want || e.Result.Cost != want {
		t.Errorf("cost %d and %d, want %d", e.Completion.Cost, e.Result.Cost, want)
	}
	res := e.Result
	if res.Code != "" || res.Chunks != 2 || res.Finish != "stop" || res.Paid() != premiumed(res.Cost) ||
		res.Fee != 2 || res.Toll != -2 || res.SlotPrice != 9 ||
		res.TTFTUS != 3000 || res.Text != "" || res.Hub != "math" ||
		!reflect.DeepEqual(*res.Receipt, bus.Receipt{ID: "h", Journal: "math", Round: 3, Epoch: 5}) {
		t.Errorf("%+v", res)
	}
	if e.Completion.Relayed != 4 || e.Completion.Outcome != bus.OutcomeDone {
		t.Errorf("%+v", e.Completion)
	}
	if err := errors.Join(res.Validate(), e.Completion.Validate()); err != nil {
		t.Error(err)
	}
}

func TestRunCollected(t *testing.T) {
	d := dispatch("h")
	d.Task.Stream = false
	r := NewRun(d, "a1", "tiny", 16)
	for range 2 {
		if c, err := r.Take(Chunk{Text: "ab", Count: 1, Events: 1,
			Extra: []bus.Extra{{At: 1, Choice: []byte(`{}`)}}}); c != nil || err != nil {
			t.Fatalf("%+v %v", c, err)
		}
	}
	res := r.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 2}}, nil).Result
	if res.Text != "abab" || len(res.Extra) != 2 || res.Extra[1].At != 3 || res.Chunks != 0 {
		t.Errorf("%+v", res)
	}
	if _, err := r.Take(Chunk{Text: strings.Repeat("x", bus.MaxAnswer), Count: 1}); err != errTooLong {
		t.Errorf("error %v", err)
	}
}

func TestRunIsCut(t *testing.T) {
	t.Run("at max_tokens, if the engine goes on", func(t *testing.T) {
		d := dispatch("h")
		d.MaxTokens = 3
		r := NewRun(d, "a1", "tiny", 16)
		if _, err := r.Take(words(3)); err != nil {
			t.Fatal(err)
		}
		_, err := r.Take(words(1))
		e := r.End(Answer{Unmetered: true}, err)
		if e.Result.Finish != "length" || e.Completion.Usage != (market.Usage{Prompt: 50, Output: 3}) ||
			e.Completion.Outcome != bus.OutcomeDone || !e.Completion.Unmetered {
			t.Errorf("%+v", e.Completion)
		}
	})
	for _, c := range []struct {
		name   string
		held   int // tokens of this text that the agent is believed to hold
		tokens int // that the cap buys
	}{
		{"at the price cap, the prompt computed", 0, 3},
		{"at the price cap, 32 of the prompt's tokens believed to be cached", 47, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := dispatch("h")
			d.CostCap = 50*1000 + 3*4000 + 3999
			if d.Cached = c.held; c.held > 0 {
				d.CostCap += -32*900 + 7*4000 // 32 tokens at the hit price, and as much more for the answer
			}
			r := NewRun(d, "a1", "tiny", 16)
			n := 0
			var err error
			for ; err == nil && n < 100; n++ {
				_, err = r.Take(words(1))
			}
			e := r.End(Answer{}, err)
			if n-1 != c.tokens || e.Completion.Relayed != c.tokens ||
				e.Completion.Outcome != bus.OutcomeDone || e.Result.Finish != "length" ||
				!strings.Contains(e.Result.Message, "max_price") || e.Result.Code != "" {
				t.Errorf("cut after %d: %+v", n-1, e.Result)
			}
			if e.Completion.Cost > d.CostCap || e.Completion.Cost+4000 <= d.CostCap {
				t.Errorf("cost %d of at most %d", e.Completion.Cost, d.CostCap)
			}
		})
	}
}

// Usage is the engine's word; the cap is the client's protection against it.
func TestLyingUsageIsCapped(t *testing.T) {
	d := dispatch("h")
	d.CostCap = 1000
	r := NewRun(d, "a1", "tiny", 16)
	if e := r.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 1 << 20}},
		nil); e.Completion.Cost != 1000 {
		t.Errorf("cost %d", e.Completion.Cost)
	}
	// ids say what the answer has, and nothing says what its prompt has but who claims too much
	said := market.Usage{Prompt: 1 << 20, Output: 1 << 20}
	e := NewRun(dispatch("h"), "a1", "tiny", 16).End(Answer{Finish: "stop",
		Usage: market.Usage{Prompt: 1 << 20, Output: 1}, Said: &said}, nil)
	if u := e.Completion.Usage; u.Prompt != dispatch("h").Task.Prompt.Tokens || !e.Completion.Unmetered {
		t.Errorf("usage %+v, want the estimate of the prompt", u)
	}
}

func TestRunEndings(t *testing.T) {
	full := &EngineError{Code: bus.CodeNoSlot, Message: "the engine answered 503: busy"}
	for _, c := range []struct {
		name    string
		err     error
		outcome string
		hub     bus.Code
		client  bus.Code
		cost    market.Credits
	}{
		{"cancelled: metered so far, and the premium as quoted", ErrCancelled, bus.OutcomeCancelled,
			bus.CodeCancelled, bus.CodeCancelled, 50*1000 + 2*4000},
		{"out of time", ErrTimeout, bus.OutcomeFailed, bus.CodeTimeout, bus.CodeTimeout, 0},
		{"shut down", ErrDrained, bus.OutcomeFailed, bus.CodeAgentFailed, bus.CodeAgentFailed, 0},
		{"the engine is full: no fault", full, bus.OutcomeFailed, bus.CodeNoSlot, bus.CodeNoRoom, 0},
		{"the engine failed", &EngineError{Code: bus.CodeEngineFailed, Message: "gone", Err: io.EOF},
			bus.OutcomeFailed, bus.CodeEngineFailed, bus.CodeEngineFailed, 0},
		{"the engine refused",
			&EngineError{Code: bus.CodeEngineRefused, Message: "the engine answered 400: too hot"},
			bus.OutcomeFailed, bus.CodeEngineRefused, bus.CodeEngineRefused, 0},
		{"too long for a message, however it is cut", errUnsayable, bus.OutcomeFailed, bus.CodeTooLarge,
			bus.CodeTooLarge, 0},
		{"anything else", io.ErrShortWrite, bus.OutcomeFailed, bus.CodeAgentFailed, bus.CodeAgentFailed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRun(dispatch("h"), "a1", "tiny", 16)
			r.Take(words(2))
			e := r.End(Answer{Usage: market.Usage{Output: 2}, Unmetered: true}, c.err)
			if e.Completion.Outcome != c.outcome || e.Completion.Code != c.hub || e.Result.Code != c.client ||
				e.Completion.Cost != c.cost || e.Result.Cost != c.cost {
				t.Errorf("%+v", e)
			}
			if paid := e.Result.Paid(); c.outcome == bus.OutcomeFailed && paid != 0 ||
				c.outcome != bus.OutcomeFailed && paid != cancelled(c.cost) {
				t.Errorf("paid %d", paid)
			}
			if e.Result.Message == "" || e.Result.Chunks != 1 ||
				errors.Join(e.Result.Validate(), e.Completion.Validate()) != nil {
				t.Errorf("%+v", e.Result)
			}
			if (e.Result.RetryMS > 0) != (c.err == full) {
				t.Errorf("retry in %d ms", e.Result.RetryMS)
			}
		})
	}
	t.Run("cancelled in the queue: nothing was used, and nothing is due", func(t *testing.T) {
		for _, settle := range []string{market.SettleMetered, market.SettleQuoted} {
			d := dispatch("h")
			d.Settle, d.Tariff = settle, 5
			e := NewRun(d, "a1", "tiny", 16).End(Answer{Unmetered: true}, ErrCancelled)
			if e.Completion.Usage != (market.Usage{}) || e.Completion.Cost != 0 || e.Result.Paid() != 0 ||
				!e.Completion.Unused() || e.Completion.Outcome != bus.OutcomeCancelled {
				t.Errorf("%+v", e)
			}
		}
	})
	t.Run("cancelled before the first token: the prompt, less what of this very text was believed to be here",
		func(t *testing.T) {
			d := dispatch("h")
			d.FirstMS, d.Cached = 1000, 47
			r := NewRun(d, "a1", "tiny", 16)
			if !r.Cancel() {
				t.Fatal("ends at once, with the prompt half computed")
			}
			_, err := r.Take(Chunk{Prompt: 60, Text: "w", Count: 1, Events: 2})
			e := r.End(Answer{Unmetered: true}, err)
			if c := e.Completion; c.Usage != (market.Usage{Prompt: 60, Cached: 32}) ||
				c.Outcome != bus.OutcomeCancelled || c.Cost != 28*1000+32*100 || c.Relayed != 0 ||
				c.NoCacheReport || !c.Unmetered || e.Result.Paid() != cancelled(c.Cost) {
				t.Errorf("%+v", c)
			}
		})
	t.Run("the engine fails after the cancel: no other agent is to serve it", func(t *testing.T) {
		d := dispatch("h")
		d.FirstMS = 1000
		r := NewRun(d, "a1", "tiny", 16)
		r.Cancel()
		e := r.End(Answer{Unmetered: true}, &EngineError{Code: bus.CodeEngineFailed, Message: "gone"})
		if e.Completion.Outcome != bus.OutcomeCancelled || e.Completion.Code != bus.CodeCancelled ||
			e.Result.Code != bus.CodeCancelled || !e.Engine || r.Withheld(&e) || !e.Completion.Unused() {
			t.Errorf("%+v", e)
		}
	})
	t.Run("more prompt than the hold covers: found before the engine computes it, nothing is due; after "+
		"it, what the hold has", func(t *testing.T) {
		d := dispatch("h")
		d.PromptMost, d.CostCap = 55, 55*1000+4000
		r := NewRun(d, "a1", "tiny", 16)
		_, err := r.Take(Chunk{Counted: 60})
		if e := r.End(Answer{Unmetered: true}, err); e.Completion.Code != bus.CodePromptTooLong ||
			e.Completion.Outcome != bus.OutcomeFailed || e.Result.Paid() != 0 || e.Engine || r.Withheld(&e) {
			t.Errorf("%+v", e)
		}
		r = NewRun(d, "a1", "tiny", 16)
		if _, err := r.Take(Chunk{Counted: 55}); err != nil {
			t.Error(err)
		}
		_, err = r.Take(Chunk{Prompt: 60, Events: 1})
		if e := r.End(Answer{Unmetered: true}, err); e.Completion.Usage != (market.Usage{Prompt: 60}) ||
			e.Completion.Outcome != bus.OutcomeDone || e.Result.Finish != "length" ||
			e.Completion.Cost != 59_000 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("quoted: a task costs its quote, as the hub will have it", func(t *testing.T) {
		d := dispatch("h")
		d.Settle, d.Quoted, d.CostCap = market.SettleQuoted, 300, 310
		r := NewRun(d, "a1", "tiny", 16)
		if _, err := r.Take(words(100)); err != nil {
			t.Errorf("cut by a cap that a quote cannot reach: %v", err)
		}
		if e := r.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 50, Output: 100}},
			nil); e.Completion.Cost != 300 {
			t.Errorf("cost %d", e.Completion.Cost)
		}
	})
}

func TestFrames(t *testing.T) {
	f := frames{most: 10}
	for _, s := range []string{"aaaa", "bbbb", "cc", "dddd"} {
		f.keep([]byte(s))
	}
	show := func(n uint64) string {
		kept, ok := f.from(n)
		if !ok {
			return "gone"
		}
		out := ""
		for _, b := range kept {
			out += string(b) + " "
		}
		return out
	}
	for n, want := range []string{"gone", "bbbb cc dddd ", "cc dddd ", "dddd ", "", ""} {
		if got := show(uint64(n)); got != want {
			t.Errorf("from %d: %q, want %q", n, got, want)
		}
	}
	f.acked(3)
	f.acked(2)
	if show(2) != "gone" || show(3) != "dddd " || f.bytes != 4 || f.base+uint64(len(f.data)) != 4 {
		t.Errorf("after ack: %+v", f)
	}
	f.acked(99) // more than there ever was
	f.acked(1 << 50)
	if f.bytes != 4 || show(3) != "dddd " {
		t.Errorf("after an acknowledgement of what was never sent: %+v", f)
	}
	f.acked(4)
	if f.bytes != 0 || f.base+uint64(len(f.data)) != 4 || show(4) != "" {
		t.Errorf("all acked: %+v", f)
	}
	f.keep([]byte("a very long frame")) // the newest stays, whatever its size
	if show(4) == "gone" {
		t.Error("the only frame is gone")
	}
}

// A task whose time is over before the engine has said a word is the engine's failure, untold, so that
// another agent gets it.
func TestTimeoutBeforeTheFirstWord(t *testing.T) {
	d := dispatch("h")
	r := NewRun(d, "a1", "tiny", 16)
	e := r.End(Answer{Unmetered: true}, ErrTimeout)
	if e.Completion.Code != bus.CodeEngineFailed || !e.Engine || !e.Stalled || !e.Doubtful ||
		!r.Withheld(&e) {
		t.Errorf("%+v", e)
	}
	r = NewRun(d, "a1", "tiny", 16)
	if _, err := r.Take(words(1)); err != nil {
		t.Fatal(err)
	}
	if e := r.End(Answer{Unmetered: true}, ErrTimeout); e.Completion.Code != bus.CodeTimeout || e.Engine ||
		r.Withheld(&e) {
		t.Errorf("after a word: %+v", e)
	}
}

// The hub hears which tool an answer calls first, by a key and not by its name.
func TestTheToolThatAnAnswerCalls(t *testing.T) {
	r := NewRun(dispatch("h"), "a1", "tiny", 16)
	for _, choice := range []string{`{"delta":{"reasoning":"\"tool_calls\""}}`, `{"delta":{"tool_calls":7}}`,
		`{"delta":{"tool_calls":[{"index":0,"function":{"name":"search","arguments":""}}]}}`,
		`{"delta":{"tool_calls":[{"index":1,"function":{"name":"buy"}}]}}`} {
		if _, err := r.Take(Chunk{Events: 1, Extra: []bus.Extra{{Choice: []byte(choice)}}}); err != nil {
			t.Fatal(err)
		}
	}
	e := r.End(Answer{Finish: "tool_calls"}, nil)
	if e.Completion.Tool != bus.ToolKey("search") || e.Completion.Tool == 0 ||
		e.Completion.Validate() != nil {
		t.Errorf("tool %d, want %d", e.Completion.Tool, bus.ToolKey("search"))
	}
	if none := NewRun(dispatch("h"), "a1", "tiny", 16).End(Answer{}, nil); none.Completion.Tool != 0 {
		t.Errorf("an answer without a call calls %d", none.Completion.Tool)
	}
}

// Where an engine says no token ids, nobody goes on with an answer that breaks off: it is asked for a token
// before the next one. Where it keeps no prompts apart, a bill tells of no more hits than the client's group
// has.
func TestAnEngineWithoutIdsAndSalts(t *testing.T) {
	for _, ids := range []bool{false, true} {
		r := NewRun(dispatch("h"), "a1", "tiny", 16)
		c := words(1)
		if ids {
			c.Tokens = []uint32{7}
		}
		if _, err := r.Take(c); err != nil {
			t.Fatal(err)
		}
		e := r.End(Answer{Unmetered: true}, &EngineError{Code: bus.CodeEngineFailed, Message: "it broke off"})
		if !e.Engine || e.Doubtful == ids {
			t.Errorf("ids %t: %+v", ids, e)
		}
	}
	r := NewRun(dispatch("h"), "a1", "tiny", 16) // an event of several tokens: the engine knows how many
	c := words(1)
	if _, err := r.Take(c); err != nil {
		t.Fatal(err)
	}
	e := r.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 20, Output: 4}}, nil)
	if u := e.Completion.Usage; e.Completion.Unmetered || u.Output != 4 || e.Completion.Relayed != 1 {
		t.Errorf("%+v", e.Completion)
	}
	for _, c := range []struct {
		shared               bool
		said, held, asserted int
		want                 int
	}{{false, 16, 0, 0, 16}, {true, 16, 0, 0, 0}, {true, 16, 8, 0, 8}, {true, 4, 8, 0, 4},
		{true, 16, 0, 12, 12}} {
		d := dispatch("h")
		d.Cached, d.Asserted = c.held, c.asserted
		r := NewRun(d, "a1", "tiny", 16)
		r.shared = c.shared
		e := r.End(Answer{Finish: "stop", Usage: market.Usage{Prompt: 20, Cached: c.said, Output: 1}}, nil)
		if got := e.Completion.Usage.Cached; got != c.want ||
			e.Result.Usage.Cached != max(c.want, c.asserted) || e.Completion.Validate() != nil {
			t.Errorf("%+v: %d, %+v", c, got, e.Result.Usage)
		}
	}
}

// An answer that ends where its agent's context does says so: no other agent would have given more.
func TestAnAnswerSaysThatItsContextCutIt(t *testing.T) {
	for _, c := range []struct {
		asked, given int
		finish       string
		err          error
		says         string
	}{
		{2000, 484, "length", nil, "cut after 484 tokens of the 2000 that max_tokens asks for"},
		{2000, 484, "length", errEnough, "cut after 484 tokens"},
		{2000, 484, "stop", nil, ""},
		{484, 484, "length", nil, ""},
		{0, 484, "length", nil, ""}, // none was asked for
		{2000, 484, "length", errCapped, "cut at the price cap"},
	} {
		d := dispatch("h")
		d.Task.MaxTokens, d.MaxTokens, d.CostCap = c.asked, c.given, market.Credit
		r := NewRun(d, "a1", "tiny", 16)
		if _, err := r.Take(words(c.given)); err != nil {
			t.Fatal(err)
		}
		e := r.End(Answer{Finish: c.finish, Usage: market.Usage{Prompt: 20, Output: c.given}}, c.err)
		if got := e.Result.Message; !strings.HasPrefix(got, c.says) || c.says == "" && got != "" {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
