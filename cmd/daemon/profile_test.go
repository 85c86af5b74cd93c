package daemon

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"souk/bus/bustest"
)

// Where time and memory go is shown to who asks on this machine by its name, and by no web page's.
func TestProfilesAreShownOnLoopback(t *testing.T) {
	address := bustest.FreePort(t)
	stop, err := ServeProfiles(address, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for host, status := range map[string]int{"": 200, "evil.example": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/debug/pprof/goroutine?debug=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != status ||
			(status == 200) != strings.Contains(string(body), "goroutine profile") {
			t.Errorf("Host %q: %d %.80s %v", host, a.StatusCode, body, err)
		}
	}
	if _, err := ServeProfiles(address, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.HasPrefix(err.Error(), "pprof: ") {
		t.Errorf("the same address again: %v", err)
	}
}
