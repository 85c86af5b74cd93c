package serve

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"souk/hub"
)

// What a hub has learned stands in a file that its next life reads. One that is damaged, of another program
// or too large is refused with a line that says so, and the hub goes on without.
func TestWhatWasLearnedIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.learned")
	life := func() (*Server, *bytes.Buffer) {
		var log bytes.Buffer
		cfg := hub.Default()
		cfg.Domain, cfg.Hub, cfg.Journal = "math", "hub-1", "hub-math"
		n, err := hub.NewNode(cfg, [32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		return &Server{cfg: cfg, node: n, deps: Deps{Learned: path},
			log: slog.New(slog.NewTextHandler(&log, nil))}, &log
	}
	s, log := life()
	s.relearn()
	if log.Len() > 0 {
		t.Errorf("without a file: %s", log)
	}
	stop := s.remember(t.Context())
	stop()
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) == 0 {
		t.Fatalf("%d bytes were written: %v", len(whole), err)
	}
	s, log = life()
	if s.relearn(); !strings.Contains(log.String(), "took up what was learned") {
		t.Errorf("of a whole file: %s", log)
	}
	whole[len(whole)/2] ^= 1
	for what, data := range map[string][]byte{"damaged": whole, "of another program": []byte("{}"),
		"empty": nil} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, log = life()
		s.relearn()
		if !strings.Contains(log.String(), "is not taken up") || !strings.Contains(log.String(), path) {
			t.Errorf("%s: %s", what, log)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside the file: %v, %v", entries, err)
	}
}
