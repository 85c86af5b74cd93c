package treasury

import (
	"souk/bus"
	"souk/ledger"
)

func (t *Treasury) known(client string) error {
	if _, ok := t.Book.Prepaid(client); !ok {
		return refuse(bus.CodeUnknownClient, "client %s has never made a deposit", client)
	}
	return nil
}

// payout pays prepaid money out, or moves it to another client. What is missing is looked for at hubs first.
func (t *Treasury) payout(op string, req *bus.FundsRequest, to any) error {
	if err := t.known(req.Client); err != nil {
		return err
	}
	// These mean nothing for a payout. A pending request would take them for the hub that is not asked, and
	// for an amount that is enough.
	plain := *req
	plain.Hub, plain.Least = "", 0
	if req = &plain; op == bus.OpPayout {
		plain.To = ""
	} else if err := bus.CheckID("to", req.To); err != nil {
		return refuse(bus.CodeBadRequest, "%v", err)
	} else if req.To == req.Client {
		return refuse(bus.CodeBadRequest, "to: %s has the money already: a move is to another client", req.To)
	}
	err := t.pay(op, req)
	if bus.CodeOf(err) == bus.CodeInsufficientFunds {
		return t.enqueue(op, req, to)
	}
	return err
}

// pay carries out a payment from the client's money with the treasury.
func (t *Treasury) pay(op string, req *bus.FundsRequest) error {
	switch op {
	case bus.OpBudget:
		t.makeUp(req.To)
		return nil
	case bus.OpPayout:
		return t.apply(ledger.NewPayout(req.ID, req.Client, req.Amount, t.said(req, false), t.salt()))
	}
	err := t.apply(ledger.NewMove(req.ID, req.Client, req.To, req.Amount, t.said(req, false), t.salt()))
	if err == nil {
		t.richer = append(t.richer, req.To)
	}
	return t.given(req.To, err)
}
