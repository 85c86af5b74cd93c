// Package machines tests machines of the market together, in virtual time and without their shells: on a
// network that loses, repeats, delays and reorders what they say to one another. One test has hubs and a
// treasury. Another has a whole market, whose doors, hubs, agents and treasury are killed, cut off and stand
// still.
package machines
