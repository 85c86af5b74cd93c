package clock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"souk/agentd/vllmsim/kv"
	"souk/integration/lab/fit"
	"souk/integration/lab/page"
	"souk/integration/lab/virtual"
)

// Servers are running vLLM servers, in place of stand-ins. What became of each run is kept for the page.
type Servers struct {
	All    []*fit.Server
	fitted []*fit.Fitted
	block  int // tokens of a block, at all of them

	runs []did
	left []string // what was left out

	seed    maphash.Seed
	mu      sync.Mutex
	prompts map[uint64]prompt // by a hash of their text
	salted  int               // runs that had a salt of their own
	again   func(ctx context.Context, amid func()) (virtual.Measures, error)
}

// prompt is a prompt by a server's own tokenizer.
type prompt struct {
	tokens int
	hashes []uint64 // of its full blocks
}

// did holds the results of a run, as its callers and the servers say.
type did struct {
	rule          string
	seed          uint64
	tasks, lost   int
	queried, hits float64 // prompt tokens that servers looked for in their caches, and found
	first, firsts float64 // seconds until first tokens as servers have them, in sum, and how many
	of            virtual.Measures
}

// FindServers asks servers what they are, and measures how fast each is, alone.
func FindServers(ctx context.Context, urls []string, z fit.Sizes) (*Servers, error) {
	v := &Servers{}
	for _, url := range urls {
		s, err := fit.Find(ctx, url)
		if err != nil {
			return nil, err
		}
		f, err := fit.Fit(ctx, s, z)
		if err != nil {
			return nil, err
		}
		if err := v.add(s, f); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *Servers) add(s *fit.Server, f *fit.Fitted) error {
	if v.All == nil {
		v.seed, v.prompts, v.block = maphash.MakeSeed(), map[uint64]prompt{}, s.Info.BlockSize
	}
	if s.Info.BlockSize != v.block {
		return fmt.Errorf("%s has blocks of %d tokens, %s of %d: rules count in one size", v.All[0].URL, v.block, s.URL,
			s.Info.BlockSize)
	}
	v.All, v.fitted = append(v.All, s), append(v.fitted, f)
	return nil
}

// sized is a setting with the servers' sizes and speeds; slots, cards and scores stay as they are.
func (v *Servers) sized(s virtual.Setting) (virtual.Setting, error) {
	if s.Engines != len(v.All) {
		return s, fmt.Errorf("a fleet of %d engines for %d servers", s.Engines, len(v.All))
	}
	var fleet []virtual.FleetEngine
	for i, of := range v.All {
		_, e := s.Nth(i)
		e.Name, e.Model, e.Measured = of.URL, of.Model, &v.fitted[i].Profile
		e.Blocks, e.Context = v.fitted[i].NumGPUBlocks, of.Info.MaxModelLen
		fleet = append(fleet, e)
	}
	s.Fleet, s.Engine.BlockSize = fleet, v.block
	return s, nil
}

func (v *Servers) play(ctx context.Context, s virtual.Setting, questions [][]*virtual.Request, rule string,
	named bool) (m virtual.Measures, err error) {
	if s, err = v.sized(s); err != nil {
		return m, err
	}
	if rule == virtual.MarketName {
		v.again = func(ctx context.Context, amid func()) (virtual.Measures, error) {
			for caller := range questions {
				questions[caller] = s.Questions(caller, 1+len(questions[caller])/4)
			}
			return v.once(ctx, s, questions, rule+", one killed", named, amid)
		}
	}
	return v.once(ctx, s, questions, rule, named, nil)
}

// once plays one run on empty caches. A run that cannot be played to its end is left out, and the page says
// why.
func (v *Servers) once(ctx context.Context, s virtual.Setting, questions [][]*virtual.Request, rule string,
	named bool, amid func()) (virtual.Measures, error) {
	m, err := v.try(ctx, s, questions, rule, named, amid)
	if err != nil && ctx.Err() == nil && !errors.Is(err, virtual.ErrLeftOut) {
		v.left = append(v.left, fmt.Sprintf("%s, seed %d broke off: %v", rule, s.Seed, err))
		err = virtual.ErrLeftOut
	}
	return m, err
}

// try plays one run. Where a server does not answer, none is played.
func (v *Servers) try(ctx context.Context, s virtual.Setting, questions [][]*virtual.Request, rule string,
	named bool, amid func()) (m virtual.Measures, err error) {
	name := fmt.Sprintf("%s, seed %d", rule, s.Seed)
	for _, of := range v.All {
		if !fit.Healthy(ctx, of.URL) {
			if ctx.Err() != nil {
				return m, ctx.Err()
			}
			v.left = append(v.left, fmt.Sprintf("%s was not played, as %s did not answer", name, of.URL))
			return m, virtual.ErrLeftOut
		}
	}
	if err := v.tokenize(ctx, &s, questions); err != nil {
		return m, err
	}
	salt := v.empty(ctx)
	r := run{s: &s, questions: questions, named: named, amid: amid, ready: v.ready,
		send: func(q *virtual.Request) []byte { return with(plain(q), q, salt) },
		task: func(q *virtual.Request) []byte { return with(q.Body(named), q, salt) }}
	var urls []string
	for _, of := range v.All {
		urls = append(urls, of.URL)
	}
	before := v.metrics(ctx)
	kind, _, _ := strings.Cut(rule, ",")
	all, err := r.play(ctx, urls, kind)
	if err != nil {
		return m, err
	}
	x := did{rule: rule, seed: s.Seed, tasks: len(all), lost: r.lost, of: s.Measure(all)}
	for i, after := range v.metrics(ctx) {
		if after == nil || before[i] == nil {
			v.left = append(v.left, fmt.Sprintf("%s went away during %s: %d of its tasks broke off and count nowhere, and "+
				"what it counted itself is missing", v.All[i].URL, name, r.lost))
			continue
		}
		more := func(counter string) float64 { return after[counter] - before[i][counter] }
		x.queried += more("vllm:prefix_cache_queries_total")
		x.hits += more("vllm:prefix_cache_hits_total")
		x.first += more("vllm:time_to_first_token_seconds_sum")
		x.firsts += more("vllm:time_to_first_token_seconds_count")
	}
	v.runs = append(v.runs, x)
	return x.of, nil
}

// Kill plays the market's last run once more, and has a shell command run when two fifths of its tasks were
// asked, which ends a server.
func (v *Servers) Kill(ctx context.Context, command string) error {
	if v.again == nil {
		return errors.New("there is no run of the market in which a server could be killed")
	}
	said := make(chan error, 1)
	_, err := v.again(ctx, func() {
		out, err := exec.CommandContext(ctx, "sh", "-c", command).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", command, err, out)
		}
		said <- err
	})
	if errors.Is(err, virtual.ErrLeftOut) {
		return nil
	}
	if err != nil {
		return err
	}
	select {
	case err = <-said:
		return err
	default:
		return errors.New("the run ended before a server was killed")
	}
}

// with is a body that asks for an answer of exactly as many tokens as the recorded one has, and is cached
// under a salt where there is one.
func with(body []byte, q *virtual.Request, salt string) []byte {
	more := fmt.Sprintf(`{"max_tokens":%d,"ignore_eos":true,`, q.Output)
	if salt != "" {
		more += fmt.Sprintf(`"cache_salt":%q,`, salt)
	}
	return append([]byte(more), body[1:]...)
}

// empty empties the servers' caches. Where one does not allow it, it returns a salt under which nothing is
// cached yet.
func (v *Servers) empty(ctx context.Context) (salt string) {
	all := true
	for _, of := range v.All {
		all = of.Reset(ctx) && all
	}
	if all {
		return ""
	}
	v.salted++
	return fmt.Sprintf("lab-%x", time.Now().UnixNano())
}

func (v *Servers) metrics(ctx context.Context) (all []map[string]float64) {
	for _, of := range v.All {
		page, err := fit.Metrics(ctx, of.URL)
		if err != nil {
			page = nil
		}
		all = append(all, page)
	}
	return all
}

// tokenize readies the questions that will be asked if all callers ask about as much.
func (v *Servers) tokenize(ctx context.Context, s *virtual.Setting, questions [][]*virtual.Request) error {
	var all errgroup.Group
	all.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, own := range questions {
		for _, q := range own[:min(len(own), 2+s.Tasks*5/4/len(questions))] {
			all.Go(func() error {
				_, err := v.ready(ctx, q)
				return err
			})
		}
	}
	return all.Wait()
}

// tokens has the first server that is there tokenize messages; nil where none is.
func (v *Servers) tokens(ctx context.Context, messages []map[string]string) ([]uint32, error) {
	for _, of := range v.All {
		ids, err := of.Tokens(ctx, map[string]any{"messages": messages})
		if err == nil || ctx.Err() != nil || fit.Healthy(ctx, of.URL) {
			return ids, err
		}
	}
	return nil, nil
}

// ready finds how long a prompt is by the first server's tokenizer, and its blocks, as a router finds them
// that has the model's tokenizer. Of the answer nothing is found again: the next prompt has the recorded one.
// It is false where the prompt and its answer are too long for a server.
func (v *Servers) ready(ctx context.Context, q *virtual.Request) (fits bool, err error) {
	said := q.Messages()
	text, err := json.Marshal(said)
	if err != nil {
		return false, err
	}
	key := maphash.Bytes(v.seed, text)
	v.mu.Lock()
	p, known := v.prompts[key]
	v.mu.Unlock()
	if !known {
		var all []map[string]string
		for _, m := range said {
			all = append(all, map[string]string{"role": m.Role, "content": m.Content})
		}
		ids, err := v.tokens(ctx, all)
		if len(ids) == 0 || err != nil {
			return false, err
		}
		p.tokens = len(ids)
		parent := kv.Root("", "")
		for at := 0; at+v.block <= len(ids); at += v.block {
			parent = kv.Chain(parent, ids[at:at+v.block])
			p.hashes = append(p.hashes, parent)
		}
		v.mu.Lock()
		v.prompts[key] = p
		v.mu.Unlock()
	}
	q.Prompt, q.Hashes = p.tokens, append([]uint64(nil), p.hashes...)
	for parent := kv.Root("answer", strconv.Itoa(q.Play)); len(q.Hashes) < (q.Prompt+q.Output)/v.block; {
		parent = kv.Chain(parent, []uint32{uint32(q.Turn), uint32(len(q.Hashes))})
		q.Hashes = append(q.Hashes, parent)
	}
	for _, of := range v.All {
		if q.Prompt+q.Output > of.Info.MaxModelLen {
			return false, nil
		}
	}
	return true, nil
}

// Said is the part of the page that says what the servers are, what they report, and what was left out.
func (v *Servers) Said() string {
	var b strings.Builder
	b.WriteString("\n## The servers\n\nTimes are microseconds, as `lab fit` finds them, each server alone: of a step, of a " +
		"token of a prompt, of a thousand pairs of one and a token before it, of a sequence that decodes, of a " +
		"token held.\n\n")
	var rows [][]string
	number := func(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
	for i, s := range v.All {
		f := v.fitted[i]
		rows = append(rows, []string{strings.TrimPrefix(s.URL, "http://"), s.Model, s.Info.Version,
			fmt.Sprintf("%d of %d", f.NumGPUBlocks-1, v.block), number(f.Base, 0), number(f.Prefill, 2),
			number(f.Attention*1000, 1), number(f.Decode, 1), number(f.Resident, 4)})
	}
	b.WriteString(page.Table([]string{"server", "model", "vLLM", "blocks", "step", "prompt token", "pairs",
		"sequence", "token held"}, rows))
	caches := "Caches were emptied before each run"
	if v.salted > 0 {
		caches = fmt.Sprintf("Caches could not be emptied before %d runs, which had a `cache_salt` of their own", v.salted)
	}
	b.WriteString("\n## As the servers report it\n\n" + caches + ". **found** is of the prompt tokens that the servers looked " +
		"for in their caches, **first token** the mean that they measured from when they had the request, both by " +
		"`/metrics`; **cached** is what they said with each answer, and p50, p99 and longest are as callers saw it, ms. " +
		"**broke off** counts tasks whose server went away and that nobody went on with.\n\n")
	rows = nil
	for _, r := range v.runs {
		rows = append(rows, []string{r.rule, strconv.FormatUint(r.seed, 10), strconv.Itoa(r.tasks),
			strconv.Itoa(r.lost), number(r.hits/max(1, r.queried), 3), number(r.of.Share, 3),
			number(1000*r.first/max(1, r.firsts), 1), number(r.of.P50, 1), number(r.of.P99, 1),
			number(r.of.Longest, 1)})
	}
	b.WriteString(page.Table([]string{"run", "seed", "tasks", "broke off", "found", "cached", "first token",
		"p50", "p99", "longest"}, rows))
	if v.left != nil {
		b.WriteString("\n## What was left out\n\n* " + strings.Join(v.left, "\n* ") + "\n")
	}
	return b.String()
}
