package kvevent

import "time"

// Alarm finds out that an engine which should publish what it stores does not, or that nothing of what it
// publishes can be applied: belief is then worth nothing, however it looks.
type Alarm struct {
	tasks int // since the last event that was applied
	since time.Time
}

const (
	alarmTasks  = 3
	alarmBlocks = 2 // one may be stored already, as another's
	alarmAfter  = 10 * time.Second
)

// Served tells of a task that ended, of whose prompt so many full blocks were not in the cache.
func (a *Alarm) Served(now time.Time, blocks int) {
	if blocks < alarmBlocks {
		return
	}
	if a.tasks == 0 {
		a.since = now
	}
	a.tasks = min(a.tasks+1, alarmTasks)
}

// Applied tells of events that were applied.
func (a *Alarm) Applied() { a.tasks = 0 }

// On reports that events are expected and none applied: three tasks that stored two new blocks or more, the
// first of them ten seconds ago, and no event since.
func (a *Alarm) On(now time.Time) bool {
	return a.tasks == alarmTasks && now.Sub(a.since) >= alarmAfter
}
