package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/policy"
)

// everything is a market with every runtime policy on: in one domain what places tasks fairly and learns who
// comes back, in the other what places by prompts and answers and computes ahead, and in both
// moves of silent tasks, regimes that set tolls, patterns that are looked for in answers, and
// adapters, of which its engines have none.
const everything = `
listen: 127.0.0.1:0
domains:
  - {name: general, general: true, labels: [general, humanities, social, law, medicine, code], hub: {policies: {place: fair, keep: kvcache}}}
  - {name: math, labels: [math, science, finance], hub: {policies: {place: pd, keep: ahead}}}
hub: {regimes: {adapt: true}}
speedup: 20
clients: {dev: 1000, other: 1000, probe-general: 10, probe-math: 10}
agents:
`

func everythingOn() string {
	var b strings.Builder
	b.WriteString(everything)
	for i := range 8 {
		domain, features := []string{"general", "math"}[i%2], "[]"
		if i >= 6 {
			features = "[split]"
		}
		fmt.Fprintf(&b, "  - {id: agent-%d, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: "+
			"[{domain: %s, score: 0.7}], slots: 3, engine: {profile: steady}, agentd: {features: "+
			"%s}}\n", i+1, domain, features)
	}
	b.WriteString(`
agentd:
  policies: {guard: patterns, adapter: next}
  patterns:
    - {name: rare, pattern: 'zq[a-z]{0,4}', action: cut}
    - {name: common, pattern: '(?i)the', action: flag}
`)
	return b.String()
}

// With every policy on and hints on every turn, false ones too, everybody is answered, the policies are on at
// the end, and the ledger's check, which start has at the end of every market, finds nothing.
func TestEveryPolicyAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, everythingOn())
	memo := client.NewMemo(client.MemoConfig{})
	roles := []string{"planner", "reader", "writer"}
	topics := []string{"Who wrote letter %d of the history of Rome, in volume %d, chapter %d? ",
		"Let f(x) = %d x^2 + %d x + %d. Find the derivative of f, and solve f(x) = 0 for x. "}
	var all sync.WaitGroup
	var mu sync.Mutex
	words := map[bus.Code]int{}
	ask := func(caller int) error {
		random := rand.New(rand.NewPCG(uint64(caller), 7))
		id := []string{"dev", "other"}[caller%2]
		for play := range 3 {
			said := ""
			for turn := range 4 {
				role := roles[(turn+caller)%3]
				_, err := memo.Call(t.Context(), id, "look", []byte(`{"at": 1}`),
					func(context.Context) ([]byte, error) { return []byte("a tool's result"), nil })
				if err != nil {
					return err
				}
				said += fmt.Sprintf(topics[caller/2%2], caller, turn, play)
				a, err := m.Ask(t.Context(), chat(said, func(b *bus.Task) {
					b.Client = id
					b.Session, b.Turn, b.Role = fmt.Sprintf("s-%d-%d", caller, play), turn, role
					b.Next, b.BackMS = roles[random.IntN(3)], random.Int64N(5000)
					b.Parent = fmt.Sprintf("s-%d-%d", random.IntN(16), play) // its own at times
					b.SessionEnd = turn == 3 || random.IntN(10) == 0
				}))
				if err != nil {
					return err
				}
				mu.Lock()
				words[a.Result.Code]++
				mu.Unlock()
				said += " " + a.Text
			}
		}
		return nil
	}
	for caller := range 16 {
		all.Go(func() {
			if err := ask(caller); err != nil {
				t.Errorf("caller %d: %v", caller, err)
			}
		})
	}
	all.Wait()
	if words[""] != 16*3*4 {
		t.Errorf("last words: %v", words)
	}
	on := func(whose string, all []policy.State) {
		if len(all) != 2 {
			t.Errorf("%s: policies: %+v", whose, all)
		}
		for _, p := range all {
			if !p.Off.IsZero() {
				t.Errorf("%s: policy %s is off: %s", whose, p.Policy, p.Why)
			}
			if p.Observed == 0 {
				t.Errorf("%s: policy %s has seen nothing", whose, p.Policy)
			}
		}
	}
	for i, h := range m.Hubs {
		s := h.Stats()
		t.Logf("policies %+v; regime %s", s.Policies, s.Regime.State)
		on(fmt.Sprint("hub ", i), s.Policies)
	}
	for _, a := range m.Node.Stats().Agents {
		on(a.Agent, a.Policies)
	}
	if s := memo.Stats(); s.Calls != 16*3*4 {
		t.Errorf("memo: %+v", s)
	}
}
