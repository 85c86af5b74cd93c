// Package virtual plays recorded dialogues on simulated engines in virtual time, much faster than by the
// clock. A policy decides which engine serves each request: one of the published rules, or the market.
//
// A run ([Run]) takes events from one heap, in order of their time: callers ask, engines step, the policy
// wakes. Nothing reads a clock or starts a goroutine, so the same seed gives the same figures, bit by bit, on
// any machine.
//
// An engine behaves like the stand-in of package vllmsim, without text: the same cache, the same batches, the
// same time for each step. The market is the real one: a hub.Node, and an agentd.Agent for each engine. All
// their messages pass the codec and take time to arrive, and their journal is audited.
package virtual
