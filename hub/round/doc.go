// Package round decides who begins where and what a slot costs. It is pure: agents and estimates in, a round
// for package market out. What rounds teach about the prices of slots follows from their records alone, so it
// is in package market (Rates), where an audit finds it, too.
//
// Whoever waits is matched, jointly and exactly, to a slot that is free or to one that will soon be. Who is
// matched to a free one begins; the others wait, and are matched anew when something changes. A slot has one
// price a second, learned from what one more of it would have added to earlier plans.
//
//	weight(i, a, t)  value of task i at agent a when its seat comes in t, less cost, less toll; who has no
//	                 seat of weight 0 or more gets none
//	toll(i, a)       max(0, price(a) * (service(i, a) + running(a) * prefill(i, a)) - common)
//
// The toll is the slot, for as long as the task keeps it, and keeps those who run there from theirs while its
// prompt is computed. What everybody would pay moves nobody, so nobody pays it: common. That is so as long
// as nobody is refused: where tasks of two clients were, of late, a slot costs what they would have had of
// it, and nothing is left off. Each number in a toll is of earlier rounds, so no bid of a round moves one in
// that round.
package round
