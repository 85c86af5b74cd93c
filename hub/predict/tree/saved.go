package tree

import (
	"errors"

	"souk/bus/learned"
)

// Saved implements predict.Gate.
func (g *Gate) Saved() ([]byte, error) { return learned.Append(nil, g) }

// Restore implements predict.Gate. The gate that was saved was to be made in the same way. On an
// error it is as it was.
func (g *Gate) Restore(data []byte) error {
	var s Gate
	if err := learned.ReadPart(data, &s); err != nil {
		return err
	}
	t := g.Tree
	if s.Tree == nil || s.Tree.Root == nil || s.Tree.Config != t.Config || s.Tree.Features != t.Features {
		return errors.New("tree: it was made with other features or settings")
	}
	s.Tree.scratch = t.scratch
	*g = s
	return nil
}
