package serve

import (
	"errors"
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
	ended := func(h *Home, life string) bool { is, _ := h.Ended(life); return is }
	if !ended(second, life) || ended(second, second.Life()) || ended(second, "") || ended(other, life) ||
		second.Life() == life {
		t.Error("who has ended?")
	}

	var none *Home
	if none.Life() != "" || ended(none, "") {
		t.Error("nothing proves something")
	}
}
