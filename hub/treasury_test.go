package hub_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/hub"
	"souk/market"
)

// What a treasury says that was elected before one that has spoken counts for nothing: it is counted, named
// once, and asked for again.
func TestATreasuryOfAnEarlierEpoch(t *testing.T) {
	h := newHouse(t, func(c *hub.Config) { c.AccountIdle = 24 * time.Hour })
	h.silent = true
	ask := func(epoch int64, grants ...bus.Grant) {
		t.Helper()
		h.pending = nil
		i := -1
		for range 100 {
			h.pass(time.Second)
			i = slices.IndexFunc(h.pending, func(f hub.Funds) bool { return f.Op == bus.OpAllotted })
			if i >= 0 {
				break
			}
		}
		if i < 0 {
			t.Fatal("nothing is asked")
		}
		h.must(h.step(&bus.FundsReply{ID: h.pending[i].Request.ID, Epoch: epoch, Grants: grants}))
		h.run()
	}
	granted := func(number uint64) bus.Grant {
		return bus.Grant{Number: number, Client: "zoe", Hub: "hub-math", Amount: market.Credit}
	}
	next := h.n.Book().LastGrant("hub-math") + 1
	ask(7, granted(next))
	if got := h.n.Book().Avail("zoe"); got != market.Credit {
		t.Fatalf("the hub has %s", got)
	}
	for range 3 {
		ask(6, granted(next+1))
	}
	if got := h.n.Book().Avail("zoe"); got != market.Credit {
		t.Errorf("of a treasury of an earlier epoch it has %s", got)
	}
	said := 0
	for _, f := range h.faults {
		if strings.Contains(f.Error(), "a treasury of epoch 6 speaks, and one of epoch 7 has spoken") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("it is said %d times: %v", said, h.faults)
	}
	recall := &bus.Recall{ID: "r", Epoch: 6, Hub: "hub-math", Client: "zoe", Inbox: "_INBOX.treasury.1"}
	if err := h.step(recall); err == nil || !strings.Contains(err.Error(), "epoch 7 has spoken") ||
		h.n.Book().Avail("zoe") != market.Credit {
		t.Errorf("a recall of an earlier epoch: %v", err)
	}
	if begins, err := h.n.Money().Begin(&bus.FundsReply{Epoch: 6}); begins || err != nil {
		t.Errorf("a journal begins on its word: %v, %v", begins, err)
	}
	h.now = h.now.Add(time.Hour)
	ask(8, granted(next+1))
	if got := h.n.Book().Avail("zoe"); got != 2*market.Credit {
		t.Errorf("of one of a later epoch the hub has %s", got)
	}
}
