package integration

import (
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
		s.treasury(s.dir("treasury"), nil)
		s.fund("ann", 40*market.Credit)
		h := s.hub("general", s.dir("general"))
		s.must("general", "ann")
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
		time.Sleep(time.Minute)
		if kvs, err := s.world.Registry().Get(s.ctx, bus.HubKey("general")); err != nil || len(kvs) > 0 {
			t.Fatalf("it stands again: %v, %v", kvs, err)
		}
		s.hub("general-b", s.dir("general-b"))
		s.must("general-b", "ann")
		copied.kill()
	})
}
