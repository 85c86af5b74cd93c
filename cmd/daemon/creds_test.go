package daemon

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/natsauth"
)

// What is wrong with a process's creds is said with the file's name, once.
func TestCredsAreNamedOnce(t *testing.T) {
	dir := t.TempDir()
	keys, err := natsauth.Init(natsauth.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	other, err := keys.Ensure(bus.RoleHub, bus.IDs{Name: "math", Domain: "math"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		filepath.Join(dir, "none.creds"): "there are no creds",
		other:                            "souk auth add hub general",
	} {
		_, _, err := Market{Creds: path}.creds(bus.RoleHub, bus.IDs{Name: "general", Domain: "general"})
		if err == nil || strings.Count(err.Error(), path) != 1 || !strings.Contains(err.Error(), says) {
			t.Errorf("%v", err)
		}
	}
}
