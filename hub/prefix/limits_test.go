package prefix

import (
	"math"
	"testing"
)

// Limits bound memory, and are bounded themselves: a slip of a digit in a file is no gigabyte of a hub.
func TestLimitsAreBounded(t *testing.T) {
	if err := DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	for name, l := range map[string]Limits{
		"no session":        {Sessions: 0, Hashes: 1},
		"too many sessions": {Sessions: mostSessions + 1, Hashes: 1},
		"all sessions":      {Sessions: math.MaxInt, Hashes: 1},
		"no hash":           {Sessions: 1, Hashes: 0},
		"fewer than none":   {Sessions: 1, Hashes: 1, Reported: -1},
		"reported too much": {Sessions: 1, Hashes: 1, Reported: mostReported + 1},
	} {
		if l.Validate() == nil {
			t.Errorf("%s: %+v is taken", name, l)
		}
	}
	for _, l := range []Limits{{Sessions: mostSessions, Hashes: 1, Reported: mostReported}, {Sessions: 1,
		Hashes: 1}} {
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
