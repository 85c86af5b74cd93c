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
// An agent's slots come in seats: those that are free now, and those that a task which runs there is forecast
// to leave, each with its time (Seat). Each seat is a node of its own, and a task is worth less there by what
// the time until then costs it. So one solve decides who begins, and for what the others wait.
//
// # Money
//
//	value     what the task is worth on that agent (Eq. 1, in money; Terms.Value), less what the time until
//	          the seat comes costs it (Task.Second)
//	cost      what the agent is expected to be due (Eq. 6; Price.Cost)
//	toll      <= 0: what the slot costs others, by rounds before this one, - the flat fee; it reads no bid
//	weight    value - cost + toll: the round maximises their sum
//	premium   slot price - toll, without the part of it that the client's own tasks bear: what the client
//	          owes beside the cost as quoted
//
// The slot price of a seat is what one more slot there would add to the plan. It is the least price that
// supports the best plan (Leonard 1983; Demange, Gale, Sotomayor 1986) and equals the externality W(C\{j}) -
// (W(C) - w) of every task placed there, the paper's Eq. 8 less the cost: what the others lose, their delay
// included, because this task has the slot. So one pass prices everybody, and no round is solved again
// without each task. It is unique: ties never move a payment.
//
// The toll is charged, and the fee is part of it. A toll that changed the plan and was not paid would make
// lying pay. The one exception is what a client's own other tasks bear of it (Edge.Own): it moves the
// client's tasks like the rest of the toll, and is charged to nobody, since whom it delays is the client
// itself.
//
// A value has no floor. A task loses by every second, not only until its patience is over: else who is late
// would lose nothing more, be served last, and starve. For the same reason max_price bounds the worth
// (Terms.Bounded) and cuts no value off.
//
// Cost settles by one function (Settle) on both sides, the same integer for client and agent, so that no
// error of prediction opens a deficit (Eq. 9, realised and not only expected). Under "quoted", the paper's
// rule (A.3), it is the quote, and truth is exactly dominant for clients. Under "metered", the default, it is
// the price card on real usage, and truth is best as long as the quote is unbiased given what the client
// knows: a client that knows its output length better than the predictor can gain by it
// (TestPrivateLengthPaysUnderMeteredOnly). That is the price of billing what people see.
//
// The premium settles by one function, too (SettlePremium). Who leaves a slot sooner than was expected keeps
// others from it for less time, so under metered it is paid in proportion to the cost, at most what the hold
// has left: a task is as dear beside its card as it was quoted. Where quotes are unbiased that is, on the
// mean, what the round asked for. An answer longer than quoted may come to more than its value, as by cost.
//
// Who cancels pays no less than was quoted: else one that names a large max_tokens, for which much is
// expected, and cancels soon would pay next to nothing, time and again. Where it cancels is its choice, so no
// forecast learns from that: it would teach that its answers are short, for small tolls on long ones.
//
// Proportion misses two things. A hold has room for the premium once beside the worst case, so an answer that
// runs to its max_tokens pays hardly more than was quoted, however short it was expected. And where prompts
// take all of an engine's time a short answer pays less for as much, by its part of the quote.
//
// Under clarke "task" a client with several tasks in a round can gain by lying about one in favour of
// another; under "client", the default, its tasks are priced together and it cannot. What they cost the
// others is split over its seats by their slot prices, and it pays the part of those in which its tasks
// begin: where equals could have had the others, a lot moves that part.
//
// # Waiting
//
// Whoever waits is matched, jointly and exactly, to a seat of now or to one that is to come. Who is matched
// to a seat of now begins (Award). The others keep waiting, for the seat that the plan has for them (Planned)
// or for none, and are matched anew when something changes. A plan promises nothing: a seat to come may be
// another's when it comes.
//
// Of plans of equal weight that serve as many, the one is taken in which the most tasks begin, so nobody
// waits beside a free slot that is as good to it; then the one in which those with the smaller turns begin
// (Task.Turn), by which a hub lets those go first that waited longest, and after them the clients that had
// half more than the mean of the slots of late; then, where a Cutter is told how full agents are, the
// emptiest of those that are as good; then a lot decides, drawn by the salt of the round before and by no
// forecast in it. Money decides among equals nowhere.
//
// Who begins pays what the others lose by that, whether they are left out or wait longer. Who waits pays
// nothing yet. Within a round no client gains by stating terms that are not its own, of one task or of all
// (TestLiesAboutTermsDoNotPay), where two things count as what they are: the part of a toll that is not
// charged as a loss of the client's own other tasks, and a seat to come at its weight less its part of what
// the client costs the others, as if it were paid. Nobody owes more than the value at the quoted first token.
//
// Over several rounds this proves nothing:
//
//   - forecasts of when seats come, and of first tokens, are the hub's. A client that knows better has
//     another value for a seat to come than the one that is counted for it
//   - a seat to come is no promise: who comes later with dearer seconds goes first. With a tenth too much to
//     do, clients of cheap seconds gain 4 to 7 % by saying half their patience, or that seconds or answers
//     are worth more. No other fixed lie surely gained 2 %, and most lost ("lab economics")
//   - a seat to come is not paid. What a task says while it waits moves what others are charged meanwhile,
//     and the prices by which later tolls are made. Six tasks worth thousands of times the others', cancelled
//     after 5 ms of each 700, raised what these pay by a third where slots were short, after 60 ms by six
//     tenths; one in 17 and one in 6 of them was served, and paid (TestDecoysThatAreCancelled)
//   - what a client alone adds to a price is not charged to it, and yet keeps others away. Who asked for six
//     tasks a second of four slots, others free beside them, and said that each is worth a hundred times as
//     much, had 405 of 720 at these and not 157, at the same money, and other clients none. Who waits beside
//     a free slot for what he seldom takes raises what others pay by half
//   - where the time for prompts is what is short, a task whose prompt is cached takes next to none of it. So
//     what it would have of a seat makes a price a second that is up to ten times as high, times those that
//     run: one that waits there while others begin raises what others are charged for some second
//   - part of a toll is charged to nobody. A client that is seen in one round only, and has no other tasks
//     that would bear it, can gain by overstating its worth
//   - owners move how long their agents serve, and so their seats and tolls
//
// # Hints
//
// A client may say what comes next in its sessions: that one ends, when it is back, what it began, what is
// next, in which role. No price reads that, and what follows from it is fixed before any bid is read. A role
// moves the forecast of how long answers are: under "quoted" a client whose role is false pays by a forecast
// of other answers' lengths until some four answers have corrected it. A session named as next is used again,
// and so is kept where others' are not: its client pays for that. What false hints gain in a market is
// measured by "lab hints", and proved by nothing.
//
// # Pruning
//
// A hub plans for all who wait, and records and proves a round without what its outcome does not depend on
// (Cutter). What stays are the tasks that begin, the witnesses of their slots' prices, the witnesses of the
// seats that these have, and so on, and for a client with several tasks those that would move were it not
// there. The others are taken out together with the slots that they were planned for: they are where the
// whole plan has them, and the duals of the whole plan, restricted to what is left, prove it. So the awards,
// slot prices and bills of what is left are those of the whole round (TestCutRoundsAreTheWholeOnes). That
// nobody else waited, and that who was taken out had not more to gain, is the hub's word.
//
// Where more wait than a round may hold some are left out before it is planned, and counted (Pruned.Beyond).
// Which ones is never decided by a bid.
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
// A regime, a policy or the price of a slot can influence a round in one way only, by Edge.Toll. That is at
// most zero, never a function of a bid of the round, and charged but for what the client's own tasks bear.
// Each of the three is needed (toll_test.go): a bonus opens a deficit, and a toll that depends on bids, or is
// not charged, makes lying pay.
//
// The price of a second of a slot is learned from the rounds on record, and from nothing else: from what one
// more slot of each agent would have added to their plans (Want), for each second that whoever had it would
// keep slots from others (Stay.Keeps), and from the price at which a free slot of another agent were as good
// to whoever waits beside it. A Cutter leaves in a round whose these are, who has the greatest of other
// clients, and the free slot: of each agent where a task begins, and of some others that have a seat there
// (mostMoved). Hub, standby and audit keep the same Rates, in whole numbers. A round says what its tolls are
// made of (Ground), and Check of Rates recomputes each price, each toll and what of it is not charged.
//
// # Proof
//
// An Outcome carries its proof: slot prices, a witness for each (somebody who would take the slot at any
// lower price), and, where several plans are equally good, second prices that show that turns and the round's
// seed chose among them. For a client whose tasks are priced together it says who would move without them,
// and which prices would be others. Check verifies all of it in time linear in the edges by package certify,
// which shares no line with the solver, package flow.
//
// # What is not covered
//
// The mechanism prices one round among the tasks that are in it. It promises nothing about
//
//   - learning across rounds: a low bid today for a low price tomorrow, or waiting for a quieter round
//   - what a hub left out of a record: there is only its word that it cut by the rule, and that its seats
//     come when it says. Of what tolls are made of, its word are how long tasks keep slots and prompts take,
//     how many run at an agent, and so at which that is not named everybody would pay least, who was refused
//     of late, whether a slot stays free, what of seats to come is lost, and the time, by which prices wane
//   - collusion: clients who agree on bids, or with agents' owners, who may count too few tokens
//   - siblings across hubs, rounds and names of one owner: clarke "client" sees the tasks of one name in one
//     round; under several names each is priced by itself, and each has a share and turns of its own
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
