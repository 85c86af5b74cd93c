package treasury

import (
	"bytes"
	"testing"

	"souk/bus"
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
