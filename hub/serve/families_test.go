package serve

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"souk/bus"
	"souk/bus/metrics"
	"souk/hub/report"
	"souk/ledger"
	"souk/market"
)

// crowd returns the counts of a hub of so many agents, which sell so many models and have failed at times.
func crowd(agents, models int) Stats {
	st := Stats{Stats: report.New(), Quotes: map[bus.Code]int64{}}
	st.Tasks = map[bus.Code]int64{}
	for _, code := range []bus.Code{"", bus.CodeTimeout, bus.CodeCancelled, bus.CodeEngineFailed, "made_up"} {
		st.Tasks[code], st.Quotes[code], st.Voids[code] = 1, 1, 1
	}
	for i := range models {
		st.Models = append(st.Models, report.ModelStats{Model: fmt.Sprint("model-", i),
			Served: report.Served{Tasks: 1, Usage: market.Usage{Prompt: 3, Cached: 2, Output: 1},
				Cost: market.Credit, Premium: 1}})
	}
	states := []string{"", "silent", "draining"}
	for i := range agents {
		st.Agents = append(st.Agents, report.AgentStats{Agent: fmt.Sprint("agent-", i), Failed: 1,
			Model: fmt.Sprint("model-", i%models), State: states[i/models%len(states)], Slots: 8, Free: 5,
			Running: 3, Second: market.Credit})
	}
	return st
}

// A hub's series are by model: a thousand agents have as many as thirty, and with all else that the process
// shows at most 600. However many models there are, the series end. Ten thousand clients are no series, and
// take no time.
func TestSeriesOfAThousandAgents(t *testing.T) {
	book := ledger.NewBook()
	write := func(r ledger.Record) {
		if err := book.Apply(&r); err != nil {
			t.Fatal(err)
		}
	}
	write(ledger.NewOpen("general", ledger.RoleHub, "general", [16]byte{}))
	for i := range 10_000 {
		write(ledger.NewAccept("general", uint64(i+1), fmt.Sprint("client-", i), 7, [16]byte{}))
	}
	scrape := func(agents, models int) (series int, took time.Duration) {
		r := prometheus.NewRegistry()
		e, err := otelprom.New(otelprom.WithRegisterer(r), otelprom.WithoutScopeInfo(),
			otelprom.WithoutTargetInfo(), otelprom.WithTranslationStrategy(otlptranslator.NoTranslation))
		if err != nil {
			t.Fatal(err)
		}
		m := sdk.NewMeterProvider(sdk.WithReader(e)).Meter("test")
		st := crowd(agents, models)
		families.Observe(m, func(say metrics.Say) { sayAll(say, true, st, book.Totals()) }, "general")
		of := newMeasures(m, "general")
		for _, x := range []*metrics.Recorder{of.decision, of.wait, of.round, of.quote} {
			x.Record(0.001)
		}
		took = time.Hour
		for range 20 {
			began := time.Now()
			all, err := r.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var page bytes.Buffer
			for _, family := range all {
				expfmt.MetricFamilyToText(&page, family)
			}
			took, series = min(took, time.Since(began)), 0
			for line := range bytes.Lines(page.Bytes()) {
				if line[0] != '#' {
					series++
				}
			}
			if bytes.Contains(page.Bytes(), []byte("agent-1")) {
				t.Fatal("an agent is named")
			}
		}
		return series, took
	}
	const others = 150 // of Go, the process, NATS, etcd, the journal and its checkpoints
	few, _ := scrape(30, 10)
	many, took := scrape(1000, 10)
	t.Logf("1,000 agents of 10 models, 10,000 clients: %d series, scraped in %v", many, took)
	// the bar is 5 ms; ten times as much is for the race detector, and for whoever else uses the machine
	if took > 50*time.Millisecond || book.Totals().Avail != 70_000 {
		t.Errorf("scraped in %v, want 5 ms; %+v", took, book.Totals())
	}
	if many != few || many+others > 600 {
		t.Errorf("%d series with 1,000 agents, %d with 30; at most %d, and the same", many, few, 600-others)
	}
	if worst, took := scrape(1000, 1000); worst+others > 600 {
		t.Errorf("%d series of 1,000 models, want %d at most", worst, 600-others)
	} else {
		t.Logf("1,000 agents of as many models: %d series, scraped in %v", worst, took)
	}
}

// How full the domain is, is shown as the hub has it.
func TestGauges(t *testing.T) {
	st := crowd(3, 1)
	st.Regime.Level, st.Regime.Temperature, st.Regime.Rho = 2, 0.8, 0.5
	got := map[string]float64{}
	sayAll(func(f *metrics.Family, v float64, _ ...string) { got[f.Name] += v }, false, st, ledger.Totals{})
	for name, want := range map[string]float64{
		"souk_hub_saturation_state": 2, "souk_hub_router_temperature": 0.8, "souk_hub_rho": 0.5,
		"souk_hub_leading": 0, "souk_hub_agents": 3,
	} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, there, want)
		}
	}
}
