package treasury

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// allot grants a hub some of a client's money. What is missing is looked for at other hubs first, if a task
// waits for it.
func (t *Treasury) allot(req *bus.FundsRequest, to any) error {
	if g, ok := t.asked[req.ID]; ok {
		if g.Client != req.Client || g.Hub != req.Hub {
			return refuse(bus.CodeIDConflict, "id %s asked for money of %s at %s before", req.ID, g.Client,
				g.Hub)
		}
		return nil
	}
	if req.Least < 0 || req.Least > req.Amount {
		return refuse(bus.CodeBadRequest, "least is %s: want 0 to the amount of %s", req.Least, req.Amount)
	}
	if err := t.known(req.Client); err != nil {
		return err
	}
	if _, err := t.vouchedFor(req, need(req)); err != nil {
		return err
	}
	c := t.waitlists[req.Client]
	if c.find(bus.OpAllot, req) != nil {
		return t.enqueue(bus.OpAllot, req, to)
	}
	others := c != nil && c.first() != nil
	if others && req.Ahead {
		return refuse(bus.CodeAllotmentPending, "other tasks of client %s wait for money", req.Client)
	}
	granted, err := t.grant(req, others)
	switch {
	case err != nil || granted:
		return err
	case req.Ahead:
		return t.insufficient(req, "")
	}
	return t.enqueue(bus.OpAllot, req, to)
}

// grant grants the amount asked for, but at most half of the client's rest, so that a small client is not
// stranded across hubs. Where half is of no use to the hub and the whole would be, or where others wait, it
// gets what it needs: to refuse a task that its client can pay would be untrue (I19).
func (t *Treasury) grant(req *bus.FundsRequest, others bool) (bool, error) {
	prepaid, _ := t.Book.Prepaid(req.Client)
	amount := min(req.Amount, max(prepaid/2, req.Least))
	if others {
		amount = need(req)
	}
	behind, err := t.vouchedFor(req, need(req))
	if err != nil {
		return false, err
	}
	if behind != nil {
		amount = min(amount, behind.all)
	}
	if amount > prepaid || amount == 0 {
		return false, nil
	}
	r := ledger.NewGrant(req.Hub, t.Book.LastGrant(req.Hub)+1, req.Client, amount, req.ID, t.salt())
	if behind != nil {
		r.Transfer.Vouched = behind.grant(amount)
	}
	if err := t.apply(r); err != nil {
		return false, err
	}
	g := r.Transfer
	t.remember(bus.Grant{Number: g.Number, Client: g.Client, Hub: g.Hub, Amount: g.Amount}, req.ID)
	if c := t.waitlists[req.Client]; c != nil && c.poll != nil {
		c.poll.granted(c.first(), req.Hub, t.Book.LastGrant(req.Hub))
	}
	return true, nil
}

// need is the least that is of use to who asks.
func need(req *bus.FundsRequest) market.Credits {
	if req.Hub == "" { // a payout
		return req.Amount
	}
	return max(req.Least, 1)
}

// remember keeps a grant for hubs that missed the answer, and forgets the hub's oldest beyond Config.Grants.
func (t *Treasury) remember(g bus.Grant, request string) {
	list := append(t.grants[g.Hub], g)
	if over := len(list) - 2*t.cfg.Grants; over >= 0 {
		list = slices.Clone(list[len(list)-t.cfg.Grants:])
		oldest := list[0].Number
		for id, g := range t.asked {
			if g.Hub == list[0].Hub && g.Number < oldest {
				delete(t.asked, id)
			}
		}
	}
	t.grants[g.Hub] = list
	t.asked[request] = g
}

// after returns a hub's grants above a number, the lowest first, at most grantsPerReply.
func (t *Treasury) after(hub string, number uint64) []bus.Grant {
	list := t.grants[hub]
	i, _ := slices.BinarySearchFunc(list, number+1,
		func(g bus.Grant, n uint64) int { return cmp.Compare(g.Number, n) })
	return slices.Clone(list[i:min(len(list), i+grantsPerReply)])
}

// canTell checks that the grants a hub asks for are still remembered.
func (t *Treasury) canTell(req *bus.FundsRequest) error {
	last := t.Book.LastGrant(req.Hub)
	switch list := t.grants[req.Hub]; {
	case req.After > last:
		return refuse(bus.CodeBadRequest,
			"hub %s has accepted %d grants and was given %d: its journal and the treasury's are not of "+
				"one market", req.Hub, req.After, last)
	case req.After < last && list[0].Number > req.After+1:
		return refuse(bus.CodeBadRequest,
			"grants to hub %s before number %d are no longer at hand: its journal has lost its end; "+
				"restore it from a copy", req.Hub, list[0].Number)
	}
	return nil
}

// maxEarly bounds how far a return may be ahead of its turn: four times the returns that a hub sends at once.
// One beyond is refused, and sent again when those before it have come.
const maxEarly = 1 << 8

// early is a return that overtook one of a lower number.
type early struct {
	to     any
	client string
	amount market.Credits
}

// giveBack takes a hub's return in. Returns are numbered and taken in order; one that overtook another waits.
func (t *Treasury) giveBack(req *bus.FundsRequest, to any) error {
	n, ok := numberOf(req, bus.ReturnID)
	if !ok {
		return refuse(bus.CodeBadRequest, "id: want %s for the hub's first return", bus.ReturnID(req.Hub, 1))
	}
	if next := t.Book.LastReturn(req.Hub) + 1; n > next {
		// the returns before it can only make that less
		if has := t.Book.Allotted(req.Client, req.Hub); req.Amount > has {
			return refuse(bus.CodeInsufficientFunds, "hub %s has %s of client %s", req.Hub, has, req.Client)
		}
		if n-next > maxEarly {
			return refuse(bus.CodeUnavailable,
				"return %d of hub %s, where return %d follows: say that one first, then this one again", n,
				req.Hub, next)
		}
		if t.early[req.Hub] == nil {
			t.early[req.Hub] = map[uint64]early{}
		}
		t.early[req.Hub][n] = early{to, req.Client, req.Amount}
		return errLater
	}
	if err := t.reclaim(req, n); err != nil {
		return err
	}
	t.takeEarly(req.Hub)
	return nil
}

// numberOf is the number of a hub's return or distribution by the request's id.
func numberOf(req *bus.FundsRequest, id func(hub string, n uint64) string) (uint64, bool) {
	n, err := strconv.ParseUint(req.ID[strings.LastIndexByte(req.ID, '-')+1:], 10, 64)
	return n, err == nil && n > 0 && req.ID == id(req.Hub, n)
}

// reclaim takes in a return whose turn it is.
func (t *Treasury) reclaim(req *bus.FundsRequest, n uint64) error {
	delete(t.early[req.Hub], n)
	known := n <= t.Book.LastReturn(req.Hub)
	err := t.apply(ledger.NewReclaim(req.Hub, n, req.Client, req.Amount, t.salt()))
	if err == nil {
		if !known {
			t.waitlists[req.Client].gave(req.Hub, n)
		}
		t.came(req.Client)
	}
	return err
}

// takeEarly takes in the returns that waited.
func (t *Treasury) takeEarly(hub string) {
	for {
		n := t.Book.LastReturn(hub) + 1
		e, ok := t.early[hub][n]
		if !ok {
			return
		}
		req := bus.FundsRequest{ID: bus.ReturnID(hub, n), Hub: hub, Client: e.client, Amount: e.amount}
		err := t.reclaim(&req, n)
		if t.reply(bus.OpReturn, &req, e.to, err); err != nil {
			return
		}
	}
}
