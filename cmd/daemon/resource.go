package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"souk/bus"
)

// resourceOf names a process to whoever collects its traces and metrics: OpenTelemetry's service.name is
// souk-PART, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES says otherwise.
func resourceOf(part string) *resource.Resource {
	host, _ := os.Hostname()
	version, _, _ := strings.Cut(Version(), " ")
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "souk-"+part), attribute.String("service.version", version),
		attribute.String("service.instance.id", fmt.Sprintf("%s-%d", host, os.Getpid())),
		attribute.String("host.name", host)), resource.WithFromEnv())
	if err != nil { // of the variables; what could be read of them stands
		otel.Handle(err)
	}
	return r
}

// otlp says over what the traces or metrics of a process go to a collector, by OpenTelemetry's variables for
// exporters: "grpc" or "http/protobuf"; "" where none is named. signal is TRACES or METRICS.
func otlp(signal string) (protocol string, err error) {
	at := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"),
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	off := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
	if at == "" || off || os.Getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return "", nil
	}
	name := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
	protocol = os.Getenv(name)
	if protocol == "" {
		name = "OTEL_EXPORTER_OTLP_PROTOCOL"
		protocol = cmp.Or(os.Getenv(name), "http/protobuf")
	}
	if protocol != "grpc" && protocol != "http/protobuf" {
		return "", fmt.Errorf("%s: %.40q: write grpc or http/protobuf", name, protocol)
	}
	return protocol, nil
}

// sayTroubles has what goes wrong with traces and metrics be logged: once a minute, as a collector that is
// away stays so for a while.
func sayTroubles(log *slog.Logger) {
	var mu sync.Mutex
	var outage bus.Outage
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if outage.Failed(time.Now(), "telemetry") {
			log.Warn("traces or metrics are not all exported", "err", bus.RedactError(err))
		}
	}))
}
