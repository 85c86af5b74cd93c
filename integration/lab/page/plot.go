package page

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Point stands in a plot, with half of the intervals of Y, and of X; 0: it has none.
type Point struct {
	X, Y, Within, XWithin float64
	Least                 bool // Y is at least so much
}

// Series is points of one name.
type Series struct {
	Name   string
	Loose  bool // its points are no line, and grey
	Points []Point
}

// Add appends a point.
func (s *Series) Add(x, y, within float64) {
	s.Points = append(s.Points, Point{X: x, Y: y, Within: within})
}

// Plot is a picture of lines, each through its points. Where Groups are given X of a point is the index of
// its group: these stand below each other, and Y goes to the right.
type Plot struct {
	Title, X, Y string
	LogX, LogY  bool
	OwnX        bool // to the right the places of points are labelled
	Groups      []string
	Bars        string // of groups: points are bars, labelled so, as by "$%.0f", and with their names
	Series      []Series
}

// Of is the series of a name, which the plot gets if it has none.
func (p *Plot) Of(name string) *Series {
	i := slices.IndexFunc(p.Series, func(s Series) bool { return s.Name == name })
	if i < 0 {
		i = len(p.Series)
		p.Series = append(p.Series, Series{Name: name})
	}
	return &p.Series[i]
}

// Put adds the value of a group to the series of a name.
func (p *Plot) Put(group, name string, value, within float64) {
	i := slices.Index(p.Groups, group)
	if i < 0 {
		i = len(p.Groups)
		p.Groups = append(p.Groups, group)
	}
	p.Of(name).Add(float64(i), value, within)
}

// ink is drawn in the colour of the page's text.
var ink = color.RGBA{1, 2, 3, 255}

// colours that people who see few colours tell apart, readable on a light and on a dark page.
var colours = []color.RGBA{{59, 130, 196, 255}, {217, 95, 2, 255}, {27, 158, 119, 255}, {204, 121, 167, 255},
	{214, 154, 0, 255}, {86, 180, 233, 255}, {120, 94, 240, 255}, {160, 96, 60, 255}, {190, 30, 90, 255}}

var grey = color.RGBA{138, 138, 138, 255}

// SVG draws the plot as an element that an HTML page may hold.
func (p *Plot) SVG() (string, error) {
	fig, err := p.figure()
	if err != nil {
		return "", fmt.Errorf("plot %q: %w", p.Title, err)
	}
	height := 9 * vg.Centimeter
	if p.Groups != nil {
		height = 3*vg.Centimeter + vg.Length(len(p.Groups))*max(0.45,
			0.28*vg.Length(len(p.Series)))*vg.Centimeter
		if p.Bars != "" {
			height = 2*vg.Centimeter + 0.55*vg.Length(len(p.Groups)*(len(p.Series)+1))*vg.Centimeter
		}
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(13*vg.Centimeter, height))
	fig.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	svg, err := compact(out.String())
	if err != nil {
		return "", fmt.Errorf("plot %q: %w", p.Title, err)
	}
	return svg, nil
}

func (p *Plot) figure() (*plot.Plot, error) {
	fig := plot.New()
	fig.BackgroundColor = nil
	fig.Title.Text, fig.X.Label.Text, fig.Y.Label.Text = p.Title, p.X, p.Y
	if p.Groups != nil {
		fig.X.Label.Text, fig.Y.Label.Text = p.Y, ""
	}
	for _, s := range []*draw.TextStyle{&fig.Title.TextStyle, &fig.X.Label.TextStyle, &fig.Y.Label.TextStyle,
		&fig.X.Tick.Label, &fig.Y.Tick.Label, &fig.Legend.TextStyle} {
		s.Color, s.Font.Variant = ink, "Sans"
	}
	for _, a := range []*plot.Axis{&fig.X, &fig.Y} {
		a.LineStyle.Color, a.Tick.LineStyle.Color = ink, ink
	}
	fig.Legend.Top, fig.Legend.Left = true, true
	grid := plotter.NewGrid()
	for _, g := range []*draw.LineStyle{&grid.Horizontal, &grid.Vertical} {
		g.Color, g.Width = color.NRGBA{138, 138, 138, 60}, vg.Points(0.4)
	}
	fig.Add(grid)
	if err := p.draw(fig); err != nil {
		return nil, err
	}
	p.scale(fig)
	if p.Bars != "" || len(p.Series) == 1 && p.Series[0].Name == "" {
		return fig, nil
	}
	room := 0.04 + 0.06*float64(len(p.Series)) // above, for the legend
	switch {
	case p.Groups != nil:
		fig.Y.Max += 0.7 * float64(len(p.Series))
	case p.LogY:
		fig.Y.Max *= math.Pow(fig.Y.Max/fig.Y.Min, room)
	default:
		fig.Y.Max += room * (fig.Y.Max - fig.Y.Min)
	}
	return fig, nil
}

// scale sets what the axes show.
func (p *Plot) scale(fig *plot.Plot) {
	value := &fig.Y
	if p.Groups != nil {
		value = &fig.X
		var names []plot.Tick
		for i, g := range p.Groups {
			names = append(names, plot.Tick{Value: -float64(i), Label: g})
		}
		fig.Y.Tick.Marker = plot.ConstantTicks(names)
		fig.Y.Min, fig.Y.Max = -float64(len(p.Groups))+0.4, 0.6
	}
	if p.LogY {
		value.Scale, value.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else if value.Min > 0 && value.Min < 0.6*value.Max {
		value.Min = 0
	}
	if p.LogX {
		fig.X.Scale, fig.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		if p.OwnX {
			fig.X.Tick.Marker = p.ownTicks()
		}
	}
	if p.Bars != "" { // and room for what stands behind them
		value.Min, value.Max = 0, 1.25*value.Max
	}
	wide(value, p.LogY)
	if p.Groups == nil {
		wide(&fig.X, p.LogX)
	}
}

// wide gives an axis of one value some room.
func wide(a *plot.Axis, log bool) {
	switch {
	case a.Min < a.Max:
	case log:
		a.Min, a.Max = a.Min/2, a.Max*2
	default:
		a.Min, a.Max = a.Min-1, a.Max+1
	}
}

// mostDots bounds the points of a line that are drawn as dots, too.
const mostDots = 40

// points holds a series, and how far it may be off, as a plotter takes it.
type points struct {
	plotter.XYs
	plotter.XErrors
	plotter.YErrors
}

type interval = struct{ Low, High float64 }

// around is the interval of a value; on a scale of logarithms it ends above 0.
func around(value, within float64, log bool) interval {
	if log && value-within <= 0 {
		return interval{value / 2, within}
	}
	return interval{within, within}
}

// place returns the points of a plot's k-th series. What a scale cannot show is left out.
func (p *Plot) place(k int) (at points) {
	offset := 0.0
	if n := float64(len(p.Series)); n > 1 {
		offset = 0.7 * (0.5 - (float64(k)+0.5)/n)
		if p.Bars != "" {
			offset /= 0.85
		}
	}
	for _, q := range p.Series[k].Points {
		if math.IsNaN(q.Y) || math.IsInf(q.Y, 0) || p.LogY && q.Y <= 0 || p.LogX && q.X <= 0 {
			continue
		}
		y, x := around(q.Y, q.Within, p.LogY), around(q.X, q.XWithin, p.LogX)
		if p.Groups != nil {
			at.XYs = append(at.XYs, plotter.XY{X: q.Y, Y: offset - q.X})
			at.XErrors, at.YErrors = append(at.XErrors, y), append(at.YErrors, interval{})
			continue
		}
		at.XYs = append(at.XYs, plotter.XY{X: q.X, Y: q.Y})
		at.XErrors, at.YErrors = append(at.XErrors, x), append(at.YErrors, y)
	}
	return at
}

func (p *Plot) draw(fig *plot.Plot) error {
	thumbs, drawn := make([]plot.Thumbnailer, len(p.Series)), false
	for k, s := range slices.Backward(p.Series) { // the first is drawn last, over the others
		at := p.place(k)
		if len(at.XYs) == 0 {
			continue
		}
		drawn = true
		line, dots, err := plotter.NewLinePoints(at.XYs)
		if err != nil {
			return fmt.Errorf("%q: %w", s.Name, err)
		}
		c := colours[k%len(colours)]
		if s.Loose {
			c = grey
		}
		line.Color, line.Width = c, vg.Points(1.5)
		if k >= len(colours) {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, vg.Points(2.4)
		thumbs[k] = dots
		if p.Bars != "" {
			if err := p.bar(fig, &s, at, c); err != nil {
				return err
			}
			continue
		}
		if p.Groups == nil && !s.Loose {
			fig.Add(line)
			thumbs[k] = line
		}
		if len(at.XYs) <= mostDots {
			fig.Add(dots)
		}
		if err := bars(fig, at, c); err != nil {
			return err
		}
	}
	if !drawn {
		return fmt.Errorf("it has no point")
	}
	for k, s := range p.Series {
		if thumbs[k] != nil && s.Name != "" && p.Bars == "" {
			fig.Legend.Add(s.Name, thumbs[k])
		}
	}
	return nil
}

// bar draws the bars of a series, with their intervals, and what they say behind them.
func (p *Plot) bar(fig *plot.Plot, s *Series, at points, c color.Color) error {
	var said plotter.XYLabels
	if len(at.XYs) < len(s.Points) {
		return fmt.Errorf("%q: a bar has no length", s.Name)
	}
	for i, q := range at.XYs {
		line, err := plotter.NewLine(plotter.XYs{{X: 0, Y: q.Y}, {X: q.X, Y: q.Y}})
		if err != nil {
			return err
		}
		line.Color, line.Width = c, vg.Points(9)
		fig.Add(line)
		said.XYs = append(said.XYs, plotter.XY{X: q.X + at.XErrors[i].High, Y: q.Y})
		label := fmt.Sprintf(p.Bars, q.X) + " " + s.Name
		if s.Points[i].Least {
			label = "at least " + label
		}
		said.Labels = append(said.Labels, label)
	}
	labels, err := plotter.NewLabels(said)
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: vg.Points(4), Y: vg.Points(-3.5)}
	for i := range labels.TextStyle {
		t := &labels.TextStyle[i]
		t.Color, t.Font.Size, t.Font.Variant = ink, vg.Points(10), "Sans"
	}
	fig.Add(labels)
	return bars(fig, at, ink)
}

// bars draws the intervals, where there are some.
func bars(fig *plot.Plot, at points, c color.Color) error {
	style := draw.LineStyle{Color: c, Width: vg.Points(1)}
	some := func(e interval) bool { return e.High > 0 }
	if slices.ContainsFunc(at.XErrors, some) {
		b, err := plotter.NewXErrorBars(struct {
			plotter.XYs
			plotter.XErrors
		}{at.XYs, at.XErrors})
		if err != nil {
			return err
		}
		b.LineStyle = style
		fig.Add(b)
	}
	if slices.ContainsFunc(at.YErrors, some) {
		b, err := plotter.NewYErrorBars(struct {
			plotter.XYs
			plotter.YErrors
		}{at.XYs, at.YErrors})
		if err != nil {
			return err
		}
		b.LineStyle = style
		fig.Add(b)
	}
	return nil
}

// ownTicks labels the places where points are.
func (p *Plot) ownTicks() (ticks plot.ConstantTicks) {
	for _, q := range p.Series[0].Points {
		ticks = append(ticks, plot.Tick{Value: q.X, Label: fmt.Sprintf("%g", q.X)})
	}
	return ticks
}
