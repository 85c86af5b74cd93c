package hub

import (
	"time"

	"souk/bus"
)

// room counts the clients of the waiting room by how many of their tasks wait there, so that whoever comes to
// a full one is refused at no cost.
type room struct {
	clients []int // with so many tasks in it
	most    int   // tasks of one client
}

// move says that a client has so many tasks in the room, and had so many before.
func (r *room) move(from, to int) {
	for len(r.clients) <= max(from, to) {
		r.clients = append(r.clients, 0)
	}
	r.clients[from]--
	r.clients[to]++
	r.most = max(r.most, to)
	for r.most > 0 && r.clients[r.most] == 0 {
		r.most--
	}
}

// squeezes reports whether a client that has so many tasks waiting would still find room for another, at the
// cost of a client that has more. Room is shared by counting tasks: no bid is read.
func (r *room) squeezes(has int) bool { return has+1 < r.most }

// spare is how many more tasks the hub takes: those that wait, and as many more as have a slot that is free.
func (n *Node) spare() int { return max(n.cfg.MaxWaiting-n.waiting, n.cfg.MaxWaiting+n.slots-n.open) }

// sized says that an agent sells so many slots.
func (n *Node) sized(a *agent, slots int) {
	n.slots += slots - a.sold
	a.sold = slots
}

// makeRoom sends away what is too much in the waiting room: of the client that has most in it, what came
// last. Where several have as many, it is the last of all of theirs.
func (n *Node) makeRoom() {
	for n.spare() < 0 {
		t, _ := n.batch.Latest(func(t *task) bool {
			return n.accounts[t.key.client].waiting == n.room.most
		})
		n.end(t, n.refusal(t.msg, bus.CodeNoRoom, time.Second,
			"%d tasks wait, all that may, and no client has more among them than %s, with %d: its last "+
				"to come has to leave", n.waiting-1, t.key.client, n.room.most))
	}
}
