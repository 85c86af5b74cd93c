// Package soak keeps a market of processes under mixed load for minutes while its parts are killed and
// started again, and then accounts for every task and for every process's memory.
package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/follow"
	"souk/cmd/replay"
	"souk/integration/lab/fleet"
	"souk/integration/lab/load/proc"
	"souk/market"
)

// Options say how long, and how hard.
type Options struct {
	Bin      string        // directory of the commands
	Dir      string        // an empty directory; kept if anything is wrong
	Duration time.Duration // of the load
	Seed     uint64        // of what is asked, and of what is killed when
	Callers  int
	Outages  bool // NATS and etcd are away as well, for five seconds or twenty, one of them or both
	Policies bool // every runtime policy is on, and clients say what they do next, not always truly
	Progress io.Writer
}

// Report is the result of a soak.
type Report struct {
	Seed  uint64
	Kills map[string]int   // by part
	Words map[bus.Code]int // last words; "" = served
	// the last words of those that an agent took, and that were neither served nor cancelled
	Unserved  []string
	Moved     int              // served by more than one agent
	Unknown   int              // told that nobody knows, and paid
	Caught    int              // answers that a pattern cut
	Effects   map[string]int64 // of policies, as the hubs that are alive at the end count them
	Holds     int
	Paid      market.Credits
	Processes []Process
}

// Process is one part's memory over its lives.
type Process struct {
	Name  string
	Lives int
	Life  Life // the one that grew most, of those long enough to tell
	Told  bool // a life was long enough
}

// Life is the memory of one life of a process, in MB.
type Life struct {
	Lasted     time.Duration
	Warm, Last float64
}

const (
	agents, slots = 4, 12
	deposit       = 100_000 * market.Credit

	grace    = 30 * time.Second // of a hold, so that a hub may be away when an answer ends
	settle   = 90 * time.Second // for every hold to end, once nobody asks any more
	least    = 60 * time.Second // a shorter life says nothing about growth
	mayGrow  = 0.25             // of what it was warm
	mayGrowB = 24.0             // MB beside that: a heap before and after it is collected
)

// clients ask in different ways.
var clients = []string{"steady", "hasty", "alone"}

// Run is the whole of it. Its error is the verdict.
func Run(ctx context.Context, o Options) (r Report, err error) {
	r = Report{Seed: o.Seed, Kills: map[string]int{}, Words: map[bus.Code]int{}}
	p := fleet.Plan{Bin: o.Bin, Dir: o.Dir, Domains: []string{"general", "math"}, Agents: agents,
		Slots: slots, Grace: grace, Clients: map[string]market.Credits{}}
	for _, id := range clients {
		p.Clients[id] = deposit
	}
	if o.Policies {
		everyPolicy(&p)
	}
	f, err := fleet.Start(ctx, p)
	if err != nil {
		return r, err
	}
	defer f.Kill()
	load, stop := context.WithTimeout(ctx, o.Duration)
	defer stop()
	m := newMemory(f)
	var others sync.WaitGroup
	others.Go(func() { m.watch(load, o.Progress) })
	others.Go(func() { r.kill(load, f, o, &err) })
	words, asking := ask(ctx, load, f, o)
	others.Wait()
	if err = errors.Join(err, asking); err != nil {
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	m.end()
	r.Processes = m.processes()
	if err := r.policies(ctx, f, o); err != nil {
		return r, err
	}
	return r, errors.Join(r.account(ctx, f, words), r.growth(), f.Stop())
}

// kill kills parts at random moments and starts them again, one at a time, until ctx ends.
func (r *Report) kill(ctx context.Context, f *fleet.Fleet, o Options, failed *error) {
	random := rand.New(rand.NewPCG(o.Seed, 1))
	var victims []*fleet.Part
	for _, p := range f.Parts() {
		if strings.HasPrefix(p.Name, "agentd") || strings.HasPrefix(p.Name, "engine") ||
			strings.HasPrefix(p.Name, "hub") {
			victims = append(victims, p)
		}
	}
	for follow.Pause(ctx, 4*time.Second+time.Duration(random.Int64N(int64(12*time.Second)))) {
		parts, away := []*fleet.Part{victims[random.IntN(len(victims))]},
			time.Duration(random.Int64N(int64(4*time.Second)))
		if o.Outages && random.IntN(3) == 0 {
			nats, etcd := f.Part(fleet.NATS), f.Part(fleet.Etcd)
			parts = [][]*fleet.Part{{nats}, {etcd}, {etcd, nats}}[random.IntN(3)]
			away = []time.Duration{5 * time.Second, 20 * time.Second}[random.IntN(2)]
		}
		if err := r.without(ctx, parts, away, o.Progress); err != nil {
			*failed = err
			return
		}
	}
}

// without kills parts, starts them again after a while, and waits until they are ready.
func (r *Report) without(ctx context.Context, parts []*fleet.Part, away time.Duration,
	progress io.Writer) error {
	for _, p := range parts {
		fmt.Fprintf(progress, "kill -9 %s, back after %.1f s\n", p.Name, away.Seconds())
		if err := p.Kill(); err != nil {
			return fmt.Errorf("%w: it had ended by itself:\n%s", err, p.Tail(20))
		}
		r.Kills[p.Name]++
	}
	follow.Pause(ctx, away)
	for _, p := range parts {
		if err := p.Start(); err != nil {
			return err
		}
	}
	up, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, p := range parts {
		if err := p.Ready(up); err != nil {
			return err
		}
	}
	return nil
}

// ask asks in different ways until load ends, and returns every last word.
func ask(ctx, load context.Context, f *fleet.Fleet, o Options) ([]fleet.Word, error) {
	var mu sync.Mutex
	var words []fleet.Word
	var all sync.WaitGroup
	links := map[string]*client.Client{}
	for _, id := range clients {
		c, err := f.Client(id)
		if err != nil {
			return nil, err
		}
		links[id] = c
	}
	for i := range o.Callers {
		id := clients[i%len(clients)]
		c := links[id]
		random := rand.New(rand.NewPCG(o.Seed, uint64(100+i)))
		all.Go(func() {
			for load.Err() == nil {
				w := one(ctx, c, id, random, o.Policies)
				w.Text, w.Body = "", nil
				mu.Lock()
				words = append(words, w)
				mu.Unlock()
				if w.Code != "" && !w.Accepted {
					follow.Pause(load,
						min(max(time.Duration(w.Result.RetryMS)*time.Millisecond, 50*time.Millisecond),
							time.Second))
				} else if random.IntN(8) == 0 { // a reader reads
					follow.Pause(load, time.Duration(random.Int64N(int64(2*time.Second))))
				}
			}
		})
	}
	all.Wait()
	return words, nil
}

// one asks one task: short or long, some of them cancelled, some bound to one agent.
func one(ctx context.Context, c *client.Client, id string, random *rand.Rand, hints bool) fleet.Word {
	t := fleet.Task(id, 1+random.IntN([]int{30, 200, 600}[random.IntN(3)]))
	t.Session = sessionOf(random)
	if id == "alone" {
		t.Failover = "off"
	}
	if hints {
		hint(&t, random)
	}
	leave, n := -1, 0
	if id == "hasty" && random.IntN(4) == 0 {
		leave = random.IntN(50)
	}
	return fleet.AskWith(ctx, c, id, t, func(s *client.Stream, _ bus.Chunk) {
		if n++; n == leave {
			s.Cancel()
		}
	})
}

// sessions counts those that a client has; any task may be the next turn of one.
const sessions = 500

func sessionOf(random *rand.Rand) string { return fmt.Sprintf("s-%d", random.IntN(sessions)) }

// account holds every last word against the journals.
func (r *Report) account(ctx context.Context, f *fleet.Fleet, words []fleet.Word) error {
	for _, w := range words {
		r.Words[w.Code]++
		if w.Result.Finish == bus.FinishFiltered {
			r.Caught++
		}
		if w.Accepted && w.Code != "" && w.Code != bus.CodeCancelled {
			r.Unserved = append(r.Unserved, w.String())
		}
		if w.Result.Receipt != nil && len(w.Result.Receipt.Earlier) > 0 {
			r.Moved++
		}
	}
	quiet, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	if err := f.Quiet(quiet); err != nil {
		return err
	}
	a, err := f.Journals()
	if err != nil {
		return err
	}
	r.Holds, r.Paid = a.Holds, a.Paid
	r.Unknown, err = f.Judge(a, words)
	if r.Words[""] == 0 {
		err = errors.Join(err, errors.New("no task was served"))
	}
	return errors.Join(err, f.Check(ctx))
}

// growth is an error for each process that grew.
func (r *Report) growth() error {
	var errs []error
	for _, p := range r.Processes {
		if p.Told && p.Life.grew() {
			errs = append(errs,
				fmt.Errorf("%s grew from %.1f MB to %.1f MB in %v", p.Name, p.Life.Warm, p.Life.Last,
					p.Life.Lasted.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}

func (l Life) grew() bool { return l.Last > l.Warm*(1+mayGrow)+mayGrowB }

// memory follows the resident memory of every part, a sample a second.
type memory struct {
	parts []*fleet.Part
	pids  []int
	now   [][]float64 // of the present life
	lives [][]Life
}

func newMemory(f *fleet.Fleet) *memory {
	m := &memory{parts: f.Parts()}
	m.pids, m.now, m.lives = make([]int, len(m.parts)), make([][]float64, len(m.parts)),
		make([][]Life, len(m.parts))
	return m
}

func (m *memory) watch(ctx context.Context, progress io.Writer) {
	begun := time.Now()
	for n := 0; follow.Pause(ctx, time.Second); n++ {
		for i, p := range m.parts {
			if pid := p.PID(); pid != m.pids[i] {
				m.over(i)
				m.pids[i] = pid
			}
			if b, err := proc.RSS(m.pids[i]); err == nil && b > 0 {
				m.now[i] = append(m.now[i], float64(b)/(1<<20))
			}
		}
		if n%30 == 29 {
			var all []string
			for i, p := range m.parts {
				if k := len(m.now[i]); k > 0 {
					all = append(all, fmt.Sprintf("%s %.0f", p.Name, m.now[i][k-1]))
				}
			}
			fmt.Fprintf(progress, "%4.0f s: %s MB\n", time.Since(begun).Seconds(), strings.Join(all, ", "))
		}
	}
}

// over ends a life.
func (m *memory) over(i int) {
	if len(m.now[i]) > 0 {
		m.lives[i] = append(m.lives[i], lifeOf(m.now[i]))
	}
	m.now[i] = nil
}

func (m *memory) end() {
	for i := range m.parts {
		m.over(i)
	}
}

// lifeOf compares the ten seconds before a life was warm, after a minute or half of it, with its last ten; of
// both the median.
func lifeOf(samples []float64) Life {
	l := Life{Lasted: time.Duration(len(samples)) * time.Second}
	warm := min(60, len(samples)/2)
	l.Warm = median(samples[max(0, warm-10):max(1, warm)])
	l.Last = median(samples[max(0, len(samples)-10):])
	return l
}

func median(xs []float64) float64 {
	s := slices.Clone(xs)
	slices.Sort(s)
	return s[len(s)/2]
}

func (m *memory) processes() []Process {
	var out []Process
	for i, part := range m.parts {
		p := Process{Name: part.Name, Lives: len(m.lives[i])}
		for _, l := range m.lives[i] {
			if l.Lasted >= least && (!p.Told || l.Last/l.Warm > p.Life.Last/p.Life.Warm) {
				p.Life, p.Told = l, true
			}
		}
		out = append(out, p)
	}
	return out
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) {
	kills := 0
	for _, n := range r.Kills {
		kills += n
	}
	fmt.Fprintf(w, "seed %d: %d kills", r.Seed, kills)
	for _, name := range slices.Sorted(maps.Keys(r.Kills)) {
		fmt.Fprintf(w, ", %s %d", name, r.Kills[name])
	}
	fmt.Fprint(w, "\nlast words: ")
	for i, code := range slices.Sorted(maps.Keys(r.Words)) {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		fmt.Fprintf(w, "%s %d", cmp.Or(string(code), "served"), r.Words[code])
	}
	for i, word := range r.Unserved {
		if i == 20 {
			fmt.Fprintf(w, "\n  and %d more", len(r.Unserved)-i)
			break
		}
		fmt.Fprintf(w, "\n  %s", word)
	}
	fmt.Fprintf(w, "\n%d answers by more than one agent; %d holds, every one ended; %s paid; %d told that "+
		"nobody knows, and paid\n\n", r.Moved, r.Holds, r.Paid, r.Unknown)
	if len(r.Effects) > 0 {
		fmt.Fprintf(w, "policies: %d answers cut", r.Caught)
		for _, name := range slices.Sorted(maps.Keys(r.Effects)) {
			fmt.Fprintf(w, ", %s %d", name, r.Effects[name])
		}
		fmt.Fprint(w, "\n\n")
	}
	t := replay.Table(w, 1, "process", "lives", "memory when warm", "at its end", "after")
	for _, p := range r.Processes {
		row := table.Row{p.Name, p.Lives, "", "", "no life was long enough"}
		if p.Told {
			row = table.Row{p.Name, p.Lives, fmt.Sprintf("%.1f MB", p.Life.Warm),
				fmt.Sprintf("%.1f MB", p.Life.Last), p.Life.Lasted}
		}
		t.AppendRow(row)
	}
	t.Render()
}
