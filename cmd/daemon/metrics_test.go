package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// gauger is a collector of metrics by OTLP.
type gauger struct {
	collector.UnimplementedMetricsServiceServer
	came chan *collector.ExportMetricsServiceRequest
}

func (k *gauger) Export(_ context.Context, q *collector.ExportMetricsServiceRequest) (
	*collector.ExportMetricsServiceResponse, error) {
	k.came <- q
	return new(collector.ExportMetricsServiceResponse), nil
}

func (k *gauger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q collector.ExportMetricsServiceRequest
	if data, err := io.ReadAll(r.Body); err == nil && proto.Unmarshal(data, &q) == nil &&
		r.URL.Path == "/v1/metrics" {
		k.came <- &q
	}
}

// A collector gets the metrics of a process over gRPC and over HTTP, the last at its end, also where nobody
// can scrape it.
func TestMetricsByOTLP(t *testing.T) {
	defer func(was string) { linked = was }(linked)
	linked = "v1.2"
	k := &gauger{came: make(chan *collector.ExportMetricsServiceRequest, 1)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	overGRPC, overHTTP := grpc.NewServer(), httptest.NewServer(k)
	collector.RegisterMetricsServiceServer(overGRPC, k)
	go overGRPC.Serve(l)
	defer overGRPC.Stop()
	defer overHTTP.Close()
	for protocol, at := range map[string]string{"grpc": "http://" + l.Addr().String(),
		"http/protobuf": overHTTP.URL} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", at)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
		h := newHealth("fair", Version())
		if h.figures, err = newFigures("fair", false, slog.Default()); err != nil {
			t.Fatal(err)
		}
		h.observe()
		h.figures.close()
		if len(k.came) != 1 {
			t.Fatalf("%s: the collector has nothing", protocol)
		}
		of := (<-k.came).ResourceMetrics[0]
		says := map[string]string{}
		for _, a := range of.Resource.Attributes {
			says[a.Key] = a.Value.GetStringValue()
		}
		values := map[string]float64{}
		for _, m := range of.ScopeMetrics[0].Metrics {
			point := m.GetGauge().GetDataPoints()[0]
			values[m.Name] = point.GetAsDouble()
			for _, a := range point.Attributes {
				says[m.Name+" "+a.Key] = a.Value.GetStringValue()
			}
		}
		ready, there := values["souk_ready"]
		_, commit := says["souk_build_info commit"]
		if says["service.name"] != "souk-fair" || says["souk_build_info part"] != "fair" ||
			says["souk_build_info version"] != "v1.2" || !commit || values["souk_build_info"] != 1 ||
			!there || ready != 0 {
			t.Errorf("%s: %v and %v", protocol, says, values)
		}
	}
}
