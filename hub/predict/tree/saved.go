package tree

import (
	"errors"
	"fmt"
	"math"

	"souk/bus/learned"
)

// saved is a gate with its tree as plain numbers, to be written down: what else there is is made of them.
type saved struct {
	Config       Config
	Features     int
	Alone, Added float64
	Judged       int
	Open         bool
	Openings     int
	Nodes        []node
	Leaves       []*leaf
}

// ErrOther says that what is to be restored was made in another way: with other features, or settings.
var ErrOther = errors.New("tree: it was made with other features or settings")

// Saved implements predict.Gate.
func (g *Gate) Saved() ([]byte, error) {
	t := g.tree
	return learned.Append(nil, &saved{Config: t.cfg, Features: t.features, Alone: g.alone, Added: g.added,
		Judged: g.judged, Open: g.open, Openings: g.openings, Nodes: t.branches, Leaves: t.leaves})
}

// Restore implements predict.Gate. The gate that was saved was to be made in the same way.
func (g *Gate) Restore(data []byte) error {
	var s saved
	if err := learned.ReadPart(data, &s); err != nil {
		return err
	}
	if err := learned.Check(&s, 1e40); err != nil {
		return err
	}
	if s.Config != g.tree.cfg || s.Features != g.tree.features {
		return ErrOther
	}
	if !(s.Alone >= 0 && s.Added >= 0) || s.Judged > patience || s.Open && s.Judged < patience {
		return fmt.Errorf("tree: a gate is open: %v, and has judged %d forecasts", s.Open, s.Judged)
	}
	t := *g.tree
	t.branches, t.leaves, t.rising = s.Nodes, s.Leaves, rising{}
	depths, err := t.branches.depths(t.features, t.cfg.Depth)
	if err != nil {
		return err
	}
	if len(depths) != len(t.leaves) {
		return fmt.Errorf("tree: %d leaves, and branches for %d", len(t.leaves), len(depths))
	}
	for i, l := range t.leaves {
		if l == nil {
			return fmt.Errorf("tree: leaf %d is none", i)
		}
		if l.depth = depths[i]; !l.fits(&t) {
			return fmt.Errorf("tree: leaf %d does not fit together", i)
		}
	}
	*g = Gate{tree: &t, changes: g.changes + 1, alone: s.Alone, added: s.Added, judged: s.Judged,
		open: s.Open, openings: s.Openings}
	return nil
}

// depths returns the depth of each leaf, if exactly one path leads to each node.
func (b branches) depths(features, most int) ([]int, error) {
	if len(b)%2 == 0 || len(b) > 1<<20 {
		return nil, fmt.Errorf("tree: %d nodes", len(b))
	}
	deep, leaves := make([]int, len(b)), make([]int, (len(b)+1)/2)
	for i := range deep {
		deep[i] = -1
	}
	for i := range leaves {
		leaves[i] = -1
	}
	deep[0] = 0
	for i, n := range b {
		leaf, left, right := n.Feature < 0, int(n.Left), int(n.Right)
		switch {
		case deep[i] < 0 || deep[i] > most || int(n.Feature) >= features,
			leaf && (left < 0 || left >= len(leaves) || leaves[left] >= 0),
			!leaf && (left <= i || right <= left || right >= len(b) || deep[left] >= 0 || deep[right] >= 0):
			return nil, fmt.Errorf("tree: node %d leads to %d and %d", i, left, right)
		case leaf:
			leaves[left] = deep[i]
		default:
			deep[left], deep[right] = deep[i]+1, deep[i]+1
		}
	}
	return leaves, nil
}

// fits reports whether a leaf may be one of a tree.
func (l *leaf) fits(t *Regressor) bool {
	d, w := t.features+1, l.Watch
	p := &l.Line
	return l.N >= 0 && l.Since >= 0 && l.Low <= l.High && l.Off[0] >= 0 && l.Off[1] >= 0 &&
		(w != nil) == (l.depth < t.cfg.Depth) &&
		p.N >= 0 && len(p.Mean) == d && len(p.Coef) == t.features && len(p.Off) == d*(d+1)/2 &&
		p.News < refit && (w == nil || w.fits(t.features))
}

func (o *observer) fits(features int) bool {
	wide := features + 2
	if o.All.N < 0 || o.All.Squares < 0 || len(o.Rows)%wide > 0 || len(o.Rows) > (first-1)*wide {
		return false
	}
	for i := 0; i < len(o.Rows); i += wide {
		if row := o.Rows[i : i+wide]; !sound(row[wide-1], row[:wide-2]...) || math.IsNaN(row[wide-2]) {
			return false
		}
	}
	if o.Edges == nil {
		return o.Bins == nil
	}
	if len(o.Edges) != features || len(o.Bins) != features || len(o.Rows) > 0 {
		return false
	}
	for f, edges := range o.Edges {
		if len(edges) > bins-1 || len(o.Bins[f]) != len(edges)+1 {
			return false
		}
		for i := 1; i < len(edges); i++ {
			if edges[i] <= edges[i-1] {
				return false
			}
		}
		for _, m := range o.Bins[f] {
			if m.N < 0 || m.Squares < 0 {
				return false
			}
		}
	}
	return true
}
