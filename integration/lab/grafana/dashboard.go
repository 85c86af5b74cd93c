// Package grafana generates what an operator watches a market with: dashboards for Grafana, and recording
// and alerting rules for Prometheus. Their expressions read what the processes export
// (deploy/metrics.md).
package grafana

import (
	"encoding/json"
	"fmt"
)

// Unit says how Grafana writes a number.
type Unit string

// Units, by their names in Grafana.
const (
	Plain     Unit = "short"
	Share     Unit = "percentunit"
	Seconds   Unit = "s"
	PerSecond Unit = "ops"
	Bytes     Unit = "bytes"
	Rate      Unit = "Bps"
)

// Look is a panel's form.
type Look string

// Forms of panels, by their names in Grafana.
const (
	Lines  Look = "timeseries"
	Number Look = "stat"
	Table  Look = "table"
)

// Line draws an expression of a panel; Name may have labels, as {{model}}.
type Line struct{ Name, Expr string }

// Panel shows some expressions. Text says what an operator reads there.
type Panel struct {
	Title, Text string
	Look        Look
	Unit        Unit
	Lines       []Line
}

// Row is a heading, and the panels below it.
type Row struct {
	Title  string
	Panels []Panel
}

// Dashboard is a page of panels. Each of Filters is a label of the metric after it, whose values the
// reader chooses from; expressions have it as $label.
type Dashboard struct {
	Name, Title, Text string // Name is that of its file
	Filters           []Filter
	Rows              []Row
}

// Filter is a choice of values of a label, of the series of a metric.
type Filter struct{ Label, Of string }

// JSON returns the dashboard as Grafana reads it, of schema 39 (Grafana 10.2 and later).
func (d Dashboard) JSON() ([]byte, error) {
	source := map[string]any{"type": "prometheus", "uid": "${source}"}
	variables := []any{map[string]any{"name": "source", "label": "Prometheus", "type": "datasource",
		"query": "prometheus", "hide": 0}}
	for _, f := range d.Filters {
		variables = append(variables, map[string]any{"name": f.Label, "label": f.Label, "type": "query",
			"datasource": source, "query": fmt.Sprintf("label_values(%s, %s)", f.Of, f.Label), "refresh": 2,
			"multi": true, "includeAll": true, "allValue": ".*", "sort": 1,
			"current": map[string]any{"text": "All", "value": "$__all"}})
	}
	var panels []any
	id, y := 0, 0
	add := func(panel map[string]any, x, w, h int) {
		id++
		panel["id"], panel["gridPos"] = id, map[string]any{"x": x, "y": y, "w": w, "h": h}
		panels = append(panels, panel)
	}
	for _, row := range d.Rows {
		heading := map[string]any{"type": "row", "title": row.Title, "collapsed": false, "panels": []any{}}
		add(heading, 0, 24, 1)
		y++
		x, tall := 0, 0
		for _, p := range row.Panels {
			w, h := 8, 8
			switch p.Look {
			case Number:
				w, h = 4, 4
			case Table:
				w = 12
			}
			if x+w > 24 {
				x, y, tall = 0, y+tall, 0
			}
			add(p.json(source), x, w, h)
			x, tall = x+w, max(tall, h)
		}
		y += tall
	}
	text, err := json.MarshalIndent(map[string]any{
		"uid": "souk-" + d.Name, "title": d.Title, "description": d.Text, "tags": []string{"souk"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "10s",
		"time": map[string]any{"from": "now-1h", "to": "now"}, "timezone": "utc",
		"templating": map[string]any{"list": variables}, "panels": panels,
		"links": []any{map[string]any{"type": "dashboards", "tags": []string{"souk"}, "title": "Souk",
			"asDropdown": true, "includeVars": true, "keepTime": true}},
	}, "", "  ")
	return append(text, '\n'), err
}

func (p Panel) json(source map[string]any) map[string]any {
	var targets []any
	for i, l := range p.Lines {
		target := map[string]any{"refId": string(rune('A' + i)), "datasource": source, "expr": l.Expr,
			"legendFormat": l.Name}
		if p.Look != Lines {
			target["instant"] = true
		}
		if p.Look == Table {
			target["format"] = "table"
		}
		targets = append(targets, target)
	}
	out := map[string]any{"type": string(p.Look), "title": p.Title, "description": p.Text,
		"datasource": source, "targets": targets, "fieldConfig": map[string]any{
			"defaults": map[string]any{"unit": string(p.Unit), "min": 0}, "overrides": []any{}}}
	switch p.Look {
	case Lines:
		out["options"] = map[string]any{"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
			"legend": map[string]any{"displayMode": "list", "placement": "bottom"}}
	case Number:
		out["options"] = map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}},
			"colorMode": "none", "textMode": "value_and_name"}
	}
	return out
}
