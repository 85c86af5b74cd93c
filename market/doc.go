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
// As printed in the paper, a min-cost MAX-flow must push as many units as it can, even where that costs
// welfare. For example, let t1 be worth 10 on A and 1 on B, and t2 be worth 5 on A. The max-flow serves both,
// for 6, instead of t1 alone on A, for 10, and charges t2 more than its task is worth. So Theorem 4.1 does
// not hold for it. We added the lower arc: a task may go straight to the sink, at no gain. The flow then has
// the greatest weight instead of the greatest number of units. testdata/max-flow.txt keeps the
// counterexample.
//
// An agent's slots come in tiers with a rising congestion charge, because tasks on one agent slow each other.
// Such a convex cost is exact as parallel arcs into the agent; here each tier is a node of its own. The
// charge goes to surplus and not to the agent: an agent that asks for a higher one gets fewer tasks, and
// nothing for it.
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
// The toll is charged, and the fee is part of it. A toll that changed the assignment and was not paid would
// make lying pay.
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
// A task may have the choice to wait for an agent that is full now (Task.Wait). Waiting is then one more
// outcome beside the slots of the round. Its worth is called u0: what the hub forecasts that the same terms
// will be worth at that agent later, less cost, tolls and the slot price that the agent had when the task
// came. The weight of each of the task's edges is less by u0. So the task gets a slot only where that is
// worth more to it than waiting, and what it pays never leaves it with less than u0.
//
// In one round nothing of the above changes. The outcomes of a task are {slot 1, slot 2, ..., wait}, and each
// has a value that its own terms give. Subtracting u0 from all of them but "wait" only moves the zero from
// which they count; a task that is left out has u0 and pays nothing. So the rule is still Clarke's. For every
// task u0 is made from its stated terms by the same function, so no client gains in its round by stating
// others (TestLiesAboutTermsDoNotPay). Each pays the welfare that it takes from others, and their welfare
// includes what waiting is worth to them. The slot prices in u0 are from before the task came. Otherwise a
// task's own losing bids would raise the price of waiting, and its u0 would depend on what it said in rounds
// that it lost.
//
// Time is counted from the round on, in the value of a slot as in u0. What a task has waited by then is lost
// whether it is served or not, and counts in neither: so one that was served late may have paid more than its
// answer was worth by all of its time. From when on it is worth nothing its deadline says.
//
// Over several rounds this proves nothing. u0 is a forecast. A client that knows better than the hub how long
// the wait is, or what a slot will cost by then, has another u0 than the one that is counted for it. Where
// the forecast is too good, it gains by stating terms under which waiting looks worse, such as less patience
// than it has; where the forecast is too bad, by the reverse. Also, what a round charges is part of what
// waiting is worth to those who come later, so a client with many tasks can gain by losing, or by paying a
// little, now. Tasks that never win pay nothing, and yet lengthen the line that others are forecast to wait
// in. How much of u0 counts falls smoothly with the time that a task has waited, so that there is no one
// moment at which it is best to bid low.
//
// What such lies gain is measured, on random rounds that a hub makes of some ten tasks on two to four agents,
// by the best of thirty lies about worth, delta and patience of a client's tasks. The tests wait_test.go and
// lies_test.go of package hub hold these bounds; what was measured stands in brackets:
//
//   - where the hub's forecast of waiting is fair: none of 100,000 lies gained anything
//   - where waits are forecast a quarter to four times as long as they are: at most 1 % of what all clients
//     have by the truth (0.01 to 0.12 %); for a single client up to a third of what it has
//   - several tasks, each under a name of its own, with true terms: a loss (0.2 %), as each name is priced by
//     itself; with lies a gain of at most 0.1 % (below 0.01 %)
//   - several tasks of one name under clarke "task": at most 0.5 % (0.12 %); as much again as it has for a
//     client that has next to nothing by the truth. Under "client" nothing
//   - a false deadline: nothing
//   - a task that is cancelled and asked again, so that it comes last: a loss on the whole (0.2 to 0.4 %). In
//     15 of 100 cases at most it gains (11), some clients as much again as they have: others then stand
//     further ahead in their lines, rather wait, and leave it a slot
//   - 300 tasks that cannot win: nothing; who sends them loses as well. Others lose at most 1 % if these
//     tasks come under one name (0.2 %), 7 % if under twenty (2.1 %), 12 % if under 300 (6.3 %), because each
//     name counts in the lines with its share of the slots, and with one slot at least
//
// Over many rounds, as a hub holds them, what a lie told all the while gains was measured once: in two times
// forty made-up minutes of eight clients with 18 slots, nine tenths of them busy, under "quoted" and without
// the crowd's tolls. A client that says four times its patience gains 3.6 and 5.4 % of what it has (with 95 %
// within 1.0 and 1.3 of that), and one that says twice 1.7 % (1.4); 32 times loses 8 %, and half 3 %. A fifth
// less worth than the truth gains nothing, and a quarter more loses 3 %. It comes of waiting: where no task
// has that choice, four times its patience loses 1.4 and 1.8 %. With the tolls as they are delivered chance
// hides it (5 %, within 13).
//
// # Sessions with seats
//
// Where a hub admits sessions (package hub/seat), who may go where and what it is charged is fixed before any
// bid is read, so no bid buys a seat. What can be gained is gained without lying in a bid: by opening many
// sessions for more seats, by cutting one session into several, by asking something small now and then so
// that a session looks alive (which costs whoever asks), and by ending none. The bound on the seats of one
// client is all that stands against the first two; under several names a client has several such bounds. To
// say that a session has ended when it has not costs that session its seat, and nobody else anything.
//
// # Hints
//
// A client may say what comes next in its sessions: that one ends, when it is back, what it began, what is
// next, in which role. No price reads that, and what follows from it is fixed before any bid is read. What
// false hints gain was measured over 1,000 turns of one client, five times, against the same client telling
// the truth, under metered settlement and under "quoted" ("lab hints"). A hint that is always
// false gains nothing that can be told from nothing: each lies between -0.02 and +0.04 % of what the client
// has, with 95 %. A single false one gains less than 0.01 %. A session named as next is used again, and so is
// kept where others' are not: its client pays for that. What can be gained is gained elsewhere: under
// "quoted" a client whose role is false pays by a forecast of other answers' lengths until some four answers
// have corrected it: that gained nothing that can be told from nothing, nor did a new role for each turn.
//
// # Pruning
//
// A round is cleared and recorded without what cannot change its outcome (Pruner). What is left has the
// welfare, slot prices and bills of the whole round, so whatever is proved of these is true of the whole.
// There is one exception: where more tasks can matter than a round may hold, those that came last are left
// out and counted (Pruned.Beyond). That rule reads no bid. But how many tasks can matter does depend on bids;
// so in that case, and in no other, a bid can decide whether another task is in the round. A hub avoids it:
// it sells no more slots in a round than can have so many tasks matter (MostKept), and the others in more
// rounds of the same moment. Which are sold first is drawn by lot, by the last round's hash. Only where that
// would be too many rounds, or one agent has too many slots, it does not.
//
// # Agents can lie too
//
// The rule's pricing says what an agent is paid beside what its tasks cost it.
//
//	vcg     what its price card says. Truth is best for clients; an agent gains by asking more. For one
//	        operator of all agents.
//	tariff  for an epoch, what the first losing owner of its class asked (Epoch.Clear, Round.Sellers): truth
//	        is best for clients and agents
//	posted  a published tariff, and clients are served one after another: truth is best for both, welfare is
//	        less. Also used where a solve had to be stopped; Rule.Instead then says so, and a round without
//	        slot prices never passes for one with slot prices
//
// Under every one of them what clients pay covers what agents are due, in every round. Paying agents by
// Clarke's rule too would make truth best for both at full welfare, and runs a deficit; it is not offered.
//
// # The toll
//
// A regime or a policy can influence a round in one way only, by Edge.Toll. That is at most zero, never a
// function of a bid, and charged. Each of the three is needed (toll_test.go): a bonus opens a deficit, and a
// toll that depends on bids, or is not charged, makes lying pay.
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
//   - what a hub left out of a record: there is only its word that it pruned by the rule, and that its
//     forecast of waiting is fair
//   - collusion: clients who agree on their bids, and clients with agents' owners
//   - siblings across hubs, rounds and names of one owner: clarke "client" sees the tasks of one name in one
//     round (for names, see Waiting)
//   - the choice of a hub: quotes and prices of hubs are compared by the client, not cleared together
//   - clients that warm a cache with dummy prefills to change their own quotes, or have the hub do so, by
//     dialogues that begin alike; the latter costs the operator at most what it gave the hub for putting
//     texts on idle agents
//   - agents' honesty about price cards under pricing "vcg": it assumes that one operator owns the agents
//   - owners with agents in several classes under "tariff", where an ask that loses in one class may send
//     clients to another; and owners whose agents of one class differ in cost: their asks count as the
//     highest of them
//   - several names of one client under "posted": each has its own place in the line
//   - judgements of answers, which move later quotes: whoever sells may buy of himself and praise it, as far
//     as one of its clients counts there, and by no more than his part of what they pay
//   - the count of tokens: the seller's own daemon counts them (the paper's hub proxies them), which is why
//     the client's door counts too and the audit compares
package market
