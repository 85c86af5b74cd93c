package embedded

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
)

// On a full disk etcd panics while it starts. Whoever started it is told, and ends as after any other error.
func TestAPanicAtTheStartIsAnError(t *testing.T) {
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	c.ZapLoggerBuilder = func(*embed.Config) error { panic("failed to create WAL") }
	if _, err := start(c); !errors.Is(err, errFiles) || !strings.Contains(err.Error(), "failed to create WAL") || !strings.Contains(err.Error(), c.Dir) {
		t.Errorf("got %v", err)
	}
}
