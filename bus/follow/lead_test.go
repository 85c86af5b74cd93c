package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
	"souk/bus/follow"
	"souk/bus/membus"
)

// When a leader gives way: at once when it is contradicted, after ten seconds when it waits for a word, and
// once a minute while that lasts, for a second each time; never when nothing is known against its journal.
// Its log says so once for each kind of doubt. The numbers are seconds at which leaderships begin and end.
func TestWhenALeaderGivesWay(t *testing.T) {
	type news struct {
		at time.Duration
		d  follow.Doubt
	}
	waits, denied := follow.Doubt{Why: "no word", Waits: true}, follow.Doubt{Why: "behind"}
	for _, c := range []struct {
		name, want string
		news       []news
		said       int
	}{
		{"nothing", "0-", nil, 0},
		{"waits", "0-10 11-70 71-130 131-190 191-", []news{{0, waits}}, 1},
		{"waits for a moment", "0-", []news{{0, waits}, {5 * time.Second, follow.Doubt{}}}, 0},
		{"contradicted", "0-5 6-65 66-125 126-185 186-", []news{{5 * time.Second, denied}}, 1},
		{"waits, then contradicted", "0-10 11-20 21-80 81-140 141-200 201-",
			[]news{{0, waits}, {20 * time.Second, denied}}, 2},
		{"cured", "0-5 6-", []news{{5 * time.Second, denied}, {30 * time.Second, follow.Doubt{}}}, 1},
		{"contradicted now and then", "0-5 6-65 66-",
			[]news{{5 * time.Second, denied}, {20 * time.Second, follow.Doubt{}}, {40 * time.Second, denied},
				{70 * time.Second, follow.Doubt{}}}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, log, got := time.Now(), bytes.Buffer{}, ""
			s := &follow.Candidate{Registry: membus.New(1).Registry(), Key: "k", TTL: 5 * time.Second,
				Who: "hub", Value: []byte("{}"), Moved: func() bool { return true },
				Ended: func(string) (bool, string) { return false, "" },
				Log:   slog.New(slog.NewTextHandler(&log, nil)),
				Doubt: func() (d follow.Doubt) {
					for _, n := range c.news {
						if time.Since(begun) >= n.at {
							d = n.d
						}
					}
					return d
				}}
			ctx, stop := context.WithTimeout(t.Context(), 205*time.Second)
			defer stop()
			now := func() string { return fmt.Sprint(int(time.Since(begun).Seconds())) }
			err := s.Lead(ctx, func(ctx context.Context) (l bus.Leadership, err, fatal error) {
				l, err = s.Elect(ctx)
				return l, err, nil
			}, func(ctx context.Context, r follow.Reign) error {
				defer r.Close(context.WithoutCancel(ctx))
				if got += now() + "-"; s.Resumes() != (strings.Count(got, " ") > 0 && s.Doubt().Why != "") {
					t.Errorf("%s: at %s it resumes: %v", c.name, now(), s.Resumes())
				}
				select {
				case <-r.Yield:
					got += now() + " "
					return follow.ErrGivesWay
				case <-ctx.Done():
					return nil
				}
			})
			if said := strings.Count(log.String(), "the leadership is given back"); err != nil || got != c.want ||
				said != c.said {
				t.Errorf("%s: it leads %s, %v, want %s; said %d times, want %d", c.name, got, err, c.want, said,
					c.said)
			}
		})
	}
}

// Lead stands again after a leadership that was lost or not won, and returns anything else.
func TestLeadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, away := errors.New("disk"), errors.New("away")
		s := &follow.Candidate{Log: slog.New(slog.DiscardHandler),
			Doubt: func() (d follow.Doubt) { return d }}
		elections := []error{away, nil, nil}
		ends := []error{bus.ErrLost, broken}
		elect := func(context.Context) (l bus.Leadership, err, fatal error) {
			if len(elections) == 0 {
				return nil, nil, away
			}
			err, elections = elections[0], elections[1:]
			return nil, err, nil
		}
		lead := func(context.Context, follow.Reign) (err error) {
			err, ends = ends[0], ends[1:]
			return err
		}
		if err := s.Lead(t.Context(), elect, lead); !errors.Is(err, broken) || len(elections)+len(ends) > 0 {
			t.Errorf("%v; left are %v, %v", err, elections, ends)
		}
		if err := s.Lead(t.Context(), elect, lead); !errors.Is(err, away) {
			t.Errorf("a fatal error: %v", err)
		}
	})
}
