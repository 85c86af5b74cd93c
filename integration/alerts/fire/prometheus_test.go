// Package fire has Prometheus's own engine judge the alerts of deploy/grafana: each one on what processes
// would export where it is to fire, and some in a market that runs, by faults.
package fire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// step is the time between two scrapes, and between two evaluations of the rules.
const step = 10 * time.Second

// prometheus scrapes and evaluates as the real one does, by a clock of its own: an hour takes as long as
// its scrapes do.
type prometheus struct {
	t       testing.TB
	db      *tsdb.DB
	query   rules.QueryFunc
	records []*rules.RecordingRule
	alerts  map[string]*rules.AlertingRule
	now     time.Time
	every   time.Duration                       // by its clock, between two evaluations
	shows   map[string]map[string]labels.Labels // of each target, its series at the last scrape
	pages   map[string][]byte                   // of each target, likewise
}

func open(t testing.TB) *prometheus {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/grafana/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Alert, Expr, For string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	db, err := tsdb.Open(t.TempDir(), slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute})
	p := &prometheus{t: t, db: db, query: rules.EngineQueryFunc(engine, db),
		alerts: map[string]*rules.AlertingRule{}, now: time.Unix(1_800_000_000, 0), every: step,
		shows: map[string]map[string]labels.Labels{}, pages: map[string][]byte{}}
	parse := parser.NewParser(parser.Options{})
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			e, err := parse.ParseExpr(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			if r.Record != "" {
				p.records = append(p.records, rules.NewRecordingRule(r.Record, e, labels.EmptyLabels()))
				continue
			}
			var hold model.Duration
			if r.For != "" {
				if hold, err = model.ParseDuration(r.For); err != nil {
					t.Fatal(err)
				}
			}
			none := labels.EmptyLabels()
			p.alerts[r.Alert] = rules.NewAlertingRule(r.Alert, e, time.Duration(hold), 0, none, none,
				none, "", true, slog.New(slog.DiscardHandler))
		}
	}
	return p
}

// take adds a page of metrics of a target.
func (p *prometheus) take(instance string, page []byte) {
	p.t.Helper()
	const kind = "text/plain; version=0.0.4"
	read, err := textparse.New(page, kind, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	add := p.db.Appender(context.Background())
	shown := map[string]labels.Labels{}
	for {
		kind, err := read.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.t.Fatalf("%s: %v", instance, err)
		}
		if kind != textparse.EntrySeries {
			continue
		}
		var of labels.Labels
		_, _, x := read.Series()
		read.Labels(&of)
		b := labels.NewBuilder(of)
		b.Set("instance", instance)
		of = b.Labels()
		if _, err := add.Append(0, of, p.now.UnixMilli(), x); err != nil {
			p.t.Fatal(err)
		}
		shown[of.String()] = of
	}
	p.stale(add, instance, shown)
	if err := add.Commit(); err != nil {
		p.t.Fatal(err)
	}
	p.up(instance, 1)
}

// stale ends the series of a target that it no longer shows.
func (p *prometheus) stale(add storage.Appender, instance string, shown map[string]labels.Labels) {
	for name, of := range p.shows[instance] {
		if _, still := shown[name]; still {
			continue
		}
		if _, err := add.Append(0, of, p.now.UnixMilli(), math.Float64frombits(value.StaleNaN)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.shows[instance] = shown
}

// up adds whether a target was reached, 1 or 0, as Prometheus itself does.
func (p *prometheus) up(instance string, reached float64) {
	p.t.Helper()
	add := p.db.Appender(context.Background())
	if reached == 0 {
		p.stale(add, instance, nil)
	}
	of := labels.FromStrings(labels.MetricName, "up", "instance", instance)
	if _, err := add.Append(0, of, p.now.UnixMilli(), reached); err != nil {
		p.t.Fatal(err)
	}
	if err := add.Commit(); err != nil {
		p.t.Fatal(err)
	}
}

// scrape reads targets, each within a second, and adds what they say.
func (p *prometheus) scrape(targets []string) {
	client := http.Client{Timeout: time.Second}
	for _, at := range targets {
		r, err := client.Get("http://" + at + "/metrics")
		if err != nil {
			p.up(at, 0)
			continue
		}
		page, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
		r.Body.Close()
		if err == nil && r.StatusCode == http.StatusOK {
			p.take(at, page)
			p.pages[at] = page
		} else {
			p.up(at, 0)
		}
	}
}

// evaluate works out all rules, and lets a step pass.
func (p *prometheus) evaluate() {
	p.t.Helper()
	ctx := context.Background()
	add := p.db.Appender(ctx)
	shown := map[string]labels.Labels{}
	for _, r := range p.records {
		v, err := r.Eval(ctx, 0, p.now, p.query, nil, 0)
		if err != nil {
			p.t.Fatal(r.Name(), err)
		}
		for _, s := range v {
			if _, err := add.Append(0, s.Metric, p.now.UnixMilli(), s.F); err != nil {
				p.t.Fatal(err)
			}
			shown[s.Metric.String()] = s.Metric
		}
	}
	p.stale(add, "rules", shown)
	if err := add.Commit(); err != nil {
		p.t.Fatal(err)
	}
	for name, a := range p.alerts {
		if _, err := a.Eval(ctx, 0, p.now, p.query, nil, 0); err != nil {
			p.t.Fatal(name, err)
		}
		a.SetEvaluationTimestamp(p.now)
	}
	p.now = p.now.Add(p.every)
}

// firing lists the alerts that fire.
func (p *prometheus) firing() (names []string) {
	for name, a := range p.alerts {
		if a.State() == rules.StateFiring {
			names = append(names, name)
		}
	}
	return names
}

// ask returns the number of series that an expression has at the last evaluation.
func (p *prometheus) ask(expr string) int {
	v, err := p.query(context.Background(), expr, p.now.Add(-p.every))
	if err != nil {
		p.t.Errorf("%s: %v", expr, err)
	}
	return len(v)
}

var variables = regexp.MustCompile(`\$(\w+)`)

// shown holds dashboards and the manual of metrics against what was scraped: each panel has something to
// show, some process says something of each family, and promtool's check finds nothing wrong with any page.
func (p *prometheus) shown() {
	p.t.Helper()
	boards, err := filepath.Glob("../../../deploy/grafana/*.json")
	if err != nil || len(boards) != 5 {
		p.t.Fatal(boards, err)
	}
	var empty []string
	for _, path := range boards {
		empty = append(empty, p.empty(path)...)
	}
	text, err := os.ReadFile("../../../deploy/metrics.md")
	if err != nil {
		p.t.Fatal(err)
	}
	families, unsaid := 0, []string(nil)
	row := regexp.MustCompile("(?m)^\\| `(souk_\\w+)` \\| (\\w+)")
	for _, row := range row.FindAllStringSubmatch(string(text), -1) {
		name := row[1]
		if row[2] == "histogram" {
			name += "_count"
		}
		if families++; p.ask("max_over_time("+name+"[1h])") == 0 {
			unsaid = append(unsaid, row[1])
		}
	}
	for at, page := range p.pages {
		if problems, err := promlint.New(bytes.NewReader(page)).Lint(); err != nil || len(problems) > 0 {
			p.t.Errorf("%s: %v %+v", at, err, problems)
		}
	}
	p.t.Logf("%d families, %d processes", families, len(p.pages))
	if len(empty) > 0 || len(unsaid) > 0 {
		p.t.Errorf("panels with nothing to show: %q; families of which nothing is said: %q", empty, unsaid)
	}
}

// empty lists the panels of a dashboard that have nothing to show.
func (p *prometheus) empty(path string) (titles []string) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(must(os.ReadFile(path)), &board); err != nil {
		p.t.Fatal(err)
	}
	for _, x := range board.Panels {
		found := 0
		for _, q := range x.Targets {
			expr := strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")
			found += p.ask(variables.ReplaceAllString(expr, ".*"))
		}
		if found == 0 && len(x.Targets) > 0 {
			titles = append(titles, filepath.Base(path)+": "+x.Title)
		}
	}
	return titles
}
