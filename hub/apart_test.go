package hub_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// apart is a market at one agent in which ann, bob and eve act by chance. ann sends a prompt that goes on
// from one of hers, which the agent holds, or another of the same length; nothing else differs. While that
// prompt is in hand, eve notes whatever is said to her and done for her.
type apart struct {
	*house
	r     *rand.Rand
	cold  bool // ann's prompt is new to the agent
	noted []string
	seen  int // of the messages
	count int
	in    []bus.Dispatch // that the agent serves
}

func (a *apart) note(what string, x any) {
	a.t.Helper()
	text, err := json.Marshal(x)
	a.must(err)
	a.noted = append(a.noted, fmt.Sprintf("%v %s %s", a.now.Sub(start), what, text))
}

// look notes what eve has heard, and has the agent take what it is handed.
func (a *apart) look() {
	for _, m := range a.messages[a.seen:] {
		if len(m.Subject) > 9 && m.Subject[:9] == "inbox.eve" {
			a.note(m.Subject, m.Body)
		}
	}
	a.seen = len(a.messages)
	for len(a.dispatched) > 0 {
		d := a.dispatched[0]
		a.dispatched = a.dispatched[1:]
		if d.Task.Client == "eve" {
			d.FirstMS, d.WatchMS = 0, 0 // when its agent is held to be late: eve sees that only where it is
			a.note("dispatch", d)
		}
		a.in = append(a.in, d)
		a.accept(d)
	}
	if len(a.messages) > a.seen {
		a.look()
	}
}

func (a *apart) wait(d time.Duration) {
	for end := a.now.Add(d); a.now.Before(end); {
		a.pass(min(10*time.Millisecond, end.Sub(a.now)))
		a.look()
	}
}

// says has the agent say how it is: of the prompts in hand it knows what is cached.
func (a *apart) says() {
	ahead, prefills := 0, 0
	for _, d := range a.in {
		if d.Task.ID == "secret" {
			prefills++
			ahead += 200
			if a.cold {
				ahead += 4000
			}
		}
	}
	a.must(a.summary("a-1", func(m *bus.Summary) { m.Ahead, m.Prefills = ahead, prefills }))
	a.look()
}

// text is a prompt in pieces, of which each is the beginning of the next.
func text(tokens int, pieces ...uint64) func(*bus.Task) {
	return func(m *bus.Task) {
		m.Prompt = bus.Prompt{Bytes: 4 * tokens, Messages: len(pieces), Tokens: tokens}
		for i, h := range pieces {
			m.Prompt.Prefixes = append(m.Prompt.Prefixes,
				bus.PrefixHash{Bytes: 4 * tokens * (i + 1) / len(pieces), Hash: h})
		}
	}
}

// any is a task of a client by chance.
func (a *apart) any(client string) *bus.Task {
	a.count++
	tokens := 1 + a.r.IntN(6000)
	m := a.task(client, fmt.Sprint("t", a.count), text(tokens, uint64(1000+a.count)))
	m.MaxTokens = 1 + a.r.IntN(300)
	if a.r.IntN(3) > 0 {
		w := market.Credits(1 + a.r.Int64N(int64(market.Credit)/20))
		m.Terms.Worth = &w
	}
	if a.r.IntN(3) == 0 {
		p := market.Credits(1 + a.r.Int64N(int64(market.Credit)/50))
		m.Terms.MaxPrice = &p
	}
	if a.r.IntN(2) == 0 {
		p := int64(1 + a.r.IntN(3000))
		m.Terms.PatienceMS = &p
	}
	if a.r.IntN(2) == 0 {
		d := float64(1+a.r.IntN(100)) / 100
		m.Terms.Delta = &d
	}
	if a.r.IntN(3) == 0 {
		m.DeadlineMS = a.now.Add(time.Duration(1+a.r.IntN(4000)) * time.Millisecond).UnixMilli()
	}
	return m
}

// ends has the agent end one of those that it serves, but ann's.
func (a *apart) ends() {
	i := slices.IndexFunc(a.in, func(d bus.Dispatch) bool { return d.Task.ID != "secret" })
	if i < 0 || slices.ContainsFunc(a.in, func(d bus.Dispatch) bool { return d.Task.ID == "secret" }) {
		return
	}
	d := a.in[i]
	a.in = slices.Delete(a.in, i, i+1)
	u := market.Usage{Prompt: d.Task.Prompt.Tokens, Output: 1 + a.count*7919%max(1, min(d.MaxTokens, 200))}
	a.must(a.step(completion("a-1", d, u)))
	a.look()
}

func (a *apart) act() {
	switch a.r.IntN(8) {
	case 0, 1:
		a.note("quote", a.n.Quote(a.now, a.any("eve")))
	case 2, 3:
		_ = a.step(a.any("eve"))
		a.look()
	case 4:
		_ = a.step(a.any("bob"))
		a.look()
	case 5:
		a.ends()
	case 6:
		a.says()
	case 7:
		a.wait(time.Duration(1+a.r.IntN(1500)) * time.Millisecond)
	}
}

// playApart returns what eve noted.
func playApart(t *testing.T, seed uint64, cold bool) []string {
	a := &apart{house: newHouse(t, nil), r: rand.New(rand.NewPCG(seed, 9)), cold: cold}
	a.prepaid["eve"] = 100_000 * market.Credit
	slots := 1 + a.r.IntN(6)
	a.join("a-1", "llama", slots, 0.9, card(4, market.Credits(1+a.r.IntN(4)), 4))
	a.must(a.step(a.task("ann", "first", text(4000, 1))))
	a.look()
	a.wait(time.Second)
	a.ends()
	for range a.r.IntN(40) {
		a.act()
	}
	rich, patient := market.Credit, int64(60_000)
	for len(a.in) > 0 { // a slot is free
		a.ends()
		a.wait(10 * time.Millisecond)
	}
	a.says()
	a.noted = nil
	pieces := []uint64{1, 2}
	if cold {
		pieces = []uint64{3, 4}
	}
	a.must(a.step(a.task("ann", "secret", text(4200, pieces...), func(m *bus.Task) {
		m.Prompt.Prefixes[0].Bytes = 16_000
		m.Terms.Worth, m.Terms.PatienceMS = &rich, &patient
	})))
	a.look()
	if !slices.ContainsFunc(a.in, func(d bus.Dispatch) bool { return d.Task.ID == "secret" }) {
		return nil
	}
	for range 60 {
		a.act()
	}
	return a.noted
}

// Of a prompt that another has in hand nothing that a client is told, quoted, refused or charged, and no
// moment at which it is, says how much of it was cached: where all else is the same, all of that is the same.
func TestNothingTellsWhatIsInHand(t *testing.T) {
	seeds := 60
	if os.Getenv("SOUK_SOAK") != "" {
		seeds = 3000
	}
	saw, none := 0, 0
	for i := range seeds {
		seed := uint64(i)
		warm, cold := playApart(t, seed, false), playApart(t, seed, true)
		if warm == nil && cold == nil {
			none++
			continue
		}
		saw += len(warm)
		for k := range max(len(warm), len(cold)) {
			if k >= len(warm) || k >= len(cold) || warm[k] != cold[k] {
				w, c := "nothing", "nothing"
				if k < len(warm) {
					w = warm[k]
				}
				if k < len(cold) {
					c = cold[k]
				}
				t.Fatalf("seed %d: beside a prompt that is cached eve notes\n%s\nand beside one that is not\n%s",
					seed, w, c)
			}
		}
	}
	t.Logf("%d notes, %d times nothing", saw, none)
	if saw < 10*seeds {
		t.Errorf("eve notes %d things: the test sees little", saw)
	}
}
