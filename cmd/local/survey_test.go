package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/membus"
	"souk/bus/natsbus"
)

// A survey has what all parts say, and names those that say nothing, within a time that does not grow with
// them: here a hub that answers, one that only says how it is, one that the treasury alone knows, and one
// that never answers.
func TestASurveyNamesWhoIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := membus.New(1)
		all := w.Bus("all")
		defer all.Close()
		hear := func(subject string, answer func(bus.Msg) bus.Message) {
			if _, err := all.Subscribe(subject, "", func(m bus.Msg) {
				if v := answer(m); v != nil {
					data, err := bus.Encode(v)
					if err == nil {
						err = all.Publish(bus.Msg{Subject: m.Reply, Data: data})
					}
					if err != nil {
						t.Error(err)
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan struct{})
		defer close(done)
		for _, domain := range []string{"math", "old", "hangs"} {
			data, err := bus.Encode(&bus.Status{Domain: domain, Labels: []string{domain}, Agents: 1})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for {
					all.Publish(bus.Msg{Subject: bus.StatusSubject(domain), Data: data})
					select {
					case <-time.After(time.Second):
					case <-done:
						return
					}
				}
			}()
		}
		hear(bus.WatchSubject("math", "*"), func(bus.Msg) bus.Message {
			return &bus.Feed{Domain: "math", Journal: "math", State: &bus.FeedState{Hub: "math-1",
				Surplus: 7}}
		})
		hear(bus.WatchSubject("hangs", "*"), func(bus.Msg) bus.Message { return nil })
		hear(bus.LedgerSubjects, func(m bus.Msg) bus.Message {
			if m.Subject != bus.LedgerSubject(bus.OpSums, "op") {
				t.Errorf("asked on %s", m.Subject)
			}
			return &bus.FundsReply{ID: "sums", Deposits: 9, Hubs: []bus.HubFunds{{Hub: "j", Domain: "gone"}}}
		})
		r := w.Registry()
		put := func(key string, v any) {
			data, err := json.Marshal(v)
			if err == nil {
				err = r.Put(t.Context(), key, data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		put(bus.HubKey("math"), &bus.HubEntry{Domain: "math", Labels: []string{"math"}, Hub: "math-1",
			Journal: "math"})
		put(bus.LedKey("math"), &bus.HubEntry{Domain: "math", Labels: []string{"math"}, Hub: "math-1",
			Journal: "math"})
		put(bus.LedKey("lost"), &bus.HubEntry{Domain: "lost", Labels: []string{"lost"}, Hub: "lost-1",
			Journal: "lost"})
		put(bus.TreasuryKey, &bus.TreasuryEntry{Journal: "treasury", Host: "h", PID: 3})
		for i := range 12 {
			id := fmt.Sprintf("a-%02d", i)
			put(bus.AgentKey(id), &bus.Registration{Agent: id, Node: fmt.Sprint("n-", i%3), Model: "m",
				Boot:    1,
				Domains: []bus.DomainScore{{Domain: "math", Score: 1}}, MaxModelLen: 1, BlockSize: 1,
				Slots: 1,
				State: bus.StateReady})
		}
		put(bus.ClaimKey("a-00"), &bus.Claim{Agent: "a-00", Domain: "math", Hub: "math-1"})
		r.Put(t.Context(), bus.DoorKey("d"), []byte(`{"host":"\u001b[2J","pid":7,"kind":"hub","name":"x"}`))
		r.Put(t.Context(), bus.GatewayKey("g"), []byte("\xff nothing"))

		own := w.Bus("op")
		defer own.Close()
		l := newLink(func(bus.Role, string) (*natsbus.Bus, error) { return nil, errors.New("no other") },
			bus.RoleOperator, State{})
		l.Bus, l.Name = own, "op"
		begun := time.Now()
		s, err := l.Survey(t.Context(), r, true, []string{"named"})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > hubsSpeak+2*answersWithin {
			t.Errorf("it takes %v", took)
		}
		var domains, silent []string
		for _, h := range s.Hubs {
			domains = append(domains, fmt.Sprint(h.Domain, h.Status != nil, h.Feed != nil))
		}
		for _, x := range s.Silent {
			silent = append(silent, x.Part)
		}
		if got := strings.Join(domains, " "); got != "gonefalse false hangstrue false mathtrue true "+
			"namedfalse false oldtrue false" {
			t.Errorf("hubs are %s", got)
		}
		if got := strings.Join(silent, ", "); got != "hub gone, hub hangs, hub named, hub old" {
			t.Errorf("silent are %s", got)
		}
		if p := s.Parts; p == nil || p.Agents != 12 || p.Nodes != 3 || p.Lonely != 11 ||
			len(p.Alone) != mostAlone ||
			len(p.Running) != 4 || p.Running[0].Kind != "door" || p.Running[0].Name != "d" ||
			p.Running[0].PID != 7 ||
			p.Running[1].Kind != "gateway" || len(p.Earlier) != 1 || p.Earlier[0] != "lost" {
			t.Errorf("parts are %+v", p)
		}
		if s.Money == nil || s.Money.Deposits != 9 {
			t.Errorf("money is %+v", s.Money)
		}
	})
}

// Hubs are asked to show themselves while somebody looks, by one watch for however many, and by none else;
// what they show others is not taken in.
func TestHubsAreWatchedWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := membus.New(1)
		hub := w.Bus("hub")
		defer hub.Close()
		watches := make(chan struct{}, 100)
		if _, err := hub.Subscribe(bus.WatchSubject("math", "*"), "",
			func(bus.Msg) { watches <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
		say := func(subject string, m bus.Message) {
			data, err := bus.Encode(m)
			if err == nil {
				err = hub.Publish(bus.Msg{Subject: subject, Data: data})
			}
			if err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		shown := &bus.Feed{Domain: "math", Journal: "math", Rounds: []bus.FeedRound{{Number: 7}}}
		l := &Link{Bus: w.Bus("viewer"), Name: "viewer"}
		defer l.Bus.Close()
		all, err := l.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		counted := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if got := len(watches); got != want {
				t.Errorf("%s: %d watches, want %d", when, got, want)
			}
			for len(watches) > 0 {
				<-watches
			}
		}
		say(bus.StatusSubject("math"), &bus.Status{Domain: "math", Labels: []string{"math"}})
		say(bus.FeedSubject("math"), shown)
		time.Sleep(10 * renewEvery)
		counted(0, "nobody looks")
		if len(all.Rounds()) != 0 {
			t.Errorf("nobody looks, and %v were taken in", all.Rounds())
		}
		var away []func()
		for range 5 {
			away = append(away, all.Look())
		}
		counted(1, "five began to look")
		time.Sleep(10*renewEvery + renewEvery/2)
		counted(10, "five look")
		say(bus.FeedSubject("math"), shown)
		if got := all.Rounds(); len(got) != 1 || got[0].Number != 7 {
			t.Errorf("they saw %v", got)
		}
		for i, leave := range away {
			leave()
			leave()
			if i == 3 {
				time.Sleep(renewEvery)
				counted(1, "one looks")
			}
		}
		time.Sleep(10 * renewEvery)
		counted(0, "all have left")
		all.Look()() // hubs hear of it once, or it is over before
		synctest.Wait()
		for n := 0; len(watches) > 0; n++ {
			if <-watches; n > 0 {
				t.Error("hubs hear of a glance more than once")
			}
		}
		time.Sleep(10 * renewEvery)
		counted(0, "after a glance")
	})
}
