package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"souk/integration/replay"
	"souk/integration/vllmsim"
)

// Trace is a load that rules and the market are compared on.
type Trace struct {
	Name, About string
	setting     func(engines int) (Setting, error)
}

// Sizes of the engines in all traces: eight callers each at once, and a cache that holds what these are at,
// several times over.
const (
	slots       = 8
	blockSize   = 16
	blocks      = 4096
	smallBlocks = 640 // two and a half dialogues with passages
	passageLen  = 8000
)

// Traces are all that there are.
var Traces = []Trace{
	{"mtrag", "conversations of mtRAG without passages, 32 callers", mtrag(32, 0, blocks, false)},
	{"rag", "the same behind 8,000 bytes of passages each, 32 callers", mtrag(32, passageLen, blocks, false)},
	{"tau", "tool calls of tau-bench behind one system prompt of 6 KB, 32 callers", tau},
	{"small", "rag on engines whose cache holds two or three conversations, 32 callers",
		mtrag(32, passageLen, smallBlocks, false)},
	{"crowd", "mtrag with 128 callers for 64 slots", mtrag(128, 0, blocks, false)},
	{"spread", "crowd, where callers tell worths that differ a hundredfold", mtrag(128, 0, blocks, true)},
}

// TraceNames are their names.
func TraceNames() (names []string) {
	for _, t := range Traces {
		names = append(names, t.Name)
	}
	return names
}

// setting has so many callers for eight engines, and in proportion for others.
func setting(engines, callers, blocks int, scripts []*Script) (Setting, error) {
	profile, err := vllmsim.ProfileNamed("rtxpro6000-llama-3.1-8b")
	return Setting{Engines: engines, Callers: callers * engines / 8, Scripts: scripts,
		Engine: EngineConfig{Profile: profile, Slots: slots, MaxBatched: profile.MaxNumBatchedTokens,
			Blocks: blocks, BlockSize: blockSize},
		Think: 200 * time.Millisecond, Hop: 300 * time.Microsecond, Scrape: 2 * time.Second}, err
}

// mtrag is the trace of mtRAG's conversations, behind so many bytes of passages.
func mtrag(callers, bytes, blocks int, spread bool) func(int) (Setting, error) {
	return func(engines int) (Setting, error) {
		ds, err := replay.BundledSet("mtrag.jsonl.gz")
		if err != nil {
			return Setting{}, err
		}
		with := slices.Clone(ds)
		for i := range with {
			with[i].System = passages(ds, i, bytes)
		}
		s, err := setting(engines, callers, blocks, NewScripts(with, false, blockSize))
		s.Spread = spread
		return s, err
	}
}

func tau(engines int) (Setting, error) {
	ds, err := replay.BundledSet("tau.jsonl.gz")
	if err != nil {
		return Setting{}, err
	}
	return setting(engines, 32, blocks, NewScripts(ds, true, blockSize))
}

// CrowdOptions say what is compared.
type CrowdOptions struct {
	Traces, Rules []string // by name; Rules may have MarketName
	Seeds         []uint64
	Engines       int
	Tasks         int
	Length        time.Duration // instead of Tasks
	Named         bool          // callers name their sessions
	Progress      func(done, total int)
}

// MarketName is the market's among those of rules.
const MarketName = "market"

// Row is what one rule did on one trace.
type Row struct {
	Trace string              `json:"trace"`
	Rule  string              `json:"rule"`
	Seeds []Figures           `json:"seeds"`
	All   map[string]Estimate `json:"all"`
}

// Crowd runs every rule on every trace with every seed; the seeds of a row at once, for each run is alone with
// itself.
func Crowd(ctx context.Context, o CrowdOptions) (rows []Row, err error) {
	for _, rule := range o.Rules {
		if _, err := NewRule(rule, 0); err != nil && rule != MarketName {
			return nil, err
		}
	}
	for _, trace := range o.Traces {
		if !slices.Contains(TraceNames(), trace) {
			return nil, fmt.Errorf("trace %q is none of %v", trace, TraceNames())
		}
	}
	for _, trace := range o.Traces {
		s, err := Traces[slices.Index(TraceNames(), trace)].setting(o.Engines)
		if err != nil {
			return nil, err
		}
		s.Tasks, s.Length = o.Tasks, o.Length
		for _, rule := range o.Rules {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			row := Row{Trace: trace, Rule: rule, Seeds: make([]Figures, len(o.Seeds))}
			errs := make([]error, len(o.Seeds))
			var runs sync.WaitGroup
			for i, seed := range o.Seeds {
				own := s
				own.Seed = seed
				runs.Go(func() { row.Seeds[i], errs[i] = play(own, rule, o.Named) })
			}
			runs.Wait()
			if err := errors.Join(errs...); err != nil {
				return nil, fmt.Errorf("%s on %s: %w", rule, trace, err)
			}
			row.sum()
			rows = append(rows, row)
			o.Progress(len(rows), len(o.Traces)*len(o.Rules))
		}
	}
	return rows, nil
}

// play is one run.
func play(s Setting, rule string, named bool) (f Figures, err error) {
	if rule != MarketName {
		p, err := NewRule(rule, s.Seed)
		if err != nil {
			return f, err
		}
		all, engines, err := Run(s, p)
		return Measure(all, engines), err
	}
	o := NewMarketOptions(s)
	o.Named = named
	m, err := NewMarket(o)
	if err != nil {
		return f, err
	}
	all, engines, err := Run(s, m)
	if err == nil {
		_, err = m.Close()
	}
	if err != nil {
		return f, fmt.Errorf("seed %d: %w", s.Seed, err)
	}
	f = Measure(all, engines)
	f.Journal = float64(m.Bytes) / float64(len(all))
	return f, nil
}

type column struct {
	name   string
	digits int
	of     func(*Figures) float64
}

// columns are the figures by name, in the order of the table, with the digits that are shown of each.
var columns = []column{
	{"share", 3, func(f *Figures) float64 { return f.Share }},
	{"work", 2, func(f *Figures) float64 { return f.Work }},
	{"fewest", 2, func(f *Figures) float64 { return f.Fewest }},
	{"p50", 0, func(f *Figures) float64 { return f.Median }},
	{"p99", 0, func(f *Figures) float64 { return f.P99 }},
	{"mean", 0, func(f *Figures) float64 { return f.Mean }},
	{"longest", 0, func(f *Figures) float64 { return f.Longest }},
	{"tasks/s", 1, func(f *Figures) float64 { return f.Throughput }},
	{"welfare", 2, func(f *Figures) float64 { return f.Welfare }},
	{"starved", 0, func(f *Figures) float64 { return f.Starved }},
	{"refused", 0, func(f *Figures) float64 { return f.Refused }},
}

func (row *Row) sum() {
	row.All = map[string]Estimate{}
	for _, c := range columns {
		var of []float64
		for i := range row.Seeds {
			of = append(of, c.of(&row.Seeds[i]))
		}
		row.All[c.name] = NewEstimate(of)
	}
}

// Legend says what the columns of the table are.
const Legend = `Each figure is the median of the seeds, and half of the 95 % interval of their mean.
share    of prompt tokens, those found in a cache
work     tokens computed on the engine that computed most, by the mean
fewest   tasks on the engine that had fewest, by the mean
p50, p99, mean, longest   time to the first token in ms, as callers see it
welfare  of a task, in thousandths of a credit: what it was worth as it was served, less its cost
starved  tasks that waited longer than 10 s for their first token
`

// Write prints a table for each trace.
func Write(w io.Writer, rows []Row) {
	for i, row := range rows {
		if i == 0 || rows[i-1].Trace != row.Trace {
			of := Traces[slices.Index(TraceNames(), row.Trace)]
			fmt.Fprintf(w, "\n%s: %s\n", of.Name, of.About)
			fmt.Fprintf(w, "%-23s", "")
			for _, c := range columns {
				fmt.Fprintf(w, "%*s", c.width(), c.name)
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%-23s", row.Rule)
		for _, c := range columns {
			e := row.All[c.name]
			cell := strconv.FormatFloat(e.Median, 'f', c.digits, 64)
			if len(row.Seeds) > 1 {
				cell += "±" + strconv.FormatFloat(e.Within, 'f', c.digits, 64)
			}
			fmt.Fprintf(w, "%*s", c.width(), cell)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "\n"+Legend)
}

// width holds a figure and its interval.
func (c *column) width() int { return 10 + 2*c.digits }
