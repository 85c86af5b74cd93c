package daemon

import (
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/sight"
)

// writes has what was written, write by write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// Lines of requests cost a system call for many, and every other line is written as it comes.
func TestLinesOfRequestsAreWrittenTogether(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var w writes
		log := Log{Level: "info", Format: format}.logger(&w).With("daemon", "gateway")
		lines := sight.NewLines(log, bus.DefaultRequestLog())
		for range 100 {
			lines.Add(sight.Line{Begin: time.Now(), End: time.Now(), Status: 200})
		}
		lines.Flush(t.Context())
		log.Info("stopped")
		if len(w) != 2 || strings.Count(w[0], "\n") != 100 || !strings.Contains(w[1], "stopped") {
			t.Errorf("%s: 100 lines of requests and another are %d writes: %.300q", format, len(w), w[:1])
		}
	}
}
