package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"souk/cmd/daemon"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"classifier": main})
}

// The commands as people type them: testdata/*.txtar.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

func TestTheExampleIsAConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := daemon.Run(t.Context(), daemon.Command(role()), []string{"--config", path, "--check-config"},
		&out, &errs); code != daemon.ExitOK || !strings.Contains(out.String(), "id: door-a") {
		t.Errorf("exit code %d: %s%s", code, &out, &errs)
	}
}

// Doors that are given no id choose one, each its own: answers find their way back by it.
func TestDoorsChooseTheirIDs(t *testing.T) {
	first, second := role().New(), role().New()
	if err := errors.Join(first.Complete(), second.Complete()); err != nil {
		t.Fatal(err)
	}
	if first.Classifier.ID == second.Classifier.ID || !strings.HasPrefix(first.Classifier.ID, "door-") {
		t.Errorf("the ids are %s and %s", first.Classifier.ID, second.Classifier.ID)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		want int
	}{
		{"no-such-command", daemon.ExitUsage},
		{"--config no-such-file", daemon.ExitUsage},
	} {
		if got := daemon.Run(t.Context(), daemon.Command(role()), strings.Fields(c.args), io.Discard,
			io.Discard); got != c.want {
			t.Errorf("classifier %s: exit code %d, want %d", c.args, got, c.want)
		}
	}
}
