package treasury

import (
	"slices"
	"time"

	"souk/bus"
	"souk/ledger"
)

// writeOff ends a hub whose journal is gone for good, or answers what that would come to. Clients' money
// there comes back to them, less what they had spent by the hub's last mark.
func (t *Treasury) writeOff(req *bus.FundsRequest, to any) error {
	hub := req.Hub
	switch {
	case t.Book.WrittenOff(hub):
		t.answer(to, req, bus.FundsReply{Gone: t.Book.Balance(ledger.Lost(hub)), Lost: true})
		return errLater
	case !t.Book.Knows(hub):
		return t.dealt(hub)
	case t.Book.Closed(hub):
		return refuse(bus.CodeBadRequest, "hub %s has ended, and has given back what clients had there: there is "+
			"nothing to write off", hub)
	}
	lives := t.lives(req)
	if req.Sure && lives != nil {
		return lives
	}
	r := t.Book.NewWriteOff(hub, t.salt())
	reply := bus.FundsReply{Back: r.WriteOff.Back, Gone: r.WriteOff.Lost}
	if known, _ := t.Book.Marked(hub); !known.Zero() {
		reply.Known = &known
	}
	var clients []string
	for _, l := range r.Legs {
		if client, ok := ledger.PrepaidOf(l.Account); ok {
			clients = append(clients, client)
		}
	}
	reply.Number = uint64(len(clients))
	switch {
	case req.Sure:
		if err := t.apply(r); err != nil {
			return err
		}
		reply.Lost = true
		t.dropPending(hub)
		t.richer = append(t.richer, clients...)
	case lives != nil:
		reply.Message = bus.MessageOf(lives)
	}
	t.answer(to, req, reply)
	return errLater
}

// lives returns why a hub cannot be taken for lost: it leads, or speaks, or might.
func (t *Treasury) lives(req *bus.FundsRequest) error {
	hub, w := req.Hub, t.heard[req.Hub]
	switch {
	case len(req.Leads) > 0:
		domain := slices.Min(req.Leads)
		return refuse(bus.CodeBadRequest, "hub %s leads domain %s, by what stands in etcd at %s: it is not "+
			"lost. Stop it for good first; if it has died, etcd forgets it once its lease is over. If the "+
			"hub of that domain has another journal, and names this one there, stop that hub and shut it "+
			"out (souk auth revoke)",
			hub, domain,
			bus.HubKey(domain))
	case !w.at.IsZero() && t.now.Sub(w.at) < lively:
		return refuse(bus.CodeBadRequest, "hub %s was heard of %v ago: it is not lost. Stop it for good "+
			"first, and wait %v", hub,
			t.now.Sub(w.at).Round(time.Second), lively)
	case t.now.Sub(t.since) < lively:
		return refuse(bus.CodeUnavailable, "the treasury has listened for %v, and hubs speak every %v: "+
			"ask again in %v, when it knows that hub %s is silent", t.now.Sub(t.since).Round(time.Second),
			bus.FundsEvery,
			(lively - t.now.Sub(t.since)).Round(time.Second), hub)
	}
	return nil
}
