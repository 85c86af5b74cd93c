package round

import (
	"slices"
	"time"

	"souk/market"
)

// Kept follows what became of seats to come: of what a task was to have at the first that it was given, the
// share that was left when it began or was refused. Where all are served it is 1, and a slot's price is the
// seconds that it saves; where somebody is squeezed out it falls, and a slot's price is what he would have
// had.
type Kept struct {
	got, of float64 // tasks, fading
	at      int64
	refused [market.MostRefused]refusal // the latest of each client, the last one first
}

// refusal says when a task of a client, which had waited, was told that it is not worth a slot.
type refusal struct {
	client string
	at     int64
	there  []market.AgentID // that it might have gone to
}

const keeps = 10 * time.Second

// Resume goes on where so much of seats to come was lost, of [market.FullShare], as if by ten tasks.
func (k *Kept) Resume(now int64, lost uint32) {
	const tasks = 10
	*k = Kept{got: tasks * (1 - float64(lost)/market.FullShare), of: tasks, at: now}
}

// End takes in a task that was to have planned, and has so much now; refused: 0.
func (k *Kept) End(now int64, planned, has market.Credits) {
	if planned <= 0 {
		return
	}
	less := float64(keeps) / float64(keeps+time.Duration(max(0, now-k.at)))
	k.got = float64(k.got*less) + float64(max(0, min(has, planned)))/float64(planned)
	k.of, k.at = float64(k.of*less)+1, now
}

// Share is the mean, of [market.FullShare].
func (k *Kept) Share() uint32 {
	if k.of < 1e-6 {
		return market.FullShare
	}
	return uint32(min(1, k.got/k.of) * market.FullShare)
}

// Refuse takes in that a task of a client, which might have gone to some agents, had waited until it was
// worth less than it cost.
func (k *Kept) Refuse(now int64, client string, there []market.AgentID) {
	i := slices.IndexFunc(k.refused[:], func(x refusal) bool { return x.client == client })
	if i < 0 {
		i = len(k.refused) - 1
	}
	copy(k.refused[1:], k.refused[:i])
	k.refused[0] = refusal{client, now, there}
}

// late returns those of the last ten seconds, if they are of two clients.
func (k *Kept) late(now int64) (all []refusal) {
	for _, x := range k.refused {
		if x.client != "" && now-x.at < int64(keeps) {
			all = append(all, x)
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all
}
