package sight

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"souk/bus"
	"souk/bus/bustest"
	"souk/market"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func line() Line {
	return Line{Begin: noon, First: noon.Add(12340 * time.Microsecond), End: noon.Add(time.Second),
		Route: "POST /v1/chat/completions", Status: 200, Request: "req-1",
		Trace: "4bf92f3577b34da6a3ce929d0e0e4736", Key: "k1", Client: "alice", Task: "t1",
		Model: "gpt-oss-20b",
		Hub:   "general", Agent: "only", Usage: market.Usage{Prompt: 100, Cached: 64, Output: 20},
		Paid: 1_500_000, Receipt: "general/52/0"}
}

// logged returns the log of some lines.
func logged(c bus.RequestLog, lines ...Line) string {
	var b bustest.Buffer
	l := NewLines(slog.New(slog.NewTextHandler(&b, nil)), c)
	for _, n := range lines {
		l.Add(n)
	}
	l.Flush(context.Background())
	return b.String()
}

func TestALine(t *testing.T) {
	got, want := logged(bus.DefaultRequestLog(), line()), `time=2026-11-30T12:00:01.000Z level=INFO msg=request `+
		`request=req-1 trace=4bf92f3577b34da6a3ce929d0e0e4736 key=k1 client=alice route="POST /v1/chat/completions" `+
		`model=gpt-oss-20b status=200 hub=general agent=only first_ms=12.34 ms=1000 tokens_in=100 cached=64 out=20 `+
		`paid=0.0015 task=t1 receipt=general/52/0`+"\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got = logged(bus.DefaultRequestLog(), Line{Begin: noon, End: noon, Status: 500, Code: bus.CodeInternal})
	if want := "time=2026-11-30T12:00:00.000Z level=WARN msg=request status=500 code=internal ms=0\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhichRequestsAreLogged(t *testing.T) {
	served, refused := line(), line()
	refused.Code = bus.CodeNoRoom
	for _, test := range []struct {
		c    bus.RequestLog
		want int
	}{
		{bus.RequestLog{Log: bus.LogAll, Sample: 1}, 2}, {bus.RequestLog{Log: bus.LogAll}, 1},
		{bus.RequestLog{Log: bus.LogErrors, Sample: 1}, 1}, {bus.RequestLog{Log: bus.LogOff, Sample: 1}, 0},
	} {
		if got := strings.Count(logged(test.c, served, refused), "\n"); got != test.want {
			t.Errorf("%+v: %d lines of a served and a refused request, want %d", test.c, got, test.want)
		}
	}
	some := strings.Count(logged(bus.RequestLog{Log: bus.LogAll, Sample: 0.5}, make([]Line, 1000)...), "\n")
	if some < 400 || some > 600 {
		t.Errorf("%d of 1000 are logged at 0.5", some)
	}
	for _, bad := range []bus.RequestLog{{}, {Log: "some"}, {Log: bus.LogAll, Sample: 2},
		{Log: bus.LogAll, Sample: -1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// Strangers are refused as often as they like, and the log grows no faster for it than it may.
func TestRefusedRequestsFillNoDisk(t *testing.T) {
	refused := line()
	refused.Code = bus.CodeNoRoom
	var b bustest.Buffer
	l := NewLines(slog.New(slog.NewTextHandler(&b, nil)), bus.DefaultRequestLog())
	for range 10 * mostRefused {
		l.Add(refused)
		l.Flush(context.Background())
	}
	if got := strings.Count(b.String(), "\n"); got != mostRefused {
		t.Errorf("%d lines in a second, want %d", got, mostRefused)
	}
	b.Take()
	l.Add(line())
	l.Flush(context.Background())
	if want := fmt.Sprintf("lines_missing=%d\n", 9*mostRefused); !strings.HasSuffix(b.String(), want) {
		t.Errorf("the next line does not count those that are missing (%s): %s", want, &b)
	}
}

// Strangers crowd out no line of a client's, and what has no line is counted at the end, too.
func TestStrangersCrowdOutNoClient(t *testing.T) {
	var b bytes.Buffer
	l := NewLines(slog.New(slog.NewTextHandler(&b, nil)), bus.DefaultRequestLog())
	at := time.Unix(1_800_000_000, 0)
	for range 2 * mostRefused {
		l.Add(Line{Begin: at, End: at, Code: "invalid_api_key"})
		l.Flush(t.Context())
	}
	l.Add(Line{Begin: at, End: at, Code: bus.CodeInternal, Client: "ann"})
	l.Flush(t.Context())
	for range 2 * mostRefused {
		l.Add(Line{Begin: at, End: at, Code: "invalid_api_key"})
	}
	l.Close(t.Context())
	if n := strings.Count(b.String(), "client=ann"); n != 1 {
		t.Errorf("a client's request has %d lines", n)
	}
	missing := 0
	for _, m := range regexp.MustCompile(`lines_missing=(\d+)`).FindAllStringSubmatch(b.String(), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		missing += n
	}
	if missing != 3*mostRefused {
		t.Errorf("%d lines are said to be missing, want %d", missing, 3*mostRefused)
	}
}

// Whatever strangers call things: one line, of bounded length, that no terminal obeys, and its fields stay
// what they are.
func TestWhatStrangersCallThings(t *testing.T) {
	for _, name := range []string{
		"\x1b[2J\x1b]0;owned\x07", "a\nlevel=ERROR msg=\"all is lost\"", "\r\n", "\u009b31m",
		"\u202eevil", "\xff\xfe\x9b", strings.Repeat("\x1b", 1<<16), strings.Repeat("é", 1<<16),
		"\u2028\u2029", `"},{"x":"`, "a=b c=d", "\x00", "\ufeff",
	} {
		n := line()
		n.Model, n.Request, n.Task, n.Code, n.Client = name, name, name, bus.Code(name), name
		for format, handler := range map[string]func(io.Writer) slog.Handler{
			"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
			"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
		} {
			var b bytes.Buffer
			l := NewLines(slog.New(handler(&b)), bus.DefaultRequestLog())
			l.Add(n)
			l.Flush(context.Background())
			text, whole := strings.CutSuffix(b.String(), "\n")
			if !whole || len(text) > 5*4*mostText || strings.ContainsFunc(text, func(r rune) bool {
				return !unicode.IsPrint(r) || r == unicode.ReplacementChar
			}) {
				t.Errorf("%s: %.20q becomes %d bytes: %.300q", format, name, len(text), text)
			}
			if format == "json" {
				var said struct {
					Level, Msg, Model, Agent string
				}
				if err := json.Unmarshal([]byte(text), &said); err != nil || said.Level != "INFO" ||
					said.Msg != "request" || said.Agent != "only" || said.Model == "" {
					t.Errorf("%.20q: %v, %+v", name, err, said)
				}
			}
		}
	}
}

// stuck is a log that takes nothing until it is told to.
type stuck struct {
	take chan struct{}
	bustest.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.take
	return s.Buffer.Write(p)
}

func TestALogThatTakesNothing(t *testing.T) {
	s := &stuck{take: make(chan struct{})}
	l := NewLines(slog.New(slog.NewTextHandler(s, nil)), bus.DefaultRequestLog())
	for range 10 * mostLines {
		l.Add(line()) // which waits for nobody
	}
	ended, end := context.WithCancel(t.Context())
	end()
	l.Flush(ended)
	close(s.take)
	l.Flush(t.Context())
	l.Add(line())
	l.Flush(t.Context())
	got := strings.Count(s.String(), "\n")
	if got < mostLines || got > 3*mostLines || !strings.Contains(s.String(), "lines_missing=") {
		t.Errorf("%d lines, want some %d, and a count of those that are missing", got, mostLines)
	}
}

// What a request costs that has a line: some 4 us.
func BenchmarkLine(b *testing.B) {
	l := NewLines(slog.New(slog.NewTextHandler(io.Discard, nil)), bus.DefaultRequestLog())
	n := line()
	b.ReportAllocs()
	for b.Loop() {
		l.Add(n)
		l.Flush(context.Background())
	}
}
