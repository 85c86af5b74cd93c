package daemon

import (
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// What /metrics says of a number and of durations is what Prometheus reads.
func TestMetricsAsText(t *testing.T) {
	var text strings.Builder
	for _, g := range []Gauge{
		{Name: "game_rho", Help: "How full.", Value: 0.25},
		{Name: "answers", Help: "How many.", Value: 12, Counts: true},
		{Name: "game_routing_cost", Help: "How long.", Within: &Within{Count: 7, Sum: 3 * time.Second,
			Bounds: []time.Duration{time.Millisecond, 2500 * time.Millisecond}, Counts: []int64{2, 5}}},
	} {
		g.write(&text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, &text)
	}
	if m := all["game_rho"].GetMetric(); len(m) != 1 || m[0].GetGauge().GetValue() != 0.25 {
		t.Errorf("game_rho: %v", m)
	}
	if m := all["answers"].GetMetric(); len(m) != 1 || m[0].GetCounter().GetValue() != 12 {
		t.Errorf("answers, which only grow: %v", m)
	}
	cost := all["game_routing_cost"]
	if cost.GetType() != dto.MetricType_HISTOGRAM {
		t.Fatalf("game_routing_cost is a %v", cost.GetType())
	}
	h := cost.GetMetric()[0].GetHistogram()
	b := h.GetBucket()
	if h.GetSampleCount() != 7 || h.GetSampleSum() != 3 || len(b) != 3 || b[0].GetUpperBound() != 0.001 ||
		b[0].GetCumulativeCount() != 2 || b[1].GetUpperBound() != 2.5 || b[1].GetCumulativeCount() != 5 {
		t.Errorf("game_routing_cost: %v", h)
	}
}
