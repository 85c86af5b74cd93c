package metrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"souk/bus"
)

var encoder = attribute.DefaultEncoder()

// collected reads each series as a collector does: by its name and labels the value, or the number of times.
func collected(t *testing.T, r sdk.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					got[m.Name+" "+p.Attributes.Encoded(encoder)] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					got[m.Name+" "+p.Attributes.Encoded(encoder)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					got[m.Name+" "+p.Attributes.Encoded(encoder)] = float64(p.Count)
				}
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return got
}

func meter() (Meter, sdk.Reader) {
	r := sdk.NewManualReader()
	return sdk.NewMeterProvider(sdk.WithReader(r)).Meter("test"), r
}

// Two parts of a kind in one process say the same families under their own names. What is said of a series
// twice is added, and a counter of which nothing is said is there as 0.
func TestPartsOfOneProcess(t *testing.T) {
	s := Set{Labels: []string{"hub"}}
	free, voids := s.Gauge("free", "Free slots.", "model"), s.Counter("voids_total", "Voids.", "code")
	took := s.Seconds("took_seconds", "Time.", []float64{.1, 1})
	m, r := meter()
	for i, hub := range []string{"math", "code"} {
		s.Observe(m, func(say Say) {
			say(free, 2, "llama")
			say(free, 3, "llama")
			if i == 0 {
				say(voids, 4, Code("timeout"))
			}
		}, hub)
		s.Recorder(m, took, hub).Record(0.5)
	}
	want := map[string]float64{"free hub=code,model=llama": 5, "free hub=math,model=llama": 5,
		"voids_total code=timeout,hub=math": 4, "voids_total code=other,hub=code": 0,
		"took_seconds hub=math": 1, "took_seconds hub=code": 1}
	got := collected(t, r)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	names := []string{}
	for _, f := range s.all {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"free", "took_seconds", "voids_total"}) {
		t.Error(names)
	}
}

// However many models are named, and whatever their names hold, there are at most 64 of them, and other; the
// sum stays what it is.
func TestNamesOfStrangersAreBounded(t *testing.T) {
	var s Set
	served := s.Counter("served_total", "Served.", "model")
	took := s.Seconds("took_seconds", "Time.", nil, "model")
	m, r := meter()
	nasty := []string{"", "a\"}\nevil{", "\x1b[31mred", "\xff\xfe", "\u202eback", strings.Repeat("ä", 5000),
		"a\x00b", "other", "plain/model-1.5:8b"}
	name := func(i int) string {
		if i < len(nasty) {
			return nasty[i]
		}
		return fmt.Sprintf("model-%05d", i)
	}
	const models = 10_000
	s.Observe(m, func(say Say) {
		for i := range models {
			say(served, 1, name(i))
		}
	})
	record := s.Recorder(m, took)
	for range 2 {
		for i := range models {
			record.Record(.1, name(i))
		}
	}
	for range 2 {
		sums, series := map[string]float64{}, map[string]int{}
		for key, v := range collected(t, r) {
			family, labels, _ := strings.Cut(key, " ")
			label := strings.TrimPrefix(labels, "model=")
			sums[family] += v
			series[family]++
			if len(label) > mostName || !utf8.ValidString(label) || label == "" ||
				strings.ContainsFunc(label, func(r rune) bool { return r < ' ' || r == '\u202e' }) {
				t.Errorf("label %q", label)
			}
		}
		if sums["served_total"] != models || series["served_total"] != MostModels+1 ||
			sums["took_seconds"] != 2*models || series["took_seconds"] != MostModels+1 {
			t.Fatalf("sums %v, series %v", sums, series)
		}
	}
	if got := clean("plain/model-1.5:8b"); got != "plain/model-1.5:8b" {
		t.Errorf("%q", got)
	}
}

// A code that an agent made up is other.
func TestCodes(t *testing.T) {
	for code, want := range map[bus.Code]string{"": "ok", bus.CodeTimeout: "timeout", "made_up": Other} {
		if got := Code(code); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
}

// Without a collector nothing is read or recorded.
func TestNobodyCollects(t *testing.T) {
	var s Set
	s.Gauge("x", "X.")
	h := s.Seconds("y_seconds", "Y.", nil)
	s.Observe(nil, func(Say) { t.Error("read") })
	s.Recorder(nil, h).Record(1)
}

// Many record and two collect at once: nothing is lost.
func TestManyAtOnce(t *testing.T) {
	var s Set
	took, n := s.Seconds("took_seconds", "Time.", []float64{1}, "model"), s.Counter("n_total", "N.", "model")
	a, b := sdk.NewManualReader(), sdk.NewManualReader()
	m := sdk.NewMeterProvider(sdk.WithReader(a), sdk.WithReader(b)).Meter("test")
	s.Observe(m, func(say Say) { say(n, 7, "x") })
	record := s.Recorder(m, took)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 200 {
				record.Record(.5, fmt.Sprint("m", (i+k)%100))
			}
		})
	}
	for _, r := range []sdk.Reader{a, b} {
		all.Go(func() {
			for range 20 {
				if got := collected(t, r)["n_total model=x"]; got != 7 {
					t.Errorf("%v", got)
				}
			}
		})
	}
	all.Wait()
	sum := 0.0
	for key, v := range collected(t, a) {
		if strings.HasPrefix(key, "took_seconds") {
			sum += v
		}
	}
	if sum != 8*200 {
		t.Errorf("%v of 1600", sum)
	}
}

func BenchmarkRecord(b *testing.B) {
	var s Set
	f := s.Seconds("took_seconds", "Time.", []float64{.1, .2, .5, 1, 2, 5}, "model")
	m, _ := meter()
	r := s.Recorder(m, f)
	b.ReportAllocs()
	for b.Loop() {
		r.Record(.3, "qwen3-32b")
	}
}
