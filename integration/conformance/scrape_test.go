package conformance

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// metricsPage is a /metrics page. A sample's name is its metric's name and its labels but model_name and
// engine, with spaces between: `vllm:request_success_total finished_reason=stop`.
type metricsPage struct {
	names  []string
	values map[string]float64
	labels map[string]map[string]string
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

func parseMetrics(t *testing.T, page string) metricsPage {
	t.Helper()
	p := metricsPage{values: map[string]float64{}, labels: map[string]map[string]string{}}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("/metrics: %q is no sample", line)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatalf("/metrics: %q: %v", line, err)
		}
		labels := map[string]string{}
		var own []string
		for _, l := range labelPair.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2]
			if l[1] != "engine" && l[1] != "model_name" {
				own = append(own, l[1]+"="+l[2])
			}
		}
		slices.Sort(own)
		name := m[1]
		if name != "vllm:cache_config_info" && len(own) > 0 {
			name += " " + strings.Join(own, " ")
		}
		p.names = append(p.names, name)
		p.values[name], p.labels[name] = v, labels
	}
	return p
}

func (s *suite) scrape(t *testing.T) metricsPage {
	t.Helper()
	r, b := s.do(t, s.request(t.Context(), t, "GET", "/metrics", nil))
	if r.StatusCode != 200 {
		t.Fatalf("/metrics: %s", r.Status)
	}
	return parseMetrics(t, string(b))
}

func (p metricsPage) has(name string) bool { _, ok := p.values[name]; return ok }

func (p metricsPage) value(t *testing.T, name string) float64 {
	t.Helper()
	v, ok := p.values[name]
	if !ok {
		t.Fatalf("/metrics has no %s", name)
	}
	return v
}

func (p metricsPage) label(name, label string) string { return p.labels[name][label] }
