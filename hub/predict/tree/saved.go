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
	Openings     int
	Root         *node
}

// Saved implements predict.Gate.
func (g *Gate) Saved() ([]byte, error) {
	t := g.tree
	return learned.Append(nil, &saved{t.cfg, t.features, g.alone, g.added, g.judged, g.open, g.openings,
		t.root})
}

// Restore implements predict.Gate. The gate that was saved was to be made in the same way. On an
// error it is as it was.
func (g *Gate) Restore(data []byte) error {
	var s saved
	if err := learned.ReadPart(data, &s); err != nil {
		return err
	}
	if err := learned.Check(&s, 1e40); err != nil {
		return err
	}
	if s.Config != g.tree.cfg || s.Features != g.tree.features {
		return errors.New("tree: it was made with other features or settings")
	}
	if !s.Root.fits(&s.Config, s.Features, 0) || s.Open && s.Judged < patience {
		return errors.New("tree: it does not fit together")
	}
	t := NewRegressor(s.Config, s.Features)
	t.root = s.Root
	*g = Gate{tree: t, alone: s.Alone, added: s.Added, judged: s.Judged, open: s.Open, openings: s.Openings}
	return nil
}

// fits reports whether what was read can be a tree.
func (n *node) fits(cfg *Config, features, depth int) bool {
	if n == nil || depth > cfg.Depth {
		return false
	}
	l := n.Leaf
	if l == nil {
		return n.Feature < features && n.Below.fits(cfg, features, depth+1) &&
			n.From.fits(cfg, features, depth+1)
	}
	d, p, w := features+1, &l.Line, l.Watch
	return l.Depth == depth && l.N >= 0 && l.Low <= l.High && p.N >= 0 && len(p.Mean) == d &&
		len(p.Coef) == features && len(p.Off) == d*(d+1)/2 && (w != nil) == (depth < cfg.Depth) &&
		(w == nil || w.fits(features))
}

func (o *observer) fits(features int) bool {
	for f, edges := range o.Edges {
		if f >= len(o.Bins) || len(o.Bins[f]) != len(edges)+1 {
			return false
		}
	}
	if o.Edges == nil {
		return len(o.Rows) < first*(features+2) && len(o.Rows)%(features+2) == 0
	}
	return len(o.Edges) == features
}
