package local

import (
	"testing"

	"souk/bus"
)

// Agents that were there before anybody waited for them are not waited for.
func TestWhatIsCompleteIsNotWaitedFor(t *testing.T) {
	s := newStatuses()
	s.last["math"] = bus.Status{Agents: 2, Free: 1}
	select {
	case <-s.complete(map[string]int{"math": 2}):
	default:
		t.Error("all agents are there, and are waited for")
	}
	later := s.complete(map[string]int{"math": 3})
	select {
	case <-later:
		t.Error("one agent is missing, and is not waited for")
	default:
	}
	s.last["math"] = bus.Status{Agents: 3, Free: 1}
	s.judge()
	<-later
}
