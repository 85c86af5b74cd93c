package embedded

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that is refused a hundred thousand subjects fills no disk with that.
func TestTheServersLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &natsLog{log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 100_000 {
			l.Errorf("client %d - Publish Violation - Subject %q", 7, "souk.v1.task.bob")
		}
		if n := strings.Count(out.String(), "\n"); n != maxLines {
			t.Errorf("%d lines in one second, want %d", n, maxLines)
		}
		time.Sleep(time.Second)
		out.Reset()
		l.Warnf("later")
		if got := out.String(); !strings.Contains(got, "lines=99980") || !strings.Contains(got, "msg=later") {
			t.Errorf("a second later: %s", got)
		}
	})
}
