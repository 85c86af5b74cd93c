// Package virtual plays recorded dialogues on simulated engines in virtual time, an hour in a minute, with
// any rule in front that decides who serves whom: the published ones, or the market.
//
// Everything is decided by one heap of events ([Run]): callers ask, engines step, rules wake. Nothing reads a
// clock or starts a goroutine, so the same seed gives the same figures, bit by bit, on any machine.
//
// An engine is what the stand-in of package vllmsim is, without text: the same cache, the same batches, the
// same time for a step. The market is the real one: a hub.Node and an agentd.Agent for each engine, whose
// messages all pass the codec and take their time, and whose journal is audited at the end.
package virtual
