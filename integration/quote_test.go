package integration

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/market"
)

// askQuote asks for one as a program does, until its hub has said something in time: a door waits for 100 ms,
// and a machine may be busy with others.
func askQuote(t *testing.T, m *local.Market, id string, task bus.Task) (q bus.Quote, err error) {
	t.Helper()
	c, err := m.Link.Client(id)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "a hub is heard in time", func() bool {
		q, err = c.Quote(t.Context(), task)
		return bus.CodeOf(err) != bus.CodeUnavailable
	})
	return q, err
}

// only is the one model of the one hub.
func only(t *testing.T, q bus.Quote, err error) bus.ModelQuote {
	t.Helper()
	if err != nil || len(q.Hubs) != 1 || len(q.Hubs[0].Models) != 1 {
		t.Fatalf("%v: %+v", err, q)
	}
	return q.Hubs[0].Models[0]
}

// A quote, asked for by any NATS client, costs nothing and leaves no trace; the task that follows it is
// served much as it said. Who has no money, or is unknown to the treasury, is quoted as well.
func TestAQuoteThroughTheWholeHouse(t *testing.T) {
	m := start(t, one)
	nc := raw(t, m)
	before := balance(t, m, "dev")
	var said *nats.Msg
	bustest.Eventually(t, "a hub is heard in time", func() (heard bool) {
		var err error
		said, err = nc.Request(bus.QuoteSubject("dev", ""), []byte(`{"model":"auto","max_tokens":40,`+
			`"messages":[{"role":"user","content":"What is a souk?"}],"souk":{"terms":{"worth":0.01}}}`),
			time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(string(said.Data), `"code":"unavailable"`)
	})
	var q struct {
		Estimate bool
		Hubs     []struct {
			Models []struct {
				Cost     market.Credits
				WouldWin bool    `json:"would_win"`
				TTFTMS   float64 `json:"ttft_ms"`
			}
		}
	}
	if err := json.Unmarshal(said.Data, &q); err != nil || !q.Estimate || len(q.Hubs) != 1 ||
		!q.Hubs[0].Models[0].WouldWin || q.Hubs[0].Models[0].TTFTMS <= 0 {
		t.Fatalf("%v: %s", err, said.Data)
	}
	for _, id := range []string{"poor", "nobody"} {
		quote, err := askQuote(t, m, id, chat("What is a souk?"))
		if x := only(t, quote, err); x.Cost <= 0 || x.WaitMS != 0 || x.Premium != 0 {
			t.Errorf("%s is quoted %+v", id, x)
		}
	}
	if st := m.Hubs[0].Stats(); st.Quotes[""] < 3 || len(st.Tasks) != 0 || st.Arrived != 0 {
		t.Errorf("the hub's stats: %+v", st)
	}
	if after := balance(t, m, "dev"); after != before {
		t.Errorf("dev has %s, and before the quotes %s", after, before)
	}
	quote, err := askQuote(t, m, "dev", chat("What is a market?"))
	x := only(t, quote, err)
	a, err := m.Ask(t.Context(), chat("What is a market?"))
	if err != nil || a.Result.Code != "" {
		t.Fatalf("%v: %+v", err, a.Result)
	}
	if r := a.Result; r.Cost > 3*x.Cost || x.Cost > 3*r.Cost || r.Premium != x.Premium || r.Model != x.Model {
		t.Errorf("quoted %+v, and paid cost %s, premium %s", x, r.Cost, r.Premium)
	}
}

// While every slot is taken a quote says how long the wait is, and whether the terms bear it; once they are
// free it is gone.
func TestAQuoteOfAFullAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, slow)
	free, err := askQuote(t, m, "dev", chat("I am in a hurry."))
	before := only(t, free, err)
	end := fill(t, m)
	full, err := askQuote(t, m, "dev", chat("I am in a hurry."))
	x := only(t, full, err)
	if x.WaitMS <= 0 || x.TTFTMS < x.WaitMS || x.TTFTMS <= before.TTFTMS || !x.WouldWin {
		t.Errorf("quoted %+v, and with free slots %+v", x, before)
	}
	brief, delta := int64(1), 0.4
	hurried, err := askQuote(t, m, "dev", chat("I am in a hurry.", func(b *bus.Task) {
		b.Terms.Worth, b.Terms.PatienceMS, b.Terms.Delta = worth(t, "0.0001"), &brief, &delta
	}))
	if y := only(t, hurried, err); y.WouldWin || y.WaitMS <= 0 {
		t.Errorf("who has no patience is quoted %+v", y)
	}
	end()
	bustest.Eventually(t, "slots are free", func() bool {
		q, err := askQuote(t, m, "dev", chat("I am in a hurry."))
		return only(t, q, err).WaitMS == 0
	})
}

// Whatever is asked about, by whom, and how many at once, everybody is told something, nobody's task suffers,
// and the service is found by who looks for it. make soak asks 10,000 times.
func TestQuotesThatAreNone(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, one)
	nc := raw(t, m)
	hello := `"messages":[{"role":"user","content":"Hello"}]`
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("many words ", 30_000) + `"}]}`
	for body, want := range map[string]bus.Code{
		`{"messages":`:                     bus.CodeBadRequest,
		``:                                 bus.CodeBadRequest,
		strings.Repeat("\x91", 100_000):    bus.CodeBadRequest,
		`{"messages":[]}`:                  bus.CodeEmptyPrompt,
		`{"model":"gpt-17",` + hello + `}`: bus.CodeUnknownModel,
		`{` + hello + `,"souk":{"terms":{"worth":-1}}}`: bus.CodeBadTerms,
		`{` + hello + `,"souk":{"wealth":1}}`:           bus.CodeBadRequest,
		long:                                            bus.CodePromptTooLong,
	} {
		said, err := nc.Request(bus.QuoteSubject("dev", ""), []byte(body), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var q bus.Quote
		if err := json.Unmarshal(said.Data, &q); err != nil || q.Code != want || q.Message == "" {
			t.Errorf("%.60q: %v: %.200s", body, err, said.Data)
		}
	}
	c, err := m.Link.Client("dev")
	if err != nil {
		t.Fatal(err)
	}
	var codes sync.Map
	var all sync.WaitGroup
	began, quotes := time.Now(), 2000
	if os.Getenv("SOUK_SOAK") != "" {
		quotes = 10_000
	}
	for range 64 {
		all.Go(func() {
			for range quotes / 64 {
				q, err := c.Quote(t.Context(), chat("Hello"))
				for try := 0; err != nil && q.Code == "" && try < 9; try++ { // one may be late
					q, err = c.Quote(t.Context(), chat("Hello"))
				}
				if err != nil && q.Code == "" {
					t.Errorf("no answer: %v", err)
				}
				n, _ := codes.LoadOrStore(q.Code, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			}
		})
	}
	for range 5 {
		a, err := m.Ask(t.Context(), chat("Hello"))
		if err != nil || a.Result.Code != "" {
			t.Errorf("a task among them: %v: %+v", err, a.Result)
		}
	}
	all.Wait()
	took := time.Since(began)
	given, _ := codes.Load(bus.Code(""))
	// a hub gives 200 a second, and 20 at once
	if n := given.(*atomic.Int64).Load(); float64(n) > 20+200*took.Seconds()+1 {
		t.Errorf("the hub gave %d quotes in %v", n, took)
	}
	if st := m.Hubs[0].Stats(); st.Quotes[""] < 10 || st.Dropped > 0 {
		t.Errorf("the hub's stats: %+v", st.Quotes)
	}
}
