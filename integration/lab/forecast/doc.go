// Package forecast judges what a hub expects of its agents: on streams of tasks that simulated engines serve
// in virtual time, every way of forecasting is asked before a task is sent, and taught once it has ended.
//
// A stream is made on the fly, and the same seed makes the same one. A forecast uses what a hub knows: its
// own dispatches and completions, its belief of caches, and engines' metrics now and then. So a first token
// is known only with the end of its answer.
//
// Two streams are those that the formulas were chosen on; the others come from recorded traces, at which
// nobody looked. NMAE is the sum of what forecasts were off by the sum of what came.
package forecast
