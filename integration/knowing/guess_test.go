package knowing

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"souk/agentd/holdings"
	"souk/agentd/kvevent"
	"souk/bus"
	"souk/bus/membus"
	"souk/bus/openai"
	"souk/classifier"
	"souk/classifier/serve"
)

// Whoever hears all that is said on the subjects of hubs and agents, and guesses a text, finds nothing there
// by which to see that it is the one: neither in tasks, nor in quotes, which come without the text, nor in
// what an agent says it holds. Whoever has the doors' key does.
func TestNobodyWhoListensConfirmsAGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := membus.New(1), classifier.Default()
		c.ID = "door"
		doorBus, hub, client, ear := w.Bus("door"), w.Bus("hub-1"), w.Bus("ann"), w.Bus("ear")
		door, err := serve.New(c, serve.Deps{Bus: doorBus, Registry: w.Registry(),
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- door.Run(ctx) }()
		<-door.Ready()

		var mu sync.Mutex
		heard := map[string][]byte{} // by the kind of subject
		listen := func(subject, kind string) {
			if _, err := ear.Subscribe(subject, "", func(m bus.Msg) {
				mu.Lock()
				defer mu.Unlock()
				heard[kind] = append(heard[kind], m.Data...)
			}); err != nil {
				t.Fatal(err)
			}
		}
		listen(bus.HubTaskSubject("general", "*"), "tasks")
		listen(bus.HubQuoteSubject("general", "*"), "quotes")
		listen(bus.HoldingsSubject("*", "*"), "holdings")

		value, err := bus.EncodeEntry(&bus.HubEntry{Domain: "general", Labels: []string{"general"},
			Hub: "hub-1", Journal: "general", General: true})
		if err != nil {
			t.Fatal(err)
		}
		lead, err := w.Registry().Elect(ctx, bus.HubKey("general"), value, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		say := func(b bus.Bus, subject string, m bus.Message) {
			data, err := bus.Encode(m)
			if err == nil {
				err = b.Publish(bus.Msg{Subject: subject, Data: data})
			}
			if err != nil {
				t.Error(err)
			}
		}
		say(hub, bus.StatusSubject("general"), &bus.Status{Domain: "general", Epoch: lead.Epoch(), Seq: 1,
			General: true, Agents: 1, Slots: 4, Free: 4, Room: 10, Labels: []string{"general"},
			Models: []bus.ModelStatus{{Model: "m", Agents: 1, Free: 1, Quality: 0.5}}})
		synctest.Wait()

		// A task, whose agent comes to hold it, and says so; and a quote.
		body := []byte(`{"stream":true,"messages":[{"role":"system","content":"Be brief."},` +
			`{"role":"user","content":"My pin is 4711: is that a good one?"}]}`)
		agent := holdings.New(4, 4000, 1, [32]byte{1})
		agent.Listen()
		agent.Restarted()
		if _, err := hub.Subscribe(bus.HubTaskSubject("general", "door"), "", func(m bus.Msg) {
			var task bus.Task
			if err := bus.Decode(m.Data, &task); err != nil {
				t.Error(err)
			}
			ids := make([]uint32, 40)
			stored := kvevent.Event{Kind: kvevent.Stored, BlockSize: 4, Tokens: ids}
			for i := range ids {
				if ids[i] = uint32(i); i%4 == 0 {
					stored.Blocks = append(stored.Blocks, kvevent.Key(i+1))
				}
			}
			agent.Apply(kvevent.Batch{Events: []kvevent.Event{stored}})
			agent.Prompt(&task.Prompt, ids, "")
			agent.NewHub()
			out, _ := agent.Take(time.Now())
			for i := range out {
				out[i].Agent, out[i].Boot = "a-1", 1
				say(hub, bus.HoldingsSubject("general", "a-1"), &out[i])
			}
			say(hub, m.Reply, &bus.Answer{Accepted: &bus.Accepted{Client: "ann", Task: task.ID,
				Hub: "general", Agent: "a-1", Model: "m", Reply: task.Reply, Round: 1}})
		}); err != nil {
			t.Fatal(err)
		}
		for _, subject := range []string{bus.TaskSubject("ann", ""), bus.QuoteSubject("ann", "")} {
			within, stop := context.WithTimeout(ctx, time.Minute)
			if _, err := client.Request(within, bus.Msg{Subject: subject, Data: body}); err != nil {
				t.Error(err)
			}
			stop()
		}
		time.Sleep(time.Second)

		kvs, err := w.Registry().Get(ctx, bus.PrefixKeysKey)
		if err != nil || len(kvs) != 1 {
			t.Fatal(kvs, err)
		}
		keys := new(bus.PrefixKeys)
		if err := bus.DecodeEntry(kvs[0].Value, keys); err != nil {
			t.Fatal(err)
		}
		read, _, no := openai.DecodeRequest(body, nil, "ann",
			[]byte(c.SessionKey+"\x00"+bus.GroupOf("ann", "")))
		if no != nil {
			t.Fatal(no)
		}
		guess := read.Prompt
		mine, knows := guess, guess
		knows.Prefixes = append([]bus.PrefixHash(nil), guess.Prefixes...)
		keys.Name(&knows, time.Now())
		mu.Lock()
		defer mu.Unlock()
		for kind, p := range map[string]*bus.Prompt{"whoever guesses": &mine, "whoever has the key": &knows} {
			for where, least := range map[string]int{"tasks": len(guess.Prefixes),
				"quotes":   len(guess.Prefixes),
				"holdings": 1} {
				found := 0
				for _, m := range p.Prefixes {
					var all [8]byte
					binary.BigEndian.PutUint64(all[:], m.Hash)
					if bytes.Contains(heard[where], all[:bus.ShortHashBytes]) {
						found++
					}
				}
				if has := kind == "whoever has the key"; has && found < least || !has && found > 0 {
					t.Errorf("%s finds %d of %d prefixes in %d bytes of %s", kind, found, len(p.Prefixes),
						len(heard[where]), where)
				}
			}
		}
		lead.Close(ctx)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, b := range []bus.Bus{doorBus, hub, client, ear} {
			b.Close()
		}
	})
}
