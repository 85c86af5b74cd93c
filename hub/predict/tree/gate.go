package tree

import "math"

// Gate is a tree on the residuals of a forecast. The tree's correction is added only while that errs less
// than the forecast alone.
type Gate struct {
	Tree *Regressor

	Alone, Added float64 // decayed errors: of the forecast alone, and with what the tree says
	Judged       int     // observations since nothing was known of these
	Opened       bool
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
func NewGate(cfg Config, features int) *Gate { return &Gate{Tree: NewRegressor(cfg, features)} }

// Add returns the correction to a forecast: 0 while the gate is shut. With slopes, the forecast is a line
// that rises at least so fast with the features, and the sum still falls nowhere: see [Regressor.Rise].
func (g *Gate) Add(x, slopes []float64) float64 {
	if !g.Opened {
		return 0
	}
	return g.says(x, slopes)
}

func (g *Gate) says(x, slopes []float64) float64 {
	if slopes == nil {
		return g.Tree.Predict(x)
	}
	return g.Tree.Rise(x, slopes)
}

// Learn takes in the residual of the forecast without the tree.
func (g *Gate) Learn(x, slopes []float64, left, weight float64) {
	if len(x) != g.Tree.Features || !sound(weight, x...) || !sound(weight, left) {
		return
	}
	part := (1 - gateFade) * min(1, weight)
	g.Alone += float64(part * (math.Abs(left) - g.Alone))
	g.Added += float64(part * (math.Abs(left-g.says(x, slopes)) - g.Added))
	g.Tree.Learn(x, left, weight)
	if g.Judged < patience {
		g.Judged++
		return
	}
	switch {
	case g.Added < float64(g.Alone*(1-better)):
		g.Opened = true
	case g.Added >= g.Alone:
		g.Opened = false
	}
}

// Mute shuts the gate: what the forecast was made for has changed. It must show anew that it saves errors.
func (g *Gate) Mute() {
	g.Opened, g.Judged, g.Alone, g.Added = false, 0, 0, 0
}

// Open reports whether what the tree says is added.
func (g *Gate) Open() bool { return g.Opened }
