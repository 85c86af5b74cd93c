// Package fleet runs a market as a deployment does, each part a process of its own on loopback, started from
// files; hurts the parts on command; and at the end accounts for every task: what its client was told against
// what the journals say.
package fleet
