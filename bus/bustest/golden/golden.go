// Package golden compares what a test made with what stands in the package's testdata; -update writes it
// there instead. `make goldens` does so for all packages.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// Update is -update.
var Update = flag.Bool("update", false, "write what tests compare with into testdata")

// Check compares got with testdata/NAME.golden.
func Check(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	got += "\n"
	if *Update {
		err := os.MkdirAll("testdata", 0o777)
		if err == nil {
			err = os.WriteFile(path, []byte(got), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s has\n%sand the test made\n%s", path, want, got)
	}
}
