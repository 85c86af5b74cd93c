// Package ledger keeps the market's accounts and proves them: records, the book they build, and the audit of
// a whole journal. Values in, values out.
//
// A journal is an append-only, totally ordered log of one writer: one for each hub, one for the treasury. Its
// frames are made durable whole or not at all; a frame's [Record]s are facts with all their legs, which sum
// to zero. [Book.Apply] is the only judge of what is legal, shared by writer, audit and tests.
//
// # Accounts
//
//	external:NAME             treasury   the outside world; may be below zero
//	client:ID:prepaid         treasury   what a client has deposited and no hub has
//	client:ID:avail           hub        what this hub may still hold
//	client:ID:held            hub        the sum of its open holds
//	agent:ID:payable          hub        what an agent is due
//	surplus                   hub        premiums less the flat fee; not the hub's: a hub that kept it would
//	                                     gain by bidding against its clients
//	fee                       hub        the flat fee, part of the toll
//	clearing:JOURNAL          both       money between two journals; the pair nets to what is in flight
//	lost:HUB                  treasury   what a journal that was written off kept for good
//
// # Life of a settlement
//
//	hold      premium (fee included) + worst case, in the frame of its round: durable before the dispatch
//	capture   min(cost, worst case) + premium; the rest is released in the same record
//	void      nothing is charged, for a reason that is recorded
//
// A client's money comes to a hub by grant (treasury) and accept (hub), and goes back by return (hub) and
// reclaim (treasury), each recorded on both sides, numbered, never taken back by timeout.
//
// Each notes how far the other's journal is: a [Mark]. So a copy that stands in the place of a journal is
// found by the other side ([Doubt]), and of a hub's journal that is gone it is known what each client had
// spent there: the treasury writes it off, and the rest comes back ([WriteOff]).
//
// # What a slot costs
//
// The price of a second of an agent's slots follows from a hub's rounds alone ([market.Rates]). The book
// keeps it, so a hub goes on with it after a restart, a standby has it, and so does a snapshot. Level 4 of an
// audit recomputes each price, each toll and the part of it that is not charged, from the first frame on.
// Prices remember two spans of 20 s at most. So where a round is missing, or cannot be read, an audit says
// which rounds of these it could not check, and checks all others.
//
// # Bytes
//
// Every encoding begins with its version, and there is one: 1 of frames, rounds, outcomes, epochs and
// tariffs. Each value has exactly one encoding. A decoder takes no other and refuses every other version. The
// bytes are final from the first tag on, and not before: until then a build may refuse what another one
// wrote. A snapshot may be left out: each build reads its own alone.
//
// # Once
//
// Ids are made from (journal, round, slot, kind) or the operation's own id, never from time or chance. The
// same id with the same content is [ErrRepeat] and changes nothing; with other content it is [ErrConflict]. A
// book's memory is open holds, accounts, and a bounded past: see [RememberEnded] and [RememberOps]. What it
// has forgotten it refuses.
package ledger
