package clock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"souk/bus"
	"souk/bus/openai"
	"souk/cmd/local"
	"souk/integration/lab/virtual"
	"souk/market"
)

// labels lists every domain that the classifier knows: one hub takes everything.
var labels = []string{"general", "humanities", "social", "law", "medicine", "math", "science", "finance",
	"code"}

// throughMarket brings a market up whose agents have the engines. ask fills in what came of a request, First
// counted from when it was asked.
func (r *run) throughMarket(ctx context.Context, urls []string) (
	ask func(context.Context, *virtual.Request) error, end func() error, err error) {
	s := r.s
	const domain = "general"
	dir, err := os.MkdirTemp("", "lab-crowd-")
	if err != nil {
		return nil, nil, err
	}
	cfg := local.Config{Listen: "127.0.0.1:0", Speedup: 1, Clients: map[string]market.Credits{},
		Domains: []local.Domain{{Name: domain, General: true, Labels: labels}}}
	at := map[string]int{}
	for i, url := range urls {
		id := fmt.Sprintf("%s-%d", domain, i+1)
		at[id] = i
		engine, offer := s.Nth(i)
		cfg.Agents = append(cfg.Agents, local.Agent{ID: id, Price: offer.Card, Slots: engine.Slots,
			Scores: []local.Score{{Domain: domain, Score: offer.Score}}, Engine: local.Engine{URL: url}})
	}
	name := func(q *virtual.Request) string { return fmt.Sprintf("caller-%d", q.Caller) }
	for caller := range s.Callers {
		cfg.Clients[name(&virtual.Request{Caller: caller})] = 1000 * market.Credit
	}
	m, err := local.Start(ctx, local.Options{Dir: dir, Config: cfg})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	end = func() error { return errors.Join(m.Err(), m.Close(), os.RemoveAll(dir)) }
	for caller := range s.Callers { // rules know of no groups: so all share one here
		client := name(&virtual.Request{Caller: caller})
		if _, err := local.JoinGroup(ctx, m.Registry, client, "all", false); err != nil {
			return nil, nil, errors.Join(err, end())
		}
	}
	ask = func(ctx context.Context, q *virtual.Request) error {
		t, _, refusal := openai.DecodeRequest(r.task(q), nil, name(q), []byte(dir))
		if refusal != nil {
			return refusal
		}
		if !r.named {
			t.Session = "" // the door reads one from how the dialogue begins
		}
		t.ID = "" // the client's own
		a, err := m.AskWith(ctx, *t, func(bus.Chunk) {})
		if err != nil {
			return err
		}
		x := &a.Result
		q.First, q.Refused, q.Paid = a.TTFT, x.Code != "", x.Paid()
		switch {
		case r.ready != nil && slices.Contains(broken, x.Code):
			return fmt.Errorf("%w: %s: %s", errLost, x.Code, x.Message)
		case q.Refused:
			return nil
		}
		if err := served(q, x.Usage, at[x.Agent]); err != nil {
			return fmt.Errorf("%w; it ends by %q at %s, billed %+v, receipt %+v", err, x.Finish, x.Agent, x.Billed,
				x.Receipt)
		}
		return nil
	}
	return ask, end, nil
}

// broken lists how a task ends whose engine went away, and that went on nowhere else.
var broken = []bus.Code{bus.CodeAgentFailed, bus.CodeEngineFailed, bus.CodeTimeout, bus.CodeAnswerGone}
