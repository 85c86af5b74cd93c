// Package market clears one round: it decides which task is served by which agent, and what each client owes,
// so that honesty pays and no cost goes uncovered.
//
// The mechanism follows "IEMAS" (Eq. 1-10): a hub collects tasks into a round, expects what each would be
// worth and cost on each agent, and clears the round.
//
// # The network
//
// The paper turns the welfare maximum (Eq. 7) into a min-cost flow (Eq. 10): every task sends one unit from
// the source, an edge costs -w, where w = value - cost, and an agent passes on as many units as it has slots.
//
//	source --1, 0--> task j --1, -w(j,i)--> agent i --slots(i), 0--> sink
//	                   |                                              ^
//	                   +-----------------1, 0 (ours)------------------+
//
// As printed, a min-cost MAX-flow must push as many units as it can, even where that costs welfare: with t1:
// A 10, B 1 and t2: A 5 it serves both, for 6, instead of t1 alone on A, for 10, and charges t2 more than its
// task is worth. Theorem 4.1 does not hold for it. The lower arc is what we added: a task may go straight to
// the sink, at no gain. The same flow then has the greatest weight, not the greatest number; equivalently,
// stop augmenting where a path no longer pays. testdata/max-flow.txt keeps the counterexample.
//
// An agent's slots come in tiers of rising congestion charge, since everything placed in one round meets the
// others there; a convex cost is exact as parallel arcs into the agent. Each tier is a node of its own here.
// The charge goes to surplus and not to the agent: one that asks for more gets fewer tasks and nothing for
// it.
//
// # Money
//
//	value     what the task is worth on that agent (Eq. 1, in money; Terms.Value)
//	cost      what the agent is expected to be due (Eq. 6; Price.Cost)
//	toll      <= 0: congestion charge of the tier + the regime's toll - the flat fee; it reads no bid
//	weight    value - cost + toll, less what waiting is worth to the task: the round maximises their sum
//	premium   slot price - toll: what the client owes beside the cost, fixed when the round is cleared
//
// The slot price of a tier is what one more slot there would add to welfare. It is the least price that
// supports the best assignment (Leonard 1983; Demange, Gale, Sotomayor 1986) and equals the externality
// W(C\{j}) - (W(C) - w) of every task placed there, the paper's Eq. 8 less the cost; so one pass prices
// everybody and no round is solved again without each task. It is unique: ties never move a payment.
//
// The toll is charged, and the fee is part of it: a toll that moves the assignment and is not paid makes
// lying pay.
//
// Cost settles by one function (Settle) on both sides, the same integer for client and agent, so that no
// error of prediction opens a deficit (Eq. 9, realised and not only expected). Under "quoted", the paper's
// rule (A.3), it is the quote, and truth is exactly dominant for clients. Under "metered", the default, it is
// the price card on real usage, and truth is best as long as the quote is unbiased given what the client
// knows: a client that knows its output length better than the predictor can gain by it
// (TestPrivateLengthPaysUnderMeteredOnly). That is the price of billing what people see.
//
// Under clarke "task" a client with several tasks in a round can gain by lying about one in favour of
// another; under "client", the default, its tasks are priced together and it cannot.
//
// # Waiting
//
// A task that may wait for an agent that is full now (Task.Wait) has an outcome beside the slots of the
// round: wait, worth its loss u0. That is what the same terms are worth there later, less cost, tolls and
// the slot price which that agent had when the task came. Every edge's weight is less by u0, so that a slot
// goes to the task only where it is worth more to it than waiting, and what it pays never leaves it less
// than u0.
//
// In one round nothing of the above changes. The outcomes of a task are {slot 1, slot 2, ..., wait}, each
// with a value from its own terms; taking u0 off all of them but "wait" only shifts where they count from,
// and a task that is left out has u0 and pays nothing. So it is Clarke's rule as before: with u0 made from
// the terms that are said by the same function for everybody, no client gains in its round by saying others
// (TestLiesAboutTermsDoNotPay), and each pays the welfare that it takes from others, where theirs counts
// what waiting is worth to them. Slot prices in u0 are those from before the task came: else its own losing
// bids would raise the price of waiting, and with it its u0 would depend on what it said in rounds that it
// lost.
//
// Over several rounds this proves nothing. u0 is a forecast: a client that knows better than the hub how
// long the line is, or what a slot will cost by then, has another worth of waiting than the one that is
// counted for it. Where the forecast is too rosy it gains by terms under which waiting looks worse, such as
// less patience than it has, and where it is too dark by the reverse. What a round charges is part of what
// waiting is worth to those who come later, so a client with many tasks can gain by losing, or by paying, a
// little now. Tasks that never win pay nothing and yet lengthen the line that others are forecast to wait
// in. The share of u0 that is left falls with the time that a task has waited, without a step, so that no
// moment is the one to bid low at.
//
// What such lies gain is measured, on random rounds that a hub makes of some ten tasks on two to four agents,
// by the best of thirty lies about worth, delta and patience of a client's tasks (hub: wait_test.go,
// lies_test.go, which hold the bounds):
//
//   - where the hub's forecast of waiting is fair: nothing, of 100,000 lies
//   - where waits are forecast a quarter to four times as long as they are: at most 1 % of what all have by
//     the truth (0.06 to 0.39 %), and of one client in particular a third
//   - several tasks under names of their own, with true terms: a loss (0.5 %), as each name is priced by
//     itself; with lies at most 0.1 % (below 0.01 %)
//   - several tasks of one name under clarke "task": at most 0.5 % (0.25 %); of one that has next to nothing
//     by the truth many times that. Under "client" nothing
//   - 300 tasks that cannot win: nothing, whoever sends them loses, too. Others lose at most 1 % where they
//     come under one name (0.1 %), 7 % under twenty (4.4 %), 12 % under 300 (8.7 %): each name has a share of
//     the slots in the lines, and one slot at least
//
// # Pruning
//
// A round is cleared without what cannot matter to it (Pruner), and is recorded so. What is left has the
// welfare, slot prices and bills of the whole, so whatever holds of that holds of it. Only where more tasks
// can matter than a round may hold does the rule that leaves out the latest to come decide, and counts them
// (Pruned.Beyond): the rule reads no bid, but how many can matter does depend on bids, so that then, and
// only then, a bid may decide whether another task is in the round.
//
// # Agents can lie too
//
// The rule's pricing says what an agent is paid beside what its tasks cost it.
//
//	vcg     what its price card says. Truth is best for clients; an agent gains by asking more. For one
//	        operator of all agents.
//	tariff  what the first losing owner of its class asked, for an epoch (Epoch.Clear, Round.Sellers): truth
//	        is best for both
//	posted  a published tariff, and clients served one after another: truth is best for both, welfare is
//	        less; also where a solve had to be stopped, under its own name (Rule.Instead): a round without
//	        prices is never passed off as one with
//
// Under every one of them what clients pay covers what agents are due, in every round. Paying agents by
// Clarke's rule too would make truth best for both at full welfare, and runs a deficit; it is not offered.
//
// # The toll
//
// Whatever else wants a say in a round, a regime or a policy, has one door, Edge.Toll: at most zero, never a
// function of a bid, and charged. Each of the three is needed (toll_test.go): a bonus opens a deficit, a toll
// on bids and one that is not charged make lying pay.
//
// # Proof
//
// An Outcome carries its proof: slot prices, a witness for each (somebody who would take the slot at any
// lower price), and, where several assignments are equally good, second prices that show that the round's
// seed chose among them. Check verifies all of it in time linear in the edges by package certify, which
// shares no line with the solver, package flow.
//
// # What is not covered
//
// The mechanism prices one round among the tasks that are in it. It promises nothing about
//
//   - learning across rounds: a client may bid low today to be taken for a low bidder tomorrow, or wait for
//     a quieter round; and what waiting is worth beyond its round (see Waiting)
//   - what a hub left out of a record: that it pruned by the rule, and that its forecast of waiting is fair,
//     is its word
//   - collusion: clients who agree on their bids, and clients with agents' owners
//   - siblings across hubs, rounds and names of one owner: clarke "client" sees the tasks of one name in one
//     round (for names, see Waiting)
//   - the choice of a hub: quotes and prices of hubs are compared by the client, not cleared together
//   - warming a cache with dummy prefills to shift one's own quotes; or having the hub do so, by dialogues
//     that begin alike: that costs the operator at most what it gave the hub for texts on idle agents
//   - agents' honesty about price cards under pricing "vcg": it assumes that one operator owns the agents
//   - owners with agents in several classes under "tariff", where an ask that loses in one class may send
//     clients to another; and owners whose agents of one class differ in cost: their asks count as the
//     highest of them
//   - several names of one client under "posted": each has its own place in the line
//   - the count of tokens: the seller's own daemon counts them (the paper's hub proxies them), which is why
//     the client's door counts too and the audit compares
package market
