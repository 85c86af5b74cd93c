package serve_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/market"
)

// A hub's creds alone move no client's money: it asks for all that a client has that never placed a task
// there, twice, ahead, with another door's word or another hub's, and gets nothing. With a door's word it
// gets so much, once.
func TestAHubGetsWhatDoorsVouchFor(t *testing.T) {
	h := start(t, filepath.Join(t.TempDir(), "journal", "treasury"), nil)
	all := 10 * market.Credit
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: all})
	epoch := h.elect("maths").Epoch()
	h.elect("law")
	take := bus.FundsRequest{Client: "ann", Hub: "hub-maths", Epoch: epoch, Amount: all, Least: all}
	door := func(key []byte, door, client, hub string, total market.Credits) []bus.DoorVoucher {
		v := bus.NewVoucher(key, door, client, hub, 1, total, total)
		return []bus.DoorVoucher{{Door: door, Voucher: v}}
	}
	other := bytes.Repeat([]byte{8}, bus.VouchKeyBytes)
	torn := door(doorKey, "door", "ann", "hub-maths", all)
	torn[0].Voucher[8]++
	for name, vouchers := range map[string][]bus.DoorVoucher{
		"nobody vouches":              {},
		"another key":                 door(other, "door", "ann", "hub-maths", all),
		"a door that nobody knows":    door(doorKey, "door-2", "ann", "hub-maths", all),
		"another client":              door(doorKey, "door", "bob", "hub-maths", all),
		"another hub":                 door(doorKey, "door", "ann", "hub-law", all),
		"names that run together":     door(doorKey, "doo", "rann", "hub-maths", all),
		"more than the door said":     torn,
		"a door that says nothing":    {{Door: "door"}},
		"a total of nothing":          door(doorKey, "door", "ann", "hub-maths", 0),
		"less than what is the least": door(doorKey, "door", "ann", "hub-maths", all-1),
	} {
		for _, ahead := range []bool{false, true} {
			req := take
			req.ID, req.Vouchers, req.Ahead = "take-"+strings.ReplaceAll(name, " ", "-"), vouchers, ahead
			r := h.ask(bus.OpAllot, req)
			want := bus.CodeUnavailable
			if ahead {
				want = bus.CodeAllotmentPending
			}
			if r.Code != want || len(r.Grants) > 0 || r.Prepaid != all || r.Allotted != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	take.Least = 1
	for i, c := range []struct{ total, gets market.Credits }{{30, 30}, {30, 0}, {25, 0}, {100, 70}} {
		req := vouched(take, c.total)
		req.ID = string(rune('a' + i))
		r := h.ask(bus.OpAllot, req)
		got := market.Credits(0)
		for _, g := range r.Grants {
			got += g.Amount
		}
		if got != c.gets {
			t.Errorf("with a door's word for %d in all it gets %d, want %d: %+v", c.total, got, c.gets, r)
		}
	}
	if r := h.ask(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("hub-maths", 1), Client: "ann",
		Hub: "hub-maths", Epoch: epoch, Amount: 40}); r.Code != "" {
		t.Errorf("a return: %+v", r)
	}
	req := vouched(take, 100)
	req.ID = "after-a-return"
	if r := h.ask(bus.OpAllot, req); len(r.Grants) != 1 || r.Grants[0].Amount != 40 {
		t.Errorf("what it gave back it may have again, and no more: %+v", r)
	}
}

// A hub's own client needs nobody's word at its own hub, as the registry names it, and is nobody's at
// another, whatever domain that says it has.
func TestAHubsOwnClientIsItsOwn(t *testing.T) {
	h := start(t, filepath.Join(t.TempDir(), "journal", "treasury"), nil)
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "probe-maths", Amount: 1000})
	maths := h.elect("maths").Epoch()
	entry, err := bus.EncodeEntry(&bus.HubEntry{Domain: "maths", Hub: "h", Journal: "hub-law"}) // it lies
	if err != nil {
		t.Fatal(err)
	}
	lead, err := h.world.Registry().Elect(t.Context(), bus.HubKey("law"), entry, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	law := lead.Epoch()
	own := bus.FundsRequest{Client: "probe-maths", Domain: "maths", Amount: 100,
		Vouchers: []bus.DoorVoucher{}}
	own.ID, own.Hub, own.Epoch = "law", "hub-law", law
	if r := h.ask(bus.OpAllot, own); r.Code != bus.CodeUnavailable || r.Allotted != 0 {
		t.Errorf("of another hub's client it gets %+v", r)
	}
	own.ID, own.Hub, own.Epoch = "maths", "hub-maths", maths
	if r := h.ask(bus.OpAllot, own); len(r.Grants) != 1 || r.Allotted != 100 {
		t.Errorf("of its own client it gets %+v", r)
	}
}

// A door that starts after the treasury is known once its key is in the registry, and no longer when that is
// gone; a value that is none changes nothing and is named.
func TestDoorsComeAndGo(t *testing.T) {
	h := start(t, filepath.Join(t.TempDir(), "journal", "treasury"), nil)
	h.ask(bus.OpDeposit, bus.FundsRequest{ID: "d1", Client: "ann", Amount: 1000})
	epoch := h.elect("maths").Epoch()
	key := bytes.Repeat([]byte{9}, bus.VouchKeyBytes)
	asked := 0
	gets := func() bool {
		asked++
		req := bus.FundsRequest{ID: string(rune('A'+asked%60)) + strings.Repeat("x", asked/60), Client: "ann",
			Hub: "hub-maths", Epoch: epoch, Amount: 1, Least: 1}
		req.Vouchers = []bus.DoorVoucher{{Door: "late",
			Voucher: bus.NewVoucher(key, "late", "ann", "hub-maths", 1, market.Credits(asked), 1)}}
		return len(h.ask(bus.OpAllot, req).Grants) == 1
	}
	if gets() {
		t.Error("a door without a key vouches")
	}
	keys := &bus.VouchKeys{Keys: [][]byte{bytes.Repeat([]byte{1}, bus.VouchKeyBytes), key}}
	value, err := bus.EncodeEntry(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.reg.Put(t.Context(), bus.VouchKey("late"), value); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the door is known, by its life before, too", gets)
	for _, bad := range []string{"none", `{"keys":[]}`, `{"keys":["AAAA"]}`} {
		if err := h.reg.Put(t.Context(), bus.VouchKey("late"), []byte(bad)); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "it is named", func() bool {
		return strings.Count(h.said.String(), "a door's key makes no sense") == 3
	})
	if !gets() {
		t.Error("a key that makes no sense took away one that did")
	}
	if err := h.reg.Delete(t.Context(), bus.VouchKey("late")); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is gone", func() bool { return !gets() })
}
