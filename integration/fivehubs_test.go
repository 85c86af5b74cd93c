package integration

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/membus"
	"souk/cmd/choices"
	hubserve "souk/hub/serve"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/ledger/treasury"
	bankserve "souk/ledger/treasury/serve"
	"souk/market"
)

// A client with ten credits asks five hubs one after another for a task that may cost a credit. Each has idle
// money of it when the next asks, and what the treasury has left is halved each time; every one of them
// serves it, at once.
func TestTheFifthHubServesASmallClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hubs, deposit = 5, 10 * market.Credit
		world := membus.New(1)
		ctx, stop := context.WithCancel(context.Background())
		ended, started := make(chan error, hubs+1), 0
		end := func() {
			for stop(); started > 0; started-- {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}
		defer end()
		run := func(part interface{ Run(context.Context) error }) {
			started++
			go func() { ended <- part.Run(ctx) }()
		}
		open := func(name string) *journal.Journal {
			j, err := journal.Open(filepath.Join(t.TempDir(), name), journal.Config{MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { j.Close() })
			return j
		}
		quiet := slog.New(slog.DiscardHandler)
		doorKey, vouched := bytes.Repeat([]byte{5}, bus.VouchKeyBytes), [hubs]market.Credits{}
		keys, err := bus.EncodeEntry(&bus.VouchKeys{Keys: [][]byte{doorKey}})
		if err == nil {
			err = world.Registry().Put(ctx, bus.VouchKey("door"), keys)
		}
		if err != nil {
			t.Fatal(err)
		}
		bank, err := bankserve.New(treasury.Default(),
			bankserve.Deps{Bus: world.Bus("treasury"), Registry: world.Registry(), Journal: open("treasury"),
				Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		run(bank)
		<-bank.Ready()
		me := world.Bus("me")
		defer me.Close()
		request := func(subject string, m, reply bus.Message) {
			t.Helper()
			data, err := bus.Encode(m)
			if err == nil {
				var got bus.Msg
				within, cancel := context.WithTimeout(ctx, 30*time.Second)
				defer cancel()
				if got, err = me.Request(within, bus.Msg{Subject: subject, Data: data}); err == nil {
					err = bus.Decode(got.Data, reply)
				}
			}
			if err != nil {
				t.Fatalf("%s: %v", subject, err)
			}
		}
		request(bus.LedgerSubject(bus.OpDeposit, me.Name()),
			&bus.FundsRequest{ID: "d", Client: "ann", Amount: deposit},
			new(bus.FundsReply))
		for i := range hubs {
			domain, agent := fmt.Sprint("d", i), fmt.Sprint("a-", i)
			reg := bus.Registration{Agent: agent, Boot: 1, Model: "llama",
				Domains: []bus.DomainScore{{Domain: domain, Score: 0.9}}, MaxModelLen: 8192, BlockSize: 16,
				KVTokens: 100_000, Slots: 4,
				Price: market.Price{Miss: market.Credit, Hit: market.Credit, Out: 100 * market.Credit},
				State: bus.StateReady}
			entry, err := bus.EncodeEntry(&reg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := world.Registry().Register(ctx, bus.AgentKey(agent), entry, time.Hour); err != nil {
				t.Fatal(err)
			}
			say := func(subject string, m bus.Message) {
				data, err := bus.Encode(m)
				if err == nil {
					err = me.Publish(bus.Msg{Subject: subject, Data: data})
				}
				if err != nil {
					t.Error(err)
				}
			}
			if _, err := me.Subscribe(bus.DispatchSubject(agent, "*"), "", func(m bus.Msg) {
				var d bus.Dispatch
				if err := bus.Decode(m.Data, &d); err != nil {
					t.Error(err)
					return
				}
				say(m.Reply, &bus.DispatchReply{Agent: agent, Boot: d.Boot, Hold: d.Hold})
				u := market.Usage{Prompt: 100, Output: 10}
				say(bus.CompletionSubject(d.Domain, agent),
					&bus.Completion{Agent: agent, Boot: 1, Hold: d.Hold, Client: d.Task.Client,
						Task: d.Task.ID, Outcome: bus.OutcomeDone,
						Finish: "stop", Usage: u, Relayed: 10,
						Cost:   market.Settle(d.Settle, d.Price, d.Tariff, d.Quoted, u, d.CostCap),
						TTFTUS: 1, ITLUS: 1})
			}); err != nil {
				t.Fatal(err)
			}
			c := choices.Hub()
			c.Domain, c.Hub, c.Journal = domain, domain, domain
			c.Silence, c.Suspect = time.Hour, time.Hour // the agents say nothing of themselves
			s, err := hubserve.New(c,
				hubserve.Deps{Bus: world.Bus(domain), Registry: world.Registry(), Journal: open(domain),
					Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			run(s)
			<-s.Ready()
		}
		spend := func(i int, takes market.Credits) {
			t.Helper()
			worth := 30 * market.Credit
			m := bus.Task{Client: "ann", ID: fmt.Sprint("t", i, "-", int64(takes)), Kind: bus.KindChat,
				Body: []byte(`{"messages":[]}`), MaxTokens: 7900,
				Prompt: bus.Prompt{Bytes: 400, Messages: 1, Tokens: 100,
					Prefixes: []bus.PrefixHash{{Bytes: 400, Hash: 42}}}}
			m.Terms.Worth, m.Terms.MaxPrice = &worth, &takes
			vouched[i] += takes
			m.Voucher = bus.NewVoucher(doorKey, "door", "ann", fmt.Sprint("d", i), 1, vouched[i], takes)
			begin := time.Now()
			var a bus.Answer
			request(bus.HubTaskSubject(fmt.Sprint("d", i), "door"), &m, &a)
			if a.Accepted == nil {
				t.Fatalf("hub %d refuses %s: %s: %s", i, takes, a.Result.Code, a.Result.Message)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("hub %d took %v", i, took)
			}
			time.Sleep(2 * time.Second) // virtual: it is served
		}
		for i := range hubs {
			spend(i, market.Credit)
		}
		for i := range hubs {
			spend(i, deposit*9/10)
		}
		var left bus.FundsReply
		request(bus.LedgerSubject(bus.OpPayout, me.Name()),
			&bus.FundsRequest{ID: "p", Client: "ann", Amount: 9 * market.Credit}, &left)
		if left.Code != "" {
			t.Errorf("what is left is not paid out: %s: %s", left.Code, left.Message)
		}
		end()
		for _, b := range bank.Stats().Balances { // the hubs have given back what they had
			if b.Account == ledger.Prepaid("ann") &&
				(b.Amount <= market.Credit/2 || b.Amount >= market.Credit) {
				t.Errorf("%s are left", b.Amount)
			}
		}
	})
}
