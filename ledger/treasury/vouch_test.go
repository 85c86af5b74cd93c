package treasury

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

var doorKey = bytes.Repeat([]byte{7}, bus.VouchKeyBytes)

// doors gives a treasury the key of the door that vouches in tests.
func doors(tr *Treasury) *Treasury {
	tr.Vouches("door", &bus.VouchKeys{Keys: [][]byte{doorKey}})
	return tr
}

// vouched is a request of a hub that a door has vouched for, with all that there may be, where it shows no
// voucher itself.
func vouched(op string, req *bus.FundsRequest) *bus.FundsRequest {
	if op == bus.OpAllot && req.Vouchers == nil {
		req.Vouchers = []bus.DoorVoucher{{Door: "door", Voucher: bus.NewVoucher(doorKey, "door", req.Client,
			req.Hub, 1, market.MaxCredits, 1)}}
	}
	return req
}

// A hub that asks for the money of a client that never placed a task there gets nothing of it.
func TestNoHubTakesWhatNobodyVouchedFor(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 10 * market.Credit})
	r := o.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Amount: 10 * market.Credit,
		Least: 10 * market.Credit, Vouchers: []bus.DoorVoucher{}})
	if r.Code != bus.CodeUnavailable || r.Prepaid != 10*market.Credit || r.Allotted != 0 {
		t.Errorf("got %+v", r)
	}
}

// voucherOf is a door that counts as doors do, and starts again now and then.
type voucherOf struct {
	name   string
	key    []byte
	line   uint64
	totals map[[2]string]market.Credits // in this line
}

// Whatever is lost, repeated, late or shown in another order, and however often doors and the treasury start
// again, a hub is never granted more of a client's money than doors vouched for and it gave back; and where
// the last vouchers of living doors are shown, it may have all of that.
func TestGrantsNeverExceedVouchers(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	for range 20 {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playVouchers(t, seed) }) {
			return
		}
	}
}

func playVouchers(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 47))
	o := open(t)
	for _, c := range []string{"ann", "bob"} {
		o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d-" + c, Client: c, Amount: 1_000_000})
	}
	said := map[[2]string]market.Credits{}         // by client and hub: what doors vouched for
	returned := map[[2]string]market.Credits{}     // what came back
	granted := map[[2]string]market.Credits{}      // what was granted
	heard := map[[2]string][]bus.DoorVoucher{}     // all that were ever said
	keys := map[string]*bus.VouchKeys{}            // as the registry has them
	last := map[[2]string]map[string]bus.Voucher{} // the last of each door's life
	var all []*voucherOf
	begin := func(d *voucherOf) {
		d.key = make([]byte, bus.VouchKeyBytes)
		for i := range d.key {
			d.key[i] = byte(r.Uint32())
		}
		old := keys[d.name]
		if old == nil {
			old = &bus.VouchKeys{}
		}
		d.line, d.totals = old.Line+1+uint64(r.IntN(3)), map[[2]string]market.Credits{}
		keys[d.name] = old.With(d.key, d.line)
		o.tr.Vouches(d.name, keys[d.name])
		for k := range last {
			delete(last[k], d.name)
		}
	}
	for i := range 3 {
		all = append(all, &voucherOf{name: fmt.Sprint("door-", i)})
		begin(all[i])
	}
	count := 0
	id := func() string { count++; return fmt.Sprint("r", count) }
	for range 400 {
		client, hub := []string{"ann", "bob"}[r.IntN(2)], []string{"h", "k"}[r.IntN(2)]
		k := [2]string{client, hub}
		switch d := all[r.IntN(len(all))]; r.IntN(12) {
		case 0:
			begin(d)
		case 1:
			o.reopen()
			for _, name := range []string{"door-0", "door-1", "door-2"} {
				o.tr.Vouches(name, keys[name])
			}
		case 2:
			has := o.tr.Book.Allotted(client, hub)
			if has == 0 {
				continue
			}
			back := 1 + market.Credits(r.Int64N(int64(has)))
			if a := o.ask(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID(hub, o.tr.Book.LastReturn(hub)+1),
				Client: client, Hub: hub, Amount: back}); a.Code != "" {
				t.Fatalf("return: %+v", a)
			}
			if granted[k] > 0 {
				returned[k] += back
			}
		case 3, 4, 5, 6:
			more := 1 + market.Credits(r.IntN(50))
			d.totals[k] += more
			said[k] += more
			v := bus.NewVoucher(d.key, d.name, client, hub, d.line, d.totals[k], more)
			heard[k] = append(heard[k], bus.DoorVoucher{Door: d.name, Voucher: v})
			if last[k] == nil {
				last[k] = map[string]bus.Voucher{}
			}
			last[k][d.name] = v
		default:
			req := bus.FundsRequest{ID: id(), Client: client, Hub: hub,
				Amount: 1 + market.Credits(r.IntN(200)),
				Ahead:  r.IntN(3) == 0, Vouchers: []bus.DoorVoucher{}}
			req.Least = market.Credits(r.Int64N(int64(req.Amount) + 1))
			whole := r.IntN(2) == 0
			if whole {
				for door, v := range last[k] {
					req.Vouchers = append(req.Vouchers, bus.DoorVoucher{Door: door, Voucher: v})
				}
			} else {
				for range r.IntN(4) { // old ones, other pairs', torn ones
					from := heard[k]
					if r.IntN(4) == 0 {
						from = heard[[2]string{client, map[string]string{"h": "k", "k": "h"}[hub]}]
					}
					if len(from) == 0 {
						continue
					}
					v := from[r.IntN(len(from))]
					if r.IntN(4) == 0 {
						v.Voucher = slices.Clone(v.Voucher)
						v.Voucher[r.IntN(24)] ^= 1 << r.IntN(8)
					}
					req.Vouchers = append(req.Vouchers, v)
				}
			}
			covered := o.tr.Book.Vouched(client, hub).Left
			a := o.ask(bus.OpAllot, req)
			for _, g := range a.Grants {
				granted[k] += g.Amount
			}
			if granted[k] > said[k]+returned[k] {
				t.Fatalf("hub %s was granted %d of %s's money, doors vouched for %d and %d came back", hub,
					granted[k], client, said[k], returned[k])
			}
			if need := max(req.Least, 1); covered >= need && len(a.Grants) == 0 {
				t.Fatalf("%d are covered, and it gets nothing of %d: %+v", covered, need, a)
			}
			if whole && len(last[k]) == len(all) && len(a.Grants) == 0 {
				own := market.Credits(0) // said in the lives that go on
				for _, d := range all {
					own += d.totals[k]
				}
				if own+returned[k]-granted[k] >= max(req.Least, 1) {
					t.Fatalf("living doors vouched for %d, %d came back of %d, and it gets nothing: %+v", own,
						returned[k], granted[k], a)
				}
			}
		}
	}
}

// Doors come and go for years, and what is remembered of them is bounded: neither many lines of one door nor
// many doors make a voucher count twice, and those that live are never crowded out by those that are gone.
func TestVouchersOfManyDoors(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: market.Credit})
	n, got := 0, market.Credits(0)
	ask := func(door string, key []byte, line uint64, total market.Credits) market.Credits {
		n++
		r := o.ask(bus.OpAllot, bus.FundsRequest{ID: fmt.Sprint("a", n), Client: "ann", Hub: "h",
			Amount: 1000,
			Vouchers: []bus.DoorVoucher{{Door: door,
				Voucher: bus.NewVoucher(key, door, "ann", "h", line, total, total)}}})
		sum := market.Credits(0)
		for _, g := range r.Grants {
			sum += g.Amount
		}
		got += sum
		return sum
	}
	for line := range uint64(20) {
		if s := ask("door", doorKey, line+5, 10); s != 10 {
			t.Fatalf("line %d: %d", line, s)
		}
	}
	for line := range uint64(30) {
		if s := ask("door", doorKey, line, 10); line < 25 && s != 0 {
			t.Fatalf("line %d counts again, with %d", line, s)
		}
	}
	before := got
	for i := range 3 * maxLines {
		door, key := fmt.Sprint("pod-", i), bytes.Repeat([]byte{byte(i)}, bus.VouchKeyBytes)
		o.tr.Vouches(door, &bus.VouchKeys{Keys: [][]byte{key}})
		line := uint64(100 + i)
		if s := ask(door, key, line, 10); s != 10 {
			t.Fatalf("door %d: %d", i, s)
		}
		o.tr.Vouches(door, nil)
		if s := ask(door, key, line, 20); s != 0 {
			t.Fatalf("door %d is gone, and its voucher counts: %d", i, s)
		}
		if lines := len(o.tr.Book.Vouched("ann", "h").Doors); lines > maxLines {
			t.Fatalf("%d lines are remembered", lines)
		}
	}
	if got-before != 3*maxLines*10 {
		t.Errorf("%d were granted", got-before)
	}
	if s := ask("door", doorKey, 29, 10); s != 0 {
		t.Errorf("what counted before the others counts again: %d", s)
	}
	for i := range maxDoors + 10 {
		if fits := o.tr.Vouches(fmt.Sprint("d", i), &bus.VouchKeys{}); fits != (i < maxDoors-1) {
			t.Fatalf("door %d of %d: %v", i, maxDoors, fits)
		}
	}
	o.reopen()
	if v := o.tr.Book.Vouched("ann", "h"); len(v.Doors) > ledger.MaxVouched || v.Left != 0 {
		t.Errorf("after a start %+v", v)
	}
}

// keyed is a door of so many, with a key of its own.
func keyed(i int) (string, []byte) {
	return fmt.Sprint("door-", i), bytes.Repeat([]byte{byte(i), byte(i >> 8)}, bus.VouchKeyBytes/2)
}

// A treasury that starts may not know yet which doors there are. A voucher that counted counts no more when
// their keys come, however many doors there are.
func TestVouchersCountOnceWhenKeysComeLate(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: market.Credit})
	tell := func() {
		for i := range maxLines {
			door, key := keyed(int(i))
			o.tr.Vouches(door, &bus.VouchKeys{Keys: [][]byte{key}})
		}
	}
	n := 0
	ask := func(i int) market.Credits {
		n++
		req := bus.FundsRequest{ID: fmt.Sprint("a", n), Client: "ann", Hub: "h", Amount: 10,
			Vouchers: []bus.DoorVoucher{}}
		if i >= 0 {
			door, key := keyed(i)
			req.Vouchers = []bus.DoorVoucher{{Door: door,
				Voucher: bus.NewVoucher(key, door, "ann", "h", 1, 10, 10)}}
		}
		sum := market.Credits(0)
		for _, g := range o.ask(bus.OpAllot, req).Grants {
			sum += g.Amount
		}
		return sum
	}
	tell()
	for i := range maxLines {
		if s := ask(i); s != 10 {
			t.Fatalf("door %d: %d", i, s)
		}
	}
	r := o.ask(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID("h", 1), Client: "ann", Hub: "h", Amount: 1})
	if r.Code != "" {
		t.Fatal(r)
	}
	o.reopen()
	if s := ask(-1); s != 1 {
		t.Fatalf("of what came back: %d", s)
	}
	tell()
	for i := range maxLines {
		if s := ask(i); s != 0 {
			t.Fatalf("the voucher of door %d counts twice, with %d", i, s)
		}
	}
}

// However many doors live, each is heard, and none counts twice.
func TestNoDoorIsOneTooMany(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: market.Credit})
	const many = uint64(maxLines + 40)
	n := 0
	for round := range uint64(4) {
		for i := range many {
			door, key := keyed(int(i))
			o.tr.Vouches(door, &bus.VouchKeys{Keys: [][]byte{key}})
			for again := range 2 {
				for old := range round + 1 {
					n++
					v := bus.NewVoucher(key, door, "ann", "h", (round-old)*many+uint64(i)+1, 10, 10)
					r := o.ask(bus.OpAllot, bus.FundsRequest{ID: fmt.Sprint("a", n), Client: "ann", Hub: "h",
						Amount: 10, Vouchers: []bus.DoorVoucher{{Door: door, Voucher: v}}})
					if first := again == 0 && old == 0; first != (len(r.Grants) == 1) {
						t.Fatalf("round %d, door %d, %d lines ago, again %d: %+v", round, i, old, again, r)
					}
				}
			}
		}
		if lines := len(o.tr.Book.Vouched("ann", "h").Doors); lines > ledger.MaxVouched {
			t.Fatalf("%d lines are remembered", lines)
		}
	}
}
