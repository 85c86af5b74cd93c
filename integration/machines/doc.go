// Package machines tests machines of the market together, hubs and a treasury, in virtual time and without
// their shells: on a network that loses, repeats, delays and reorders what they say to one another.
package machines
