// Package economics plays the market as a game: simulated clients and agents over hundreds of rounds, cleared
// by package market itself, without a network. It answers who gains by lying, what each rule of pricing and
// settlement does to clients, agents and the surplus, and what cutting a market into clusters costs. How it
// compares with simpler rules on the same arrivals is for package virtual (lab crowd).
//
// # What is real, and what is assumed
//
// Conversations are the bundled public dialogues (package replay): their turns, the lengths of their prompts
// and of their recorded answers, at four bytes a token. Price cards are published rows with a cached price
// (package local). Prefill speeds are those measured on engines (package vllmsim). Clients' terms are those
// of a replay (replay.Mix).
//
// Assumed, since no public data gives it for these models: the quality of a model in a domain (0.58 to 0.80
// by its price of output, 0.12 more where the agent is a specialist, 0.10 less where another is); the lengths
// of answers of the one source that has none (GSM8K: log-normal, median 120 tokens); and time, which is
// counted in rounds: a turn takes one, a turn that was not served asks again for two more rounds and is then
// lost.
//
// An agent keeps the prefixes of the sessions it served last, whole, up to its capacity in tokens; what a
// prompt has in common with its own session's prefix is cached (iemas Eq. 4), in blocks of 16 tokens.
//
// Everything comes from a seed: the same options give the same tables.
package economics
