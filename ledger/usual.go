package ledger

import (
	"slices"

	"souk/market"
)

// Usual tells what a task usually costs here: at its agent's price card, fee and tariff included, nothing of
// its prompt cached. Hubs make default terms of it, so nobody may move it far alone: it is the median over
// the clients that paid last, each with the mean of its tasks, and each counts as at most usualCounts tasks.
// So one client moves it no further than to what another's tasks cost, once the others have paid for as many.
// It depends on no bid of a round, and what is refused, void or forged moves nothing. Amounts are integers,
// so that all who read a journal agree.
type Usual struct {
	Clients []Usually // who paid last stands first
	// What is said follows the median when that is a quarter above it or below. With every move a second
	// would cost tasks differently that came one after the other, and who came later might go first.
	Said market.Credits
}

// Usually is the mean of one client's tasks.
type Usually struct {
	Client string
	Card   market.Credits
	Tasks  int64 // at most usualMemory
}

const (
	usualClients = 64
	usualMemory  = 32 // tasks of a client over which its mean goes
	usualCounts  = 8
	usualStep    = 4 // what is said follows where it is off by one part in so many
)

// cardOf returns the cost of a captured task with nothing cached. A task that may answer with one token does
// not count: hubs send such to put prompts on engines.
func cardOf(h *Hold, c *Capture) (card market.Credits, counts bool) {
	card = h.Price.Cost(market.Usage{Prompt: c.Usage.Prompt, Output: c.Usage.Output})
	return min(card+h.Tariff+h.Fee, market.MaxWorth), h.MaxTokens != 1
}

// learn takes in a task that was paid.
func (u *Usual) learn(client string, card market.Credits) {
	i := slices.IndexFunc(u.Clients, func(x Usually) bool { return x.Client == client })
	x := Usually{Client: client}
	switch {
	case i >= 0:
		x = u.Clients[i]
	case len(u.Clients) < usualClients:
		u.Clients = append(u.Clients, x)
		i = len(u.Clients) - 1
	default:
		i = usualClients - 1
	}
	copy(u.Clients[1:i+1], u.Clients[:i])
	x.Tasks = min(x.Tasks+1, usualMemory)
	x.Card += (card - x.Card) / market.Credits(x.Tasks)
	u.Clients[0] = x
	lo, hi := u.medians()
	if off := max(lo-u.Said, u.Said-hi); off > u.Said/usualStep {
		u.Said = min(max(u.Said, lo), hi)
	}
}

// medians are the least amount and the greatest that are above no more than half of what counts, and below no
// more than half.
func (u *Usual) medians() (lo, hi market.Credits) {
	var room [usualClients]uint64 // each client's amount, and below that, in four bits, what it counts
	order, all, below := room[:0], uint64(0), uint64(0)
	for i := range u.Clients {
		counts := uint64(min(u.Clients[i].Tasks, usualCounts))
		order, all = append(order, uint64(u.Clients[i].Card)<<4|counts), all+counts
	}
	slices.Sort(order)
	lo = -1
	for _, x := range order {
		below += x & 15
		if hi = market.Credits(x >> 4); lo < 0 && 2*below >= all {
			lo = hi
		}
		if 2*below > all {
			break
		}
	}
	return lo, hi
}

// valid reports whether payments can have led to it.
func (u *Usual) valid() bool {
	for _, x := range u.Clients {
		if !ValidID(x.Client) || x.Card < 0 || x.Card > market.MaxWorth || x.Tasks < 1 ||
			x.Tasks > usualMemory {
			return false
		}
	}
	return len(u.Clients) <= usualClients && u.Said >= 0 && u.Said <= market.MaxWorth
}

// Usual returns the cost of a usual task here; 0 if none was paid yet.
func (b *Book) Usual() market.Credits { return b.kept.Usual.Said }
