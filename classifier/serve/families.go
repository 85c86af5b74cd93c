package serve

import (
	"souk/bus"
	"souk/bus/metrics"
)

// what an operator sees of a door
var (
	families metrics.Set

	doorTasks = families.Counter("souk_door_tasks_total", "Tasks that were answered, by outcome: ok is handed to an agent, "+
		"or answered whole.", "code")
	doorPlaceSeconds = families.Seconds("souk_door_place_seconds", "From a task's arrival until a hub has given it to an "+
		"agent: the wait for a slot is in it.", []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30})
	doorPlaced   = families.Counter("souk_door_placed_total", "Tasks that a hub took.", "hub")
	doorLabelled = families.Counter("souk_door_labelled_total", "Tasks by the label that the classifier gave them.",
		"label")
	doorUnsure = families.Counter("souk_door_unsure_total", "Of these, tasks of which it was not sure: they go to the "+
		"general hub.")
	doorRetried = families.Counter("souk_door_retried_total", "Tasks that one hub refused and the next was asked for.")
	doorResumed = families.Counter("souk_door_resumed_total", "Silent agents that were asked to repeat their answer.")
	doorAgain   = families.Counter("souk_door_repeated_total", "Requests that their readers sent once more.")
	doorQuotes  = families.Counter("souk_door_quotes_total", "Quotes given, ok, and refused, by the reason.", "code")
	doorEnds    = families.Counter("souk_door_session_ends_total", "Sessions said to have ended, ok, and what was not "+
		"understood.", "code")
	doorOpen    = families.Gauge("souk_door_open_tasks", "Tasks in hand.")
	doorClients = families.Gauge("souk_door_open_clients", "Clients that have tasks in hand.")
	doorSelling = families.Gauge("souk_door_hub_selling", "Of each hub that is live: 1 where it has agents and room, as it "+
		"said last, else 0.", "hub")
)

// observe has a collector read what the door counts.
func (s *Server) observe() {
	s.placed = families.Recorder(s.d.Meter, doorPlaceSeconds)
	families.Observe(s.d.Meter, func(say metrics.Say) {
		st := s.Stats()
		codes := func(f *metrics.Family, of map[bus.Code]uint64) {
			for code, n := range of {
				say(f, float64(n), metrics.Code(code))
			}
		}
		say(doorTasks, float64(st.Accepted+st.Collected), metrics.Code(""))
		codes(doorTasks, st.Refused)
		for hub, n := range st.Hubs {
			say(doorPlaced, float64(n), hub)
		}
		for label, n := range st.Domains {
			say(doorLabelled, float64(n), label)
		}
		say(doorUnsure, float64(st.Unsure))
		say(doorRetried, float64(st.Retried))
		say(doorResumed, float64(st.Resumed))
		say(doorAgain, float64(st.Repeated))
		codes(doorQuotes, st.Quoted)
		codes(doorEnds, st.Ended)
		say(doorOpen, float64(st.Open))
		say(doorClients, float64(st.Clients))
		for _, hub := range st.Market {
			say(doorSelling, 0, hub)
		}
		for _, hub := range st.Selling {
			say(doorSelling, 1, hub)
		}
	})
}
