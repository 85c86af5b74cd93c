package policies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"souk/agentd/vllmsim"
	"souk/bus/follow"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/integration/lab/load"
	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// HedgeFigures are clients' results in a market of which one engine was silent for a while.
type HedgeFigures struct {
	Tasks        int
	First, Whole float64 // the longest first token, and the longest answer, s
	P99          float64 // of first tokens, ms
	Moved        int     // tasks that began or went on at another agent
	Hedged       int64   // of these, for a late first token
	More         float64 // tokens that engines computed beside what was paid for, in per cent of that
}

func (f *HedgeFigures) columns() []float64 {
	return []float64{f.First, f.Whole, f.P99, float64(f.Moved), float64(f.Hedged), f.More,
		float64(f.Tasks)}
}

// The market of hedge: four engines that give each answer a token every 10 ms, and tasks that keep 12 of
// their 32 slots busy.
const (
	hedgeEngines = 4
	hedgeSlots   = 8
	hedgeTokens  = 60
	hedgeRate    = 20 // tasks a second
	hedgeRamp    = 20 * time.Second
	hedgeShort   = 3 * time.Second // where the hub has just begun
	hedgeSilent  = time.Second     // from the end of the ramp, for
	hedgeFor     = 7 * time.Second
	hedgeAfter   = time.Second
)

// HedgeRules are ways to do without an engine that falls silent.
var HedgeRules = []string{"none", "hedge", hedgeBegun}

const hedgeBegun = "hedge, in its first seconds"

// PlayHedge plays a market by the clock, of which one engine falls silent.
func PlayHedge(ctx context.Context, rule string, seed uint64) (f HedgeFigures, err error) {
	var y strings.Builder
	y.WriteString("listen: 127.0.0.1:0\ndomains: [{name: general, general: true}]\nclients: {dev: 1000}\n")
	fmt.Fprintf(&y, "hub: {hedge: {on: %v}}\nagents:\n", rule != "none")
	for i := range hedgeEngines {
		fmt.Fprintf(&y, "  - {id: a-%d, model: gpt-oss-20b, price_row: fireworks/gpt-oss-20b, scores: [{domain: "+
			"general, score: 0.7}], slots: %d, engine: {profile: steady}}\n", i+1, hedgeSlots)
	}
	cfg, err := local.ParseConfig("hedge.yaml", []byte(y.String()))
	if err != nil {
		return f, err
	}
	dir, err := os.MkdirTemp("", "lab-hedge-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	m, err := local.Start(ctx, local.Options{Dir: dir, Config: cfg})
	if err != nil {
		return f, err
	}
	ramp := hedgeRamp
	if rule == hedgeBegun {
		ramp = hedgeShort
	}
	f, err = playHedge(ctx, m, seed, ramp)
	if err = errors.Join(err, m.Err(), m.Close()); err != nil {
		return f, err
	}
	return f, local.CheckLedger(ctx, dir, io.Discard)
}

func playHedge(ctx context.Context, m *local.Market, seed uint64, ramp time.Duration) (f HedgeFigures,
	err error) {
	ds := make([]replay.Dialogue, 1000)
	for i := range ds {
		ds[i].Turns = []replay.Turn{{User: fmt.Sprintf("Question %d.%d: which of the goods on the market of "+
			"Marrakesh would you carry home, and why?", seed, i)}}
	}
	q, err := load.NewQuestions(ds, load.Shape{Clients: []replay.Client{{ID: "dev"}}, MaxTokens: hedgeTokens,
		Whole: true, Run: "hedge"})
	if err != nil {
		return f, err
	}
	silent := m.Engine("a-1")
	told := make(chan struct{})
	go func() {
		defer close(told)
		if follow.Pause(ctx, ramp+hedgeSilent) {
			silent.Freeze(true)
			follow.Pause(ctx, hedgeFor)
			silent.Freeze(false)
		}
	}()
	r, err := load.Run(ctx, load.Config{Rate: hedgeRate, Concurrency: 1000, Ramp: ramp, Seed: seed,
		Duration: ramp + hedgeSilent + hedgeFor + hedgeAfter}, q, m.AskWith)
	<-told
	if err := errors.Join(err, ctx.Err()); err != nil {
		return f, err
	}
	if r.Broken > 0 || len(r.Codes) != 1 {
		return f, fmt.Errorf("not every task was answered: %v, %s", r.Codes, strings.Join(r.Says, "; "))
	}
	computed := 0
	for i := range hedgeEngines {
		n, err := computedBy(m.Engine(fmt.Sprintf("a-%d", i+1)))
		if err != nil {
			return f, err
		}
		computed += n
	}
	s, paid := m.Hubs[0].Stats(), r.Prompt+r.Output
	return HedgeFigures{Tasks: r.Asked, First: r.TTFT.Max / 1000, Whole: r.Whole.Max / 1000, P99: r.TTFT.P99,
		Moved: r.Moved, Hedged: s.Hedged,
		More: 100 * (float64(computed)/float64(paid) - 1)}, nil
}

// computedBy returns the tokens that an engine has computed, of prompts, found ones too, and of answers.
func computedBy(s *vllmsim.Server) (tokens int, err error) {
	r, err := http.Get(s.URL() + "/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		return 0, fmt.Errorf("%s/metrics: %w", s.URL(), err)
	}
	for _, name := range []string{"vllm:prompt_tokens_total", "vllm:generation_tokens_total"} {
		f := families[name]
		if f == nil {
			return 0, fmt.Errorf("%s/metrics: no %s", s.URL(), name)
		}
		for _, m := range f.Metric {
			tokens += int(m.GetCounter().GetValue())
		}
	}
	return tokens, nil
}

const hedgeHead = `A market by the clock: four simulated engines of eight slots, a token every 10 ms, and twenty tasks a second that come
at random, of 60 tokens each. One engine says nothing for 7 s of them, in the way of a GPU that hangs: its server
answers and takes requests. Without the policy a task waits until its agent finds that the engine hangs; with it
until its first token is later than one in a thousand is, which the hub knows of 20 s before: in its first seconds, of
3 s before, it waits for what is expected at worst. **first
token** and **answer** are the longest of all tasks, in s, p99 is of first tokens, in ms; answers that had begun there
go on elsewhere by the agent's word alone, in either row. **hedged** are tasks that the hub took back for a late first
token; **more** is what engines computed that nobody paid for, in per cent of what was.

| policy | first token | answer | p99 | moved of | hedged | more % |
|---|---|---|---|---|---|---|
`

// HedgePage plays it, and returns the page about it, which a command has asked for.
func HedgePage(ctx context.Context, command string, seeds []uint64, said func(runs int)) (*page.Page, error) {
	p := &page.Page{Name: "hedge", Title: "A task whose engine falls silent", Command: command,
		Clock: "figures differ from run to run, by the intervals that they have"}
	plot := page.Plot{Title: "The latest first token", Y: "s"}
	text := hedgeHead
	first := map[string]virtual.Estimate{}
	for _, rule := range HedgeRules {
		var of [][]float64
		for _, seed := range seeds { // one by one: they are timed
			f, err := PlayHedge(ctx, rule, seed)
			if err != nil {
				return nil, err
			}
			of = append(of, f.columns())
			said(1)
		}
		var e []virtual.Estimate
		for k := range of[0] {
			var x []float64
			for i := range of {
				x = append(x, of[i][k])
			}
			e = append(e, virtual.NewEstimate(x))
		}
		first[rule] = e[0]
		plot.Put(rule, "", e[0].Median, e[0].Within)
		text += fmt.Sprintf("| %s | %.1f ± %.1f | %.1f ± %.1f | %.0f ± %.0f | %.0f of %.0f | %.0f | "+
			"%.1f ± %.1f |\n", rule, e[0].Median, e[0].Within, e[1].Median, e[1].Within, e[2].Median,
			e[2].Within, e[3].Median, e[6].Median, e[4].Median, e[5].Median, e[5].Within)
	}
	on, off := first["hedge"], first["none"]
	p.Plots = map[string]page.Plot{"first": plot}
	p.Text = text + page.Place("first") + fmt.Sprintf("A task whose engine falls silent has its first token after "+
		"%.1f ± %.1f s at the most in place of %.1f ± %.1f, against the agent's own watch.\n", on.Median, on.Within,
		off.Median, off.Within)
	return p, nil
}
