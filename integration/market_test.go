package integration

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/ledger"
	"souk/ledger/journal"
	"souk/market"
)

// one is a market with one hub and one agent of two slots, so that a third task finds no room.
const one = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: only, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 2, engine: {profile: steady}}
speedup: 20
clients: {dev: 10, other: 10, poor: 0.000001}
`

// start brings a market up in a directory of the test's own, and takes it down at its end, when its ledger
// must be clean, whatever the test did to it.
func start(t *testing.T, yaml string, known ...replay.Dialogue) *local.Market {
	t.Helper()
	return startIn(t, t.TempDir(), yaml, known...)
}

func startIn(t *testing.T, dir, yaml string, known ...replay.Dialogue) *local.Market {
	t.Helper()
	cfg, err := local.ParseConfig("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	var log *slog.Logger
	if os.Getenv("SOUK_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: cfg, Log: log, Known: known})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Err(); err != nil {
			t.Errorf("a part of the market failed: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := local.CheckLedger(context.Background(), dir, t.Output()); err != nil {
			t.Errorf("ledger check: %v", err)
		}
	})
	return m
}

// chat is a task of dev with one question.
func chat(question string, more ...func(*bus.Task)) bus.Task {
	body, err := json.Marshal(map[string]any{
		"messages": []map[string]string{{"role": "user", "content": question}}, "max_tokens": 40,
	})
	if err != nil {
		panic(err)
	}
	task := bus.Task{Client: "dev", Kind: bus.KindChat, Body: body, Stream: true}
	for _, f := range more {
		f(&task)
	}
	return task
}

// raw connects to the market as any NATS client would, as client dev.
func raw(t *testing.T, m *local.Market) *nats.Conn { return rawAs(t, m, "dev") }

func rawAs(t *testing.T, m *local.Market, client string) *nats.Conn {
	t.Helper()
	return rawOf(t, m, bus.RoleClient, bus.IDs{Name: client})
}

// rawOf is a connection of anybody.
func rawOf(t *testing.T, m *local.Market, role bus.Role, ids bus.IDs) *nats.Conn {
	t.Helper()
	creds, err := m.Keys.Ensure(role, ids, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(m.State.NATS, nats.Name(t.Name()), nats.UserCredentials(creds),
		nats.CustomInboxPrefix(bus.InboxOf(ids.Name)), nats.Timeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// request is `nats request SUBJECT BODY`.
func request(t *testing.T, nc *nats.Conn, subject, body string) bus.Result {
	t.Helper()
	m, err := nc.Request(subject, []byte(body), time.Minute)
	if err != nil {
		t.Fatalf("request %s: %v", subject, err)
	}
	if len(m.Data) > 0 && m.Data[0] != '{' { // msgpack is answered in msgpack
		var a bus.Answer
		if err := bus.Decode(m.Data, &a); err != nil || a.Result == nil {
			t.Fatalf("answer %.200q: %v", m.Data, err)
		}
		return *a.Result
	}
	var r bus.Result
	if err := json.Unmarshal(m.Data, &r); err != nil {
		t.Fatalf("answer %.200s: %v", m.Data, err)
	}
	return r
}

// standstill watches whether the machine stands still, and says for how long it did so at most.
func standstill(t *testing.T) (longest func() time.Duration) {
	var most atomic.Int64
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); t.Context().Err() == nil; {
			<-tick.C
			now := time.Now()
			most.Store(max(most.Load(), int64(now.Sub(last))))
			last = now
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}

func TestADialogueThroughTheWholeHouse(t *testing.T) {
	known := replay.Dialogue{ID: "d", System: "Answer briefly and from the following passage alone. " +
		passage, Turns: []replay.Turn{
		{User: "Who lived in the barn near the farm house?",
			Answer: "Cotton, a little white kitten, lived high up in a nice warm place above the barn."},
		{User: "What colour was she?", Answer: "White, while her mommy and her sisters were orange."},
	}}
	m := start(t, one, known)
	tally := replay.NewTally()
	var answers []replay.Answer
	cfg := replay.Config{Clients: []replay.Client{{ID: "dev", Kind: "dev"}}, Concurrency: 1, MaxTokens: 60,
		Run: "t",
		Turn: func(d replay.Dialogue, c replay.Client, a replay.Answer) {
			answers = append(answers, a)
			tally.Add(d, c, a)
		}}
	before := balance(t, m, "dev")
	played, err := replay.Play(t.Context(), []replay.Dialogue{known}, cfg, m.Ask)
	if err != nil || played.Dialogues != 1 {
		t.Fatalf("played %+v, %v; answers %+v", played, err, answers)
	}
	for i, a := range answers {
		if a.Text != known.Turns[i].Answer {
			t.Errorf("turn %d: %q, want the recorded %q", i, a.Text, known.Turns[i].Answer)
		}
		r := a.Result
		card, _ := local.Card("fireworks/gpt-oss-20b")
		if want := card.Cost(r.Usage); r.Cost != want || r.Cost <= 0 {
			t.Errorf("turn %d: cost %s for %+v, the card says %s", i, r.Cost, r.Usage, want)
		}
		if r.SlotPrice != 0 || r.Premium != 0 || r.Own != -r.Toll || r.Receipt == nil || // it is alone
			r.Hub != "general" || r.Agent != "only" || a.TTFT <= 0 {
			t.Errorf("turn %d: %+v", i, r)
		}
	}
	first, second := answers[0].Result.Usage, answers[1].Result.Usage
	// Everything of the first turn, its answer included, is in the cache, but for the last block of 16
	// tokens.
	if least := first.Prompt + first.Output - 16; second.Cached < least {
		t.Errorf("the second turn found %d of %d prompt tokens in the cache, want at least %d", second.Cached,
			second.Prompt, least)
	}
	paid := answers[0].Result.Paid() + answers[1].Result.Paid()
	if after := balance(t, m, "dev"); before-after != paid {
		t.Errorf("dev had %s, has %s and paid %s", before, after, paid)
	}
}

const passage = "Once upon a time, in a barn near a farm house, there lived a little white kitten named " +
	"Cotton. Cotton lived high up in a nice warm " +
	"place above the barn where all of the farmer's horses slept. But Cotton wasn't alone in her little " +
	"home above the barn, oh no. She shared her hay bed " +
	"with her mommy and five other sisters. All of her sisters were cute and fluffy, like Cotton. But she " +
	"was the only white one in the bunch."

// books reads the journals of a market into a book each.
func books(m *local.Market) (all []*ledger.Book, err error) {
	paths, err := journal.Find(m.Reach().Data)
	for _, path := range paths {
		b := ledger.NewBook()
		all, err = append(all, b), errors.Join(err, journal.Read(path, b.ApplyFrame))
	}
	return all, err
}

// balance returns everything that a client owns: at the treasury, and what hubs hold of it and have not
// spent.
func balance(t *testing.T, m *local.Market, client string) market.Credits {
	t.Helper()
	var sum market.Credits
	bustest.Eventually(t, "all tasks of "+client+" settled", func() bool {
		books, err := books(m)
		if err != nil {
			t.Fatal(err)
		}
		sum = 0
		held := market.Credits(0)
		for _, b := range books {
			sum += b.Balance(ledger.Avail(client)) + b.Balance(ledger.Prepaid(client))
			held += b.Balance(ledger.Held(client))
		}
		return held == 0
	})
	return sum
}
