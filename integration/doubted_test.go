package integration

import (
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// Hub and treasury run on older copies of one moment, which agree. Then the newest hub is there, is elected,
// and contradicts that treasury: from then on the older hub sells nothing either, though it was confirmed,
// and was started again since. Nobody sells until the newest treasury is back; then the newest hub does.
func TestAnOlderHubWhoseTreasuryIsDoubted(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	for _, again := range []bool{false, true} {
		inStall(t, func(s *stall) {
			s.ends = true
			bank := s.treasury(s.dir("treasury"), nil)
			s.fund("ann", 400*market.Credit)
			first := s.hub("general", s.dir("general"))
			s.must("general", "ann")
			time.Sleep(tells) // virtual
			oldBank, oldHub := s.copied(s.dir("treasury")), s.copied(s.dir("general"))
			for range 3 {
				s.must("general", "ann")
			}
			time.Sleep(tells)
			bank.kill()
			first.kill()
			time.Sleep(10 * time.Second)
			bank = s.treasury(oldBank, nil)
			second := s.hub("general", oldHub)
			time.Sleep(tells)
			s.must("general", "ann") // they agree, as the table of trust says
			if again {
				second.kill()
				second = s.hub("general", oldHub)
				s.must("general", "ann")
			}
			first = s.hub("general", s.dir("general"))
			s.world.Expire(bus.HubKey("general"))
			time.Sleep(2 * time.Second)
			if !first.hub.Leading() {
				t.Fatal("the newest hub is not elected: the test sees nothing")
			}
			led := 0
			for range 600 {
				time.Sleep(time.Second)
				if why := s.spend("general", "ann"); why == "" {
					t.Fatalf("started again %v: a task is taken, by the newest hub %v, by the older one %v, which "+
						"says\n%s\nand the newest\n%s\nand the treasury\n%s", again, first.hub.Leading(),
						second.hub.Leading(), second.log.String(), first.log.String(), bank.log.String())
				}
				if second.hub.Leading() {
					led++
				}
			}
			if led == 0 {
				t.Error("the older hub never leads: the test sees nothing")
			}
			bank.kill()
			s.treasury(s.dir("treasury"), nil)
			time.Sleep(3 * time.Minute)
			s.must("general", "ann")
			if !first.hub.Leading() {
				t.Error("the newest hub does not lead")
			}
		})
	}
}

// The newest hub was moved, as by a start of its machine, and the treasury has confirmed it. An older copy of
// the treasury, which that hub contradicts, does not stop it.
func TestAMovedHubSellsOnBesideAnOldTreasury(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	inStall(t, func(s *stall) {
		bank := s.treasury(s.dir("treasury"), nil)
		s.fund("ann", 400*market.Credit)
		h := s.hub("general", s.dir("general"))
		s.must("general", "ann")
		time.Sleep(tells)
		old := s.copied(s.dir("treasury"))
		s.fund("ann", market.Credit)
		time.Sleep(tells)
		h.kill()
		moved := s.copied(s.dir("general"))
		time.Sleep(10 * time.Second)
		s.hub("general", moved)
		time.Sleep(tells)
		s.must("general", "ann")
		bank.kill()
		bank = s.treasury(old, nil)
		for range 60 {
			time.Sleep(time.Second)
			if why := s.spend("general", "ann"); why != "" {
				t.Fatalf("it sells nothing: %s", why)
			}
		}
		if !bank.bank.Leading() || bank.bank.Closed() == "" {
			t.Error("the older treasury does not lead, or is not contradicted: the test sees nothing")
		}
	})
}
