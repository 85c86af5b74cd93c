package prefix

import (
	"math"
	"testing"
)

// Limits are of memory, so there are limits to them: a slip of a digit in a file is no gigabyte of a hub.
func TestLimitsAreBounded(t *testing.T) {
	if err := DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	for name, l := range map[string]Limits{
		"no session":        {Sessions: 0, Marks: 1},
		"too many sessions": {Sessions: mostSessions + 1, Marks: 1},
		"all sessions":      {Sessions: math.MaxInt, Marks: 1},
		"no mark":           {Sessions: 1, Marks: 0},
		"fewer than none":   {Sessions: 1, Marks: 1, Told: -1},
		"told too much":     {Sessions: 1, Marks: 1, Told: mostTold + 1},
	} {
		if l.Validate() == nil {
			t.Errorf("%s: %+v is taken", name, l)
		}
	}
	for _, l := range []Limits{{Sessions: mostSessions, Marks: 1, Told: mostTold}, {Sessions: 1, Marks: 1}} {
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
