package virtual

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"souk/agentd/vllmsim"
	"souk/cmd/replay"
	"souk/hub"
	"souk/integration/lab/runs"
	"souk/integration/lab/traces"
	"souk/market"
)

// Trace is a load on which rules and the market are compared.
type Trace struct {
	Name, About string
	setting     func(engines int) (Setting, error)
}

// Sizes of the engines: each runs eight requests at once, and its cache holds several times what those need.
const (
	slots     = 8
	blockSize = 16
	blocks    = 4096
)

// Traces are those where slots are short.
var Traces = []Trace{
	{"mtrag", "conversations of mtRAG without passages, 32 callers", load{callers: 32}.setting},
	{"rag", "the same behind 8,000 bytes of passages each, 32 callers",
		load{callers: 32, passages: 8000}.setting},
	{"tau", "tool calls of tau-bench behind one system prompt of 6 KB, 32 callers",
		load{file: "tau.jsonl.gz", shared: true, callers: 32}.setting},
	{"long", "mtrag behind one system prompt of 16,000 bytes, 32 callers",
		load{callers: 32, passages: 16000, shared: true}.setting},
	{"new", "long, where 4 conversations begin in a second, at random, each its caller's only one",
		load{rate: 4, passages: 16000, shared: true}.setting},
	{"small", "rag on engines whose cache holds two or three conversations, 32 callers",
		load{callers: 32, passages: 8000, blocks: 640}.setting},
	{"crowd", "mtrag with 128 callers for 64 slots", load{callers: 128}.setting},
	{"spread", "crowd, where callers tell worths that differ a hundredfold",
		load{callers: 128, spread: true}.setting},
	{"sized", "crowd, where all are patient for ten seconds: a second costs a task the more, the longer it is",
		load{callers: 128, terms: asPatient()}.setting},
	{"open", "mtrag, 12 conversations begin in a second, at random", load{rate: 12}.setting},
	{"quac", "questions about an article each, QuAC, 64 callers",
		load{file: "quac.jsonl", callers: 64}.setting},
	{"begin", "tau, where one dialogue begins in a second, at random",
		load{file: "tau.jsonl.gz", shared: true, rate: 1}.setting},
	{"bursts", "quac, conversations begin as requests of Azure's code trace of 2023 came, four times as fast",
		load{file: "quac.jsonl", recorded: true}.setting},
	{"slow", "rag on slower engines, Qwen3 32B on two H100 each, 64 callers for 64 slots",
		load{callers: 64, passages: 8000, profile: "h100x2-qwen3-32b"}.setting},
}

// TraceNames are their names.
func TraceNames() []string { return namesOf(Traces) }

// CliffNames are the names of those where caches are short.
func CliffNames() []string { return namesOf(Cliffs) }

func namesOf(traces []Trace) (names []string) {
	for _, t := range traces {
		names = append(names, t.Name)
	}
	return names
}

// traceNamed finds a trace, and says whether it is of those where caches are short. Behind its name may stand
// in how many cache groups its callers are, as in tau@4, or tau@own: each is one.
func traceNamed(name string) (of Trace, cliff bool, err error) {
	base, in, grouped := strings.Cut(name, "@")
	i := slices.IndexFunc(Traces, func(t Trace) bool { return t.Name == base })
	k := slices.IndexFunc(Cliffs, func(t Trace) bool { return t.Name == base })
	switch {
	case i >= 0:
		of = Traces[i]
	case k >= 0:
		of, cliff = Cliffs[k], true
	default:
		return of, false, fmt.Errorf("trace %q is none of %v", base,
			slices.Concat(TraceNames(), CliffNames()))
	}
	if !grouped {
		return of, cliff, nil
	}
	groups, about := Own, "each caller a cache group of its own"
	if in != "own" {
		if groups, err = strconv.Atoi(in); err != nil || groups < 1 || groups > mostGroups {
			return of, cliff, fmt.Errorf("trace %q: behind @ stands a number of cache groups up to %d, or own",
				name, mostGroups)
		}
		about = fmt.Sprintf("in %d cache groups", groups)
		if groups == 1 {
			about = "all in one cache group"
		}
	}
	with := of.setting
	return Trace{name, of.About + ", " + about, func(engines int) (Setting, error) {
		s, err := with(engines)
		s.Groups = groups
		return s, err
	}}, cliff, nil
}

// mostGroups is more than there are callers.
const mostGroups = 10_000

// load is what is asked of eight engines; of others in proportion.
type load struct {
	file     string // of bundled dialogues; "": those of mtRAG, whose system prompts are replaced by passages
	shared   bool   // all have one system prompt
	passages int    // bytes of such passages before each dialogue; 0: none
	callers  int
	rate     float64 // instead of callers: dialogues that begin per second
	recorded bool    // instead of callers: dialogues begin at recorded times
	profile  string  // of the engines
	blocks   int     // of an engine's cache; more than is used at once
	spread   bool
	terms    hub.Terms
}

// asPatient are terms under which all tasks have the same patience.
func asPatient() hub.Terms {
	t := hub.Default().Terms
	t.Tokens = 0
	return t
}

func (l load) setting(engines int) (Setting, error) {
	ds, err := replay.BundledSet(cmp.Or(l.file, "mtrag.jsonl.gz"))
	if err != nil {
		return Setting{}, err
	}
	profile, err := vllmsim.ProfileNamed(cmp.Or(l.profile, "rtxpro6000-llama-3.1-8b"))
	if err != nil {
		return Setting{}, err
	}
	var arrive []time.Duration
	if l.recorded {
		if arrive, err = traces.Arrivals(); err != nil {
			return Setting{}, err
		}
		for i := range arrive {
			arrive[i] = arrive[i] * 2 / time.Duration(engines)
		}
	}
	if own := slices.Clone(ds); l.file == "" {
		for i := range ds {
			first := i
			if l.shared {
				first = 0
			}
			ds[i].System = passages(own, first, l.passages)
		}
	}
	return Setting{Engines: engines, Scripts: NewScripts(ds, l.shared, blockSize),
		Callers: l.callers * engines / 8, Rate: l.rate * float64(engines) / 8, Arrive: arrive,
		Spread: l.spread, Terms: l.terms,
		Engine: EngineConfig{Profile: profile, Slots: slots, MaxBatched: profile.MaxNumBatchedTokens,
			Blocks: cmp.Or(l.blocks, blocks), BlockSize: blockSize},
		Think: 200 * time.Millisecond, Hop: 300 * time.Microsecond, Scrape: 2 * time.Second}, nil
}

// CrowdOptions say what is compared.
type CrowdOptions struct {
	Traces, Rules []string // by name; for markets among the rules see MarketName
	Seeds         []uint64
	Engines       int
	Tasks         int
	Length        time.Duration // instead of Tasks
	Named         bool          // callers name their sessions
	Progress      func(done, total int)
	// plays one run, instead of virtual time; runs then follow one another
	Play func(s Setting, rule string, named bool) (Figures, error)
}

// Row is what one rule did on one trace.
type Row struct {
	Trace string              `json:"trace"`
	Rule  string              `json:"rule"`
	Seeds []Figures           `json:"seeds"`
	All   map[string]Estimate `json:"all"`
}

// Crowd runs every rule on every trace with every seed. The seeds of a row run in parallel: runs share
// nothing.
func Crowd(ctx context.Context, o CrowdOptions) (rows []Row, err error) {
	for _, rule := range o.Rules {
		_, ok, err := variant(rule)
		if !ok {
			_, err = NewRule(rule, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, trace := range o.Traces {
		if _, _, err := traceNamed(trace); err != nil {
			return nil, err
		}
	}
	for _, trace := range o.Traces {
		of, _, _ := traceNamed(trace)
		s, err := of.setting(o.Engines)
		if err != nil {
			return nil, err
		}
		if o.Length > 0 || s.Tasks == 0 && s.Length == 0 {
			s.Tasks, s.Length = o.Tasks, o.Length
		}
		for _, rule := range o.Rules {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			row := Row{Trace: trace, Rule: rule}
			most, one := 0, play
			if o.Play != nil {
				most, one = 1, o.Play // by the clock, one at a time
			}
			row.Seeds, err = runs.Each(ctx, len(o.Seeds), most, nil, func(i int) (Figures, error) {
				own := s
				own.Seed, own.Arrive = o.Seeds[i], from(s.Arrive, o.Seeds[i])
				return one(own, rule, o.Named)
			})
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", rule, trace, err)
			}
			row.sum()
			rows = append(rows, row)
			o.Progress(len(rows), len(o.Traces)*len(o.Rules))
		}
	}
	return rows, nil
}

// from rotates recorded arrivals: the seed says with which one they begin, and those before it come last.
func from(arrive []time.Duration, seed uint64) (out []time.Duration) {
	if len(arrive) == 0 {
		return nil
	}
	first, whole := int(mix(seed)%uint64(len(arrive))), arrive[len(arrive)-1]
	for _, at := range arrive[first:] {
		out = append(out, at-arrive[first])
	}
	for _, at := range arrive[:first] {
		out = append(out, whole-arrive[first]+at)
	}
	return out
}

// play is one run.
func play(s Setting, rule string, named bool) (f Figures, err error) {
	like, ok, err := variant(rule)
	if err != nil {
		return f, err
	}
	if !ok {
		p, err := NewRule(rule, s.Seed)
		if err != nil {
			return f, err
		}
		all, _, err := Run(s, p)
		if err != nil {
			return f, err
		}
		return s.Figures(all), nil
	}
	o := NewMarketOptions(s)
	o.Hub, o.Named, o.Ends, o.Events = like.Hub, named || like.Named, like.Ends, like.Events
	o.Room = like.Room
	o.Hub.Terms = cmp.Or(s.Terms, o.Hub.Terms)
	o.Hub.Deadline, o.Hub.MaxDeadline = max(s.Patient, o.Hub.Deadline), max(s.Patient, o.Hub.MaxDeadline)
	o.Quiet = s.Quiet
	all, _, m, err := playMarket(s, o)
	if err != nil {
		return f, err
	}
	f = s.Figures(all)
	f.Journal = float64(m.Bytes) / float64(len(all))
	f.Seeds = float64(m.Seeds)
	f.Welfare -= float64(m.SeedCost) / float64(market.Credit) * 1000 / float64(len(all))
	return f, nil
}

// columns are the figures by name, in the order of the table, with the digits that are shown of each.
// A column is shown where slots are short, s, or caches, c.
type column struct {
	where, name string
	digits      int
	of          func(*Figures) float64
}

var columns = []column{
	{"sc", "share", 3, func(f *Figures) float64 { return f.Share }},
	{"sc", "bound", 3, func(f *Figures) float64 { return f.Bound }},
	{"sc", "belief", 0, func(f *Figures) float64 { return f.Belief }},
	{"sc", "work", 2, func(f *Figures) float64 { return f.Work }},
	{"s", "fewest", 2, func(f *Figures) float64 { return f.Fewest }},
	{"sc", "p50", 0, func(f *Figures) float64 { return f.Median }},
	{"sc", "p99", 0, func(f *Figures) float64 { return f.P99 }},
	{"sc", "mean", 0, func(f *Figures) float64 { return f.Mean }},
	{"s", "longest", 0, func(f *Figures) float64 { return f.Longest }},
	{"c", "waiting", 1, func(f *Figures) float64 { return f.Waiting }},
	{"c", "first", 0, func(f *Figures) float64 { return f.First }},
	{"sc", "tasks/s", 1, func(f *Figures) float64 { return f.Throughput }},
	{"s", "welfare", 2, func(f *Figures) float64 { return f.Welfare }},
	{"s", "starved", 0, func(f *Figures) float64 { return f.Starved }},
	{"sc", "refused", 0, func(f *Figures) float64 { return f.Refused }},
	{"c", "cold", 2, func(f *Figures) float64 { return f.Cold }},
	{"c", "again", 2, func(f *Figures) float64 { return f.Again }},
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
bound    the share in one cache of that size for all, which knew what is asked next (Belady)
belief   tokens a task that were believed to be cached and were not, or were and were not believed to be
work     tokens computed on the engine that computed most, by the mean
fewest   tasks on the engine that had fewest, by the mean
p50, p99, mean, longest   time to the first token in ms, as callers see it
welfare  of a task, in thousandths of a credit: what it was worth as it was served, less its cost
starved  tasks that waited longer than 10 s for their first token
first    mean time to the first token of a session's first turn, in ms
waiting  tasks that wait for their first token, on the mean, whenever they were asked
cold     of sessions, those that found less than a fifth of what they could have found cached
again    times a task that callers were told to come back later
`

// Write prints a table for each trace.
func Write(w io.Writer, rows []Row) {
	for from := 0; from < len(rows); {
		to := from
		for to < len(rows) && rows[to].Trace == rows[from].Trace {
			to++
		}
		of, cliff, _ := traceNamed(rows[from].Trace)
		fmt.Fprintf(w, "\n%s: %s\n", of.Name, of.About)
		table(w, rows[from:to], cliff)
		from = to
	}
	fmt.Fprint(w, "\n"+Legend)
}

// table prints rows below each other, figures to the right.
func table(w io.Writer, rows []Row, cliff bool) {
	cells := [][]string{{""}}
	columns := slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		unknown := func(r Row) bool { return r.All[c.name].Median < 0 }
		return !strings.Contains(c.where, map[bool]string{false: "s", true: "c"}[cliff]) ||
			(c.name == "belief" || c.name == "waiting") && slices.ContainsFunc(rows, unknown)
	})
	for _, c := range columns {
		cells[0] = append(cells[0], c.name)
	}
	for _, row := range rows {
		line := []string{row.Rule}
		for _, c := range columns {
			e := row.All[c.name]
			cell := strconv.FormatFloat(e.Median, 'f', c.digits, 64)
			if len(row.Seeds) > 1 {
				cell += "±" + strconv.FormatFloat(e.Within, 'f', c.digits, 64)
			}
			line = append(line, cell)
		}
		cells = append(cells, line)
	}
	width := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range cells {
		fmt.Fprintf(w, "%-*s", width[0], line[0])
		for i, cell := range line[1:] {
			fmt.Fprintf(w, "  %*s", width[i+1], cell)
		}
		fmt.Fprintln(w)
	}
}
