package soak

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

// What a hub believes to be cached is what engines find, within a block a task, and what agents know is what
// engines hold, while engines are killed and started again, caches are emptied and events are lost. An hour
// of it is `lab soak --events`.
func TestBeliefIsTheCacheAcrossKills(t *testing.T) {
	if testing.Short() {
		t.Skip("builds every command and runs them as processes")
	}
	// as the tests of a fleet do, in the same place: it links what is not there yet
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "bin/tests/", "./cmd/...")
	build.Dir, build.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	o := BeliefOptions{Bin: "../../../bin/tests", Dir: t.TempDir(), Duration: 8 * time.Second,
		Seed: rand.Uint64(), Pause: 300 * time.Millisecond, Every: time.Second, Progress: t.Output()}
	t.Logf("seed %d", o.Seed)
	r, err := Belief(t.Context(), o)
	r.Write(t.Output())
	if err != nil {
		t.Error(err)
	}
	if r.Looks < 2 || r.Happened["kill -9 of engine"] == 0 {
		t.Errorf("%d looks, and this happened: %v", r.Looks, r.Happened)
	}
	if t.Failed() {
		for _, log := range logs(o.Dir) {
			t.Log(log)
		}
	}
}

// logs are the ends of all logs.
func logs(dir string) (all []string) {
	files, _ := os.ReadDir(dir + "/log")
	for _, file := range files {
		if text, err := os.ReadFile(dir + "/log/" + file.Name()); err == nil {
			all = append(all, file.Name()+"\n"+string(text[max(0, len(text)-2000):]))
		}
	}
	return all
}
