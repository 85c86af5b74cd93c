package classifier

import (
	"maps"
	"time"

	"souk/bus"
)

// Stats counts what the door did since it started, and what it holds now.
type Stats struct {
	Received  uint64 `json:"received"`  // requests heard
	Repeated  uint64 `json:"repeated"`  // of those, asked again by readers who wait; not counted below
	Accepted  uint64 `json:"accepted"`  // streams handed over to their agents
	Collected uint64 `json:"collected"` // whole answers given
	// requests that got no answer of a model, by the reason given
	Refused map[bus.Code]uint64 `json:"refused"`
	Domains map[string]uint64   `json:"domains"` // tasks by the label they were sent under
	Unsure  uint64              `json:"unsure"`  // of those, tasks whose confidence was too low
	Hubs    map[string]uint64   `json:"hubs"`    // tasks taken, by hub
	Retried uint64              `json:"retried"` // tasks that one hub refused and the next was asked for
	Resumed uint64              `json:"resumed"` // silent agents asked to repeat their answer
	Quoted  map[bus.Code]uint64 `json:"quoted"`  // quotes given, and refused, by the reason given
	Ended   map[bus.Code]uint64 `json:"ended"`   // sessions said to have ended, and what was not understood
	// answers that nobody waited for, requests without a reply subject
	Stray   uint64   `json:"stray"`
	Open    int      `json:"open"`    // tasks in hand
	Clients int      `json:"clients"` // who have tasks in hand
	Market  []string `json:"market"`  // domains whose hubs are live
	// of those, domains whose hubs have said that they have agents, and room
	Selling []string `json:"selling"`
}

// Stats is a snapshot of what the desk counted, and of the market as the door sees it.
func (d *Desk) Stats(t *Table, now time.Time) Stats {
	s := d.stats
	s.Refused, s.Domains, s.Hubs = maps.Clone(s.Refused), maps.Clone(s.Domains), maps.Clone(s.Hubs)
	s.Quoted, s.Ended = maps.Clone(d.stats.Quoted), maps.Clone(d.stats.Ended)
	s.Open, s.Clients = d.tasks.open, len(d.tasks.clients)
	for _, h := range t.Hubs {
		if !h.fresh(d.c, now) {
			continue
		}
		s.Market = append(s.Market, h.Entry.Domain)
		if h.Status != nil && h.Status.Agents > 0 && h.Status.Room > 0 {
			s.Selling = append(s.Selling, h.Entry.Domain)
		}
	}
	return s
}
