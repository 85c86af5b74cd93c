package follow_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus/follow"
)

// What lasts for long is named once a minute, however often it is tried, and its end once; what works, never.
func TestTroubleIsNamedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		var trouble follow.Trouble
		log := slog.New(slog.NewTextHandler(&text, nil))
		note := func(part string, err error) bool {
			return trouble.Note(log, part, err == nil, "it did not answer", "it answers again", "err", err)
		}
		if !note("a", nil) || text.Len() > 0 {
			t.Errorf("before any trouble it said %q", text.String())
		}
		for range 150 { // seconds
			if note("a", errors.New("no answer")) || note("b", errors.New("no answer")) {
				t.Fatal("it works without an answer")
			}
			time.Sleep(time.Second) // virtual
		}
		if note("a", nil); strings.Contains(text.String(), "again") {
			t.Errorf("one part answers, the other does not: %s", text.String())
		}
		note("b", nil)
		note("b", nil)
		if got := text.String(); strings.Count(got, "it did not answer\" err=\"no answer\"") != 3 ||
			strings.Count(got, "it answers again\" after=2m30s") != 1 {
			t.Errorf("of 150 s it said\n%s", got)
		}
	})
}
