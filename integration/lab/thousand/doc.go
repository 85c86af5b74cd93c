// Package thousand plays a thousand engines for ten minutes of virtual time: one market, as many engines
// divided among several hubs, and rules; what a round takes, what a record needs, and whether an audit has
// found every round to be right.
package thousand
