package treasury

import (
	"souk/bus"
	"souk/bus/tip"
	"souk/ledger"
)

// closeMonth closes a month that is over, once.
func (t *Treasury) closeMonth(req *bus.FundsRequest, to any) error {
	o := tip.Order{}
	if req.Order != nil {
		o = *req.Order
	}
	no := func(format string, args ...any) error { return refuse(bus.CodeBadRequest, format, args...) }
	last := t.Book.ClosedMonth()
	switch {
	case !ledger.ValidMonth(o.Month):
		return no("month: %.20q is none: write it like 2026-11", o.Month)
	case o.Month == last:
		return no("month %s is closed already, by record %s: what is for it now is a correction, and names "+
			"it", o.Month, ledger.MonthID(o.Month))
	case o.Month < last:
		return no("month %s is closed, as %s is, with all before it: no month is opened again", o.Month, last)
	case t.now.UnixNano() < ledger.EndOf(o.Month):
		return no("month %s is not over: by the treasury's clock it is %s UTC", o.Month,
			t.now.UTC().Format("2006-01-02 15:04:05"))
	}
	r := t.Book.NewMonth(o.Month, o.By, o.Note, t.salt())
	if err := t.apply(r); err != nil {
		return err
	}
	debits, credits := r.Month.Totals()
	t.answer(to, req, bus.FundsReply{Number: r.Month.Accounts, Debits: debits, Credits: credits})
	return errLater
}
