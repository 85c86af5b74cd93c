package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"souk/bus"
	"souk/market"
)

// A copy of a hub's journal worked, and the treasury was told of its frames. The first, which has more, is
// started once more on its own file, when the registry has forgotten the copy. It is judged by the mark that
// the treasury has of the copy before it tells of its own, and sells nothing more. So is one that was
// started, and sold, while the treasury was away.
func TestALongerForkOfAHubIsContradicted(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		inStall(t, func(s *stall) {
			bank, h := s.opened()
			time.Sleep(12 * time.Second)
			to := s.copied(s.dir("general"))
			for range 4 { // within the second before the treasury hears of it
				s.must("general", "ann")
			}
			s.world.Cut("general") // who is killed asks nothing more
			h.kill()
			s.world.Heal("general")
			c := s.hub("general", to)
			time.Sleep(6 * time.Second)
			s.must("general", "ann")
			time.Sleep(12 * time.Second)
			c.kill()
			if away {
				bank.kill()
			}
			time.Sleep(bus.LedFor + time.Minute)
			h = s.hub("general", s.dir("general"))
			if away {
				for range 20 {
					s.spend("general", "ann")
				}
				h.kill()
				h = s.hub("general", s.dir("general"))
				time.Sleep(time.Second)
				s.treasury(s.dir("treasury"), nil)
			}
			time.Sleep(10 * time.Second)
			why, more := h.hub.Refuses(), s.spend("general", "ann")
			if more == "" || !strings.Contains(why, "another history was written into") {
				t.Errorf("treasury away: %v: it refuses for %q, and a task for %q", away, why, more)
			}
		})
	}
}

// letGo has whoever writes in a directory write nothing more, as kill -9 does.
func letGo(t *testing.T, dir string) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	for _, f := range files {
		to, _ := os.Readlink("/proc/self/fd/" + f.Name())
		if fd, err := strconv.Atoi(f.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			if err := syscall.Dup3(int(null.Fd()), fd, syscall.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A treasury is killed, and segments that lack its last seconds are put in place of its own. It takes so much
// in that it is past the mark that a hub has of it. The hub tells it that mark before it hears another, and
// the treasury is closed.
func TestATreasuryThatOvertookItsMarkIsContradicted(t *testing.T) {
	inStall(t, func(s *stall) {
		dir := s.dir("treasury")
		bank := s.treasury(dir, nil)
		s.fund("ann", 100*market.Credit)
		s.hub("general", s.dir("general"))
		s.must("general", "ann")
		time.Sleep(31 * time.Second)
		s.fund("ann", market.Credit) // by now LIVES remembers nothing later
		wal, backup := filepath.Join(dir, "wal"), filepath.Join(t.TempDir(), "wal")
		if err := os.CopyFS(backup, os.DirFS(wal)); err != nil {
			t.Fatal(err)
		}
		s.fund("ann", 100*market.Credit)
		s.fund("ann", 100*market.Credit)
		time.Sleep(12 * time.Second) // the hub hears of it
		letGo(t, dir)
		bank.kill()
		if err := os.RemoveAll(wal); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(wal, os.DirFS(backup)); err != nil {
			t.Fatal(err)
		}
		bank = s.treasury(dir, nil)
		for range 4 {
			s.fund("bob", 10*market.Credit)
		}
		s.spend("general", "bob")
		time.Sleep(10 * time.Second)
		if why := bank.bank.Closed(); !strings.Contains(why, "another history was written into") {
			t.Errorf("deposits of 200 credits are gone, and it is closed for %q", why)
		}
	})
}
