package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"souk/bus/bustest"
	"souk/cmd/ledger/cli"
	"souk/cmd/local"
)

const monthly = `
listen: 127.0.0.1:0
domains: [{name: general, general: true, labels: [general, humanities, social, law, medicine, math, science, finance, code]}]
agents:
  - {id: general-1, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: general, score: 0.7}], slots: 2, engine: {profile: steady}}
speedup: 20
treasury: {surplus: agents}
clients: {dev: 10}
`

// The month of deploy/accounting.md is closed, line by line, in a market that runs.
func TestAMonthIsClosedByThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for witnesses")
	}
	t.Parallel()
	page, err := os.ReadFile("../../deploy/accounting.md")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := local.ParseConfig("monthly.yaml", []byte(monthly))
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	data := filepath.Join(at, "souk-data")
	m, err := local.Start(t.Context(), local.Options{Dir: data, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := local.CheckLedger(context.Background(), data, t.Output()); err != nil {
			t.Error(err)
		}
	}()
	if err := os.Mkdir(filepath.Join(at, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"souk", "ledger"} {
		if err := os.Symlink(self, filepath.Join(at, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	// a reader's month, receipt and amounts stand in place of the page's
	now := time.Now().UTC().Format("2006-01")
	receipt := "no task was asked yet"
	play := func(line string) (string, error) {
		month := now
		if strings.Contains(line, "souk close") {
			month = "2001-01" // one that is over
		}
		line = strings.NewReplacer("2026-11", month, "general/52/0", receipt, " 12.50 ", " 0.0000002 ",
			" 0.02 ", " 0.0000001 ").Replace(line)
		c := exec.CommandContext(t.Context(), "sh", "-c", line)
		c.Dir = at
		out, err := c.CombinedOutput()
		return string(out), err
	}
	played := 0
	for line := range strings.Lines(string(page)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/")
		if !ok || !strings.HasPrefix(line, "    ") {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, "    ") {
				if _, err := exec.LookPath(name); err != nil {
					t.Logf("%s is not here", name)
					continue
				}
				if out, err := play(line); err != nil {
					t.Errorf("%s: %v: %s", line, err, out)
				}
			}
			continue
		}
		if strings.HasPrefix(command, "ledger prove") { // once witnesses have cosigned the record
			proven(t, data, strings.Replace(strings.Fields(command)[2], "general/52/0", receipt, 1))
		}
		out, err := play(line)
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		if found := regexp.MustCompile(`general/\d+/\d+`).FindString(out); found != "" &&
			strings.HasPrefix(command, "souk submit") {
			receipt = found
		}
		played++
	}
	if played < 20 {
		t.Errorf("%d lines were played", played)
	}
	for file, wants := range map[string][]string{
		now + ".journal": {`* remit `, `; ref: PAY-` + now + `-1`, `; agent: general-1`, `* refund `,
			`; ref: complaint-9`, `; client: acme`, `; ref: SEPA-4711`},
		"acme-" + now + ".html": {"acme", "invoice-17"},
		"check-" + now + ".txt": {"no findings"},
		"acme-by-day.csv":       {"\n" + now + "-"},
		now + ".beancount":      {"remit", " balance "},
		now + ".csv":            {",refund,", ",complaint-9"},
	} {
		text, err := os.ReadFile(filepath.Join(at, file))
		if err != nil {
			t.Error(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s does not have %q: %.4000s", file, want, text)
			}
		}
	}
}

// proven waits until witnesses have cosigned a record.
func proven(t *testing.T, data, id string) {
	proof := filepath.Join(t.TempDir(), "proof")
	journal, _, _ := strings.Cut(id, "/")
	if journal == "deposit" {
		journal = "treasury"
	}
	bustest.Eventually(t, "a proof of "+id, func() bool {
		os.Remove(proof)
		prove := []string{"prove", id, "--journal", journal, "-o", proof, "--data", data}
		verify := []string{"verify", proof, "--policy", filepath.Join(data, "auth", "policy")}
		return cli.Run(t.Context(), "test", prove, io.Discard, io.Discard) == 0 &&
			cli.Run(t.Context(), "test", verify, io.Discard, io.Discard) == 0
	})
}
