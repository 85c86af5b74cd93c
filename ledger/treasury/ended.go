package treasury

import (
	"maps"
	"slices"

	"souk/bus"
	"souk/ledger"
)

// close ends a hub whose journal holds nothing of anyone's, as far as the two of them know the same: nothing
// is granted to it from then on, so it can close its journal.
func (t *Treasury) close(req *bus.FundsRequest) error {
	for _, x := range []struct {
		what      string
		hub, here uint64
	}{{"grant", req.After, t.Book.LastGrant(req.Hub)}, {"return", req.Returned, t.Book.LastReturn(req.Hub)},
		{"order", req.Ordered, t.Book.LastOrder(req.Hub).Number}} {
		if x.hub != x.here {
			return refuse(bus.CodeBadRequest, "the last %s of hub %s is number %d in its journal and %d in "+
				"the treasury's", x.what, req.Hub, x.hub, x.here)
		}
	}
	t.dropPending(req.Hub)
	if !t.Book.Knows(req.Hub) { // it never had anything
		return nil
	}
	return t.apply(ledger.NewClose(req.Hub, t.salt()))
}

// dropPending forgets the pending requests of a hub that ends: money that came for them would belong to
// nobody.
func (t *Treasury) dropPending(hub string) {
	delete(t.early, hub)
	for _, client := range slices.Sorted(maps.Keys(t.waitlists)) {
		c := t.waitlists[client]
		for _, q := range slices.Clone(c.queue) {
			if q.op != bus.OpAllot || q.req.Hub != hub {
				continue
			}
			if t.remove(c, q); q.waits {
				t.reply(q.op, &q.req, q.to, refuse(bus.CodeBadRequest, "hub %s has ended", hub))
			}
		}
	}
}
