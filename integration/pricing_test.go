package integration

import (
	"fmt"
	"sync"
	"testing"

	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// priced is a market of one hub under rules, with agents of several owners.
func priced(rules string, agents int) string {
	yaml := `
listen: 127.0.0.1:0
domains:
  - name: general
    general: true
    labels: [general, humanities, social, law, medicine, math, science, finance, code]
    hub: ` + rules + `
speedup: 20
clients: {dev: 10, ann: 10, bob: 10, cyd: 10}
agents:
`
	for i := range agents {
		yaml += fmt.Sprintf("  - {id: a-%d, owner: owner-%d, class: h200, ask: 0.00000%d, model: "+
			"gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], "+
			"slots: 2, engine: {profile: steady}}\n",
			i, i, i+1)
	}
	return yaml
}

// recorded calls f for every record of the hub's journal.
func recorded(t *testing.T, dir string, f func(*ledger.Record)) {
	t.Helper()
	paths, err := journal.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if err := journal.Read(p, func(fr ledger.Frame) error {
			for i := range fr.Records {
				f(&fr.Records[i])
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// dialogues plays some real ones and returns every answer.
func dialogues(t *testing.T, m *local.Market, n int) (all []replay.Answer) {
	t.Helper()
	ds, err := replay.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	cfg := replay.Config{Concurrency: 8, MaxTokens: 40, Run: "t", Retries: 5,
		Turn: func(_ replay.Dialogue, _ replay.Client, a replay.Answer) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a)
		}}
	for _, c := range []string{"dev", "ann", "bob"} {
		cfg.Clients = append(cfg.Clients, replay.Client{ID: c, Kind: c})
	}
	played, err := replay.Play(t.Context(), ds[:n], cfg, m.Ask)
	if err != nil || played.Dialogues != n {
		t.Fatalf("played %+v of %d, %v", played, n, err)
	}
	return all
}

// Real dialogues in a domain under each pricing: every client pays the card and its agent's tariff, and the
// ledger is clean.
func TestDialoguesUnderEachPricing(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	card, err := local.Card("fireworks/gpt-oss-20b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pricing, rules string
		most           market.Credits // of a tariff
	}{
		{market.PricingTariff, "{pricing: tariff, ceiling: 0.00002}", 20_000},
		{market.PricingPosted, "{pricing: posted, tariffs: {h200: 0.000007}}", 7_000},
	} {
		t.Run(c.pricing, func(t *testing.T) {
			dir := t.TempDir()
			m := startIn(t, dir, priced(c.rules, 5))
			answers := dialogues(t, m, 16)
			kinds, rounds, tariff := map[ledger.Kind]int{}, 0, map[string]market.Credits{}
			recorded(t, dir, func(r *ledger.Record) {
				kinds[r.Kind]++
				if r.Kind == ledger.KindHold {
					tariff[r.ID] = r.Hold.Tariff
				}
				if r.Kind == ledger.KindRound {
					if rounds++; r.Round.Round.Rule.Pricing != c.pricing {
						t.Errorf("round %d under %q", r.Round.Round.Number, r.Round.Round.Rule.Pricing)
					}
				}
			})
			for _, a := range answers {
				r := a.Result
				if r.Code != "" || r.Receipt == nil {
					t.Errorf("%s %q: %s", r.Agent, r.Code, r.Message)
					continue
				}
				of := tariff[r.Receipt.ID]
				if r.Cost != card.Cost(r.Usage)+of {
					t.Errorf("%s: cost %s of %+v, want the card's %s and the tariff %s", r.Agent, r.Cost,
						r.Usage, card.Cost(r.Usage), of)
				}
				if of <= 0 || of > c.most || c.pricing == market.PricingPosted &&
					(of != c.most || r.SlotPrice != 0) {
					t.Errorf("%s: tariff %s, slot price %s", r.Agent, of, r.SlotPrice)
				}
			}
			if epochs := kinds[ledger.KindTariff]; rounds == 0 ||
				(epochs > 0) != (c.pricing == market.PricingTariff) || kinds[ledger.KindSeal] < epochs {
				t.Errorf("%d rounds, %d seals, %d tariffs", rounds, kinds[ledger.KindSeal], epochs)
			}
		})
	}
}
