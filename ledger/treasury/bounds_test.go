package treasury

import (
	"fmt"
	"runtime"
	"testing"

	"souk/bus"
)

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Hubs that say returns out of turn, by mistake or by intent, and never the one that is due, cost the
// treasury a few megabytes altogether; an honest hub is served all the same.
func TestReturnsOutOfTurnAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const hubs, each = 24, 15_000
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 1_000_000})
	names := []string{"honest"}
	for i := range hubs {
		names = append(names, fmt.Sprint("hub-", i))
	}
	for _, h := range names {
		if r := o.ask(bus.OpAllot,
			bus.FundsRequest{ID: "a-" + h, Client: "ann", Hub: h, Amount: 1000, Least: 1000}); r.Code != "" {
			t.Fatal(r.Code, r.Message)
		}
	}
	before := heap()
	kept, answered := 0, 0
	for _, h := range names[1:] {
		for n := uint64(2); n < each; n++ {
			o.tr.Handle(bus.OpReturn,
				&bus.FundsRequest{ID: bus.ReturnID(h, n), Client: "ann", Hub: h, Amount: 1}, nil, true)
			if a := o.settle(); len(a) == 0 {
				kept++
			} else if answered++; a[0].Reply.Code != bus.CodeUnavailable &&
				a[0].Reply.Code != bus.CodeBadRequest {
				t.Fatalf("return %d: %q", n, a[0].Reply.Code)
			}
		}
	}
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("%d returns out of turn are kept in %d MB, want at most 16", kept, grown>>20)
	}
	runtime.KeepAlive(o)
	t.Logf("%d are kept, %d refused", kept, answered)
	for n := uint64(1); n <= 1000; n++ {
		if r := o.ask(bus.OpReturn,
			bus.FundsRequest{ID: bus.ReturnID("honest", n), Client: "ann", Hub: "honest",
				Amount: 1}); r.Code != "" {
			t.Fatalf("return %d of an honest hub: %q %s", n, r.Code, r.Message)
		}
	}
}

// A return of what was never allotted is refused at once: waiting cannot make it true.
func TestAReturnOutOfTurnOfWhatIsNotThere(t *testing.T) {
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 100})
	o.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Amount: 40})
	for _, req := range []bus.FundsRequest{
		{ID: bus.ReturnID("h", 2), Client: "ann", Hub: "h", Amount: 41},
		{ID: bus.ReturnID("h", 2), Client: "bob", Hub: "h", Amount: 1},
		{ID: bus.ReturnID("g", 2), Client: "ann", Hub: "g", Amount: 1},
	} {
		o.tr.Handle(bus.OpReturn, &req, nil, true)
		if a := o.settle(); len(a) != 1 || a[0].Reply.Code != bus.CodeInsufficientFunds {
			t.Errorf("%+v: %v", req, a)
		}
	}
}

// Whoever asks under ever new names neither grows the treasury nor keeps a hub with money, or a new one, from
// being served.
func TestNamesOfHubsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	o := open(t)
	o.ask(bus.OpDeposit, bus.FundsRequest{ID: "d", Client: "ann", Amount: 1_000_000})
	o.ask(bus.OpAllot, bus.FundsRequest{ID: "a", Client: "ann", Hub: "h", Epoch: 5, Amount: 40})
	o.tr.Leads("h", "of-h", 5)
	before := heap()
	const names = 50_000
	for i := range names {
		h := fmt.Sprintf("made-up-%050d", i)
		o.ask(bus.OpAllotted, bus.FundsRequest{ID: "q", Hub: h})
		o.ask(bus.OpReturn, bus.FundsRequest{ID: bus.ReturnID(h, 1), Client: "ann", Hub: h, Amount: 1})
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d names are kept in %d KB", names, grown>>10)
	}
	runtime.KeepAlive(o)
	for _, h := range []string{"h", "new"} {
		if r := o.ask(bus.OpAllot,
			bus.FundsRequest{ID: "b-" + h, Client: "ann", Hub: h, Epoch: 5, Amount: 40}); r.Code != "" {
			t.Errorf("hub %s is refused: %s", h, r.Message)
		}
	}
	if r := o.ask(bus.OpAllot,
		bus.FundsRequest{ID: "c", Client: "ann", Hub: "h", Epoch: 4,
			Amount: 40}); r.Code != bus.CodeStaleEpoch {
		t.Errorf("an epoch that is over: %q", r.Code)
	}
	for i := range 3 * Default().MaxHubs {
		o.ask(bus.OpAllot, bus.FundsRequest{ID: "x", Client: "ann", Hub: fmt.Sprint("n", i), Amount: 1})
		o.ask(bus.OpAllot, bus.FundsRequest{ID: fmt.Sprint("y", i), Client: "ann", Hub: fmt.Sprint("n", i),
			Amount: 1})
	}
	if n := len(o.tr.heard); n > 2*Default().MaxHubs {
		t.Errorf("%d hubs are known", n)
	}
}
