// Package fire has Prometheus's own engine judge the alerts of deploy/grafana: each one on what processes
// would export where it is to fire, and some in a market that runs, by faults.
package fire

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
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
	// a target that is not reached is gone at the next evaluation, as in the real one, where it is stale
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute,
		LookbackDelta: step + step/2})
	p := &prometheus{t: t, db: db, query: rules.EngineQueryFunc(engine, db),
		alerts: map[string]*rules.AlertingRule{}, now: time.Unix(1_800_000_000, 0)}
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
		_, _, value := read.Series()
		read.Labels(&of)
		b := labels.NewBuilder(of)
		b.Set("instance", instance)
		if _, err := add.Append(0, b.Labels(), p.now.UnixMilli(), value); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := add.Commit(); err != nil {
		p.t.Fatal(err)
	}
	p.up(instance, 1)
}

// up adds whether a target was reached, 1 or 0, as Prometheus itself does.
func (p *prometheus) up(instance string, reached float64) {
	p.t.Helper()
	add := p.db.Appender(context.Background())
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
	for _, r := range p.records {
		v, err := r.Eval(ctx, 0, p.now, p.query, nil, 0)
		if err != nil {
			p.t.Fatal(r.Name(), err)
		}
		for _, s := range v {
			if _, err := add.Append(0, s.Metric, p.now.UnixMilli(), s.F); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if err := add.Commit(); err != nil {
		p.t.Fatal(err)
	}
	for name, a := range p.alerts {
		if _, err := a.Eval(ctx, 0, p.now, p.query, nil, 0); err != nil {
			p.t.Fatal(name, err)
		}
		a.SetEvaluationTimestamp(p.now)
	}
	p.now = p.now.Add(step)
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
