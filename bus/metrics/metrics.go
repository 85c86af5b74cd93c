// Package metrics declares what a process counts and measures for its operator, and hands it to
// OpenTelemetry.
//
// A package declares its families once, each with its labels. Counters and gauges are read at each
// collection, from what the package counts anyway ([Set.Observe]); times are recorded as they pass
// ([Set.Recorder]). The number of series is bounded whatever strangers name: see [MostNames].
package metrics

import (
	"context"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"souk/bus"
	"souk/market"
)

// Meter makes the instruments of a process. Where it is nil nobody collects, and nothing is measured.
type Meter = metric.Meter

// MostNames is the number of values that a label takes, and MostModels that of label model, which nearly
// every family has; whatever is named after that many counts as [Other]. Anybody may choose such names.
const (
	MostNames  = 64
	MostModels = 32
)

// Other is the value of a label for all that has none of its own.
const Other = "other"

const (
	mostName   = 96  // bytes of a label's value
	mostSeries = 512 // combinations of values that a recorder takes apart
)

// Kind says in Prometheus's words how a family's numbers change.
type Kind string

// The kinds of families.
const (
	Counter   Kind = "counter"   // it only grows
	Gauge     Kind = "gauge"     // it goes up and down
	Histogram Kind = "histogram" // how many seconds, by upper bounds
)

// Family is a metric: its name by Prometheus's conventions, what it says, and its labels.
type Family struct {
	Name, Help string
	Kind       Kind
	Labels     []string

	bounds []float64
}

// Set has the families of one package. Labels are what every family of the set has before its own: the name
// of the part, where several of a kind may run in one process.
type Set struct {
	Labels []string

	all []*Family
}

// Gauge declares a number that goes up and down.
func (s *Set) Gauge(name, help string, labels ...string) *Family {
	return s.add(&Family{Name: name, Help: help, Kind: Gauge, Labels: labels})
}

// Counter declares a number that only grows. Its name ends in _total.
func (s *Set) Counter(name, help string, labels ...string) *Family {
	return s.add(&Family{Name: name, Help: help, Kind: Counter, Labels: labels})
}

// Seconds declares a histogram of times with these upper bounds, in seconds. Its name ends in _seconds.
func (s *Set) Seconds(name, help string, bounds []float64, labels ...string) *Family {
	return s.add(&Family{Name: name, Help: help, Kind: Histogram, Labels: labels, bounds: bounds})
}

func (s *Set) add(f *Family) *Family {
	f.Labels = slices.Concat(s.Labels, f.Labels)
	s.all = append(s.all, f)
	return f
}

// Say tells the value of a family for some values of its own labels. What is said of the same ones again is
// added.
type Say func(f *Family, value float64, labels ...string)

// Observe has read say the counters and gauges of the set at each collection. own are the values of the set's
// labels. A counter of which nothing is said is shown as 0, so that its first step is seen as one.
func (s *Set) Observe(m Meter, read func(Say), own ...string) {
	if m == nil {
		return
	}
	made := map[*Family]metric.Float64Observable{}
	var all []metric.Observable
	for _, f := range s.all {
		var i metric.Float64Observable
		var err error
		switch f.Kind {
		case Counter:
			i, err = m.Float64ObservableCounter(f.Name, metric.WithDescription(f.Help))
		case Gauge:
			i, err = m.Float64ObservableGauge(f.Name, metric.WithDescription(f.Help))
		default:
			continue
		}
		if err != nil {
			otel.Handle(err)
			continue
		}
		made[f], all = i, append(all, i)
	}
	known := names{}
	_, err := m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		known.mu.Lock() // two collect: who scrapes, and who pushes
		defer known.mu.Unlock()
		type series struct {
			f      *Family
			labels string
		}
		sums := map[series]float64{}
		said := map[*Family]bool{}
		read(func(f *Family, value float64, labels ...string) {
			sums[series{f, known.joined(f, own, labels)}] += value
			said[f] = true
		})
		for f, i := range made {
			if !said[f] && f.Kind == Counter {
				rest := make([]string, len(f.Labels)-len(own))
				for i := range rest {
					rest[i] = Other
				}
				to.ObserveFloat64(i, 0, metric.WithAttributeSet(attributes(f, known.joined(f, own, rest))))
			}
		}
		for s, value := range sums {
			if i := made[s.f]; i != nil {
				to.ObserveFloat64(i, value, metric.WithAttributeSet(attributes(s.f, s.labels)))
			}
		}
		return nil
	}, all...)
	if err != nil {
		otel.Handle(err)
	}
}

// Recorder takes the times of one histogram. nil takes none.
type Recorder struct {
	f     *Family
	own   []string
	to    metric.Float64Histogram
	known names
	sets  map[string][]metric.RecordOption // of what labels say, under the lock of known
}

// Recorder returns one of a histogram of the set; nil where nobody collects.
func (s *Set) Recorder(m Meter, f *Family, own ...string) *Recorder {
	if m == nil {
		return nil
	}
	h, err := m.Float64Histogram(f.Name, metric.WithDescription(f.Help),
		metric.WithExplicitBucketBoundaries(f.bounds...))
	if err != nil {
		otel.Handle(err)
		return nil
	}
	return &Recorder{f: f, own: own, to: h, sets: map[string][]metric.RecordOption{}}
}

// Record notes a time in seconds, for some values of the family's own labels.
func (r *Recorder) Record(seconds float64, labels ...string) {
	if r == nil {
		return
	}
	if len(r.f.Labels) == 0 {
		r.to.Record(context.Background(), seconds)
		return
	}
	r.to.Record(context.Background(), seconds, r.set(labels)...)
}

// set returns the option that says what labels do, made once.
func (r *Recorder) set(labels []string) []metric.RecordOption {
	key := strings.Join(labels, split)
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	set := r.sets[key]
	if set == nil {
		joined := r.known.joined(r.f, r.own, labels)
		set = []metric.RecordOption{metric.WithAttributeSet(attributes(r.f, joined))}
		if len(r.sets) < mostSeries && len(key) <= 4*mostName {
			r.sets[key] = set
		}
	}
	return set
}

// split divides the values of labels; none has it.
const split = "\x00"

// attributes gives the joined values of a family's labels their names.
func attributes(f *Family, joined string) attribute.Set {
	if len(f.Labels) == 0 {
		return *attribute.EmptySet()
	}
	values := make([]attribute.KeyValue, 0, 4)
	for i, v := range strings.Split(joined, split) {
		values = append(values, attribute.String(f.Labels[i], v))
	}
	return attribute.NewSet(values...)
}

// names remembers the values that labels have taken.
type names struct {
	mu    sync.Mutex
	taken map[string]map[string]bool // by label
}

// joined is the values of a family's labels, each cleaned and bounded. The lock is held.
func (n *names) joined(f *Family, own, labels []string) string {
	if len(own)+len(labels) != len(f.Labels) {
		panic("metrics: " + f.Name + " has other labels: " + strings.Join(f.Labels, ", "))
	}
	var b strings.Builder
	for i, label := range f.Labels {
		if i > 0 {
			b.WriteString(split)
		}
		if i < len(own) {
			b.WriteString(clean(own[i]))
		} else {
			b.WriteString(n.bound(label, clean(labels[i-len(own)])))
		}
	}
	return b.String()
}

func (n *names) bound(label, value string) string {
	of, most := n.taken[label], MostNames
	if label == "model" {
		most = MostModels
	}
	switch {
	case of[value], value == Other:
		return value
	case len(of) >= most:
		return Other
	case n.taken == nil:
		n.taken = map[string]map[string]bool{}
	}
	if of == nil {
		of = map[string]bool{}
		n.taken[label] = of
	}
	of[value] = true
	return value
}

// clean is a name that anybody may have chosen, as a label shows it: short, valid, without control
// characters; "none" for none.
func clean(name string) string {
	if name == "" {
		return "none"
	}
	plain := len(name) <= mostName
	for i := 0; plain && i < len(name); i++ {
		plain = name[i] >= ' ' && name[i] < utf8.RuneSelf && name[i] != 0x7f
	}
	if plain {
		return name
	}
	if len(name) > mostName {
		name = name[:mostName]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
}

// Code is an outcome as labels show it: ok, one of the market's codes, or [Other] for a word that somebody
// made up.
func Code(c bus.Code) string {
	switch {
	case c == "":
		return "ok"
	case c.Known():
		return string(c)
	}
	return Other
}

// Bool is 1 for true.
func Bool(x bool) float64 {
	if x {
		return 1
	}
	return 0
}

// Credits is a sum of money, in credits.
func Credits(c market.Credits) float64 { return float64(c) / float64(market.Credit) }
