package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"souk/bus"
	"souk/cmd/local"
	"souk/integration/lab/load"
)

// A market that runs is found by its directory, and loaded from outside.
func TestLoad(t *testing.T) {
	dir, c := t.TempDir(), local.Default()
	c.Listen = "127.0.0.1:0"
	c.HTTP = new(string)
	m, err := local.Start(t.Context(), local.Options{Dir: dir, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	var out bytes.Buffer
	lab := root()
	lab.SetArgs([]string{"load", "--data", dir, "--json", "--concurrency", "4", "--ramp", "300ms",
		"--duration", "1500ms", "--max-tokens", "20"})
	lab.SetOut(&out)
	lab.SetErr(io.Discard)
	if err := lab.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var r load.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if r.Answered == 0 || r.Broken > 0 || len(r.Processes) != 2 || r.Processes[0].RSS <= 0 ||
		r.Processes[0].Apart || !r.Processes[1].Apart { // the market, and the load itself
		t.Errorf("%s", &out)
	}
}

// What is measured is what clients of OpenAI's API see, who name no terms; the clients of souk run do.
func TestWhoLoads(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		f := loadFlags{clients: 5, mixed: mixed}
		names := map[string]bool{}
		for _, c := range f.payers() {
			if names[c.ID] = true; !bus.ValidID(c.ID) || (c.Terms == bus.Terms{}) == mixed {
				t.Errorf("mixed %v: %+v", mixed, c)
			}
		}
		if len(names) != f.clients {
			t.Errorf("mixed %v: %d clients", mixed, len(names))
		}
	}
}

// Nothing is measured of a load that ends before all of it has begun.
func TestLoadShorterThanItsRamp(t *testing.T) {
	lab := root()
	lab.SetArgs([]string{"load", "--data", t.TempDir(), "--duration", "1s"})
	lab.SetOut(io.Discard)
	lab.SetErr(io.Discard)
	if err := lab.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--ramp") {
		t.Errorf("%v", err)
	}
}
