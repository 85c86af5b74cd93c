package gateway

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
	"souk/bus/openai"
	"souk/bus/sight"
	"souk/market"
)

// However many models are sold, and whatever goes wrong, a gateway shows at most 600 series with all else
// that its process has. Of a model that is its first tokens; what became of answers is told by their outcome.
func TestSeriesOfAThousandModels(t *testing.T) {
	r := prometheus.NewRegistry()
	e, err := otelprom.New(otelprom.WithRegisterer(r), otelprom.WithoutScopeInfo(),
		otelprom.WithoutTargetInfo(), otelprom.WithTranslationStrategy(otlptranslator.NoTranslation))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{d: Deps{Meter: sdk.NewMeterProvider(sdk.WithReader(e)).Meter("test")}}
	s.measure()
	begun := time.Now()
	codes := []bus.Code{"", bus.CodeNoRoom, bus.CodeNotWorthIt, bus.CodeInsufficientFunds, bus.CodeCancelled,
		bus.CodeEngineFailed, bus.CodeTimeout, bus.CodeUnknown, bus.CodeUnavailable, bus.CodeBadRequest,
		"made_up", "made_up_too"}
	const routes = 8 // that clients use
	for i := range routes {
		for _, code := range codes {
			s.answered(fmt.Sprint("/v1/", i), code)
		}
	}
	for i := range 1000 {
		for _, code := range codes {
			s.tally(&answer{asked: &openai.Asked{Stream: true}, results: []*bus.Result{{Cost: 3}}},
				&sight.Line{Begin: begun, First: begun.Add(time.Second), End: begun.Add(2 * time.Second),
					Code: code, Model: fmt.Sprint("model-", i), Usage: market.Usage{Prompt: 3, Output: 9}})
		}
	}
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	for _, family := range all {
		expfmt.MetricFamilyToText(&page, family)
	}
	series := 0
	for line := range bytes.Lines(page.Bytes()) {
		if line[0] != '#' {
			series++
		}
	}
	t.Logf("%d series", series)
	const others = 80 // of Go, the process and NATS
	if series+others > 600 {
		t.Errorf("%d series, want at most %d", series, 600-others)
	}
	for _, want := range []string{`souk_gateway_first_token_seconds_count{model="other"}`,
		`souk_gateway_answers_total{code="ok"} 1000`, `souk_gateway_answers_total{code="other"} 2000`} {
		if !bytes.Contains(page.Bytes(), []byte(want)) {
			t.Errorf("the page has no %s", want)
		}
	}
}
