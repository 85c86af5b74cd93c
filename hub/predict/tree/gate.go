package tree

import "math"

// Gate is a tree on the residuals of a forecast. The tree's correction is added only while that errs less
// than the forecast alone.
type Gate struct {
	tree *Regressor

	alone, added float64 // decayed errors: of the forecast alone, and with what the tree says
	judged       int     // observations since nothing was known of these
	open         bool
}

const (
	// of an error of the forecast, when the next one comes
	gateFade = 0.99
	// patience is the number of forecasts that are judged before the gate may open.
	patience = 200
	// better is the share of the error that must be saved for it to open; it shuts once none is.
	better = 0.02
)

// NewGate is a gate before a tree that has seen nothing.
func NewGate(cfg Config, features int) *Gate { return &Gate{tree: NewRegressor(cfg, features)} }

// Add returns the correction to a forecast: 0 while the gate is shut. With slopes, the forecast is a line
// that rises at least so fast with the features, and the sum still falls nowhere: see [Regressor.Rise].
func (g *Gate) Add(x, slopes []float64) float64 {
	if !g.open {
		return 0
	}
	return g.says(x, slopes)
}

func (g *Gate) says(x, slopes []float64) float64 {
	if slopes == nil {
		return g.tree.Predict(x)
	}
	return g.tree.Rise(x, slopes)
}

// Learn takes in the residual of the forecast without the tree.
func (g *Gate) Learn(x, slopes []float64, left, weight float64) {
	if len(x) != g.tree.features || !sound(weight, x...) || !sound(weight, left) {
		return
	}
	part := (1 - gateFade) * min(1, weight)
	g.alone += float64(part * (math.Abs(left) - g.alone))
	g.added += float64(part * (math.Abs(left-g.says(x, slopes)) - g.added))
	g.tree.Learn(x, left, weight)
	if g.judged < patience {
		g.judged++
		return
	}
	switch {
	case g.added < float64(g.alone*(1-better)):
		g.open = true
	case g.added >= g.alone:
		g.open = false
	}
}

// Mute shuts the gate: what the forecast was made for has changed. It must show anew that it saves errors.
func (g *Gate) Mute() {
	g.open, g.judged, g.alone, g.added = false, 0, 0, 0
}

// Open reports whether what the tree says is added.
func (g *Gate) Open() bool { return g.open }
