package fleet

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/market"
)

// Whoever has a hub's creds asks for all that clients have: nothing of it moves, neither of a client that
// never placed a task there nor, beyond what its tasks may cost, of one that does. Meanwhile door and
// treasury are killed under load and start again, and every task is served.
func TestAHubsCredsTakeNoMoney(t *testing.T) {
	whole(t)
	t.Parallel()
	f, ctx := begin(t, Plan{Agents: 1, Slots: 8, Speedup: 4})
	crowd, err := f.Crowd(ctx, "dev", 4, 40)
	must(t, err)
	must(t, crowd.Served(ctx, 4))
	ids := bus.IDs{Name: "hub-general", Domain: "general"}
	creds, err := f.Keys.Ensure(bus.RoleHub, ids, time.Now())
	must(t, err)
	thief, err := natsbus.Connect(natsbus.Config{URL: "nats://" + f.NATS, Name: ids.Name,
		Creds: natsauth.File(creds)})
	must(t, err)
	defer thief.Close()
	files := natsauth.ClientFiles(f.Keys.Dir, ids.Name) // and its certificate
	secure, err := natsauth.TLSOf(files)
	must(t, err)
	registry, err := etcdreg.Dial(ctx, etcdreg.Config{Endpoints: []string{f.Etcd}, TLS: secure,
		Probe: bus.HubKey(ids.Domain)})
	must(t, err)
	defer registry.Close()
	leads, err := registry.Get(ctx, bus.HubKey(ids.Domain))
	if err != nil || len(leads) != 1 {
		t.Fatalf("who leads: %v, %v", leads, err)
	}
	for _, key := range []string{bus.VouchPrefix, bus.VouchKey("door-1")} {
		if keys, err := registry.Get(ctx, key); !errors.Is(err, bus.ErrForbidden) {
			t.Errorf("a hub reads what doors vouch with: %d keys, %v", len(keys), err)
		}
	}
	took := map[string]market.Credits{}
	rob := func(round int) {
		t.Helper()
		for _, client := range []string{"other", "dev"} {
			all := f.Clients[client]
			for i, least := range []market.Credits{0, 1, all / 2, all} {
				data, err := bus.Encode(&bus.FundsRequest{ID: fmt.Sprintf("rob-%d-%s-%d", round, client, i),
					Client: client, Epoch: leads[0].Create, Domain: ids.Domain, Amount: all, Least: least,
					Ahead: i%2 == 0})
				must(t, err)
				m, err := thief.Request(ctx,
					bus.Msg{Subject: bus.LedgerSubject(bus.OpAllot, ids.Name), Data: data})
				must(t, err)
				var r bus.FundsReply
				must(t, bus.Decode(m.Data, &r))
				for _, g := range r.Grants {
					took[client] += g.Amount
				}
				if len(r.Grants) == 0 && r.Code == "" {
					t.Errorf("%s, least %s: %+v", client, least, r)
				}
			}
		}
	}
	rob(0)
	for i, name := range []string{Treasury, Classifier} {
		part := f.Part(name)
		must(t, part.Kill())
		must(t, part.Start())
		must(t, part.Ready(ctx))
		must(t, crowd.Served(ctx, 8))
		rob(i + 1)
	}
	c, err := f.Client("other")
	must(t, err)
	if took["other"] != 0 || took["dev"] > f.Clients["dev"]/2 {
		t.Errorf("a hub's creds took %v", took)
	}
	t.Logf("took %v, of what tasks may cost that were placed there", took)
	words := crowd.Stop()
	words = append(words, Ask(ctx, c, "other", Task("other", 20), func(bus.Chunk) {}))
	passing(t, words)
	end(t, ctx, f, words)
}
