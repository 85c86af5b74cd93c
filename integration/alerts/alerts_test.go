// Package alerts reads deploy/grafana as Prometheus does. It is a module of its own: whoever runs a
// market, or measures one, neither links nor fetches Prometheus.
package alerts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	files  = "../../deploy/grafana"
	manual = "../../deploy/metrics.md"
)

var (
	// the query of a filter of Grafana's: its metric and its label
	values = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	// a row of the manual: name, kind, labels
	metric = regexp.MustCompile("(?m)^\\| `(souk_\\w+)` \\| (\\w+) \\| ([^|]*) \\|")
)

// rules has the part of a file of rules that is read here.
type rules struct {
	Groups []struct {
		Rules []struct{ Record, Alert, Expr string }
	}
}

// expressions returns all that are in the dashboards and the rules, by where they stand, and the names
// that rules record.
func expressions(t *testing.T) (all map[string][]string, recorded []string) {
	t.Helper()
	all = map[string][]string{}
	text, err := os.ReadFile(filepath.Join(files, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := yaml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Groups {
		for _, x := range g.Rules {
			all["rule "+x.Record+x.Alert] = append(all["rule "+x.Record+x.Alert], x.Expr)
			if x.Record != "" {
				recorded = append(recorded, x.Record)
			}
		}
	}
	boards, err := filepath.Glob(filepath.Join(files, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range boards {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
			Templating struct {
				List []struct{ Type, Query string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		for _, p := range board.Panels {
			at := filepath.Base(path) + ": " + p.Title
			for _, x := range p.Targets {
				all[at] = append(all[at], x.Expr)
			}
		}
		for _, v := range board.Templating.List {
			if m := values.FindStringSubmatch(v.Query); m != nil {
				at := filepath.Base(path) + ": filter " + m[2]
				all[at] = append(all[at], "count by ("+m[2]+") ("+m[1]+")")
			} else if v.Type == "query" {
				t.Errorf("%s: filter %q", path, v.Query)
			}
		}
	}
	if len(boards) != 5 || len(recorded) == 0 || len(all) < 80 {
		t.Fatalf("%d dashboards, %d recordings, %d places with expressions", len(boards), len(recorded), len(all))
	}
	return all, recorded
}

// exported returns the labels of each metric, as the manual lists what processes export.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{"up": {"instance", "job"}} // Prometheus's own
	for _, row := range metric.FindAllStringSubmatch(string(text), -1) {
		names := regexp.MustCompile(`\w+`).FindAllString(row[3], -1)
		out[row[1]] = names
		if row[2] == "histogram" {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				out[row[1]+end] = append(slices.Clone(names), "le")
			}
		}
	}
	if len(out) < 80 {
		t.Fatalf("%s lists %d metrics", manual, len(out))
	}
	return out
}

// Each expression is one of Prometheus's, reads only metrics that processes export or rules record, and
// asks them for no label that they lack. A sum by instance is one by what Prometheus itself adds.
func TestExpressions(t *testing.T) {
	all, recorded := expressions(t)
	known := exported(t)
	variable := regexp.MustCompile(`\$(\w+)`)
	for at, exprs := range all {
		for _, text := range exprs {
			text = strings.ReplaceAll(text, "$__rate_interval", "5m")
			e, err := parser.NewParser(parser.Options{}).ParseExpr(variable.ReplaceAllString(text, ".*"))
			if err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			read := map[string]bool{"instance": true, "job": true}
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				v, ok := n.(*parser.VectorSelector)
				if !ok {
					return nil
				}
				has, ok := known[v.Name]
				if !ok && !slices.Contains(recorded, v.Name) {
					t.Errorf("%s: nobody exports %s", at, v.Name)
				}
				if !ok { // its labels stand before the first colon
					first, _, _ := strings.Cut(v.Name, ":")
					has = []string{first}
				}
				for _, l := range has {
					read[l] = true
				}
				for _, m := range v.LabelMatchers {
					if m.Name != labels.MetricName && !slices.Contains(has, m.Name) {
						t.Errorf("%s: %s has no label %s", at, v.Name, m.Name)
					}
				}
				return nil
			})
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				if a, ok := n.(*parser.AggregateExpr); ok {
					for _, l := range a.Grouping {
						if !read[l] {
							t.Errorf("%s: by %s, which nothing in it has: %s", at, l, a)
						}
					}
				}
				return nil
			})
		}
	}
}
