package cli

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"souk/bus"
	"souk/bus/follow"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/market"
)

// filter chooses records.
type filter struct {
	from, to uint64 // frames; to 0: no end
	id       string // of a record, or the beginning of one that goes on with '/'
	kind     string
	account  string
}

func (f *filter) has(seq uint64, r *ledger.Record) bool {
	if seq < f.from || f.to != 0 && seq > f.to || f.kind != "" && r.Kind.String() != f.kind {
		return false
	}
	if f.id != "" && r.ID != f.id && !strings.HasPrefix(r.ID, f.id+"/") {
		return false
	}
	return f.account == "" ||
		slices.ContainsFunc(r.Legs, func(l ledger.Leg) bool { return l.Account == f.account })
}

// parseRange reads "17", "17-20" or "17-".
func (f *filter) parseRange(s string) (err error) {
	if s == "" {
		return nil
	}
	from, to, isRange := strings.Cut(s, "-")
	if f.from, err = strconv.ParseUint(from, 10, 64); err == nil {
		f.to = f.from
		if isRange {
			f.to = 0
			if to != "" {
				f.to, err = strconv.ParseUint(to, 10, 64)
			}
		}
	}
	if err != nil || f.from == 0 || f.to != 0 && f.to < f.from {
		return fmt.Errorf("--seq %q: want a frame's number, which count from 1, or a range like 17-20 or 17-",
			s)
	}
	return nil
}

// validate judges what is not a range.
func (f *filter) validate() error {
	var kinds []string
	for k := ledger.KindOpen; k <= ledger.KindTariff; k++ {
		kinds = append(kinds, k.String())
	}
	if f.kind != "" && !slices.Contains(kinds, f.kind) {
		return fmt.Errorf("--kind %q: take %s", f.kind, strings.Join(kinds, ", "))
	}
	return nil
}

func (e *env) printCommand() *cobra.Command {
	var f filter
	var seq string
	c := &cobra.Command{
		Use:   "print [PATH...]",
		Short: "The records themselves, with all their legs",
		Example: `  ledger print --journal hub-maths --seq 17
  ledger print --id hub-maths/8/0            a hold and its end
  ledger print --account surplus -O ndjson`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := cmp.Or(f.parseRange(seq), f.validate()); err != nil {
				return err
			}
			sources, err := e.open(paths)
			if err != nil {
				return err
			}
			w, stop := watch(cmd, sources)
			defer stop()
			p := newPrinter(w, e.output)
			for _, s := range sources {
				err := s.Records(cmd.Context(), func(frame *ledger.Frame, r *ledger.Record) error {
					switch {
					case f.to != 0 && frame.Seq > f.to:
						return inspect.Stop
					case f.has(frame.Seq, r):
						return p.print(s.Name, frame, r)
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return p.end()
		},
	}
	c.Flags().StringVar(&seq, "seq", "", "only this frame, or a range like 17-20 or 17-")
	c.Flags().StringVar(&f.id, "id", "", "only the record of this id and those made from it")
	c.Flags().StringVar(&f.kind, "kind", "",
		"only records of this kind: round, hold, capture, void, grant, ...")
	c.Flags().StringVar(&f.account, "account", "", "only records that move this account")
	return c
}

// printer writes records one after another.
type printer struct {
	w      io.Writer
	format string
	n      int
	csv    *sheet
}

func newPrinter(w io.Writer, format string) *printer {
	p := &printer{w: w, format: format}
	if format == "csv" {
		p.csv = newSheet(w, format, "journal", "seq", "time", "kind", "id", "account", "credits")
	}
	return p
}

// view is a record as JSON.
type view struct {
	Journal string `json:"journal"`
	Seq     uint64 `json:"seq"`
	Epoch   int64  `json:"epoch"`
	Time    string `json:"time"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Salt    string `json:"salt"`
	Legs    []leg  `json:"legs"`
	Content any    `json:"content,omitempty"`
}

type leg struct {
	Account string         `json:"account"`
	Amount  market.Credits `json:"amount"`
}

func (p *printer) print(name string, f *ledger.Frame, r *ledger.Record) (err error) {
	p.n++
	switch p.format {
	case "csv":
		for _, l := range r.Legs {
			if err == nil {
				err = p.csv.add(name, f.Seq, stamp(f.Time), r.Kind.String(), r.ID, l.Account, l.Amount)
			}
		}
		return err
	case "json", "ndjson":
		v := view{name, f.Seq, f.Epoch, time.Unix(0, f.Time).UTC().Format(time.RFC3339Nano), r.Kind.String(),
			r.ID, hex.EncodeToString(r.Salt[:]), []leg{}, content(r)}
		for _, l := range r.Legs {
			v.Legs = append(v.Legs, leg(l))
		}
		if p.format == "ndjson" {
			return writeLine(p.w, v)
		}
		if _, err = io.WriteString(p.w, [...]string{"[\n", ",\n"}[min(p.n-1, 1)]); err == nil {
			err = writeLine(p.w, v)
		}
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s %s %s  (%s, frame %d, epoch %d)\n    ; %s\n", stamp(f.Time), r.Kind, r.ID,
		name, f.Seq, f.Epoch, sentence(r))
	for _, l := range r.Legs {
		if err == nil {
			_, err = fmt.Fprintf(p.w, "    %-40s %20s\n", l.Account, aligned(l.Amount))
		}
	}
	return err
}

func (p *printer) end() error {
	switch p.format {
	case "json":
		_, err := io.WriteString(p.w, [...]string{"[]\n", "]\n"}[min(p.n, 1)])
		return err
	case "csv":
		return p.csv.end()
	}
	return nil
}

func (e *env) regCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reg ACCOUNT [PATH...]",
		Short: "Every movement of one account, with its balance after",
		Example: `  ledger reg surplus --journal hub-maths
  ledger reg client:dev:avail -O csv`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			sources, err := e.open(args[1:])
			if err != nil {
				return err
			}
			w, stop := watch(cmd, sources)
			defer stop()
			out := newSheet(w, e.output, "time", "journal", "seq", "kind", "record", "credits", "balance")
			moved := false
			for _, s := range sources {
				var balance market.Credits
				err := s.Records(cmd.Context(), func(f *ledger.Frame, r *ledger.Record) error {
					for _, l := range r.Legs {
						if l.Account != args[0] {
							continue
						}
						balance += l.Amount
						moved = true
						if err := out.add(stamp(f.Time), s.Name, f.Seq, r.Kind.String(), r.ID, l.Amount,
							balance); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			if !moved {
				return fmt.Errorf("nothing ever moved on an account %q: ledger bal lists them", args[0])
			}
			return out.end()
		},
	}
}

// content is what a record says beside its legs.
func content(r *ledger.Record) any {
	for _, part := range reflect.ValueOf(r).Elem().Fields() {
		if part.Kind() == reflect.Pointer && !part.IsNil() {
			return part.Interface()
		}
	}
	return nil
}

// sentence says what a record is about.
func sentence(r *ledger.Record) string {
	switch {
	case r.Open != nil:
		of := ""
		if r.Open.Domain != "" {
			of = " of " + r.Open.Domain
		}
		return fmt.Sprintf("journal of %s%s, %d units per credit", r.Open.Role, of, r.Open.Scale)
	case r.Round != nil:
		in, o := &r.Round.Round, &r.Round.Outcome
		return fmt.Sprintf("%d tasks, %d agents, %d edges; %d awards, %d slot prices above 0, welfare %s",
			len(in.Tasks), len(in.Agents), len(in.Edges), len(o.Awards), len(o.Prices), o.Welfare)
	case r.Hold != nil:
		h := r.Hold
		s := fmt.Sprintf("%s/%s on %s (%s): premium %s (fee %s) + at most %s; quoted %s for %d prompt "+
			"tokens (%d cached) and %d output; until %s",
			h.Client, h.Task, h.Agent, h.Model, h.Premium, h.Fee, h.Amount-h.Premium, h.Quoted, h.Prompt,
			h.Cached, h.Output, stamp(h.Expires))
		if h.Claimed > 0 {
			s += fmt.Sprintf("; its agent says that it holds %d prompt tokens", h.Claimed)
		}
		return s
	case r.Capture != nil:
		c := r.Capture
		s := fmt.Sprintf("%s: cost %s for %d prompt tokens (%d cached) and %d output, first token after "+
			"%s, finish %s", c.Outcome, c.Cost, c.Usage.Prompt, c.Usage.Cached, c.Usage.Output,
			time.Duration(c.TTFTUS)*time.Microsecond, c.Finish)
		if q := c.Claim; q != nil {
			s += fmt.Sprintf("; its agent claimed %s for %d prompt tokens (%d cached) and %d output, %d "+
				"relayed", q.Cost, q.Usage.Prompt, q.Usage.Cached, q.Usage.Output, q.Relayed)
		}
		return s
	case r.Void != nil:
		if r.Void.Reason == string(bus.CodeLateFirst) {
			return "nothing is due: " + r.Void.Reason + ": it had given no token in the time in which all but one in " +
				"a thousand do, and another agent got the task"
		}
		return "nothing is due: " + r.Void.Reason
	case r.Transfer != nil:
		t := r.Transfer
		s := fmt.Sprintf("%s of %s", t.Amount, t.Client)
		if t.Hub != "" {
			s += fmt.Sprintf(", %s %d of %s", r.Kind, t.Number, t.Hub)
		}
		if t.Note != "" {
			s += " (" + t.Note + ")"
		}
		return s
	case r.Correction != nil:
		return fmt.Sprintf("%s of %s: %s", r.Correction.Amount, r.Correction.Of, r.Correction.Reason)
	case r.Move != nil:
		m := r.Move
		s := fmt.Sprintf("%s of %s to %s", m.Amount, m.From, m.To)
		switch {
		case m.Part == 1 && m.Period > 0:
			return fmt.Sprintf("%s: the allowance of period %d beside a rest of at most %s", s, m.Period, m.Rest)
		case m.Period > 0:
			return fmt.Sprintf("%s: part %d of the allowance of period %d", s, m.Part, m.Period)
		case m.Part > 0:
			return s + ": the rest of a budget that has ended"
		}
		return s
	case r.Budget != nil:
		u := r.Budget
		switch {
		case u.Amount == 0:
			return fmt.Sprintf("the budget of %s, %s's money, ends", u.Client, u.Of)
		case u.Every == "":
			return fmt.Sprintf("%s may have %s of %s's money, once", u.Client, u.Amount, u.Of)
		}
		return fmt.Sprintf("%s may have %s of %s's money, filled up every %s", u.Client, u.Amount, u.Of, u.Every)
	case r.Kind == ledger.KindSeal:
		e := &r.Epoch.Epoch
		return fmt.Sprintf("epoch %d of class %s: %d asks sealed, ceiling %s, %s", e.Number, e.Class,
			len(e.Seals), e.Ceiling, winners(e.Winners))
	case r.Kind == ledger.KindTariff:
		e, t := &r.Epoch.Epoch, &r.Epoch.Tariff
		return fmt.Sprintf("epoch %d of class %s: %d of %d asks opened, tariff %s a task beside the "+
			"metered cost for %s; on standby %s; lost %s",
			e.Number, e.Class, len(e.Opened), len(e.Seals), t.Amount, list(t.Winners), list(t.Standby),
			list(e.Lost))
	}
	return "the journal ends here"
}

func winners(n int) string {
	if n == 0 {
		return "all owners win"
	}
	return fmt.Sprintf("the %d lowest owners win", n)
}

func list(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ", ")
}

func (e *env) traceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "trace TASK [PATH...]",
		Short: "One task, bid to receipt",
		Long: `trace finds every record of a task: the round it was cleared in and what it could choose
from, its hold (the money set aside for it), and how that ended. TASK is CLIENT/TASK, or a receipt's id
(JOURNAL/ROUND/SLOT), or the task's id alone. trace shows what was recorded; ledger check proves it.`,
		Example: `  ledger trace dev/task-1
  ledger trace math/8/0`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return e.trace(cmd, args[0], args[1:]) },
	}
}

// WhyCommand is trace as the command souk has it: of the market in the data directory.
func WhyCommand(data *string) *cobra.Command {
	return &cobra.Command{
		Use:   "why TASK",
		Short: "Say why a task went where it went, what was expected of each agent, and what came",
		Long: `why shows of a task, for each agent that was weighed, what it was worth there, how much of its
prompt was believed to be in the agent's cache and on which evidence, the time to the first token that was
forecast and between which two times nine of ten were expected; then where it went, and what came of it. TASK
is a receipt as submit prints it (JOURNAL/ROUND/SLOT), CLIENT/TASK, or the task's id alone. It reads the
journals in the data directory, as ledger trace does.`,
		Example: "  souk why general/17/0\n  souk why dev/task-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e := &env{data: *data, output: "table"}
			return e.trace(cmd, args[0], nil)
		},
	}
}

// trace prints what the journals have of a task.
func (e *env) trace(cmd *cobra.Command, name string, paths []string) error {
	sources, err := e.open(paths)
	if err != nil {
		return err
	}
	task := name
	if _, _, _, ok := ledger.ParseHoldID(task); ok {
		// A receipt names one hold: trace its task, through all rounds that it waited in.
		if task, err = e.taskOf(cmd.Context(), task, paths); err != nil {
			return err
		}
	}
	w, stop := watch(cmd, sources)
	defer stop()
	p := newPrinter(w, e.output)
	found := false
	for _, s := range sources {
		if s.Role != ledger.RoleHub {
			continue
		}
		t := tracer{task: task, p: p, source: s, holds: map[string]bool{}}
		if err := s.Records(cmd.Context(), t.record); err != nil {
			return err
		}
		found = found || t.found
	}
	if err := p.end(); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("no journal here has a task %q that was ever in a round", name)
	}
	return nil
}

// taskOf finds the task of a receipt.
func (e *env) taskOf(ctx context.Context, hold string, paths []string) (task string, err error) {
	sources, err := e.open(paths)
	if err != nil {
		return "", err
	}
	for _, s := range sources {
		err := s.Records(ctx, func(_ *ledger.Frame, r *ledger.Record) error {
			if r.Hold != nil && r.ID == hold {
				task = r.Hold.Client + "/" + r.Hold.Task
				return inspect.Stop
			}
			return nil
		})
		if err != nil || task != "" {
			return task, err
		}
	}
	return "", fmt.Errorf("no journal here has a hold %s", hold)
}

// tracer prints what concerns one task.
type tracer struct {
	task   string
	p      *printer
	source *inspect.Source
	holds  map[string]bool
	found  bool
}

func (t *tracer) record(f *ledger.Frame, r *ledger.Record) error {
	mine := false
	switch {
	case r.Round != nil:
		_, mine = t.index(r.Round)
	case r.Hold != nil:
		h := r.Hold
		mine = h.Task == t.task || h.Client+"/"+h.Task == t.task
		if mine {
			t.holds[r.ID] = true
		}
	case r.Capture != nil:
		mine = t.holds[r.Capture.Hold]
	case r.Void != nil:
		mine = t.holds[r.Void.Hold]
	case r.Correction != nil:
		hold, _, _ := strings.Cut(r.Correction.Of, "/capture")
		mine = t.holds[hold]
	}
	if !mine {
		return nil
	}
	t.found = true
	if err := t.p.print(t.source.Name, f, r); err != nil || r.Round == nil || t.p.format != "table" {
		return err
	}
	return t.options(r.Round)
}

// index finds the task in a round.
func (t *tracer) index(r *ledger.Round) (int, bool) {
	for i, task := range r.Round.Tasks {
		_, own, _ := strings.Cut(string(task.ID), "/")
		if string(task.ID) == t.task || own == t.task {
			return i, true
		}
	}
	return 0, false
}

// options prints what the task could choose from in a round that it is in.
func (t *tracer) options(r *ledger.Round) error {
	j, _ := t.index(r)
	x, err := r.Explain()
	if err != nil {
		return fmt.Errorf("round %d: %w; see: ledger check %s", r.Round.Number, err, t.source.Dir)
	}
	one := market.Explanation{Domain: x.Domain, Number: x.Number, Rule: x.Rule, Welfare: x.Welfare,
		Tasks: x.Tasks[j : j+1]}
	if one.Tasks[0].Award != nil {
		one.Seats = x.Seats // why the price is what it is
	}
	for line := range strings.Lines(one.String()) {
		if _, err := fmt.Fprintf(t.p.w, "    ; %s", line); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) tailCommand() *cobra.Command {
	var goOn bool
	var n int
	c := &cobra.Command{
		Use:   "tail [PATH...]",
		Short: "The last records; with -f, also those to come",
		RunE: func(cmd *cobra.Command, paths []string) error {
			if n < 0 || n > 1_000_000 {
				return fmt.Errorf("-n %d: take 0 to 1000000", n)
			}
			if goOn && e.output == "csv" {
				return fmt.Errorf("-f does not go with csv: take ndjson")
			}
			sources, err := e.open(paths)
			if err != nil {
				return err
			}
			w, stop := watch(cmd, sources)
			defer stop()
			p := newPrinter(w, e.output)
			if p.format == "json" {
				p.format = "ndjson" // one line each: a tail has no end
			}
			for _, s := range sources {
				if err := tail(cmd.Context(), s, p, n); err != nil {
					return err
				}
			}
			if goOn {
				stop()
				return followAll(cmd.Context(), sources, p)
			}
			return p.end()
		},
	}
	c.Flags().BoolVarP(&goOn, "follow", "f", false, "go on with what is written from now, until Ctrl-C")
	c.Flags().IntVarP(&n, "lines", "n", 10, "records of each journal to begin with")
	return c
}

// tail prints the last n records of what is written by now.
func tail(ctx context.Context, s *inspect.Source, p *printer, n int) error {
	type item struct {
		frame  ledger.Frame // without records
		record ledger.Record
	}
	var last []item
	err := s.Records(ctx, func(f *ledger.Frame, r *ledger.Record) error {
		head := *f
		head.Records = nil
		last = append(last, item{head, *r})
		if len(last) > 2*n+1024 {
			last = append(last[:0], last[len(last)-n:]...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, x := range last[max(0, len(last)-n):] {
		if err := p.print(s.Name, &x.frame, &x.record); err != nil {
			return err
		}
	}
	return nil
}

// followAll prints what is written from now on.
func followAll(ctx context.Context, sources []*inspect.Source, p *printer) error {
	for follow.Pause(ctx, 200*time.Millisecond) {
		for _, s := range sources {
			err := s.Records(ctx, func(f *ledger.Frame, r *ledger.Record) error {
				return p.print(s.Name, f, r)
			})
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}
