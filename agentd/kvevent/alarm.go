package kvevent

import "time"

// Alarm finds out that an engine which should publish what it stores does not, or that nothing of what it
// publishes can be applied: what is known of the cache is then worth nothing, however it looks.
type Alarm struct {
	heard uint64 // how often events were applied
	tasks int    // since the last event that was applied
	since time.Time
}

const (
	alarmTasks  = 3
	alarmBlocks = 2 // one may be stored already, as another's
	alarmAfter  = 10 * time.Second
)

// Heard returns how many times events were applied.
func (a *Alarm) Heard() uint64 { return a.heard }

// Served tells of a task that ended, of whose prompt so many full blocks were not in the cache, and that
// began when [Alarm.Heard] was so much. One during which there were events tells of nothing: its own may be
// among them, as an engine says what it stored of a prompt before the answer ends.
func (a *Alarm) Served(now time.Time, heard uint64, blocks int) {
	if blocks < alarmBlocks || heard != a.heard {
		return
	}
	if a.tasks == 0 {
		a.since = now
	}
	a.tasks = min(a.tasks+1, alarmTasks)
}

// Applied tells of events that were applied.
func (a *Alarm) Applied() { a.tasks, a.heard = 0, a.heard+1 }

// On reports that events are expected and none applied: three tasks that stored two new blocks or more, the
// first of which ended ten seconds ago, and no event since they began.
func (a *Alarm) On(now time.Time) bool {
	return a.tasks == alarmTasks && now.Sub(a.since) >= alarmAfter
}
