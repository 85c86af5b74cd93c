package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"souk/bus"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/market"
)

// topLines counts the lines of the screen that are not rows.
const topLines = 6

// column is a column of a view, so many characters wide.
type column struct {
	name  string
	width int
}

// cell is a text, or a number that stands to the right. It is written only where it is shown.
type cell struct {
	text   string
	number float64
	write  func(n float64, width int) string // nil: it is a text
}

func word(s string) cell { return cell{text: s} }

func count[N int | int64](n N) cell {
	return cell{number: float64(n), write: func(n float64, _ int) string {
		return strconv.FormatFloat(n, 'f', 0,
			64)
	}}
}

func amount(c market.Credits) cell {
	return cell{number: float64(c), write: fitted}
}

// fitted is an amount to as many digits, of four, as there is room for: one that is cut would look like
// another.
func fitted(nanos float64, width int) string {
	s := digits(nanos)
	for n := 3; n > 0 && len(s) > width; n-- {
		s = fmt.Sprintf("%.*g", n, nanos/float64(market.Credit))
	}
	return s
}

func share(part, of int64) cell {
	if of <= 0 {
		return cell{number: -1, write: func(float64, int) string { return "-" }}
	}
	return cell{number: float64(part) / float64(of), write: func(x float64, _ int) string {
		return fmt.Sprintf("%.0f %%", 100*x)
	}}
}

// written is the cell in at most so many columns.
func (c *cell) written(width int) string {
	s := c.text
	if c.write != nil {
		s = c.write(c.number, width)
	}
	s = short(s, width)
	pad := strings.Repeat(" ", max(0, width-text.StringWidth(s)))
	if c.write != nil {
		return pad + s
	}
	return s + pad
}

// topView is a table; its columns and the gaps between them take 80 characters.
type topView struct {
	name    string
	columns []column
	rows    func(*top) [][]cell
}

var views = []topView{
	{"agents", []column{{"agent", 17}, {"hub", 8}, {"model", 15}, {"run", 4}, {"slots", 5}, {"free", 4},
		{"tasks", 7}, {"cached", 6}, {"state", 6}}, (*top).agentRows},
	{"models", []column{{"model", 24}, {"hub", 10}, {"agents", 6}, {"free", 6}, {"miss", 7}, {"hit", 7},
		{"out", 7}, {"slot", 6}}, (*top).modelRows},
	{"rounds", []column{{"round", 14}, {"at", 8}, {"tasks", 5}, {"won", 4}, {"left", 4}, {"premiums", 9},
		{"slot", 9}, {"would have won", 20}}, (*top).roundRows},
	{"hubs", []column{{"hub", 12}, {"agents", 6}, {"slots", 6}, {"free", 5}, {"wait", 5}, {"run", 5},
		{"served", 8}, {"refused", 7}, {"surplus", 8}, {"regime", 9}}, (*top).hubRows},
}

func (t *top) agentRows() (rows [][]cell) {
	for _, h := range t.all {
		if h.State == nil {
			continue
		}
		for _, a := range h.State.Agents {
			rows = append(rows, []cell{word(a.Agent), word(h.Domain), word(a.Model), count(a.Running),
				count(a.Slots), count(a.Free), count(a.Tasks), share(a.Cached, a.Prompt), word(cmp.Or(a.State,
					"ok"))})
		}
	}
	return rows
}

func (t *top) modelRows() (rows [][]cell) {
	for _, h := range t.all {
		for _, m := range h.Status.Models {
			rows = append(rows, []cell{word(m.Model), word(h.Domain), count(m.Agents), count(m.Free),
				amount(m.Price.Miss), amount(m.Price.Hit), amount(m.Price.Out), amount(m.SlotPrice)})
		}
	}
	return rows
}

func (t *top) roundRows() (rows [][]cell) {
	for _, r := range t.last {
		won := ""
		if l := r.Won(); l != nil {
			won = brief(l.Needed) + " at " + l.Agent
		}
		rows = append(rows, []cell{word(fmt.Sprintf("%s/%d", r.Journal, r.Number)),
			word(time.UnixMilli(r.AtMS).UTC().Format(time.TimeOnly)), count(r.Tasks), count(r.Given),
			count(max(0, r.Tasks-r.Given)), amount(r.Premiums), amount(r.SlotPrice), word(won)})
	}
	return rows
}

func (t *top) hubRows() (rows [][]cell) {
	for _, h := range t.all {
		s, st := &h.Status, h.State
		if st == nil {
			st = &bus.FeedState{}
		}
		rows = append(rows, []cell{word(h.Domain), count(s.Agents), count(s.Slots), count(s.Free),
			count(s.Waiting), count(st.Running), count(st.Served), count(st.Refused), amount(st.Surplus),
			word(s.Regime)})
	}
	return rows
}

// draw returns the whole screen, no line of which is wider than it.
func (t *top) draw() string {
	v := views[t.view]
	rows := v.rows(t)
	if by := t.sort[t.view]; by > 0 {
		slices.SortStableFunc(rows, func(a, b []cell) int {
			x, y := a[by-1], b[by-1]
			return cmp.Or(-cmp.Compare(x.number, y.number), cmp.Compare(x.text, y.text))
		})
	}
	if t.reverse {
		slices.Reverse(rows)
	}
	room := max(1, t.height-topLines)
	t.from = max(0, min(t.from, len(rows)-room))
	lines := t.head()
	var tabs []string
	for i, x := range views {
		name := fmt.Sprintf(" %d %s ", i+1, x.name)
		if i == t.view {
			name = fmt.Sprintf("[%d %s]", i+1, x.name)
		}
		tabs = append(tabs, name)
	}
	sorted := "as it comes"
	if by := t.sort[t.view]; by > 0 {
		sorted = "by " + v.columns[by-1].name
	}
	if t.reverse {
		sorted += ", reversed"
	}
	shown := rows[t.from:min(len(rows), t.from+room)]
	lines = append(lines, fmt.Sprintf("%s  %s, %d to %d of %d", strings.Join(tabs, ""), sorted,
		min(len(rows), t.from+1), t.from+len(shown), len(rows)))
	var names []cell
	for i, c := range v.columns {
		if names = append(names, word(c.name)); len(rows) > 0 && rows[0][i].write != nil {
			names[i].write = func(float64, int) string { return c.name }
		}
	}
	lines = append(lines, v.line(names))
	for _, r := range shown {
		lines = append(lines, v.line(r))
	}
	for len(lines) < t.height-1 {
		lines = append(lines, "")
	}
	foot := "q ends  left right view  up down scroll  s sorts  r reverses  space holds"
	if t.held {
		foot = "HELD: space goes on  " + foot
	}
	lines = append(lines[:min(len(lines), max(1, t.height-1))], foot)
	for i := range lines {
		lines[i] = text.Snip(lines[i], max(1, t.width), "~")
	}
	return strings.Join(lines[:min(len(lines), max(1, t.height))], "\n")
}

// head says in three lines how the whole market is.
func (t *top) head() []string {
	var agents, free, slots, waiting int
	var tasks, served, refused int64
	var held, surplus, payable market.Credits
	wrong := ""
	for _, h := range t.all {
		s := &h.Status
		agents, free, slots, waiting = agents+s.Agents, free+s.Free, slots+s.Slots, waiting+s.Waiting
		if st := h.State; st != nil {
			tasks, served, refused = tasks+st.Tasks, served+st.Served, refused+st.Refused
			held, surplus, payable = held+st.Held, surplus+st.Surplus, payable+st.Payable
		}
		switch ago := t.at.Sub(h.Heard); {
		case wrong != "":
		case ago > local.Lagging:
			wrong = fmt.Sprintf("! hub %s says nothing for %v", h.Domain, ago.Round(time.Second))
		case s.Closed != "":
			wrong = fmt.Sprintf("! hub %s takes no task: %s", h.Domain, s.Closed)
		case h.State != nil && h.State.Unready != "":
			wrong = fmt.Sprintf("! hub %s: %s", h.Domain, h.State.Unready)
		}
	}
	if len(t.all) == 0 {
		wrong = "no hub is heard yet"
	}
	return []string{
		fmt.Sprintf("souk top  %s  %s  hubs %d  agents %d", short(t.market, 32),
			t.at.UTC().Format(time.TimeOnly), len(t.all), agents),
		fmt.Sprintf("free %d of %d  waiting %d  tasks %d  served %d  refused %d", free, slots, waiting, tasks,
			served,
			refused),
		fmt.Sprintf("held %s  surplus %s  owed to agents %s  %s", brief(held), brief(surplus), brief(payable),
			console.Plain(wrong)),
	}
}

// line sets cells under their columns.
func (v *topView) line(cells []cell) string {
	var b strings.Builder
	for i, c := range v.columns {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(cells[i].written(c.width))
	}
	return strings.TrimRight(b.String(), " ")
}
