package serve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
)

// While somebody looks on the hub shows its rounds, with who was left out and what would have won, at most
// ten times a second, and itself once a second; five seconds after the last watch it falls silent. Neither a
// client nor a task nor anything of a prompt is in it.
func TestAHubShowsWhatItDoesToThoseWhoLookOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		tn.agent("a-1", 1, func(bus.Dispatch) bool { time.Sleep(3 * time.Second); return true })
		s, stop := tn.hub(nil)
		var feeds []bus.Feed
		var sizes []int
		tn.subscribe(bus.FeedSubject("math"), func(m bus.Msg) {
			var f bus.Feed
			if err := bus.Decode(m.Data, &f); err != nil {
				t.Error(err)
			}
			for _, secret := range []string{"\xa3ann", "t-0", "messages"} {
				if strings.Contains(string(m.Data), secret) {
					t.Errorf("%q is shown", secret)
				}
			}
			feeds, sizes = append(feeds, f), append(sizes, len(m.Data))
		})
		ask := func(n int) {
			for i := range n {
				m := task("ann", fmt.Sprintf("t-%d", i))
				tn.publish(bus.HubTaskSubject("math", "town"), "", m)
				time.Sleep(300 * time.Millisecond)
			}
		}
		ask(2)
		synctest.Wait()
		if len(feeds) > 0 || s.feed.rounds != nil {
			t.Fatalf("unwatched it makes %d feeds, and keeps %d rounds", len(feeds), len(s.feed.rounds))
		}
		watch := func() {
			if err := tn.bus.Publish(bus.Msg{Subject: bus.WatchSubject("math", "eve")}); err != nil {
				t.Fatal(err)
			}
		}
		watch()
		begun := time.Now()
		for i := range 8 {
			m := task("ann", fmt.Sprintf("t-0%d", i))
			tn.publish(bus.HubTaskSubject("math", "town"), "", m)
			time.Sleep(600 * time.Millisecond)
		}
		time.Sleep(bus.WatchFor)
		n := len(feeds)
		rounds, states, awards := 0, 0, 0
		for i, f := range feeds {
			if sizes[i] > bus.MaxFeed || f.Journal != "hub-math" || f.Epoch == 0 {
				t.Errorf("feed %d of %d bytes: %+v", i, sizes[i], f)
			}
			if f.State != nil {
				states++
			}
			for _, r := range f.Rounds {
				rounds++
				awards += len(r.Awards)
			}
		}
		if took := time.Since(begun); n == 0 || n > int(took/bus.FeedEvery) || states < 4 || states > 7 ||
			rounds == 0 || awards != rounds {
			t.Errorf("%d feeds, %d of them whole, with %d rounds and %d awards", n, states, rounds, awards)
		}
		time.Sleep(bus.WatchFor)
		if len(feeds) != n || s.feed.watched() {
			t.Errorf("%d feeds after the watch is over", len(feeds)-n)
		}
		// who asks is answered at once, whole, and begins nothing
		whole := func(reply bus.Msg) (f bus.Feed) {
			t.Helper()
			if err := json.Unmarshal(reply.Data, &f); err != nil {
				t.Fatal(err)
			}
			return f
		}
		reply, err := tn.bus.Request(t.Context(), bus.Msg{Subject: bus.WatchSubject("math", "town")})
		if err != nil {
			t.Fatal(err)
		}
		f := whole(reply)
		if st := f.State; st == nil || st.Tasks < 10 || st.Served == 0 || st.Fleet != 1 ||
			len(st.Agents) != 1 ||
			st.Agents[0].Agent != "a-1" || st.Agents[0].Slots != 1 || st.Avail == 0 || st.Payable == 0 {
			t.Errorf("it says %s", reply.Data)
		}
		// the answer goes to nobody else
		bad := s.Stats().Rejected
		tn.subscribe("_INBOX.other.>", func(m bus.Msg) { t.Errorf("another hears %s", m.Data) })
		tn.bus.Publish(bus.Msg{Subject: bus.WatchSubject("math", "eve"), Reply: "_INBOX.other.x"})
		synctest.Wait()
		if s.Stats().Rejected != bad+1 {
			t.Error("a watch whose answer is to go to another's inbox is not counted")
		}
		stop()
	})
}
