package integration

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// An older copy of a hub's journal wins the election while the right one is down. Once the treasury has told
// it what it is, it gives the leadership back, and does not stand for it again: the domain is free for the
// right one, and for one that stands by with a journal of its own.
func TestAnOldCopyKeepsNobodyOut(t *testing.T) {
	inStall(t, func(s *stall) {
		_, h := s.opened()
		old := s.copied(s.dir("general"))
		s.must("general", "ann")
		time.Sleep(6 * time.Second) // it speaks
		h.kill()
		copied := s.hub("general", old)
		time.Sleep(6 * time.Second)
		if why := copied.hub.Refuses(); !strings.Contains(why, "older copy") {
			t.Errorf("the copy refuses for %q", why)
		}
		if copied.hub.Leading() || !strings.Contains(copied.log.String(), "the leadership is given back") {
			t.Fatalf("it keeps the leadership: %s", copied.log.String())
		}
		if why := copied.hub.Unready(); !strings.HasPrefix(why, "no task is taken: the journal of hub general is not "+
			"the newest") || strings.Contains(why, "another") && !strings.Contains(why, "another history") {
			t.Errorf("it is not ready for %q", why)
		}
		time.Sleep(time.Minute)
		if kvs, err := s.world.Registry().Get(s.ctx, bus.HubKey("general")); err != nil || len(kvs) > 0 {
			t.Fatalf("it stands again: %v, %v", kvs, err)
		}
		s.hub("general-b", s.dir("general-b"))
		s.must("general-b", "ann")
		copied.kill()
	})
}

// A copy of the treasury's journal wins the election while the right one is down. It gives way as soon as a
// hub contradicts it, and once a minute from then on; so the right one leads within a minute of its start,
// and keeps the leadership. The copy says so once, and does not end.
func TestADoubtedTreasuryGivesWay(t *testing.T) {
	inStall(t, func(s *stall) {
		right, _ := s.opened()
		old := s.copied(s.dir("treasury"))
		s.fund("ann", 5*market.Credit)
		time.Sleep(6 * time.Second) // the hub hears of it
		right.kill()
		copied := s.treasury(old, nil)
		time.Sleep(6 * time.Second)
		if why := copied.bank.Closed(); !strings.Contains(why, "bring back the one that has frame") {
			t.Fatalf("the copy is closed for %q", why)
		}
		time.Sleep(5*time.Minute + 10*time.Second)
		if log := copied.log.String(); !copied.bank.Leading() || strings.Count(log, "the leadership is given back") != 1 ||
			strings.Count(log, "treasury open") > 2 {
			t.Errorf("the only treasury there is leads %v, and says\n%s", copied.bank.Leading(), log)
		}
		for range 120 { // it gives way meanwhile
			if why := copied.bank.Unready(); !strings.Contains(why, "bring back the one that has frame") {
				t.Errorf("the only treasury there is is not ready for %q", why)
			}
			time.Sleep(500 * time.Millisecond)
		}
		right = s.treasury(s.dir("treasury"), nil)
		time.Sleep(time.Minute)
		if !right.bank.Leading() || right.bank.Closed() != "" {
			t.Fatalf("a minute after its start the right one leads %v, and is closed for %q", right.bank.Leading(),
				right.bank.Closed())
		}
		if why := right.bank.Unready(); why != "" {
			t.Errorf("the right one is not ready for %q", why)
		}
		s.fund("ann", market.Credit)
		s.must("general", "ann")
		time.Sleep(5 * time.Minute)
		if !right.bank.Leading() || copied.bank.Leading() {
			t.Error("the right one has lost the leadership to the copy")
		}
	})
}

// A copy that still waits for its hubs' word gives way, too. Where it is the only treasury there is, it
// works once the hub is back, though it gave way meanwhile.
func TestATreasuryThatWaitsGivesWay(t *testing.T) {
	for _, name := range []string{"the right one comes", "the hub comes back"} {
		inStall(t, func(s *stall) {
			right, h := s.opened()
			time.Sleep(6 * time.Second)
			h.kill()
			right.kill()
			copied := s.treasury(s.copied(s.dir("treasury")), nil)
			time.Sleep(3*time.Minute + 30*time.Second)
			if why := copied.bank.Closed(); !strings.Contains(why, "waits for the word of hub general") ||
				strings.Count(copied.log.String(), "the leadership is given back") != 1 ||
				strings.Contains(copied.log.String(), "the registry does not say") {
				t.Errorf("%s: the copy is closed for %q, and says\n%s", name, why, copied.log)
			}
			if name == "the hub comes back" {
				s.hub("general", s.dir("general"))
				time.Sleep(10 * time.Second)
				if why := copied.bank.Closed(); why != "" || !copied.bank.Leading() {
					t.Errorf("confirmed, it leads %v, and is closed for %q", copied.bank.Leading(), why)
				}
				s.must("general", "ann")
				return
			}
			right = s.treasury(s.dir("treasury"), nil)
			time.Sleep(time.Minute)
			if !right.bank.Leading() || right.bank.Closed() != "" || copied.bank.Leading() {
				t.Errorf("the right one leads %v, and is closed for %q; the copy leads %v", right.bank.Leading(),
					right.bank.Closed(), copied.bank.Leading())
			}
			if why := copied.bank.Unready(); !strings.HasPrefix(why, "another treasury leads") {
				t.Errorf("the copy is not ready for %q", why)
			}
		})
	}
}

// A treasury that may be on a copy hears hubs each time it is elected: another may have led, and sold, since
// they confirmed its journal.
func TestACopyHearsHubsEachTime(t *testing.T) {
	inStall(t, func(s *stall) {
		right, one := s.opened()
		time.Sleep(6 * time.Second)
		one.kill()
		two := s.hub("general-b", s.dir("general-b"))
		s.must("general-b", "ann")
		time.Sleep(6 * time.Second)
		right.kill()
		copied := s.treasury(s.copied(s.dir("treasury")), nil)
		time.Sleep(6 * time.Second) // one of the two confirms it
		right = s.treasury(s.dir("treasury"), nil)
		time.Sleep(time.Minute)
		if !right.bank.Leading() {
			t.Fatalf("the right one does not lead: %s", right.log)
		}
		s.fund("ann", 5*market.Credit)
		time.Sleep(6 * time.Second)
		two.kill()
		right.kill()
		time.Sleep(10 * time.Second) // the copy leads again; the hub that had confirmed it is down
		s.hub("general", s.dir("general"))
		time.Sleep(6 * time.Second)
		if why := copied.bank.Closed(); !copied.bank.Leading() || !strings.Contains(why, "hub general-b") {
			t.Errorf("it leads %v, and is closed for %q: it lacks a deposit that hub general-b knows of",
				copied.bank.Leading(), why)
		}
	})
}

// A hub on a copy of its journal, or on none, waits for the treasury's first word, and gives way to the right
// one meanwhile.
func TestAHubThatWaitsGivesWay(t *testing.T) {
	for _, name := range []string{"a copy", "nothing"} {
		inStall(t, func(s *stall) {
			bank, right := s.opened()
			time.Sleep(6 * time.Second)
			right.kill()
			bank.kill()
			dir := filepath.Join(t.TempDir(), "general")
			if name == "a copy" {
				dir = s.copied(s.dir("general"))
			}
			waits := s.hub("general", dir)
			time.Sleep(3*time.Minute + 30*time.Second)
			for range 120 { // it gives way meanwhile
				if why := waits.hub.Unready(); !strings.Contains(why, "treasury") ||
					strings.Contains(why, "another") {
					t.Errorf("%s: it is not ready for %q", name, why)
				}
				time.Sleep(500 * time.Millisecond)
			}
			if log := waits.log.String(); strings.Count(log, "the leadership is given back") != 1 {
				t.Errorf("%s: it says\n%s", name, log)
			}
			right = s.hub("general", s.dir("general"))
			time.Sleep(time.Minute)
			if !right.hub.Leading() || waits.hub.Leading() {
				t.Fatalf("%s: a minute after its start the right one leads %v", name, right.hub.Leading())
			}
			if why := waits.hub.Unready(); !strings.HasPrefix(why, "the domain is led by another hub") {
				t.Errorf("%s: beside the right one it is not ready for %q", name, why)
			}
			s.must("general", "ann")
		})
	}
}

// A copy of the treasury's journal, which hubs have confirmed, takes money in and ends. The right one has its
// own file, and lacks what the copy took in: it hears the hubs that lead, or did of late, before it pays
// anything out, and takes nothing from then on.
func TestATreasuryBesideWhichACopyLed(t *testing.T) {
	for _, runs := range []bool{true, false} {
		inStall(t, func(s *stall) {
			right, h := s.opened()
			time.Sleep(6 * time.Second)
			right.kill()
			copied := s.treasury(s.copied(s.dir("treasury")), nil)
			time.Sleep(6 * time.Second) // the hub confirms it
			s.fund("ann", 5*market.Credit)
			time.Sleep(6 * time.Second) // and hears of that
			copied.kill()
			if !runs {
				h.kill()
				time.Sleep(10 * time.Second)
			}
			right = s.treasury(s.dir("treasury"), nil)
			r := s.ask(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: market.Credit})
			if !runs {
				time.Sleep(bus.LedFor) // the registry forgets the hub
				again := s.ask(bus.OpPayout, bus.FundsRequest{ID: "p", Client: "ann", Amount: market.Credit})
				if r.Code != bus.CodeUnavailable || again.Code != r.Code {
					t.Errorf("where no hub runs it pays out: %q %s, %q", r.Code, r.Message, again.Code)
				}
				s.hub("general", s.dir("general"))
			}
			if r.Code != bus.CodeUnavailable || !strings.Contains(r.Message, "waits for the word of hub general") &&
				!strings.Contains(r.Message, "older copy") {
				t.Errorf("it pays out: %q %s", r.Code, r.Message)
			}
			time.Sleep(6 * time.Second)
			if why := right.bank.Closed(); !strings.Contains(why, "bring back the one that has frame") {
				t.Errorf("once the hub has spoken it is closed for %q", why)
			}
		})
	}
}

// Likewise of a hub: a copy of its journal sells, and ends. The right one hears the treasury before it sells
// anything, and sells nothing from then on.
func TestAHubBesideWhichACopyLed(t *testing.T) {
	inStall(t, func(s *stall) {
		bank, right := s.opened()
		time.Sleep(6 * time.Second)
		right.kill()
		copied := s.hub("general", s.copied(s.dir("general")))
		time.Sleep(6 * time.Second)
		s.must("general", "ann") // the treasury has confirmed it
		time.Sleep(6 * time.Second)
		copied.kill()
		bank.kill()
		right = s.hub("general", s.dir("general"))
		if why := s.spend("general", "ann"); !strings.Contains(why, "older copy") {
			t.Errorf("it sells what may have been sold: %q", why)
		}
		s.treasury(s.dir("treasury"), nil)
		time.Sleep(6 * time.Second)
		if why := right.hub.Refuses(); !strings.Contains(why, "is not the newest") {
			t.Errorf("once the treasury has spoken it refuses for %q", why)
		}
	})
}

// A machine comes back with older copies of its hub's journal and of the treasury's, of two moments: the
// hub's lacks what the treasury's knows of it, and nothing that the hub's knows is missing from the
// treasury's. So the hub confirms the treasury, which takes no such word of one that its own marks
// contradict. Neither works, and both say what to bring; on the newest journals both do.
func TestAnOlderHubConfirmsNoTreasury(t *testing.T) {
	inStall(t, func(s *stall) {
		bank, h := s.opened()
		time.Sleep(6 * time.Second)
		oldHub := s.copied(s.dir("general"))
		s.must("general", "ann")
		time.Sleep(6 * time.Second) // the treasury hears of it
		oldBank := s.copied(s.dir("treasury"))
		s.fund("ann", 5*market.Credit)
		time.Sleep(6 * time.Second)
		h.kill()
		bank.kill()
		bank, h = s.treasury(oldBank, nil), s.hub("general", oldHub)
		for i := range 40 {
			time.Sleep(3 * time.Second)
			var r bus.FundsReply
			q := bus.FundsRequest{ID: "late", Client: "ann", Amount: market.Credit}
			err := s.try(bus.LedgerSubject(bus.OpDeposit, s.me.Name()), &q, &r)
			if err == nil && r.Code == "" {
				t.Fatal("the treasury takes a deposit")
			}
			if s.spend("general", "ann") == "" {
				t.Fatal("the hub sells")
			}
			if i < 10 {
				continue // the hub may still wait for its lease, and each for the other's first word
			}
			// Each says why; while a hub waits for its lease, or one for the other's word, it says that.
			says := func(why string) bool {
				return strings.Contains(why, "general (whose own journal is not the newest: ") &&
					strings.Contains(why, "bring back the one that has frame")
			}
			for late := 0; !says(bank.bank.Closed()) || !says(h.hub.Unready()); late++ {
				if late == 30 {
					t.Fatalf("the treasury is not ready for %q, the hub for %q", bank.bank.Closed(), h.hub.Unready())
				}
				time.Sleep(time.Second)
			}
		}
		h.kill()
		bank.kill()
		s.treasury(s.dir("treasury"), nil)
		s.hub("general", s.dir("general"))
		time.Sleep(20 * time.Second)
		s.must("general", "ann")
		s.fund("ann", market.Credit)
	})
}
