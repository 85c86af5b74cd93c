package embedded

import (
	"bytes"
	"fmt"
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

// A process whose creds are void tries for as long as it runs, several times a second. That is no error of
// the server, and one line a minute says so.
func TestWhoIsRefusedIsNamedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &natsLog{log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 600 {
			l.Errorf("%s - %s", "127.0.0.1:60880 - cid:17", "authentication error")
			time.Sleep(500 * time.Millisecond)
		}
		got := out.String()
		if n := strings.Count(got, "\n"); n != 5 || strings.Contains(got, "level=ERROR") ||
			!strings.Contains(got, "times=120") || !strings.Contains(got, "cid:17") {
			t.Errorf("of five minutes it says %d lines:\n%s", n, got)
		}
	})
}

// What somebody does on a connection that its role may not, or that is no NATS, is no error of the server
// either: an operator who is woken by errors sleeps on, and it fills no disk, however long it goes on.
func TestWhatConnectionsDoIsSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &natsLog{log: slog.New(slog.NewTextHandler(&out, nil))}
		for i := range 6000 {
			of := fmt.Sprintf("127.0.0.1:60880 - cid:%d", i)
			l.Errorf("%s - %q - %q - Publish Violation - Subject \"souk.%d\"", of, "v1:go", "A/jwt:U", i)
			l.Errorf("%s - TLS handshake error: %d: EOF", of, i)
			l.Errorf("%s - %q - %d", of, "x", i) // what it is called may be anything
			time.Sleep(50 * time.Millisecond)
		}
		got := out.String()
		if n := strings.Count(got, "\n"); n > 5*(mostKinds+1) || strings.Contains(got, "level=ERROR") {
			t.Errorf("of five minutes it says %d lines, or errors:\n%s", n, got)
		}
		for _, kind := range []string{"Publish Violation", "TLS handshake error"} {
			if n := strings.Count(got, kind); n != 5 || !strings.Contains(got, "times=1200") {
				t.Errorf("of five minutes %d lines say %q, want 5:\n%s", n, kind, got)
			}
		}
	})
}
