package serve

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openHome(t *testing.T, data, node string) *Home {
	t.Helper()
	h, err := OpenHome(data, node)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

func TestAHomeHasOneNode(t *testing.T) {
	data := t.TempDir()
	first := openHome(t, data, "rack-3.lan/a")
	if _, err := OpenHome(data, "rack-3.lan/a"); !errors.Is(err, ErrHomeTaken) {
		t.Errorf("a second one: %v", err)
	}
	other := openHome(t, data, "..") // a name, not a way out
	if filepath.Dir(other.dir) != filepath.Join(data, "agentd") || other.dir == first.dir {
		t.Errorf("homes %s and %s", first.dir, other.dir)
	}
	life := first.Life()
	must(t, first.Close())
	second := openHome(t, data, "rack-3.lan/a")
	if !second.Ended(life) || second.Ended(second.Life()) || second.Ended("") || other.Ended(life) ||
		second.Life() == life {
		t.Error("who has ended?")
	}
	for range 3 * maxLives {
		must(t, second.Close())
		second = openHome(t, data, "rack-3.lan/a")
	}
	if second.Ended(life) || len(second.past) > maxLives {
		t.Errorf("%d lives are remembered", len(second.past))
	}
	// whatever stands there
	must(t, os.WriteFile(filepath.Join(second.dir, "LIVES"), []byte{0xff, 0, '\n', 'x'}, 0o600))
	must(t, second.Close())
	openHome(t, data, "rack-3.lan/a")

	var none *Home
	if none.Life() != "" || none.Ended("") {
		t.Error("nothing proves something")
	}
}
