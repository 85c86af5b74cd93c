package daemon

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"souk/bus/regular"
	"souk/bus/sight"
)

// Traces says where the spans of a process go, beside the collector that OpenTelemetry's variables name.
type Traces struct {
	File string `yaml:"file"` // lines of OTLP in JSON; "": none
}

// tracedShare of the requests is traced where neither their client nor OTEL_TRACES_SAMPLER says.
const tracedShare = 0.01

// flushWithin bounds the wait for a collector at the end.
const flushWithin = time.Second

// Trace returns what makes the spans of a part of the market, nil where they go nowhere, and what sends the
// last of them. Spans are sent behind everybody's back: where a collector is slow or away, a bounded number
// waits, and others are lost.
func Trace(part string, c Traces, log *slog.Logger) (spans *sight.Spans, end func() error, err error) {
	options := []sdk.TracerProviderOption{sdk.WithResource(resourceOf(part)),
		sdk.WithRawSpanLimits(sdk.SpanLimits{AttributeValueLengthLimit: 256, AttributeCountLimit: 64,
			EventCountLimit: 16, LinkCountLimit: 128, AttributePerEventCountLimit: 8,
			AttributePerLinkCountLimit: 8})}
	none := func() error { return nil }
	sampler, err := samplerOf(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err != nil {
		return nil, none, err
	}
	to, err := exporters(c) // the file first: it does not wait for a collector at the end
	if err != nil || len(to) == 0 {
		return nil, none, err
	}
	sayTroubles(log)
	for _, e := range to {
		options = append(options, sdk.WithBatcher(e))
	}
	provider := sdk.NewTracerProvider(append(options, sdk.WithSampler(sampler))...)
	return sight.NewSpans(provider), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
		defer cancel()
		provider.Shutdown(ctx) // what a collector that is away misses is lost
		return nil
	}, nil
}

// exporters returns what writes spans to a file and sends them to a collector, as far as they are named.
func exporters(c Traces) (to []sdk.SpanExporter, err error) {
	ctx := context.Background()
	if off := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"); c.File != "" && !off {
		f, err := openTraces(c.File)
		if err != nil {
			return nil, fmt.Errorf("traces.file: %w", err)
		}
		e, err := otlptrace.New(ctx, f)
		if err != nil {
			return nil, err
		}
		to = append(to, e)
	}
	protocol, err := otlp("TRACES")
	if err != nil || protocol == "" {
		return to, err
	}
	var e sdk.SpanExporter
	if protocol == "grpc" {
		e, err = otlptracegrpc.New(ctx)
	} else {
		e, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("traces by OTLP: %w", err)
	}
	return append(to, e), nil
}

// samplerOf reads OpenTelemetry's variables. Where they say nothing a client's own trace is followed, and of
// the other requests a hundredth is traced.
func samplerOf(name, arg string) (sdk.Sampler, error) {
	share := 1.0
	if name == "" {
		name, share = "parentbased_traceidratio", tracedShare
	}
	kind, parent := strings.CutPrefix(name, "parentbased_")
	var s sdk.Sampler
	switch kind {
	case "always_on":
		s = sdk.AlwaysSample()
	case "always_off":
		s = sdk.NeverSample()
	case "traceidratio":
		if arg != "" {
			var err error
			if share, err = strconv.ParseFloat(arg, 64); err != nil || !(share >= 0 && share <= 1) {
				return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %.40q is no share from 0 to 1", arg)
			}
		}
		s = sdk.TraceIDRatioBased(share)
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER: %.40q: write always_on, always_off or traceidratio, or "+
			"one of these behind parentbased_", name)
	}
	if parent {
		s = sdk.ParentBased(s)
	}
	return s, nil
}

// traces is a file of spans: a line for each batch, as the collector's otlpjsonfile receiver reads them. When
// it is full it becomes FILE.1, in the place of an older one.
type traces struct {
	path string
	file *os.File // nil: it could not be opened, and is tried again
	size int64
}

// mostTraces bounds a file of spans, in bytes.
const mostTraces = 64 << 20

func openTraces(path string) (*traces, error) {
	t := &traces{path: path}
	return t, t.open()
}

func (t *traces) open() (err error) {
	if t.file, err = regular.Update(t.path); err == nil {
		t.size, err = t.file.Seek(0, io.SeekEnd)
	}
	return err
}

// Start implements otlptrace.Client.
func (t *traces) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (t *traces) Stop(context.Context) error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// UploadTraces implements otlptrace.Client: it writes a line. One goroutine calls it.
func (t *traces) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	line, err := protojson.MarshalOptions{UseEnumNumbers: true}.
		Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	line = append(hexIDs(line), '\n')
	if t.file != nil && t.size > 0 && t.size+int64(len(line)) > mostTraces {
		err = errors.Join(os.Rename(t.path, t.path+".1"), t.file.Close())
		t.file = nil
	}
	if t.file == nil && err == nil {
		err = t.open()
	}
	if err != nil {
		return err
	}
	n, err := t.file.Write(line)
	t.size += int64(n)
	return err
}

var idsInJSON = regexp.MustCompile(`("(?:traceId|spanId|parentSpanId)":\s*")([A-Za-z0-9+/=]*)"`)

// hexIDs writes ids in hexadecimal, as OTLP does in JSON, where protobuf has base64.
func hexIDs(line []byte) []byte {
	return idsInJSON.ReplaceAllFunc(line, func(found []byte) []byte {
		parts := idsInJSON.FindSubmatch(found)
		id, err := base64.StdEncoding.DecodeString(string(parts[2]))
		if err != nil {
			return found
		}
		return append(append(append([]byte{}, parts[1]...), hex.EncodeToString(id)...), '"')
	})
}
