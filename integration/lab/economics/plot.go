package economics

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Line is a named row of points.
type Line struct {
	Name   string
	Points plotter.XYs
}

func (l *Line) add(x, y float64) { l.Points = append(l.Points, plotter.XY{X: x, Y: y}) }

// Plot is a picture of lines, or of bars where Groups are given: then X of a point is the index of its group.
type Plot struct {
	Title, X, Y string
	LogX, LogY  bool
	Marks       bool // a dot at each point
	Groups      []string
	Lines       []Line
}

// colours that people who see few colours tell apart (Okabe and Ito 2008).
var colours = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255},
	{86, 180, 233, 255}, {90, 90, 90, 255},
}

// SVG draws the plot as an element that an HTML page may hold.
func (p Plot) SVG() (string, error) {
	fig, err := p.figure()
	if err != nil {
		return "", fmt.Errorf("plot %q: %w", p.Title, err)
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(13*vg.Centimeter, 9*vg.Centimeter))
	fig.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	_, body, ok := strings.Cut(out.String(), "<svg")
	if !ok {
		return "", fmt.Errorf("plot %q: no picture came out", p.Title)
	}
	return "<svg" + body, nil
}

func (p Plot) figure() (*plot.Plot, error) {
	fig := plot.New()
	fig.Title.Text, fig.X.Label.Text, fig.Y.Label.Text = p.Title, p.X, p.Y
	fig.Legend.Top, fig.Legend.Left = true, true
	fig.Add(plotter.NewGrid())
	if p.LogX {
		fig.X.Scale, fig.X.Tick.Marker = plot.LogScale{}, ownTicks(p.Lines)
	}
	if p.LogY {
		fig.Y.Scale, fig.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	var err error
	if p.Groups != nil {
		err = p.bars(fig)
	} else {
		err = p.lines(fig)
	}
	// Room above for the legend, a line for each.
	room := 0.04 + 0.06*float64(len(p.Lines))
	if p.LogY {
		fig.Y.Max *= math.Pow(fig.Y.Max/fig.Y.Min, room)
	} else {
		fig.Y.Max += room * (fig.Y.Max - fig.Y.Min)
	}
	return fig, err
}

func (p Plot) lines(fig *plot.Plot) error {
	thumbs := make([]plot.Thumbnailer, len(p.Lines))
	for i, l := range slices.Backward(p.Lines) { // the first is drawn last, over the others
		line, dots, err := plotter.NewLinePoints(l.Points)
		if err != nil {
			return fmt.Errorf("line %q: %w", l.Name, err)
		}
		c := colours[i%len(colours)]
		line.Color, line.Width = c, vg.Points(1.6)
		if i >= 4 {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		fig.Add(line)
		if p.Marks {
			dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, vg.Points(2.2)
			fig.Add(dots)
		}
		thumbs[i] = line
	}
	for i, l := range p.Lines {
		fig.Legend.Add(l.Name, thumbs[i])
	}
	return nil
}

func (p Plot) bars(fig *plot.Plot) error {
	width := vg.Points(18)
	for i, l := range p.Lines {
		values := make(plotter.Values, len(p.Groups))
		for _, pt := range l.Points {
			values[int(pt.X)] = pt.Y
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return fmt.Errorf("bars %q: %w", l.Name, err)
		}
		bars.Color, bars.LineStyle.Width = colours[i%len(colours)], 0
		bars.Offset = (vg.Length(i) - vg.Length(len(p.Lines)-1)/2) * width
		fig.Add(bars)
		fig.Legend.Add(l.Name, bars)
	}
	fig.NominalX(p.Groups...)
	return nil
}

// ownTicks labels exactly the places where points are.
func ownTicks(lines []Line) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	if len(lines) > 0 {
		for _, p := range lines[0].Points {
			ticks = append(ticks, plot.Tick{Value: p.X, Label: fmt.Sprintf("%g", p.X)})
		}
	}
	return ticks
}
