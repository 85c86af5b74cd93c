package tree

import (
	"errors"

	"souk/bus/learned"
)

// saved is a gate with its tree as plain numbers, to be written down.
type saved struct {
	Config       Config
	Features     int
	Alone, Added float64
	Judged       int
	Open         bool
	Root         *node
}

// Saved implements predict.Gate.
func (g *Gate) Saved() ([]byte, error) {
	t := g.tree
	return learned.Append(nil, &saved{t.cfg, t.features, g.alone, g.added, g.judged, g.open, t.root})
}

// Restore implements predict.Gate. The gate that was saved was to be made in the same way. On an
// error it is as it was.
func (g *Gate) Restore(data []byte) error {
	var s saved
	if err := learned.ReadPart(data, &s); err != nil {
		return err
	}
	if s.Config != g.tree.cfg || s.Features != g.tree.features {
		return errors.New("tree: it was made with other features or settings")
	}
	t := NewRegressor(s.Config, s.Features)
	t.root = s.Root
	*g = Gate{tree: t, alone: s.Alone, added: s.Added, judged: s.Judged, open: s.Open}
	return nil
}
