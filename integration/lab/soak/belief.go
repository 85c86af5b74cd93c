package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"souk/agentd"
	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/bus/client"
	"souk/bus/follow"
	"souk/cmd/replay"
	"souk/integration/lab/fleet"
	"souk/ledger"
	"souk/market"
)

// BeliefOptions say how long, and how hard.
type BeliefOptions struct {
	Bin      string
	Dir      string
	Duration time.Duration
	Seed     uint64
	Pause    time.Duration // of each caller between two turns, on the mean
	Every    time.Duration // between two things that go wrong, on the mean
	Progress io.Writer
}

// BeliefReport compares the hub's belief of caches with what engines found.
type BeliefReport struct {
	Seed     uint64
	Happened map[string]int
	Looks    int // at all caches, while nothing ran
	Windows  []Window
	Upset    Window // tasks that ran while something went wrong with their engine, or just after
	Alone    Window // of those in windows, tasks beside which no other began at their agent
	Unserved int
	// of the tasks in windows, the tokens that were found and not believed, by what had gone wrong last with
	// their agent
	Short map[string]int
}

// Window are the tasks of a span of time.
type Window struct {
	Tasks    int
	Events   int // whose belief went by what engines publish
	Found    int // tokens
	Believed int
	Both     int
	Over     int // tasks of which more than a block too much was believed
}

const (
	beliefAgents, beliefSlots, beliefCallers = 3, 4, 3
	beliefOpen                               = 8    // dialogues of a caller
	beliefBlocks                             = 320  // of an engine: less than open dialogues need
	beliefPassages                           = 3000 // bytes that a dialogue begins with
	beliefBlock                              = 16
	beliefClient                             = "reader"
	beliefWindows                            = 10

	agreeWithin = 15 * time.Second        // an agent knows again what its engine holds
	hubHears    = 1500 * time.Millisecond // and its hub as well
	evictTold   = 500 * time.Millisecond  // and of what a task evicts, which agents tell each 250 ms
	leastJudged = 100                     // tasks of a window that is judged
)

// Off returns by how many tokens a task belief is off, on average.
func (w Window) Off() float64 { return float64(w.Found+w.Believed-2*w.Both) / float64(max(1, w.Tasks)) }

func (w *Window) add(found, believed int, events bool) {
	w.Tasks++
	w.Found, w.Believed, w.Both = w.Found+found, w.Believed+believed, w.Both+min(found, believed)
	if believed > found+beliefBlock {
		w.Over++
	}
	if events {
		w.Events++
	}
}

// belief is a run.
type belief struct {
	BeliefOptions
	f *fleet.Fleet

	still sync.RWMutex // held by who asks; by who looks at all caches, so that nobody does

	mu    sync.Mutex
	found map[string]vllmsim.Found // by hold
	words map[string]fleet.Word    // by task
	upset map[string][]upset
	r     BeliefReport
}

// Belief keeps a market of processes, whose engines have small caches and publish what becomes of them,
// under dialogues at a low rate, while engines are killed and started again, caches are emptied, events are
// lost and nodes are killed. At the end of each task it compares what the hub believed to be cached with
// what the engine found, and after each thing that goes wrong what the agents know with what the engines
// hold. Its error is the verdict.
func Belief(ctx context.Context, o BeliefOptions) (BeliefReport, error) {
	b := &belief{BeliefOptions: o, found: map[string]vllmsim.Found{}, words: map[string]fleet.Word{},
		upset: map[string][]upset{},
		r:     BeliefReport{Seed: o.Seed, Happened: map[string]int{}, Short: map[string]int{}}}
	f, err := fleet.Start(ctx, fleet.Plan{Bin: o.Bin, Dir: o.Dir, Domains: []string{"general"},
		Agents: beliefAgents, Slots: beliefSlots, Blocks: beliefBlocks, Speedup: 4,
		Clients: map[string]market.Credits{beliefClient: deposit}})
	if err != nil {
		return b.r, err
	}
	defer f.Kill()
	b.f = f
	load, stop := context.WithTimeout(ctx, o.Duration)
	defer stop()
	began := time.Now()
	errs := make([]error, 2)
	var all sync.WaitGroup
	all.Go(func() { errs[0] = b.upsets(ctx, load); stop() })
	all.Go(func() { errs[1] = b.ask(ctx, load); stop() })
	all.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return b.r, err
	}
	if err := b.look(ctx); err != nil {
		return b.r, err
	}
	quiet, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	if err := f.Quiet(quiet); err != nil {
		return b.r, err
	}
	if err := b.judge(began, time.Since(began)); err != nil {
		return b.r, err
	}
	return b.r, errors.Join(b.r.verdict(), f.Check(ctx), f.Stop())
}

// verdict is an error where belief is not what is cached. What engines that begin anew compute before
// anybody listens to them is not believed until it is asked again, so of few tasks it is not said that all
// of them are believed.
func (r *BeliefReport) verdict() error {
	var errs []error
	var all Window
	for i, w := range r.Windows {
		if w.Tasks >= leastJudged && w.Off() > beliefBlock {
			errs = append(errs, fmt.Errorf("of window %d, of %d tasks, belief is off by %.1f tokens a task: "+
				"more than a block", i+1, w.Tasks, w.Off()))
		}
		all.Tasks, all.Over, all.Events = all.Tasks+w.Tasks, all.Over+w.Over, all.Events+w.Events
		all.Found, all.Believed, all.Both = all.Found+w.Found, all.Believed+w.Believed, all.Both+w.Both
	}
	switch {
	case all.Tasks == 0 || all.Found == 0:
		errs = append(errs, fmt.Errorf("%d tasks were served and found %d tokens: nothing was tried",
			all.Tasks, all.Found))
	case r.Alone.Believed-r.Alone.Both > beliefBlock*r.Alone.Tasks:
		errs = append(errs, fmt.Errorf("of %d tasks, each alone at its agent, %d tokens were believed to be "+
			"cached and were not: more than a block a task", r.Alone.Tasks, r.Alone.Believed-r.Alone.Both))
	case all.Both < all.Found*3/4:
		errs = append(errs, fmt.Errorf("of %d tokens that were found only %d were believed to be there",
			all.Found, all.Both))
	case r.Alone.Over > 1+r.Alone.Tasks/20:
		errs = append(errs, fmt.Errorf("of %d tasks, each alone at its agent, %d were believed to find more "+
			"than a block too much", r.Alone.Tasks, r.Alone.Over))
	case all.Events < all.Tasks/2:
		errs = append(errs, fmt.Errorf("of %d tasks only %d were believed by what engines publish", all.Tasks,
			all.Events))
	}
	return errors.Join(errs...)
}

// ask plays dialogues until load ends.
func (b *belief) ask(ctx, load context.Context) error {
	c, err := b.f.Client(beliefClient)
	if err != nil {
		return err
	}
	dialogues, err := replay.BundledSet("mtrag.jsonl.gz")
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range beliefCallers {
		r := rand.New(rand.NewPCG(b.Seed, uint64(100+i)))
		all.Go(func() { b.talk(ctx, load, c, i, dialogues, r) })
	}
	all.Wait()
	return nil
}

// talk has one caller take turns in its dialogues, a few of them more often than the others.
func (b *belief) talk(ctx, load context.Context, c *client.Client, caller int, all []replay.Dialogue,
	r *rand.Rand) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var open [beliefOpen]struct {
		id   string
		said []message
		left []replay.Turn
	}
	for n := 0; load.Err() == nil; n++ {
		d := &open[min(r.IntN(beliefOpen), r.IntN(beliefOpen))]
		if len(d.left) == 0 {
			d.id = fmt.Sprintf("dialogue-%d-%d", caller, n)
			d.said = []message{{"system", passages(all, r)}}
			d.left = all[r.IntN(len(all))].Turns
		}
		asked := append(slices.Clone(d.said), message{"user", d.left[0].User})
		body, err := json.Marshal(map[string]any{"messages": asked, "max_tokens": 20 + r.IntN(60),
			"ignore_eos": true})
		if err != nil {
			panic("soak: a body of strings and numbers")
		}
		b.still.RLock()
		w := fleet.Ask(ctx, c, beliefClient, bus.Task{Client: beliefClient, Session: d.id,
			ID: fmt.Sprintf("turn-%d-%d", caller, n), Kind: bus.KindChat, Body: body, Stream: true,
			DeadlineMS: time.Now().Add(30 * time.Second).UnixMilli()}, func(bus.Chunk) {})
		b.still.RUnlock()
		b.mu.Lock()
		b.words[w.Task] = fleet.Word{Began: w.Began, Ended: w.Ended, Code: w.Code}
		if w.Code != "" {
			b.r.Unserved++
		}
		b.mu.Unlock()
		if w.Code == "" {
			d.said, d.left = append(asked, message{"assistant", w.Text}), d.left[1:]
		}
		follow.Pause(load, time.Duration(r.ExpFloat64()*float64(b.Pause)))
	}
}

// passages are something to begin a dialogue with, others for each.
func passages(all []replay.Dialogue, r *rand.Rand) string {
	var text strings.Builder
	for text.Len() < beliefPassages {
		turns := all[r.IntN(len(all))].Turns
		fmt.Fprintln(&text, turns[r.IntN(len(turns))].Answer)
	}
	return text.String()
}

// inside takes what an engine tells of its cache.
func (b *belief) inside(ctx context.Context, n int) (in vllmsim.Inside, err error) {
	if err = b.engine(ctx, n, http.MethodGet, "/sim/cache", "", &in); err != nil {
		return in, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range in.Found {
		b.found[x.ID] = x
	}
	return in, nil
}

func (b *belief) collect(ctx context.Context) error {
	for n := range beliefAgents {
		if _, err := b.inside(ctx, n+1); err != nil {
			return err
		}
	}
	return nil
}

// look waits until every agent knows exactly what its engine holds. Nobody asks meanwhile.
func (b *belief) look(ctx context.Context) error {
	b.r.Looks++
	for end := time.Now().Add(agreeWithin); ; {
		var wrong []string
		for n := range beliefAgents {
			in, err := b.inside(ctx, n+1)
			if err != nil {
				return err
			}
			var s agentd.Stats
			if err := b.f.Part(fmt.Sprintf("agentd-%d", n+1)).Stats(ctx, &s); err != nil {
				return err
			}
			if len(s.Agents) != 1 {
				return fmt.Errorf("node %d has %d agents", n+1, len(s.Agents))
			}
			if a := s.Agents[0]; a.Cache.Blocks != in.Blocks || a.Cache.Evidence != bus.EvidenceEvents ||
				a.State != bus.StateReady {
				wrong = append(wrong, fmt.Sprintf("agent %d, %s, knows of %d blocks by %s, coverage %.2f; its "+
					"engine holds %d", n+1, a.State, a.Cache.Blocks, a.Cache.Evidence, a.Cache.Coverage,
					in.Blocks))
			}
		}
		if len(wrong) == 0 {
			return nil
		}
		if time.Now().After(end) || !follow.Pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%v after nobody asks: %s", agreeWithin, strings.Join(wrong, "; "))
		}
	}
}

// judge compares, task by task, what the journal says that the hub believed with what the engine found.
func (b *belief) judge(began time.Time, lasted time.Duration) error {
	type ran struct {
		hold   *ledger.Hold
		id     string // of its hold
		events bool
		word   fleet.Word
	}
	b.r.Windows = make([]Window, beliefWindows)
	at := map[string][]ran{} // by agent
	err := fleet.Captured(b.f.Data, func(h *ledger.Hold, c *ledger.Capture, events bool) {
		if word, ours := b.words[h.Task]; ours {
			at[h.Agent] = append(at[h.Agent], ran{h, c.Hold, events, word})
		}
	})
	for agent, tasks := range at {
		for _, t := range tasks {
			found, told := b.found[t.id]
			if !told { // its engine was killed before it could be asked
				continue
			}
			// what others that begin just before it, or beside it, take from the cache, nobody can know yet
			alone := !slices.ContainsFunc(tasks, func(o ran) bool {
				return o.id != t.id && o.word.Began.Before(t.word.Ended) &&
					o.word.Began.After(t.word.Began.Add(-evictTold))
			})
			into := &b.r.Upset
			if !b.upsetDuring(agent, t.word) {
				k := int(float64(t.word.Began.Sub(began)) / float64(lasted) * beliefWindows)
				into = &b.r.Windows[min(max(0, k), beliefWindows-1)]
				b.r.Short[b.lastUpset(agent, t.word)] += max(0, found.Cached-t.hold.Cached)
				if alone {
					b.r.Alone.add(found.Cached, t.hold.Cached, t.events)
				}
			}
			into.add(found.Cached, t.hold.Cached, t.events)
			if t.hold.Cached > found.Cached+beliefBlock {
				fmt.Fprintf(b.Progress, "%s at %s, alone %v, of %d tokens: %d believed to be cached, %d were\n",
					t.hold.Task, agent, alone, found.Prompt, t.hold.Cached, found.Cached)
			}
		}
	}
	return err
}

// upsetDuring reports whether something went wrong with an agent while a task ran.
func (b *belief) upsetDuring(agent string, w fleet.Word) bool {
	return slices.ContainsFunc(b.upset[agent], func(u upset) bool {
		return w.Began.Before(u.ended) && w.Ended.After(u.began)
	})
}

// lastUpset returns what went wrong last with an agent before a task ran.
func (b *belief) lastUpset(agent string, w fleet.Word) (what string) {
	what = "nothing yet"
	for _, u := range b.upset[agent] {
		if u.began.Before(w.Began) {
			what = u.what
		}
	}
	return what
}

// Write prints the report for people.
func (r BeliefReport) Write(w io.Writer) {
	fmt.Fprintf(w, "seed %d: ", r.Seed)
	var happened []string
	for _, what := range slices.Sorted(maps.Keys(r.Happened)) {
		happened = append(happened, fmt.Sprint(what, " ", r.Happened[what]))
	}
	fmt.Fprintf(w, "%s\nlooks at all caches, each agreed upon: %d; tasks that were not served: %d\n\n",
		strings.Join(happened, ", "), r.Looks, r.Unserved)
	t := replay.Table(w, 1, "window", "tasks", "by events", "tokens found", "believed", "of them",
		"off a task", "too much")
	row := func(name string, x Window) {
		t.AppendRow(table.Row{name, x.Tasks, x.Events, x.Found, x.Believed, x.Both,
			fmt.Sprintf("%.1f", x.Off()), x.Over})
	}
	for i, x := range r.Windows {
		row(fmt.Sprint(i+1), x)
	}
	row("of all, alone", r.Alone)
	row("while upset", r.Upset)
	t.Render()
	fmt.Fprintln(w)
	for _, what := range slices.Sorted(maps.Keys(r.Short)) {
		fmt.Fprintf(w, "after %s: %d tokens were found that were not believed\n", what, r.Short[what])
	}
}
