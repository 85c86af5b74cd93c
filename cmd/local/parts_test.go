package local

import (
	"context"
	"errors"
	"testing"
)

// broken is a server that ends with an error.
type broken string

func (b broken) Run(context.Context) error { return errors.New(string(b)) }
func (b broken) Ready() <-chan struct{}    { return nil }

// What fails is named, and once.
func TestAPartThatFailsIsNamedOnce(t *testing.T) {
	for said, want := range map[broken]string{
		"treasury: no disk":   "treasury: no disk",
		"treasury east: full": "treasury east: full",
		"no disk":             "treasury: no disk",
	} {
		m := &Market{dir: new(Dir)}
		m.failed, m.fail = context.WithCancelCause(t.Context())
		if err := m.run(t.Context(), "treasury", said); err == nil || err.Error() != want {
			t.Errorf("of %q it says %v", string(said), err)
		}
	}
}
