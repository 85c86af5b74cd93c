package serve

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
)

// A node says which lives its directory has had: hubs give up what those have open and did not write down.
// Of lives elsewhere it knows nothing, however long it has its agents: on a copy of the directory or of its
// spools, on one that was made anew, or that an older copy was written over.
func TestANodeKnowsTheLivesOfItsDirectory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing is proven here")
	}
	cp := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("cp", append([]string{"-a"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	node := filepath.Join("agentd", "node-n1")
	last := int64(0)
	says := func(data, what string, want ...int64) (boot int64) {
		t.Helper()
		for time.Now().UnixMilli() <= last { // no two lives begin at once
			runtime.Gosched()
		}
		h := openHome(t, data, "n1")
		defer h.Close()
		var r bus.Registration
		synctest.Test(t, func(t *testing.T) {
			o := newTownAt(t, h)
			<-o.server.Ready()
			pass(2 * time.Hour)
			kvs, err := o.reg.Get(t.Context(), bus.AgentKey("a1"))
			must(t, err)
			must(t, bus.DecodeEntry(kvs[0].Value, &r))
			o.close()
		})
		if last = r.Boot; !slices.Equal(r.Lives, append(want, r.Boot)) {
			t.Errorf("%s: it knows of lives %d, want %d and its own, %d", what, r.Lives, want, r.Boot)
		}
		return r.Boot
	}
	data, to, parts, anew := t.TempDir(), filepath.Join(t.TempDir(), "copy"), t.TempDir(), t.TempDir()
	one := says(data, "a new one")
	two := says(data, "started again", one)
	cp(data, to)
	three := says(data, "beside a copy", one, two)
	four := says(to, "a copy")
	says(to, "the copy started again", four)
	must(t, os.MkdirAll(filepath.Join(parts, node), 0o700))
	cp(filepath.Join(data, node, "a1.spool"), filepath.Join(parts, node))
	says(parts, "the spools alone")
	says(anew, "made anew")
	old := filepath.Join(t.TempDir(), "old")
	cp(data, old)
	five := says(data, "started again", one, two, three)
	cp(old+"/.", data)
	six := says(data, "a copy written over it")
	says(data, "started again after that", six)
	if one >= two || three >= five {
		t.Error("boots do not rise")
	}
	var none *Home
	if none.Boots() != nil {
		t.Error("a node without a directory knows lives")
	}
}
