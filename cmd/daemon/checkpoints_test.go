package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Whose journal is not signed is warned, and told what to give it.
func TestAJournalWithoutKeysIsWarnedOf(t *testing.T) {
	var said bytes.Buffer
	k, err := Checkpoints{}.Keeper(nil, "general", t.TempDir()+"/creds/general.creds", "", false,
		slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn})), nil)
	if k != nil || err != nil {
		t.Fatal(k, err)
	}
	for _, want := range []string{"not signed", "souk auth", "checkpoints.key", "journal=general"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q: %s", want, &said)
		}
	}
}
