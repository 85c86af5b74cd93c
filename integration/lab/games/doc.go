// Package games plays the experiments of "The Price of Anarchy in Disaggregated Inference" (anarchy) in
// virtual time, with its router and with the market in front of the same engines.
//
// What is real: engines step as Llama 3.1 70B on four B200 was measured to ([vllmsim.Profiles]); their caches
// and schedulers are the stand-in's; the market is a hub.Node with its agents, whose journal is audited.
//
// What is set: no profile explains the 47 and 51 requests a second at which the paper's one engine for
// prompts is full, as it computes 128 tokens in 4 ms. So here it computes one prompt after another, in as
// much time as that rate says (see [Topology]), and hands over keys and values at no cost.
package games
