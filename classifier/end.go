package classifier

import (
	"time"

	"souk/bus"
)

// How many ends of sessions a door passes on in a second, of all clients and of each: every hub hears each.
const (
	EndsMost = 2048
	EndsEach = 256
)

// ends counts the ends of sessions in one second.
type ends struct {
	begun   time.Time
	all     int
	clients map[string]int
}

// EnterEnd takes the end of a client's session in, of so many bytes, or says what is in its way.
func (d *Desk) EnterEnd(client string, size int, now time.Time) *bus.Error {
	if no := d.judge(client, size); no != nil {
		return no
	}
	e := &d.ends
	if since := now.Sub(e.begun); since < 0 || since >= time.Second {
		e.begun, e.all = now, 0
		clear(e.clients)
	}
	switch {
	case e.clients[client] >= EndsEach:
		return refusal(bus.CodeTooManyTasks, "%s has ended %d sessions in a second and may end no more; say it "+
			"again in a second", client, EndsEach)
	case e.all >= EndsMost:
		return refusal(bus.CodeNoRoom, "the door passes on %d ends of sessions in a second and no more; say it "+
			"again in a second", EndsMost)
	}
	e.all++
	e.clients[client]++
	return nil
}
