package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"souk/cmd/console"
	"souk/ledger"
	"souk/ledger/inspect"
	"souk/market"
)

func (e *env) traceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "trace TASK [PATH...]",
		Short: "One task, bid to receipt",
		Long: `trace finds every record of a task: the round it was cleared in and what it could choose
from, its hold (the money set aside for it), and how that ended. TASK is CLIENT/TASK, or a receipt's id
(JOURNAL/ROUND/SLOT), or the task's id alone. The first line says what it paid, and what for. trace shows
what was recorded; ledger check proves it.`,
		Example: `  ledger trace dev/task-1
  ledger trace math/8/0`,
		Args: console.Takes(1, console.Any),
		RunE: func(cmd *cobra.Command, args []string) error { return e.trace(cmd, args[0], args[1:]) },
	}
}

// WhyCommand is trace as the command souk has it: of the market in the data directory.
func WhyCommand(data *string) *cobra.Command {
	return &cobra.Command{
		Use:   "why TASK",
		Short: "Explain why a task went to its agent: forecasts for each agent, and the outcome",
		Long: `why shows of a task, for each agent that was weighed, what it was worth there, how much of its
prompt was believed to be in the agent's cache and on which evidence, the time to the first token that was
forecast and between which two times nine of ten were expected; then where it went, and what came of it. The
first line says what it paid, and what for. TASK is a receipt as submit prints it (JOURNAL/ROUND/SLOT),
CLIENT/TASK, or the task's id alone. It reads the journals in the data directory, as ledger trace does.`,
		Example: "  souk why general/17/0\n  souk why dev/task-1",
		Args:    console.Takes(1, 1),
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
	var told bytes.Buffer
	p := newPrinter(&told, e.output, "")
	found, money := false, ""
	for _, s := range sources {
		if s.Role != ledger.RoleHub {
			continue
		}
		t := tracer{task: task, p: p, source: s, holds: map[string]bought{}}
		if err := s.Records(cmd.Context(), t.record); err != nil {
			return err
		}
		if t.found {
			found, money = true, t.money
		}
	}
	p.end()
	if found && e.output == "table" {
		fmt.Fprintln(cmd.OutOrStdout(), money)
	}
	if _, err := told.WriteTo(cmd.OutOrStdout()); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("no journal here names a task %q: of those that got no slot, a round's record names "+
			"only such as could have changed its outcome; what a task was refused for stands in its answer", name)
	}
	return nil
}

// taskOf finds the task of a receipt.
func (e *env) taskOf(ctx context.Context, hold string, paths []string) (task string, err error) {
	err = e.each(ctx, paths, func(_ *inspect.Source, _ *ledger.Frame, r *ledger.Record) error {
		if r.Hold != nil && r.ID == hold {
			task = r.Hold.Client + "/" + r.Hold.Task
		}
		if task != "" {
			return inspect.ErrStop
		}
		return nil
	})
	if err == nil && task == "" {
		err = fmt.Errorf("no journal here has a hold %s: name its data directory by --data", hold)
	}
	return task, err
}

// tracer prints what concerns one task.
type tracer struct {
	task   string
	p      *printer
	source *inspect.Source
	holds  map[string]bought
	found  bool
	last   bought // what the last round that it is in says of it
	money  string // what it paid and why, in a sentence
}

// bought is a hold of the task, and why it has its price.
type bought struct {
	hold *ledger.Hold
	why  *market.Explanation
	task market.TaskExplanation
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
			t.last.hold = h
			t.holds[r.ID] = t.last
			t.money = fmt.Sprintf("not paid yet: at most %s, which is held for it", h.Amount)
		}
	case r.Capture != nil:
		var b bought
		if b, mine = t.holds[r.Capture.Hold]; mine && b.task.Award != nil {
			t.money = "paid " + b.why.Bill(&b.task, r.Capture.Cost, b.hold.Due(r.Capture)).String()
		}
	case r.Void != nil:
		if _, mine = t.holds[r.Void.Hold]; mine {
			t.money = "paid nothing: " + r.Void.Reason
		}
	}
	if !mine {
		return nil
	}
	t.found = true
	if t.p.print(t.source.Name, f, r, nil); r.Round == nil || t.p.format != "table" {
		return nil
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
	if t.last = (bought{why: &x, task: x.Tasks[j]}); t.money == "" {
		t.money = "paid nothing: it got no slot"
	}
	one := market.Explanation{Domain: x.Domain, Number: x.Number, Rule: x.Rule, Welfare: x.Welfare,
		Tasks: x.Tasks[j : j+1]}
	if one.Tasks[0].Award != nil {
		one.Seats = x.Seats // these explain the price
	}
	for line := range strings.Lines(one.String()) {
		line = console.Plain(strings.TrimSuffix(line, "\n"))
		fmt.Fprintf(t.p.w, "    ; %s\n", line)
	}
	return nil
}
