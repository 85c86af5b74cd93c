package serve

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"souk/bus"
)

// A node on a copy of its directory cannot know what other lives have served, and says so, until no hold of
// theirs is open any more; so does each later life of that copy. On its own directory it never does.
func TestANodeOnACopySaysSo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing is proven here")
	}
	data, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	first := openHome(t, data, "n1")
	if out, err := exec.Command("cp", "-a", data, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, first.Close())
	boots := time.Duration(0)
	says := func(data string, after time.Duration) (moved bool) {
		h := openHome(t, data, "n1")
		defer h.Close()
		synctest.Test(t, func(t *testing.T) {
			o := newTownAt(t, h)
			o.engine.set(func() { o.engine.infoErr = errors.New("it boots") })
			pass(boots)
			o.engine.set(func() { o.engine.infoErr = nil })
			<-o.server.Ready()
			pass(after)
			kvs, err := o.reg.Get(t.Context(), bus.AgentKey("a1"))
			must(t, err)
			var r bus.Registration
			must(t, bus.DecodeEntry(kvs[0].Value, &r))
			moved = r.Moved
			o.close()
		})
		return moved
	}
	if says(data, time.Second) {
		t.Error("the node's own directory is a copy")
	}
	if !says(to, time.Second) || !says(to, bus.LedFor-time.Minute) {
		t.Error("a copy does not say so")
	}
	boots = bus.LedFor + time.Minute // meanwhile another life may have the agent
	if !says(to, time.Second) || !says(to, bus.LedFor-time.Minute) {
		t.Error("it says so no more before it has its agent for long")
	}
	boots = 0
	if says(to, bus.LedFor+time.Minute) || says(to, time.Second) {
		t.Error("it says so for ever")
	}
	node, parts := filepath.Join("agentd", "node-n1"), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(parts, node), 0o700))
	out, err := exec.Command("cp", "-a", filepath.Join(data, node, "a1.spool"),
		filepath.Join(parts, node)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !says(parts, time.Second) {
		t.Error("a copy of the spools alone does not say so")
	}
	var none *Home
	if none.Moved() {
		t.Error("a node without a directory has a copy")
	}
}
