package round

import (
	"math"
	"time"

	"souk/market"
)

// Tolls are what slots cost in one round.
type Tolls struct {
	now    int64
	client string // without whom; "": whoever
	own    []int  // of its tasks, how many run at each agent
	agents []Agent
	common market.Credits   // what everybody would pay
	prices []market.Credits // a second, of each agent
}

// NewTolls are the tolls of a round with these agents, at now in nanoseconds.
func NewTolls(now int64, agents []Agent) Tolls {
	t := Tolls{now: now, agents: agents}
	t.agree()
	return t
}

// Without are the tolls had a client not been there, of whom so many tasks run at each agent.
func (t Tolls) Without(client string, run []int) Tolls {
	t.client, t.own = client, run
	t.agree()
	return t
}

// agree finds the least toll of those agents that run something. It depends on no task, and on no model that
// a task names.
func (t *Tolls) agree() {
	least := market.Credits(math.MaxInt64)
	t.prices = make([]market.Credits, len(t.agents))
	for i := range t.agents {
		t.prices[i] = t.price(i)
		if t.running(i) > 0 {
			least = min(least, market.PerSecond(t.prices[i], t.agents[i].Class.Service()))
		}
	}
	if t.common = least; least == math.MaxInt64 {
		t.common = 0
	}
}

func (t *Tolls) running(i int) int {
	n := t.agents[i].Running
	if t.own != nil {
		n -= t.own[i]
	}
	return max(0, n)
}

func (t *Tolls) price(i int) market.Credits {
	if t.client != "" {
		return t.agents[i].Rate.Without(t.now, t.client)
	}
	return t.agents[i].Rate.Price(t.now)
}

// Of is the toll, at least 0, of a task that keeps a slot of an agent for so long, of which its prompt is
// computed for prefill.
func (t *Tolls) Of(i int, service, prefill time.Duration) market.Credits {
	beside := time.Duration(t.running(i)) * min(prefill, market.MaxIn/1024)
	slot := market.PerSecond(t.prices[i], min(service, market.MaxIn)+beside) - t.common
	stall := market.PerSecond(t.agents[i].Rate.stalls(t.now), beside)
	return min(max(0, slot)+stall, market.MaxWorth)
}
