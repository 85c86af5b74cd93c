package journal

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A disk with plenty of room is asked once a moment; one that is nearly full, or says nothing, each time.
func TestADiskWithPlentyIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var says int64
		var fault error
		asked := 0
		free := seldom(func(string) (int64, error) { asked++; return says, fault }, 100)
		for _, c := range []struct {
			says   int64
			fault  error
			later  time.Duration
			want   int64
			wanted int // askings until then
		}{
			{100, nil, 0, 100, 1},
			{7, nil, moment - 1, 100, 1},
			{99, nil, 1, 99, 2}, // the moment is over
			{98, nil, 0, 98, 3},
			{0, errors.New("no such disk"), 0, 0, 4},
			{200, nil, 0, 200, 5},
			{0, errors.New("no such disk"), 0, 200, 5},
			{3, nil, moment, 3, 6},
		} {
			time.Sleep(c.later)
			says, fault = c.says, c.fault
			if got, _ := free("dir"); got != c.want || asked != c.wanted {
				t.Errorf("%+v: %d after %d askings", c, got, asked)
			}
		}
	})
}
